// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/stage_weights.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "kernels/autodiff/products.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/study/study.hpp"

namespace taugrid::study {
namespace {

/// Numbers of a stretch: θ0's and the vectors' stay in a core's cache until models are made of them.
constexpr std::int64_t stretch_a_thread = std::int64_t{1} << 15;

bool uses(const models::Encoder& encoder, std::size_t block, int part, bool vocabulary) {
  const auto number = static_cast<int>(block);
  return encoder.layout().blocks()[block].stage == part ||
         (vocabulary && part > encoder.stages() &&
          (number == encoder.vocabulary_block() || number == encoder.vocabulary_bias()));
}

/// One model's part takes so many, and the words of the last one.
double bytes_of(const models::Encoder& encoder, int part, bool vocabulary) {
  const auto& blocks = encoder.layout().blocks();
  std::int64_t numbers = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (uses(encoder, i, part, vocabulary)) numbers += blocks[i].count;
  return sizeof(float) * static_cast<double>(numbers);
}

/// One model's parts take so many.
double bytes_of(const models::Encoder& encoder, const StageLine::Stretch& stretch, bool vocabulary) {
  double bytes = 0;
  for (int part = stretch.begin; part < stretch.end; ++part) bytes += bytes_of(encoder, part, vocabulary);
  return bytes;
}

bool holds(const MemoryBound& bound, std::int64_t models, double bytes) {
  return static_cast<double>(models) * bytes <= static_cast<double>(bound.vectors);
}

/// How many models' blocks of a part lie in memory side by side.
std::int64_t models_of_part(const MemoryBound& bound, double bytes, std::int64_t models,
                            std::int64_t together = 1) {
  const auto room = static_cast<std::int64_t>(static_cast<double>(bound.vectors) / std::max(1.0, bytes));
  return std::clamp<std::int64_t>(room, together, models);
}

/// The k-th model's weights in numbers T; along a direction θ0's and τ's are the first two.
template <class T>
decltype(auto) weights_in(const std::vector<models::Blocks<at::Tensor>>& blocks, std::int64_t k) {
  if constexpr (std::is_same_v<T, autodiff::Dual>)
    return autodiff::duals(blocks[0], blocks[1]);
  else
    return (blocks[static_cast<std::size_t>(k)]);
}

void receive(const StageLine& line, at::Device device, at::ScalarType type, at::Tensor& state) {
  state = line.received(device, type);
}
void receive(const StageLine& line, at::Device device, at::ScalarType type, autodiff::Dual& state) {
  state.value = line.received(device, type);
  state.tangent = line.received(device, type);
}
void send(const StageLine& line, const at::Tensor& state) { line.send(state); }
void send(const StageLine& line, const autodiff::Dual& state) {
  line.send(state.value);
  line.send(autodiff::tangent_or_zeros(state));
}

StageLine line_of(const Study& study, const comm::Communicator& group) {
  const auto& encoder = study.model.encoder();
  return study.settings.by_stretches() ? StageLine(encoder, group) : StageLine(encoder);
}

}  // namespace

StageWeights::StageWeights(const Study& study, const comm::Communicator& group)
    : study_(study), line_(line_of(study, group)) {}

int StageWeights::last_part() const { return study_.model.encoder().stages() + 1; }

std::size_t StageWeights::file_of(const std::string& regime, std::size_t task) {
  const auto folder = study_.vectors.checkpoint_folder(regime, task).string();
  const auto there = std::find(folders_.begin(), folders_.end(), folder);
  if (there != folders_.end()) return static_cast<std::size_t>(there - folders_.begin());
  folders_.push_back(folder);
  files_.push_back(study_.vectors.file(regime, task));
  return files_.size() - 1;
}

std::int64_t StageWeights::add(const Edit& edit) {
  if (goes_along_) throw std::logic_error("a direction goes with no other models");
  const auto first = size();
  if (edit.kind == Edit::Kind::start) {
    models_.emplace_back();
    return first;
  }
  const bool is_sum = edit.kind == Edit::Kind::sum;
  if ((edit.kind != Edit::Kind::terms && !is_sum) || edit.is_linear())
    throw std::logic_error("a model of another kind than θ0 + Σ ατ is made by stages");
  std::vector<std::size_t> files;
  for (const auto t : edit.tasks) files.push_back(file_of(edit.regime, t));
  for (std::int64_t k = 0; k < edit.models(); ++k)
    models_.push_back({is_sum, files, edit.alpha.narrow(0, k, 1).view({1, -1})});
  return first;
}

void StageWeights::go_along(const std::string& regime, const std::vector<std::size_t>& tasks, double c) {
  if (!models_.empty()) throw std::logic_error("a direction goes with no other models");
  std::vector<std::size_t> files;
  for (const auto t : tasks) files.push_back(file_of(regime, t));
  models_.emplace_back();
  models_.push_back({true, std::move(files), at::full({1, 1}, c, at::kDouble)});
  goes_along_ = true;
}

void StageWeights::make_stretch(Range models, Range range, std::span<const at::Tensor> out) const {
  const auto& layout = study_.model.layout();
  const auto& theta0 = study_.model.start_file();
  const auto n = range.count;
  std::vector<bool> wanted(files_.size());
  bool only_starts = true;
  for (auto k = models.begin; k < models.end(); ++k) {
    for (const auto f : models_[static_cast<std::size_t>(k)].files) wanted[f] = true;
    only_starts &= models_[static_cast<std::size_t>(k)].files.empty();
  }
  const auto base = only_starts ? out.front() : at::empty({n}, at::kFloat);
  std::vector<const ThetaFile*> files;
  std::vector<at::Tensor> tau, by_file(files_.size());
  for (std::size_t f = 0; f < wanted.size(); ++f) {
    if (!wanted[f]) continue;
    files.push_back(files_[f].get());
    tau.push_back(by_file[f] = at::empty({n}, at::kFloat));
  }
  at::parallel_for(0, n, stretch_a_thread, [&](std::int64_t begin, std::int64_t end) {
    const Range part = {range.begin + begin, end - begin};
    const auto of_part = [&](const at::Tensor& x) { return x.narrow(0, begin, part.count); };
    theta0.read(layout, part, of_part(base));
    if (files.empty()) return;
    std::vector<at::Tensor> to;
    for (const auto& x : tau) to.push_back(of_part(x));
    ThetaFile::differences(files, layout, of_part(base), part, to);
  });
  for (std::int64_t k = 0; k < models.count; ++k) {
    const auto& model = models_[static_cast<std::size_t>(models.begin + k)];
    auto made_row = out[static_cast<std::size_t>(k)].unsqueeze(0);
    if (model.files.empty()) {
      if (!made_row.is_alias_of(base)) made_row[0].copy_(base);
      continue;
    }
    std::vector<at::Tensor> vectors;
    for (const auto f : model.files) vectors.push_back(by_file[f]);
    if (!model.is_sum) {
      weights::combine(base, vectors, model.alpha, made_row);
      continue;
    }
    auto sum = at::zeros_like(base);
    for (const auto& vector : vectors) sum.add_(vector);
    auto row = made_row[0];
    const auto c = model.alpha.item<double>();
    if (goes_along_)  // without θ0
      at::mul_out(row, sum, at::scalar_tensor(c, sum.options()));
    else
      at::add_out(row, base, sum, c);
  }
}

void StageWeights::make(Range models, const autodiff::Block& block, std::span<const at::Tensor> out) const {
  const auto size = stretch_a_thread * at::get_num_threads();
  for (std::int64_t at = 0; at < block.count; at += size) {
    const auto n = std::min(size, block.count - at);
    std::vector<at::Tensor> to;
    for (const auto& x : out) to.push_back(x.narrow(0, at, n));
    make_stretch(models, {block.offset + at, n}, to);
  }
}

std::vector<StageWeights::Blocks> StageWeights::blocks_of(Range models, int part, const Pass& pass) const {
  const auto& encoder = study_.model.encoder();
  const auto& blocks = encoder.layout().blocks();
  std::vector<Blocks> of_models(static_cast<std::size_t>(models.count), Blocks(blocks.size()));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!uses(encoder, i, part, pass.vocabulary)) continue;
    std::vector<at::Tensor> flat;
    for (std::int64_t k = 0; k < models.count; ++k) flat.push_back(at::empty({blocks[i].count}, at::kFloat));
    make(models, blocks[i], flat);
    for (std::size_t k = 0; k < of_models.size(); ++k)
      of_models[k][i] = flat[k].view(blocks[i].shape).to(study_.device, pass.type);
  }
  return of_models;
}

