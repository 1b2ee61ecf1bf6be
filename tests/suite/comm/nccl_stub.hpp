// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace taugrid::test {

struct NcclCall {
  std::string name;
  std::size_t count;    ///< of "init": the ranks
  int type;             ///< as ncclDataType_t; of "init": the rank
  std::int64_t stream;  ///< the rehearsal device's
};

/// What was called since the last time.
std::vector<NcclCall> take_nccl_calls();

/// The next call does its work and returns this ncclResult_t.
void fail_next_nccl_call(int code);

}  // namespace taugrid::test
