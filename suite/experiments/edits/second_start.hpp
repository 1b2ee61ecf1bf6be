// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A second pre-trained model θ0' of the study's architecture, from which every task is fine-tuned too, by the
// same batches as from θ0.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "suite/experiments/experiment.hpp"
#include "suite/training/training.hpp"

namespace taugrid::experiments {

class SecondStart {
 public:
  /// `training`: how each regime is trained. The study outlives it.
  SecondStart(const Study& study, std::filesystem::path path,
              std::map<std::string, training::Training> training)
      : study_(study), path_(std::move(path)), training_(std::move(training)) {}

  /// Reads the model, of which key `other` of the section is the folder; no weights where work is only
  /// counted. Throws InputError where it has not the tensors of the study's model, or has its weights.
  void read(const config::Section& section);

  const std::filesystem::path& path() const { return path_; }
  /// θ0', on the device.
  const at::Tensor& theta() const { return start_.theta; }
  /// The checkpoint of a task's model that was fine-tuned from it, and how it is read.
  std::filesystem::path folder(const std::string& regime, std::size_t t) const;
  study::Begun tuned(const std::string& regime, std::size_t t) const;
  /// What is measured of both starts' vectors: cosine, norm, across_norm, distance, start_norm (see
  /// mixed_starts.cpp), and sum [P], Σ τ'.
  store::TensorFile vectors(const std::string& regime, const schedule::UnitContext& context) const;
  /// Adds the unit key::other_fine_tune(), which trains it.
  void add_training(std::vector<schedule::WorkUnit>& units, const std::string& regime, std::size_t t) const;

 private:
  store::TensorFile fine_tune(const std::string& regime, std::size_t t, schedule::UnitContext& context) const;

  const Study& study_;
  std::filesystem::path path_;
  std::map<std::string, training::Training> training_;
  models::State start_ = {};
  std::string fingerprint_;
};

}  // namespace taugrid::experiments