void StageWeights::announce(int part, const Pass& pass) const {
  const auto& encoder = study_.model.encoder();
  const auto& blocks = encoder.layout().blocks();
  disk_.announce([&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (!uses(encoder, i, part, pass.vocabulary)) continue;
      const Range range = {blocks[i].offset, blocks[i].count};
      study_.model.start_file().announce(encoder.layout(), range);
      for (const auto& file : files_) file->announce(encoder.layout(), range);
    }
  });
}

bool StageWeights::keeps(std::int64_t models) const {
  const auto weights = weights_of({0, models}).count;
  return holds(study_.bound, weights, bytes_of(study_.model.encoder(), line_.mine(), true));
}

bool StageWeights::keeps(const Pass& pass) const {
  if (!keeps(pass.models.count)) {
    kept_.reset();
    return false;
  }
  const auto is_pass = [&](const Pass& other) {
    return other.models.begin == pass.models.begin && other.models.count == pass.models.count &&
           other.vocabulary == pass.vocabulary && other.type == pass.type;
  };
  if (!kept_ || !is_pass(kept_->pass)) {
    kept_.reset();  // before the next ones are made
    kept_.emplace(Kept{pass, std::vector<std::vector<Blocks>>(static_cast<std::size_t>(last_part()) + 1)});
  }
  return true;
}

