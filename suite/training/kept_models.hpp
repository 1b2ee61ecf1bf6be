// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Models on the way of one training, which [finetune] keep and keep_epochs ask for: each in a folder of its
// own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "suite/models/checkpoint.hpp"
#include "suite/study/study.hpp"
#include "suite/training/training.hpp"

namespace taugrid::training {

class KeptModels {
 public:
  /// Has the models of task t in a regime, trained as `how` says. `study` outlives this object.
  KeptModels(const study::Study& study, std::string regime, std::size_t t, Training how);

  /// The updates that are done at the last of them; 0 where there is none.
  std::int64_t last() const;
  /// Writes the model where one is kept after `done` updates. One rank.
  void write(std::int64_t done, const models::State& state) const;
  /// Their fingerprints by the marks' names, as their files have them: those before a kill were written by
  /// another process.
  std::map<std::string, std::string> fingerprints() const;
  /// What is wrong with the first wrong one, as verify_checkpoint().
  std::string verify(const std::map<std::string, std::string>& header) const;

 private:
  std::filesystem::path folder(const Mark& mark) const;

  const study::Study& study_;
  std::string regime_;
  std::size_t t_;
  Training how_;
};

}  // namespace taugrid::training
