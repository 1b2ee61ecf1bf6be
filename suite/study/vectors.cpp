// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/vectors.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_map>

#include "kernels/weights/subtract.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/error.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/mapped_file.hpp"
#include "suite/study/keys.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::study {
namespace {

/// A finite sum has finite terms; the dear look at each is for the other case.
bool all_finite(const at::Tensor& x) {
  return std::isfinite(x.sum().item<double>()) || at::isfinite(x).all().item<bool>();
}

}  // namespace

/// One checkpoint's file, read by stretches of θ.
class Vectors::Source {
 public:
  Source(const std::filesystem::path& folder, const models::Encoder& encoder)
      : path_((folder / "model.safetensors").string()), file_(models::open_weights(seen(folder), encoder)) {}

  bool current() const { return file_.current(); }

  void require_start(const Begun& model) const {
    const auto start = models::start_of(file_);
    if (!start.empty() && !model.fingerprint.empty() && start != model.fingerprint)
      throw InputError(model.folder.string() + ": was trained from another θ0 (" + start + ") than " +
                       model.of + " (" + model.fingerprint + ")");
  }

  /// θ*[range] − start[range] of each source into `out`, [range.count] each, on the device of both.
  static void differences(std::span<const Source* const> sources, const autodiff::Layout& layout,
                          const at::Tensor& start, Range range, std::span<const at::Tensor> out) {
    const at::NoGradGuard no_grad;
    std::vector<const float*> tuned(sources.size());
    std::vector<float*> tau(sources.size());
    for (const auto& parameter : touched(layout, range)) {
      const auto begin = std::max(range.begin, parameter.offset);
      const auto count = std::min(range.end(), parameter.offset + parameter.count) - begin;
      const auto from = begin - parameter.offset, to = begin - range.begin;
      bool as_they_are = true;
      for (std::size_t i = 0; i < sources.size(); ++i) {
        const auto& theta = sources[i]->opened(parameter);
        as_they_are &= theta.scalar_type() == at::kFloat && out[i].is_cpu();
        if (!as_they_are) break;
        tuned[i] = theta.const_data_ptr<float>() + from;
        tau[i] = out[i].mutable_data_ptr<float>() + to;
      }
      if (as_they_are && weights::subtract(tuned, start.const_data_ptr<float>() + begin, tau, count)) continue;
      for (std::size_t i = 0; i < sources.size(); ++i) {
        auto piece = out[i].narrow(0, to, count);
        if (!as_they_are)
          piece.copy_(sources[i]->opened(parameter).narrow(0, from, count).to(at::kFloat))
              .sub_(start.narrow(0, begin, count));
        if (!all_finite(piece))
          throw InputError(sources[i]->path_ + ": " + parameter.name + " holds NaN or infinity");
      }
    }
  }

  /// Lets the disk read [range] of θ while others are worked on.
  void announce(const autodiff::Layout& layout, Range range) const {
    for (const auto& parameter : touched(layout, range)) {
      const auto begin = std::max(range.begin, parameter.offset);
      const auto end = std::min(range.end(), parameter.offset + parameter.count);
      const auto piece =
          file_.tensor(parameter.name).view({-1}).slice(0, begin - parameter.offset, end - parameter.offset);
      store::will_read(piece.const_data_ptr(), piece.nbytes());
    }
  }

  at::Tensor whole(const autodiff::Layout& layout, const at::Tensor& start) const {
    auto all = at::empty_like(start);
    const Source* self = this;
    differences({&self, 1}, layout, start, {0, layout.size()}, {&all, 1});
    return all;
  }

 private:
  /// The parameters that have numbers in a range.
  static std::span<const autodiff::Parameter> touched(const autodiff::Layout& layout, Range range) {
    const auto& all = layout.parameters();
    const auto first =
        std::upper_bound(all.begin(), all.end(), range.begin,
                         [](std::int64_t at, const auto& p) { return at < p.offset + p.count; });
    const auto last =
        std::partition_point(first, all.end(), [&](const auto& p) { return p.offset < range.end(); });
    return {first, last};
  }

