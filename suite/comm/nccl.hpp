// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// NCCL as this process has it: the one that LibTorch's CUDA part brought along, since two do not get on.
#pragma once

#include <string>

namespace taugrid::comm {

/// Empty where NCCL can be used; else why not.
std::string nccl_problem();

/// "2.28.9"; empty where there is none.
std::string nccl_version();

}  // namespace taugrid::comm
