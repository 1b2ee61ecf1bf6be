// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What an experiment file says of the run, the model, the data and the regimes, read and checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/study/input_files.hpp"
#include "suite/study/low_rank.hpp"
#include "suite/study/variants.hpp"

namespace taugrid::study {

struct Settings {
  std::string name;
  std::uint64_t seed = 0;
  int threads = 1;
  int ranks_per_unit = 1;
  /// "float32"; "tf32": products of float32 with 10 bits of mantissa, on GPUs that have them; "bf16":
  /// evaluation and training in bfloat16, with θ, its gradient, the losses and all sums in float32 or double.
  /// Hessian and NTK products are in float32 always: they are differences of nearly equal numbers.
  std::string precision = "float32";
  double memory = 0;  ///< bytes a rank that task vectors and samples may take; 0: by what the host has

  std::filesystem::path model;
  bool random_init = false;
  /// "whole"; "stages": θ stays in its files, and becomes float32 a stage at a time; "stretches": and a
  /// unit's ranks have a stretch of stages each.
  std::string in_memory = "whole";
  bool by_stages() const { return in_memory != "whole"; }
  bool by_stretches() const { return in_memory == "stretches"; }
  bool drawn_by_open_clip = false;  ///< how a θ0 at random is drawn: as open_clip does, or as Hugging Face
  /// What becomes of buffers when a model is edited: "recompute" over training points of the edited tasks;
  /// "average", as θ: β0 + Σ α(β − β0), variances at least 0; or "keep", θ0's.
  std::string buffers = "recompute";
  std::int64_t buffers_points = 256;  ///< of all edited tasks together, for "recompute"
  bool words_frozen =
      false;  ///< label words are read by θ0's rows of the vocabulary, and the head is not trained

  /// Each task's logits are read by a classifier that this run trains on θ0's features, in place of the
  /// data's.
  bool trains_heads = false;

  std::filesystem::path data;
  std::vector<std::string> tasks;
  std::vector<Variant> variants;  ///< one a task, where a task is one of several fine-tunings; else empty
  std::string control;            ///< empty: none
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  ///< those measured, ascending
  std::int64_t evaluation_points = 0;
  std::int64_t control_points = 0;  ///< likewise of the control
  std::int64_t evaluation_batch = 0;
  bool beat_majority = false;  ///< tasks whose own model does not are left out of merges, bases and subsets

  std::vector<std::string> regimes;         ///< all that are asked for
  std::vector<std::string> vector_regimes;  ///< of these, those with a task vector a task
  std::vector<std::string> joint_regimes;   ///< and those with one model of all tasks
  LowRank low_rank;                         ///< of the regime lora
  int first_stage = 0;  ///< the first stage of the model that is trained; those before are frozen
  std::filesystem::path checkpoints;  ///< of regimes that are given; empty: none
  std::vector<std::string> given;     ///< regimes whose models are read from `checkpoints`, not trained

  /// The name of the data that task t has.
  const std::string& data_of(std::size_t t) const { return variants.empty() ? tasks[t] : variants[t].data; }
  /// Whether this run trains the regime: no other's task vectors, and not given.
  bool trains(const std::string& regime_name) const;
  /// The vector_regimes that are trained and used as linearised models.
  std::vector<std::string> linear_regimes() const;
};

/// [finetune], which a run that trains and measures no task vectors lacks.
std::optional<config::Section> finetune_section(config::Config& config);

/// Reads the sections [run], [model], [data] and [finetune] as far as they concern all experiments, and looks
/// whether given checkpoints are there. Throws InputError.
Settings read_settings(config::Config& config, InputFiles& files);

/// A seed for one purpose, from the run's seed: numbers never depend on which rank draws them.
std::uint64_t seed_for(std::uint64_t seed, const std::string& purpose);

}  // namespace taugrid::study
