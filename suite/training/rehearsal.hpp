// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A step's computation on random inputs, for measuring how long it takes.
#pragma once

#include "suite/schedule/load.hpp"
#include "suite/training/update.hpp"

namespace taugrid::training {

/// One update of `inputs` samples in this regime, at a learning rate of 0.
schedule::Rehearsal rehearse_update(const study::Study& study, const std::string& regime,
                                    const comm::Communicator& alone, std::int64_t inputs);

/// Loss and gradient of the regime "standard" alone: several may run on threads of one process.
schedule::Rehearsal rehearse_gradient(const study::Study& study, std::int64_t inputs);

/// Random samples as task 0's training has them, on the device.
Term random_term(const study::Study& study, std::int64_t inputs);

}  // namespace taugrid::training
