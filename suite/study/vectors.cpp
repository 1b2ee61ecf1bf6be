// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/vectors.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <span>

#include "kernels/weights/subtract.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/error.hpp"
#include "suite/study/keys.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::study {

Vectors::Vectors(const Settings& settings, const Model& model, const Tasks& tasks, const MemoryBound& bound,
                 bool dry_run)
    : settings_(settings), model_(model), tasks_(tasks), bytes_(bound.vectors) {
  if (!settings_.given.empty() && !model_.is_stand_in()) check_given(dry_run);
}

// Their headers are read before the run has a folder: units would find out hours later. Which of the files
// are missing the settings have said.
void Vectors::check_given(bool dry_run) const {
  if (!dry_run) check_given_start();
  const auto& of = settings_.model;
  std::optional<ThetaFile> start;  // one that is drawn has no file
  if (!settings_.random_init && model_.is_there()) start.emplace(of, model_.encoder(), of);
  for (const auto& name : settings_.given) {
    for (const auto t : tasks_.all()) {
      const auto folder = checkpoint_folder(name, t);
      if (dry_run && !store::TensorFolder::is_in(folder)) continue;
      const ThetaFile file(folder, model_.encoder(), of);
      file.require_start({folder, {}, model_.fingerprint(), of.string()});
      if (start) file.require_as_exact(*start, model_.layout());
      const auto& buffers = model_.encoder().buffers();
      if (!dry_run && buffers.size() > 0 && model_.first_stage() > 0)
        require_frozen(buffers, file.whole(buffers, model_.start().buffers), "the statistics of its norms",
                       folder);
    }
  }
}

// Converted checkpoints come with the model they started from; our own name it in their headers.
void Vectors::check_given_start() const {
  const auto pretrained = settings_.checkpoints / "pretrained";
  if (!store::TensorFolder::is_in(pretrained)) return;
  const auto print = [&] {
    if (model_.by_stages()) {
      const auto& of = settings_.model;
      return ThetaFile(pretrained, model_.encoder(), of).fingerprint(model_.layout());
    }
    return models::fingerprint(models::read_checkpoint(pretrained).state);
  };
  if (print() != model_.fingerprint()) {
    throw InputError(pretrained.string() + ": is not the model " + settings_.model.string() +
                     ", so its fine-tuned models make no task vectors of it");
  }
}

std::filesystem::path Vectors::checkpoint_folder(const std::string& name, std::size_t t) const {
  const auto& source = regime(name).source;
  if (!source.empty()) return checkpoint_folder(source, t);
  return (settings_.trains(name) ? folder_ / "checkpoints" : settings_.checkpoints) / name / tasks_.name(t);
}

std::filesystem::path Vectors::kept_folder(const std::string& name, std::size_t t,
                                           const std::string& mark) const {
  if (settings_.trains(name)) return checkpoint_folder(name, t) / mark;
  return folder_ / "checkpoints" / "kept" / name / tasks_.name(t) / mark;
}

std::filesystem::path Vectors::joint_folder(const std::string& name) const {
  return folder_ / "checkpoints" / name / "joint";
}

std::vector<std::string> Vectors::needs(const std::string& name,
                                        const std::vector<std::size_t>& tasks) const {
  const auto& source = regime(name).source;
  if (!source.empty()) return needs(source, tasks);
  std::vector<std::string> keys;
  if (!settings_.trains(name)) return keys;
  for (const auto t : tasks) keys.push_back(key::fine_tune(name, tasks_.name(t)));
  return keys;
}

std::vector<std::string> Vectors::start_needs(const std::string& name, std::size_t t) const {
  const auto& start = regime(name).start;
  return start.empty() ? std::vector<std::string>{} : needs(start, {t});
}

at::Tensor Vectors::find(const std::string& key) const {
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->first != key) continue;
    kept_.splice(kept_.begin(), kept_, it);
    return it->second;
  }
  return {};
}

at::Tensor Vectors::vector(const std::string& regime, std::size_t t) const {
  const auto folder = checkpoint_folder(regime, t);
  if (const auto tau = find(folder.string()); tau.defined()) return tau;
  const auto source = open(of_theta0({folder}).front());
  while (!kept_.empty() && kept_.size() >= kept()) kept_.pop_back();
  const auto vector = source->whole(model_.layout(), model_.theta0());
  require_frozen(model_.layout(), vector, "its parameters", folder);
  kept_.emplace_front(folder.string(), vector);
  return vector;
}

// The outputs of frozen stages are taken as θ0's, so a given model must share them: parameters and
// statistics.
void Vectors::require_frozen(const autodiff::Layout& layout, const at::Tensor& vector, const char* what,
                             const std::filesystem::path& folder) const {
  for (const auto& block : layout.blocks()) {
    if (block.stage >= model_.first_stage()) continue;
    if (vector.narrow(0, block.offset, block.count).eq(0).all().item<bool>()) continue;
    throw InputError(folder.string() + ": was trained in stage " + std::to_string(block.stage) + " (" + what +
                     " are other ones), which finetune.first_stage = " +
                     std::to_string(model_.first_stage()) + " freezes");
  }
}