template <class T>
void StageWeights::run(const Pass& pass, std::span<const models::Given> batches,
                       const std::function<void(int)>& before, const See<T>& see) const {
  constexpr bool dual = std::is_same_v<T, autodiff::Dual>;
  if (dual != goes_along_) throw std::logic_error("dual numbers are of a direction, and of nothing else");
  const at::NoGradGuard no_grad;
  const auto& encoder = study_.model.encoder();
  const auto count = pass.models.count;
  const auto [begin, end] = line_.mine();
  const bool kept = keeps(pass);
  std::vector<std::vector<T>> h(static_cast<std::size_t>(count), std::vector<T>(batches.size()));
  for (int part = begin; part < end; ++part) {
    before(part);
    const auto bytes = bytes_of(encoder, part, pass.vocabulary);
    const auto together = kept || dual ? count : models_of_part(study_.bound, bytes, count);
    for (std::int64_t first = 0; first < count; first += together) {
      const Range some = {pass.models.begin + first, std::min(together, count - first)};
      std::vector<Blocks> temporary;
      auto& blocks = kept ? kept_->parts[static_cast<std::size_t>(part)] : temporary;
      if (blocks.empty()) {
        blocks = blocks_of(weights_of(some), part, pass);
        if (first + together >= count && part + 1 < end)
          announce(part + 1, pass);  // while this part computes
      }
      for (std::int64_t k = 0; k < some.count; ++k) {
        const auto& p = weights_in<T>(blocks, k);
        for (std::size_t b = 0; b < batches.size(); ++b) {
          auto& state = h[static_cast<std::size_t>(first + k)][b];
          if (part == begin && line_.receives()) receive(line_, study_.device, pass.type, state);
          state = encoder.part(part, p, std::move(state), batches[b], pass.reach);
          see(part, some.begin + k, b, state, p);
          if (part + 1 < end || !line_.sends()) continue;
          send(line_, state);
          state = T();
        }
      }
    }
  }
}

template void StageWeights::run(const Pass&, std::span<const models::Given>, const std::function<void(int)>&,
                                const See<at::Tensor>&) const;
template void StageWeights::run(const Pass&, std::span<const models::Given>, const std::function<void(int)>&,
                                const See<autodiff::Dual>&) const;

std::int64_t StageWeights::models_at_once(std::int64_t inputs) const {
  return std::clamp<std::int64_t>(inputs_at_once(study_) / std::max<std::int64_t>(1, inputs), 1, size());
}

std::int64_t StageWeights::inputs_at_once(std::int64_t tokens) const {
  const std::int64_t states = goes_along_ ? 2 : 1;  // value and tangent
  return std::max<std::int64_t>(1, inputs_at_once(study_, tokens) / states);
}

std::int64_t StageWeights::inputs_at_once(const Study& study, std::int64_t tokens) {
  auto inputs = static_cast<double>(study.bound.samples) / bytes_between(study);
  if (tokens > 0) {
    const auto usual = static_cast<double>(study.model.tokens());
    inputs *= usual / (usual + static_cast<double>(tokens));
  }
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(inputs));
}

std::vector<std::int64_t> StageWeights::shape_between(const models::Encoder& encoder,
                                                      const models::Batch& batch) {
  std::vector<std::int64_t> shape;
  const models::Given given{batch};
  const auto embed = [&](const models::Blocks<autodiff::Counted>& p) {
    auto h = encoder.run_to(0, p, given);
    shape = h.shape;
    return h;
  };
  autodiff::count(encoder.layout(), embed, autodiff::Meter::Pass::value);
  return shape;
}

double StageWeights::bytes_between(const Study& study) {
  const auto shape = shape_between(study.model.encoder(), study.model.random_batch(1));
  return sizeof(float) * static_cast<double>(c10::multiply_integers(shape));
}

double StageWeights::most_bytes(const Study& study, std::int64_t models, int ranks, std::int64_t together) {
  const auto& encoder = study.model.encoder();
  double most = 0;
  for (const auto& stretch : StageLine::stretches(encoder, ranks)) {
    const auto whole = bytes_of(encoder, stretch, true);
    if (holds(study.bound, models, whole)) {
      most = std::max(most, static_cast<double>(models) * whole);
      continue;
    }
    for (int part = stretch.begin; part < stretch.end; ++part) {
      const auto bytes = bytes_of(encoder, part, true);
      most =
          std::max(most, static_cast<double>(models_of_part(study.bound, bytes, models, together)) * bytes);
    }
  }
  return most;
}

bool StageWeights::keeps(const Study& study, std::int64_t models, int ranks) {
  const auto& encoder = study.model.encoder();
  const auto all = StageLine::stretches(encoder, ranks);
  return std::all_of(all.begin(), all.end(), [&](const StageLine::Stretch& stretch) {
    return holds(study.bound, models, bytes_of(encoder, stretch, true));
  });
}

}  // namespace taugrid::study
