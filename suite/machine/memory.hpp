// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How this process takes memory from the system.
#pragma once

namespace taugrid::machine {

/// Activations come and go by the megabyte: kept by the process, not given back and faulted in anew each
/// time. Vectors of all parameters, which are more than that keeps, come in huge pages where the system has
/// some: faulting them in then takes a third of the time. To be called before there are tensors.
void keep_and_widen_memory();

}  // namespace taugrid::machine
