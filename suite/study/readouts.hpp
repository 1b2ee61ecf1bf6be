// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How each task's logits are read from the model's output.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "suite/models/readout.hpp"
#include "suite/study/tasks.hpp"

namespace taugrid::study {

class Readouts {
 public:
  /// All arguments outlive this object. Throws InputError where some tasks are answered by sequences and
  /// others are not.
  Readouts(const Settings& settings, const Model& model, const Tasks& tasks, bool dry_run);

  /// Task t's, also of the control; on the device.
  const models::Readout& of(std::size_t t) const { return readouts_[t]; }
  /// Where the classifier lies that a run with [heads] trains for task t, once its unit is finished.
  std::filesystem::path head_file(const std::filesystem::path& run, std::size_t t) const;
  /// Reads these classifiers of the run, where they are wanted and not read yet: readouts have zeros till
  /// then. Throws InputError where one is missing or does not fit.
  void take_heads(const std::filesystem::path& run) const;
  /// Which space the tasks' outputs lie in (models::Readout::space()); "by task" where they differ.
  std::string space() const;
  /// Whether any task's logits are rows of the model's vocabulary or classifier.
  bool read_words() const;
  /// Whether any task's rows have choices of their own.
  bool read_choices() const;
  /// Texts as task t's readout reads them: with t's answers before the decoder.
  models::Batch read_by(std::size_t t, models::Batch batch) const;
  /// As read_by(), of rows of task t's own split: where it is answered by texts or by choices of each row,
  /// each has its own before the decoder.
  models::Batch read_rows(std::size_t t, Split split, const at::Tensor& rows, models::Batch batch) const;

 private:
  /// What the decoder is given, int64 [places], and what each place sees, bool [places, places]; of tasks
  /// answered by texts the former is each sample's own; undefined where labels are no sequences, and of
  /// choices, of which all is each sample's own.
  struct Decoder {
    at::Tensor tokens, sees;
  };
  static Decoder decoder_of(const data::Task& task, const models::Readout& readout, const Model& model);
  void require_one_way_to_answer() const;
  models::Batch with_choices(std::size_t t, Split split, const at::Tensor& rows, models::Batch batch) const;

  const Model& model_;
  const Tasks& tasks_;
  mutable bool heads_missing_;  // until take_heads()
  mutable std::vector<models::Readout> readouts_;
  std::vector<Decoder> decoders_;  // on the device
};

}  // namespace taugrid::study
