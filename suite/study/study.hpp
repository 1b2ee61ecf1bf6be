// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What all experiments of one run share, each part in a file of its own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "suite/comm/runtime.hpp"
#include "suite/study/edits.hpp"
#include "suite/study/evaluation.hpp"
#include "suite/study/model.hpp"
#include "suite/study/samples.hpp"
#include "suite/study/settings.hpp"
#include "suite/study/vectors.hpp"

namespace taugrid::study {

struct Study {
  /// Reads the experiment file's common sections, the model and the tasks. Throws InputError. θ0, readouts,
  /// samples and task vectors lie on `device`; `ranks_on_host` share the host's memory.
  explicit Study(config::Config& config, at::Device on = at::kCPU, int ranks_on_host = 1)
      : Study(config, InputFiles(InputFiles::Mode::run), on, ranks_on_host) {}
  /// As `files` says. A dry run's study is enough to check a configuration and to count its work, not to
  /// compute it.
  Study(config::Config& config, InputFiles& files, at::Device on = at::kCPU, int ranks_on_host = 1);
  Study(config::Config& config, InputFiles&& files, at::Device on, int ranks_on_host)
      : Study(config, files, on, ranks_on_host) {}
  Study(const Study&) = delete;
  Study& operator=(const Study&) = delete;

  const at::Device device;
  const Settings settings;
  const MemoryBound bound;
  const Model model;
  const Tasks tasks;
  const Readouts readouts;
  const Samples samples;
  Vectors vectors;
  const Edits edits;
  const Evaluation evaluation;

  /// The first stage of the model that any vector of the regime changes where finetune.first_stage freezes
  /// any; else 0. What lies below runs once a sample, and normalises by stored statistics in training, too.
  int first_changed_stage(const std::string& regime) const;
  /// Points of task t's test and validation splits that are looked at, as far as they go; also of the
  /// control.
  std::int64_t points(std::size_t t) const {
    return t == tasks.control() ? settings.control_points : settings.evaluation_points;
  }
  /// samples.of() for models that are edited by the regime's vectors: frozen stages have run already.
  Sample sample(const std::string& regime, std::size_t t, Split split, std::int64_t n) const;
  /// The blocks that the regime trains, as study::trained_blocks() of this model.
  std::vector<bool> trained_blocks(const std::string& regime) const;
  /// The blocks that curvature and tangent kernels are taken in: those from finetune.first_stage on, whatever
  /// a regime trains of them, without the head where label words are frozen. Empty: all, where no stage is
  /// frozen.
  std::vector<bool> free_blocks() const;
  /// Their length, end to end.
  std::int64_t free_parameters() const;
  /// Samples of task t's training split for such derivatives at a state that has θ0's frozen stages. With
  /// `other` the points are read by another task's head as well: where heads give the model tokens of their
  /// own, frozen stages have not run yet.
  Sample free_sample(std::size_t t, std::int64_t n, bool other = false) const;
  /// What a regime of low rank moves; in a stand-in, which has other names, all that it can.
  LowRank low_rank() const;
  /// How many numbers an optimiser of the regime moves: θ's in these blocks, or their factors'.
  std::int64_t trained_parameters(const std::string& regime) const;

  /// Zeros of float64 on the device: results that are written there one by one make the host wait for none.
  at::Tensor sums(at::IntArrayRef shape) const;
};

/// TOML texts with the digest of every file that the numbers depend on.
struct Inputs {
  std::string text;
  std::string without_configuration;  ///< as runs of before have it: nothing of the model's config.json
};

/// The inputs of the study, and `more`: files, and folders of models. Collective: the ranks of each host
/// share the reading. Throws InputError where a file cannot be read, or is another one on some host. The
/// files are watched from then on: store::watch().
Inputs inputs_of(const Study& study, const std::vector<std::filesystem::path>& more,
                 const comm::Runtime& runtime);

/// Makes RUN/data and RUN/checkpoints lead to what the study uses, so that every number can be computed again
/// from the run folder alone. A run that `makes_model` has its own in checkpoints/pretrained. One rank.
/// Throws InputError.
void link_inputs(const Study& study, const std::filesystem::path& run, bool makes_model);

}  // namespace taugrid::study