at::Tensor Vectors::buffers(const std::string& regime, std::size_t t) const {
  if (!model_.start().buffers.defined()) return {};
  return open(of_theta0({checkpoint_folder(regime, t)}).front())
      ->whole(model_.encoder().buffers(), model_.start().buffers);
}

at::Tensor Vectors::sum(const std::string& regime, const std::vector<std::size_t>& tasks) const {
  auto key = regime;
  for (const auto t : tasks) key += "/" + tasks_.name(t);
  if (sum_.first == key) return sum_.second;
  auto sum = at::zeros_like(model_.theta0());
  visit(regime, tasks, {0, sum.size(0)}, 1, [&](std::int64_t begin, std::span<const at::Tensor> blocks) {
    for (const auto& block : blocks) sum.narrow(0, begin, block.size(0)).add_(block);
  });
  sum_ = {key, sum};
  return sum;
}

at::Tensor Vectors::gram(const comm::Communicator& group, const std::string& regime,
                         const std::vector<std::size_t>& tasks, const Seer& also) const {
  return gram_of(group, tasks.size(), [&](Range range, std::int64_t align, const auto& visitor) {
    const auto see = [&](std::int64_t begin, const weights::Stretches& tau) {
      if (also) also(begin, tau);
      return visitor(begin, tau);
    };
    if (visit_files(regime, tasks, range, align, see)) return;
    visit(regime, tasks, range, align,
          [&](std::int64_t begin, std::span<const at::Tensor> blocks) { see(begin, {blocks}); });
  });
}

at::Tensor Vectors::gram_at(const comm::Communicator& group, const std::string& regime,
                            const std::vector<std::size_t>& tasks, const std::string& mark) const {
  std::vector<std::filesystem::path> folders;
  for (const auto t : tasks) folders.push_back(kept_folder(regime, t, mark));
  return gram_from(group, of_theta0(folders));
}

at::Tensor Vectors::gram_from(const comm::Communicator& group, const std::vector<Begun>& models) const {
  return gram_of(group, models.size(), [&](Range range, std::int64_t align, const auto& visitor) {
    if (visit_files(models, range, align, visitor)) return;
    visit_from(models, range, align,
               [&](std::int64_t begin, std::span<const at::Tensor> blocks) { visitor(begin, {blocks}); });
  });
}

at::Tensor Vectors::gram_of(const comm::Communicator& group, std::size_t count, const Visit& visit) const {
  const auto length = model_.layout().size();
  weights::GramSum sum(static_cast<std::int64_t>(count), length);
  const auto share = group.share_of((length + sum.step() - 1) / sum.step());
  const auto begin = std::min(length, share.begin * sum.step()),
             end = std::min(length, share.end() * sum.step());
  visit({begin, end - begin}, sum.step(),
        [&](std::int64_t at, const weights::Stretches& tau) { return sum.add(at, tau); });
  if (group.size() > 1) group.all_reduce_sum(sum.sums(), "Gram matrix");
  return sum.gram();
}

std::size_t Vectors::kept() const {
  return std::max<std::size_t>(2,
                               bytes_ / (sizeof(float) * static_cast<std::size_t>(model_.layout().size())));
}

std::int64_t Vectors::block_of(std::size_t count, std::int64_t align) const {
  // Large enough that a visit's own cost does not count, small enough that the blocks of all vectors stay in
  // cache until they are visited.
  constexpr std::size_t in_cache = std::size_t{1} << 19, least = std::size_t{1} << 12;  // numbers
  const auto fits = bytes_ / 4 / (sizeof(float) * std::max<std::size_t>(1, count));
  const auto wanted = std::max(least, in_cache / std::max<std::size_t>(1, count));
  const auto numbers = static_cast<std::int64_t>(std::min(wanted, std::max<std::size_t>(fits, 1)));
  return std::max<std::int64_t>(1, numbers / align) * align;
}

bool Vectors::are_kept(const std::string& regime, const std::vector<std::size_t>& tasks) const {
  return tasks.size() <= kept() && std::all_of(tasks.begin(), tasks.end(), [&](std::size_t t) {
           return find(checkpoint_folder(regime, t).string()).defined();
         });
}

void Vectors::visit(const std::string& regime, const std::vector<std::size_t>& tasks, Range range,
                    std::int64_t align, const Visitor& visitor) const {
  // Parts of a vector, one after another, do not drive out whole ones where memory cannot hold those of all
  // tasks.
  const bool part = range.count < model_.layout().size() && !all_kept();
  if (model_.by_stages() || tasks.size() > kept() || (part && !are_kept(regime, tasks)))
    return visit_from(begun(regime, tasks), range, align, visitor);
  std::vector<at::Tensor> blocks;
  for (const auto t : tasks) blocks.push_back(vector(regime, t).narrow(0, range.begin, range.count));
  if (range.count > 0) visitor(range.begin, blocks);
}

