// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace taugrid::comm {

/// The host, cores and device of one rank.
struct RankInfo {
  int rank = 0;
  int local_rank = 0;
  std::string host;
  int pid = 0;
  int cores = 0;          ///< that this process may use
  std::string core_list;  ///< which: "0-3,8"
  int threads = 0;
  std::string device;  ///< "cpu", "cuda:0 NVIDIA H100 80GB HBM3"
};

}  // namespace taugrid::comm
