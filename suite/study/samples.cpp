// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/samples.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "suite/data/crop.hpp"

namespace taugrid::study {

Samples::Samples(const Settings& settings, const Model& model, const Tasks& tasks, const Readouts& readouts,
                 const MemoryBound& bound)
    : model_(model),
      tasks_(tasks),
      readouts_(readouts),
      seed_(settings.seed),
      bound_(bound),
      frozen_chunk_(model.encoder().takes().text() ? std::max<std::int64_t>(1, settings.evaluation_batch / 2)
                                                   : settings.evaluation_batch),
      frozen_(std::make_unique<FrozenStages>(
          model, frozen_chunk_, bound.samples,
          [this](std::size_t t, Split split, const at::Tensor& rows) { return raw_batch(t, split, rows); },
          [this](std::size_t t, Split split) { return frozen_order(t, split); })) {
  for (std::size_t t = 0; t < tasks.with_control(); ++t) {
    const auto& task = tasks.data(t);
    channels_.emplace_back(at::tensor(task.mean, at::kFloat).to(model.device()),
                           at::tensor(task.std, at::kFloat).to(model.device()));
  }
}

models::Batch Samples::raw_batch(std::size_t t, Split split, const at::Tensor& rows) const {
  const auto& from = tasks_.data(t).split(split);
  if (!from.lengths.defined()) return normalised(t, data::rows_on(model_.device(), from.inputs, rows));
  auto lengths = from.lengths.index_select(0, rows).to(at::kLong);
  const auto longest = rows.size(0) == 0 ? 1 : lengths.max().item<std::int64_t>();
  const auto cut = [&](const at::Tensor& tokens) {
    return data::send(model_.device(),
                      tokens.index_select(0, rows).narrow(1, 0, longest).to(at::kLong).contiguous());
  };
  models::Batch batch{cut(from.inputs), std::move(lengths), {}};
  if (from.types.defined()) batch.types = cut(from.types);
  if (from.mask.defined())
    batch.mask = data::send(model_.device(), from.mask.index_select(0, rows).to(at::kLong));
  return readouts_.read_rows(t, split, rows, std::move(batch));
}

models::Batch Samples::normalised(std::size_t t, const at::Tensor& pictures) const {
  return models::pictures(data::normalised_images(pictures, channels_[t].first, channels_[t].second));
}

models::Batch Samples::cropped_batch(std::size_t t, Split split, const at::Tensor& rows,
                                     const at::Tensor& boxes, int from) const {
  const auto pictures = data::rows_on(model_.device(), tasks_.data(t).split(split).inputs, rows);
  auto batch = normalised(t, data::resized_crops(pictures, boxes));
  return from == 0 ? batch : frozen_->through(std::move(batch), from);
}

models::Batch Samples::batch(std::size_t t, Split split, const at::Tensor& rows, int from) const {
  if (from == 0) return raw_batch(t, split, rows);
  return frozen_->run(tasks_.first_alike(t), split, rows, from);
}

at::Tensor Samples::labels(std::size_t t, Split split, const at::Tensor& rows) const {
  return data::rows_on(model_.device(), tasks_.data(t).split(split).labels, rows);
}

Batches Samples::batches(std::size_t t, std::int64_t size, const std::string& purpose) const {
  return {tasks_.data(t).train.labels.size(0), size, seed_for(seed_, purpose + tasks_.drawn_by(t))};
}

at::Tensor Samples::rows(std::size_t t, Split split, std::int64_t n) const {
  const auto count = tasks_.data(t).split(split).labels.size(0);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(
      seed_for(seed_, std::string("sample/") + split_name(split) + "/" + tasks_.data_name(t)));
  return at::randperm(count, generator, at::kLong).narrow(0, 0, size(t, split, n)).clone();
}

at::Tensor Samples::frozen_order(std::size_t t, Split split) const {
  const auto& from = tasks_.data(t).split(split);
  const auto count = from.labels.size(0);
  auto order = split == Split::train ? batches(t, count).rows(0) : rows(t, split, count);
  if (!from.lengths.defined()) return order;
  return shorter_first(order, from.lengths.index_select(0, order), 4 * frozen_chunk_);
}

std::size_t Samples::bytes(std::int64_t n) const {
  const auto takes = model_.encoder().takes();
  const auto tokens =
      model_.tokens() > 0 ? model_.tokens() : takes.tokens;  // in a plan without data, the most
  // Which places see which is each row's own where choices are.
  const auto places = readouts_.read_choices() ? static_cast<std::size_t>(model_.decoded()) : 0;
  const auto each =
      places * (places + 3 * sizeof(std::int64_t)) +
      (takes.text()
           ? sizeof(std::int64_t) * static_cast<std::size_t>(tokens)
           : sizeof(float) * static_cast<std::size_t>(takes.channels * takes.image_size * takes.image_size));
  return static_cast<std::size_t>(n) * each;
}

std::int64_t Samples::size(std::size_t t, Split split, std::int64_t n) const {
  return std::min(n, tasks_.data(t).split(split).labels.size(0));
}

Sample Samples::of(std::size_t t, Split split, std::int64_t n, int from) const {
  t = tasks_.first_alike(t);
  n = size(t, split, n);
  const auto same = [&](const Kept& kept) {
    return kept.task == t && kept.split == split && kept.from == from;
  };
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (!same(*it) || it->sample.index.size(0) < n) continue;
    kept_.splice(kept_.begin(), kept_, it);
    // The first n of a larger one share its memory.
    const auto& whole = it->sample;
    return {whole.index.narrow(0, 0, n), whole.points.first(n), whole.labels.narrow(0, 0, n)};
  }
  kept_.remove_if(same);
  Sample sample;
  sample.index = rows(t, split, n);
  sample.labels = labels(t, split, sample.index);
  if (from == 0 && bytes(n) > bound_.samples) {
    const auto& lengths = tasks_.data(t).split(split).lengths;
    sample.points = Points(
        n,
        [this, t, split, rows = sample.index](const at::Tensor& which) {
          return raw_batch(t, split, rows.index_select(0, which));
        },
        lengths.defined() ? lengths.index_select(0, sample.index).to(at::kLong) : at::Tensor());
    return sample;
  }
  sample.points = batch(t, split, sample.index, from);
  kept_.push_front({t, split, from, sample});
  std::size_t held = 0;
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    held += it->sample.points.bytes();
    if (held <= bound_.samples || it == kept_.begin()) continue;
    kept_.erase(it, kept_.end());
    break;
  }
  return sample;
}

at::Tensor Samples::index(Split split, std::int64_t n) const {
  auto all = at::full({static_cast<std::int64_t>(tasks_.size()), n}, -1, at::kLong);
  for (std::size_t t = 0; t < tasks_.size(); ++t) {
    const auto index = rows(t, split, n);
    all[static_cast<std::int64_t>(t)].narrow(0, 0, index.size(0)).copy_(index);
  }
  return all;
}

}  // namespace taugrid::study