bool Vectors::visit_files(const std::string& regime, const std::vector<std::size_t>& tasks, Range range,
                          std::int64_t align, const weights::StretchVisitor& visitor) const {
  // Where memory holds the vectors of all tasks, they are made once.
  return !all_kept() && !are_kept(regime, tasks) && visit_files(begun(regime, tasks), range, align, visitor);
}

bool Vectors::visit_files(const std::vector<Begun>& models, Range range, std::int64_t align,
                          const weights::StretchVisitor& visitor) const {
  if (model_.by_stages() || model_.device().is_cuda()) return false;
  const auto& start = model_.theta0();
  const auto files = open_all(models);
  const auto& layout = model_.layout();
  std::vector<const ThetaFile*> bare;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!models[i].start.is_same(start) || !files[i]->is_read_in_place()) return false;
    bare.push_back(files[i].get());
  }
  const auto size = std::max<std::int64_t>(1, weights::stretch_on_files / align) * align;
  std::vector<at::Tensor> blocks;
  ReadInOrder order(bare, layout, range);
  for (auto begin = range.begin, count = begin; begin < range.end(); begin += count) {
    order.reach(begin);
    const auto left = range.end() - begin, inside = ThetaFile::inside(layout, begin);
    count = std::min(size, inside < left ? inside / align * align : left);
    if (count > 0) {
      ThetaFile::visit(bare, layout, start, {begin, count}, visitor);
      continue;
    }
    count = std::min(align, left);
    if (blocks.empty()) blocks = at::empty({std::ssize(bare), align}, start.options()).unbind();
    std::vector<at::Tensor> tau;
    for (const auto& block : blocks) tau.push_back(block.narrow(0, 0, count));
    ThetaFile::differences(bare, layout, start.narrow(0, begin, count), {begin, count}, tau);
    visitor(begin, {tau});
  }
  return true;
}

std::vector<Begun> Vectors::begun(const std::string& regime, const std::vector<std::size_t>& tasks) const {
  std::vector<std::filesystem::path> folders;
  for (const auto t : tasks) folders.push_back(checkpoint_folder(regime, t));
  return of_theta0(folders);
}

std::vector<Begun> Vectors::of_theta0(const std::vector<std::filesystem::path>& folders) const {
  const auto theta0 = model_.by_stages() ? at::Tensor() : model_.theta0();
  std::vector<Begun> models;
  for (const auto& folder : folders)
    models.push_back({folder, theta0, model_.fingerprint(), settings_.model.string()});
  return models;
}

std::shared_ptr<const ThetaFile> Vectors::open(const Begun& model) const {
  const auto entry = opened_.find(model.folder.string());
  const auto file = entry != opened_.end() && entry->second->current()
                        ? entry->second
                        : std::make_shared<const ThetaFile>(model.folder, model_.encoder(), model.of);
  file->require_start(model);
  return file;
}

std::vector<std::shared_ptr<const ThetaFile>> Vectors::open_all(const std::vector<Begun>& models) const {
  std::vector<std::shared_ptr<const ThetaFile>> files;
  for (const auto& model : models) files.push_back(open(model));
  // They stay mapped, since most visits are of the same files: mapping their pages anew takes as long as
  // reading.
  constexpr std::size_t most_opened = 1024;
  if (opened_.size() + models.size() > most_opened) opened_.clear();
  for (std::size_t i = 0; i < std::min(models.size(), most_opened); ++i)
    opened_.insert_or_assign(models[i].folder.string(), files[i]);
  return files;
}

void Vectors::visit_from(const std::vector<Begun>& models, Range range, std::int64_t align,
                         const Visitor& visitor) const {
  const auto files = open_all(models);
  std::vector<const ThetaFile*> bare;
  for (const auto& file : files) bare.push_back(file.get());
  const auto size = block_of(models.size(), align);
  const auto on_device = at::TensorOptions(at::kFloat).device(model_.device());
  auto blocks = at::empty({static_cast<std::int64_t>(models.size()), size}, on_device).unbind();
  const auto start_of = [&](const Begun& model, Range part) {
    if (model.start.defined()) return model.start.narrow(0, part.begin, part.count);
    const auto start = at::empty({part.count}, at::kFloat);
    model_.start_file().read(model_.layout(), part, start);
    return start.to(model_.device());
  };
  ReadInOrder order(bare, model_.layout(), range);
  for (auto begin = range.begin; begin < range.end(); begin += size) {
    order.reach(begin);
    const auto count = std::min(size, range.end() - begin);
    if (count < size) {  // the last ones
      for (auto& block : blocks) block = block.narrow(0, 0, count);
    }
    for (std::size_t i = 0, some = 0; i < bare.size(); i += some) {
      some = 1;
      while (some < weights::side_by_side && i + some < bare.size() &&
             models[i + some].start.is_same(models[i].start))
        ++some;
      ThetaFile::differences({&bare[i], some}, model_.layout(), start_of(models[i], {begin, count}),
                             {begin, count}, {&blocks[i], some});
    }
    visitor(begin, blocks);
  }
}

}  // namespace taugrid::study
