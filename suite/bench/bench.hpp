// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// `taugrid bench`: how fast this build is on this machine, and whether what it computes is right.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace taugrid::bench {

struct Options {
  std::string filter;           ///< regular expression, searched in a case's name; empty: all
  std::string size = "medium";  ///< small, medium, large: which cases
  std::filesystem::path json;   ///< written if not empty, in google/benchmark's form, by rank 0
  std::filesystem::path dump;   ///< keeps inputs and results here, for the peers
  int repetitions = 5;          ///< timed runs of a case, at least
  bool list = false;            ///< print the names alone
  bool roofline = false;        ///< print what bounds each case
  std::string device = "auto";
};

/// Returns the exit code: 0; 1 if a case computed something wrong; 2 if the filter is no regular expression
/// or matches nothing. Kokkos must be initialised. Threads: OMP_NUM_THREADS, 1 where that is not set.
int run(int& argc, char**& argv, const Options& options);

struct VerifyOptions {
  std::string filter;  ///< as for the bench
  std::string device = "auto";
  bool values = false;  ///< print what is recorded in recorded_values.hpp
};

/// Every case of the bench that matches and is not too long for every day, once. Returns the exit code: 0; 1
/// if one computed something wrong, which the last line names; 75 after a request to stop.
int verify(int& argc, char**& argv, const VerifyOptions& options);

}  // namespace taugrid::bench
