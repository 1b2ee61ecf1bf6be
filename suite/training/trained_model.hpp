// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Units that leave a model behind.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "suite/schedule/work_unit.hpp"
#include "suite/study/study.hpp"
#include "suite/training/loop.hpp"
#include "suite/training/trainer.hpp"

namespace taugrid::training {

/// What is wrong with the model in a folder, empty where it is the one that a unit made: the unit's header
/// has its fingerprint by this name. A file that is there and cannot be read is an InputError of its own.
std::string verify_checkpoint(const std::filesystem::path& folder,
                              const std::map<std::string, std::string>& header,
                              const std::string& fingerprint);

/// As many steps of the trainer as `losses` [steps], on the device, has room for, which are their losses and
/// what a stopped training goes on with. The trainer outlives them. `what` names the unit.
Steps steps_with_losses(const study::Study& study, Trainer& trainer, const Training& how,
                        const std::string& what, const at::Tensor& losses);

/// Trains to the end, goes on where it was stopped, and writes the model to a folder, as one that began at
/// the θ0 with `start` as its fingerprint. `what` names the unit. Its file: loss [steps], and the header for
/// verify_checkpoint().
store::TensorFile train_and_write(const study::Study& study, Trainer& trainer, const Training& how,
                                  const std::string& what, const std::filesystem::path& folder,
                                  const std::string& start, schedule::UnitContext& context);

}  // namespace taugrid::training
