// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The points that are drawn from the tasks' data, as the model takes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "suite/study/batches.hpp"
#include "suite/study/frozen_stages.hpp"
#include "suite/study/memory_bound.hpp"
#include "suite/study/points.hpp"
#include "suite/study/readouts.hpp"

namespace taugrid::study {

/// Points drawn by seed from one split of one task. A smaller sample is the beginning of a larger one.
struct Sample {
  at::Tensor index;   ///< int64 [n], rows of the split; on the host
  Points points;      ///< what the model takes; on the device
  at::Tensor labels;  ///< int64 [n], or as Readout::loss() says; on the device
};

class Samples {
 public:
  /// All arguments outlive this object.
  Samples(const Settings& settings, const Model& model, const Tasks& tasks, const Readouts& readouts,
          const MemoryBound& bound);

  /// Rows of a task's split, on the device: pictures normalised, sequences cut to the longest of them. With
  /// `from` > 0, what the stages before it make of them at θ0, kept where memory allows.
  models::Batch batch(std::size_t t, Split split, const at::Tensor& rows, int from = 0) const;
  /// Rows of a task of pictures, each its box [n, 4] of data::random_boxes() alone, resized to the whole;
  /// with `from` above 0 what the stages before it make of them at θ0.
  models::Batch cropped_batch(std::size_t t, Split split, const at::Tensor& rows, const at::Tensor& boxes,
                              int from) const;
  /// The labels of these rows, int64 [n], or as Readout::loss() says.
  at::Tensor labels(std::size_t t, Split split, const at::Tensor& rows) const;

  /// Rows of the steps of task t's fine-tuning, so many a step; those of another purpose are drawn by its
  /// name.
  Batches batches(std::size_t t, std::int64_t size, const std::string& purpose = "batches/") const;

  /// min(n, rows of the split) points, which do not outlive this object. The latest are kept for further
  /// calls, within the bound; those that alone exceed it are read part by part, unless stages have run on
  /// them (from > 0).
  Sample of(std::size_t t, Split split, std::int64_t n, int from = 0) const;
  /// The rows of of(), without reading a picture: int64 [min(n, rows of the split)].
  at::Tensor rows(std::size_t t, Split split, std::int64_t n) const;
  /// Bytes of n points as the model takes them, a text with as many tokens as it can take.
  std::size_t bytes(std::int64_t n) const;
  /// How many points of() has.
  std::int64_t size(std::size_t t, Split split, std::int64_t n) const;
  /// int64 [T, n]: the samples' rows, −1 beyond a split's end.
  at::Tensor index(Split split, std::int64_t n) const;

 private:
  models::Batch raw_batch(std::size_t t, Split split, const at::Tensor& rows) const;
  models::Batch normalised(std::size_t t, const at::Tensor& pictures) const;
  /// Every row of a split, int64, in the order in which it goes through frozen stages: as fine-tuning draws
  /// those for training and of() the others, so that of a large split hardly any run but those that are read.
  /// The texts of four chunks are sorted by length: those that run together are padded least.
  at::Tensor frozen_order(std::size_t t, Split split) const;

  const Model& model_;
  const Tasks& tasks_;
  const Readouts& readouts_;
  std::uint64_t seed_;
  MemoryBound bound_;
  std::vector<std::pair<at::Tensor, at::Tensor>> channels_;  // mean and std, on the device
  struct Kept {
    std::size_t task;
    Split split;
    int from;
    Sample sample;
  };
  mutable std::list<Kept> kept_;  // newest first
  std::int64_t frozen_chunk_;
  std::unique_ptr<FrozenStages> frozen_;
};

}  // namespace taugrid::study
