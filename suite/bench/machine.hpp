// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, measured in this process with the threads in use.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace taugrid::bench {

struct Peaks {
  double flops;  ///< a second, of a float32 matrix product of 1,024³ by LibTorch's BLAS
  double
      bytes;  ///< a second, of the triad a = b + s·c over 3·134 MB (J. McCalpin, STREAM): 12 bytes an entry
};

/// The best of several runs each.
Peaks measure_peaks();

/// Host, processor, threads, load, versions: what a reader needs to judge the figures.
std::vector<std::pair<std::string, std::string>> describe_machine();

}  // namespace taugrid::bench