  /// Its unit is finished, perhaps on another host a moment ago.
  static const std::filesystem::path& seen(const std::filesystem::path& folder) {
    store::wait_for(folder / "model.safetensors");
    return folder;
  }

  /// Flat, on the file's pages; kept, since visits ask for the same ones block by block.
  const at::Tensor& opened(const autodiff::Parameter& parameter) const {
    auto& found = opened_[&parameter];
    if (!found.defined()) found = file_.tensor(parameter.name).view({-1});
    return found;
  }

  std::string path_;
  store::MappedTensors file_;
  mutable std::unordered_map<const autodiff::Parameter*, at::Tensor> opened_;
};

Vectors::Vectors(const Settings& settings, const Model& model, const Tasks& tasks, const MemoryBound& bound,
                 bool stand_ins)
    : settings_(settings), model_(model), tasks_(tasks), bytes_(bound.vectors) {
  if (!stand_ins) check_given();
}

// Converted checkpoints come with the model they started from; our own name it in their headers.
void Vectors::check_given() const {
  const auto pretrained = settings_.checkpoints / "pretrained";
  if (settings_.given.empty() || !std::filesystem::exists(pretrained / "model.safetensors")) return;
  const auto start = models::read_checkpoint(pretrained).state;
  if (start.theta.sizes() != model_.theta0().sizes() || models::fingerprint(start) != model_.fingerprint()) {
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
  if (const auto found = find(folder.string()); found.defined()) return found;
  const auto source = open(of_theta0({folder}).front());
  while (!kept_.empty() && kept_.size() >= kept()) kept_.pop_back();
  const auto vector = source->whole(model_.layout(), model_.theta0());
  require_frozen(vector, folder);
  kept_.emplace_front(folder.string(), vector);
  return vector;
}

// The outputs of frozen stages are taken as θ0's, so a given model must share them.
void Vectors::require_frozen(const at::Tensor& vector, const std::filesystem::path& folder) const {
  for (const auto& block : model_.layout().blocks()) {
    if (block.stage >= settings_.first_stage) continue;
    if (vector.narrow(0, block.offset, block.count).eq(0).all().item<bool>()) continue;
    throw InputError(folder.string() + ": was trained in stage " + std::to_string(block.stage) +
                     ", which finetune.first_stage = " + std::to_string(settings_.first_stage) + " freezes");
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
                         const std::vector<std::size_t>& tasks, const Visitor& also) const {
  return gram_of(group, tasks.size(), [&](Range range, std::int64_t align, const Visitor& visitor) {
    visit(regime, tasks, range, align, [&](std::int64_t begin, std::span<const at::Tensor> blocks) {
      visitor(begin, blocks);
      if (also) also(begin, blocks);
    });
  });
}

at::Tensor Vectors::gram_at(const comm::Communicator& group, const std::string& regime,
                            const std::vector<std::size_t>& tasks, const std::string& mark) const {
  std::vector<std::filesystem::path> folders;
  for (const auto t : tasks) folders.push_back(kept_folder(regime, t, mark));
  return gram_from(group, of_theta0(folders));
}

at::Tensor Vectors::gram_from(const comm::Communicator& group, const std::vector<Begun>& models) const {
  return gram_of(group, models.size(), [&](Range range, std::int64_t align, const Visitor& visitor) {
    visit_from(models, range, align, visitor);
  });
}

at::Tensor Vectors::gram_of(const comm::Communicator& group, std::size_t count, const Visit& visit) const {
  const auto length = model_.layout().size();
  weights::GramSum sum(static_cast<std::int64_t>(count), length);
  const auto share = group.share_of((length + sum.step() - 1) / sum.step());
  const auto begin = std::min(length, share.begin * sum.step()),
             end = std::min(length, share.end() * sum.step());
  visit({begin, end - begin}, sum.step(),
        [&](std::int64_t at, std::span<const at::Tensor> blocks) { sum.add(at, blocks); });
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

void Vectors::visit(const std::string& regime, const std::vector<std::size_t>& tasks, Range range,
                    std::int64_t align, const Visitor& visitor) const {
  std::vector<at::Tensor> blocks(tasks.size());
  // Parts of a vector, one after another, do not drive out whole ones where memory cannot hold those of all
  // tasks.
  const bool part = range.count < model_.layout().size() && tasks_.size() > kept();
  const bool cached = std::all_of(tasks.begin(), tasks.end(), [&](std::size_t t) {
    return find(checkpoint_folder(regime, t).string()).defined();
  });
  if (tasks.size() <= kept() && (cached || !part)) {
    std::vector<at::Tensor> all;
    for (const auto t : tasks) all.push_back(vector(regime, t));
    for (std::size_t i = 0; i < all.size(); ++i) blocks[i] = all[i].narrow(0, range.begin, range.count);
    if (range.count > 0) visitor(range.begin, blocks);
    return;
  }
  std::vector<std::filesystem::path> folders;
  for (const auto t : tasks) folders.push_back(checkpoint_folder(regime, t));
  visit_from(of_theta0(folders), range, align, visitor);
}

std::vector<Vectors::Begun> Vectors::of_theta0(const std::vector<std::filesystem::path>& folders) const {
  std::vector<Begun> models;
  for (const auto& folder : folders)
    models.push_back({folder, model_.theta0(), model_.fingerprint(), settings_.model.string()});
  return models;
}

std::shared_ptr<const Vectors::Source> Vectors::open(const Begun& model) const {
  const auto found = opened_.find(model.folder.string());
  const auto source = found != opened_.end() && found->second->current()
                          ? found->second
                          : std::make_shared<const Source>(model.folder, model_.encoder());
  source->require_start(model);
  return source;
}

void Vectors::visit_from(const std::vector<Begun>& models, Range range, std::int64_t align,
                         const Visitor& visitor) const {
  std::vector<std::shared_ptr<const Source>> sources;
  for (const auto& model : models) sources.push_back(open(model));
  std::vector<const Source*> bare;
  for (const auto& source : sources) bare.push_back(source.get());
  // They stay mapped, since most visits are of the same files: mapping their pages anew takes as long as
  // reading.
  constexpr std::size_t most_opened = 1024;
  if (opened_.size() + models.size() > most_opened) opened_.clear();
  for (std::size_t i = 0; i < std::min(models.size(), most_opened); ++i)
    opened_.insert_or_assign(models[i].folder.string(), sources[i]);
  const auto size = block_of(models.size(), align);
  auto blocks =
      at::empty({static_cast<std::int64_t>(models.size()), size}, model_.theta0().options()).unbind();
  constexpr std::int64_t stretch = 1 << 20;  // numbers of a vector, at least, that the disk is ahead of us
  const auto ahead = [&](std::int64_t at) { return std::min(at + stretch, range.end()); };
  std::vector<std::int64_t> announced(models.size(), range.begin);
  store::ReadAhead disk;
  for (auto begin = range.begin; begin < range.end(); begin += size) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (announced[i] >= ahead(begin)) continue;
      // The first stretches differ in length, so that later ones are not asked for all at once.
      const auto more =
          begin > range.begin ? 0 : stretch * static_cast<std::int64_t>(i) / std::ssize(sources);
      const auto until = std::min(announced[i] + stretch + more, range.end());
      disk.announce([&] { sources[i]->announce(model_.layout(), {announced[i], until - announced[i]}); });
      announced[i] = until;
    }
    const auto count = std::min(size, range.end() - begin);
    if (count < size) {  // the last ones
      for (auto& block : blocks) block = block.narrow(0, 0, count);
    }
    for (std::size_t i = 0, some = 0; i < sources.size(); i += some) {
      some = 1;
      while (some < weights::side_by_side && i + some < sources.size() &&
             models[i + some].start.is_same(models[i].start))
        ++some;
      Source::differences({&bare[i], some}, model_.layout(), models[i].start, {begin, count},
                          {&blocks[i], some});
    }
    visitor(begin, blocks);
  }
}

}  // namespace taugrid::study
