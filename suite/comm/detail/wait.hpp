// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Waiting without spinning: a rank that waits for minutes leaves its core to those that work.
#pragma once

#include <mpi.h>

#include <string_view>

namespace taugrid::comm::detail {

/// Completes `request`, asleep between looks (20 µs growing to 1 ms). Throws std::runtime_error naming
/// `call`.
void wait_patiently(MPI_Request& request, std::string_view call);

}  // namespace taugrid::comm::detail
