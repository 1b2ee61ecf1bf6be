// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The tasks of a run: their data, how their logits are read, and the points that are drawn from them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "suite/data/packed.hpp"
#include "suite/models/label_tree.hpp"
#include "suite/models/readout.hpp"
#include "suite/study/frozen_stages.hpp"
#include "suite/study/memory_bound.hpp"
#include "suite/study/model.hpp"
#include "suite/study/points.hpp"

namespace taugrid::study {

using data::Split;
using data::split_name;

/// Points drawn by seed from one split of one task. A smaller sample is the beginning of a larger one.
struct Sample {
  at::Tensor index;   ///< int64 [n], rows of the split; on the host
  Points points;      ///< what the model takes; on the device
  at::Tensor labels;  ///< int64 [n]; on the device
};

class Tasks {
 public:
  /// What the decoder is given, int64 [places], and what each place sees, bool [places, places]; of tasks
  /// answered by texts the former is each sample's own; undefined where labels are no sequences.
  struct Decoder {
    at::Tensor tokens, sees;
  };
  /// Reads every task, and the control where there is one. With `inputs`, each is listed there, and where one is
  /// missing or wrong, a stand-in takes its place. Throws InputError, also for a task of another modality, size or
  /// width than the model's. The model outlives this object.
  Tasks(const Settings& settings, const Model& model, const MemoryBound& bound,
        std::vector<InputFile>* inputs);

  std::size_t size() const { return names_.size() - (has_control_ ? 1 : 0); }
  std::vector<std::size_t> all() const;  ///< 0, 1, …, without the control
  bool has_control() const { return has_control_; }
  /// The control's number, wherever a task's is asked for (papers 1 and 3: ImageNet).
  std::size_t control() const { return size(); }
  /// The number of all tasks, and of the control if there is one.
  std::size_t with_control() const { return names_.size(); }
  const std::string& name(std::size_t t) const { return names_[t]; }
  const data::Task& data(std::size_t t) const { return *tasks_[t]; }
  /// Whether task t's file is missing, or wrong: its numbers of points are not its own.
  bool is_stand_in(std::size_t t) const { return data(t).modality.empty(); }
  const models::Readout& readout(std::size_t t) const { return readouts_[t]; }
  /// Where the classifier lies that a run with [heads] trains for task t, once its unit is finished.
  std::filesystem::path head_file(const std::filesystem::path& run, std::size_t t) const;
  /// Reads these classifiers of the run, where they are wanted and not read yet: readouts have zeros till
  /// then. Throws InputError where one is missing or does not fit.
  void take_heads(const std::filesystem::path& run) const;
  /// Which space the tasks' outputs lie in (models::Readout::space()); "by task" where they differ.
  std::string space() const;
  /// Whether any task's logits are rows of the model's vocabulary or classifier.
  bool read_words() const;
  std::filesystem::path file(std::size_t t) const { return folder_ / (sources_[t].data + ".h5"); }
  /// The first task that has the same data: t itself, but for further fine-tunings of one task.
  std::size_t first_alike(std::size_t t) const { return sources_[t].first; }
  /// What the order of task t's training points is drawn by: its name, or, of one of several fine-tunings of
  /// the same data, the data's and a seed.
  const std::string& drawn_by(std::size_t t) const { return sources_[t].drawn_by; }

  /// The pairs that are measured, in the order (0,1), (0,2), ….
  const std::vector<std::pair<std::size_t, std::size_t>>& pairs() const { return pairs_; }
  /// The pairs that task t is in, by their number.
  std::vector<std::size_t> pairs_of(std::size_t t) const;
  /// The other task of a pair that task t is in.
  std::size_t partner(std::size_t p, std::size_t t) const {
    return pairs_[p].first == t ? pairs_[p].second : pairs_[p].first;
  }
  std::string pair_name(std::size_t p) const { return name(pairs_[p].first) + "+" + name(pairs_[p].second); }

  /// Rows of a task's split, on the device: pictures normalised, sequences cut to the longest of them. With
  /// `from` > 0, what the stages before it make of them at θ0, kept where memory allows.
  models::Batch batch(std::size_t t, Split split, const at::Tensor& rows, int from = 0) const;
  /// Another task's texts as task t's readout reads them: with t's answers before the decoder.
  models::Batch read_by(std::size_t t, models::Batch batch) const;
  /// Rows of a task of pictures, each its box [n, 4] of data::random_boxes() alone, resized to the whole.
  models::Batch cropped_batch(std::size_t t, Split split, const at::Tensor& rows,
                              const at::Tensor& boxes) const;
  /// The labels of these rows, int64 [n].
  at::Tensor labels(std::size_t t, Split split, const at::Tensor& rows) const;

  /// min(n, rows of the split) points, which do not outlive this object. The latest are kept for further
  /// calls, within the bound; those that alone exceed it are read part by part, unless stages have run on
  /// them (from > 0).
  Sample sample(std::size_t t, Split split, std::int64_t n, int from = 0) const;
  /// The rows of sample(), without reading a picture: int64 [min(n, rows of the split)].
  at::Tensor sample_rows(std::size_t t, Split split, std::int64_t n) const;
  /// Bytes of n points as the model takes them, a text with as many tokens as it can take.
  std::size_t bytes(std::int64_t n) const;
  /// How many points sample() has.
  std::int64_t sample_size(std::size_t t, Split split, std::int64_t n) const;
  /// int64 [T, n]: the samples' rows, −1 beyond a split's end.
  at::Tensor sample_index(Split split, std::int64_t n) const;

 private:
  void add(std::size_t t, const Settings& settings, std::vector<InputFile>* inputs);
  void read(const std::string& name, const Settings& settings, std::vector<InputFile>* inputs);
  models::Batch raw_batch(std::size_t t, Split split, const at::Tensor& rows) const;
  models::Batch normalised(std::size_t t, const at::Tensor& pictures) const;
  void give_decoder(std::size_t t, Split split, const at::Tensor& rows, models::Batch& batch) const;
  void require_one_way_to_answer() const;

  const Model& model_;
  std::uint64_t seed_;
  MemoryBound bound_;
  std::filesystem::path folder_;
  std::vector<std::string> names_;  // the control last
  bool has_control_;
  std::vector<std::pair<std::size_t, std::size_t>> pairs_;
  mutable bool heads_missing_;  // until take_heads()
  std::vector<std::shared_ptr<const data::Task>> tasks_;  // those alike have one
  struct Source {
    std::string data, drawn_by;
    std::size_t first;
  };
  std::vector<Source> sources_;
  mutable std::vector<models::Readout> readouts_;            // on the device
  std::vector<std::pair<at::Tensor, at::Tensor>> channels_;  // mean and std, on the device
  std::vector<Decoder> decoders_;  // of labels' sequences, or, of texts, what each place sees; on the device
  struct Kept {
    std::size_t task;
    Split split;
    int from;
    Sample sample;
  };
  mutable std::list<Kept> kept_;  // newest first
  std::unique_ptr<FrozenStages> frozen_;
};

}  // namespace taugrid::study
