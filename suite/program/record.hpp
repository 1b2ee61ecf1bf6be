// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a run's numbers were computed by, and from which units its results.h5 was made.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "suite/comm/runtime.hpp"
#include "suite/schedule/run_folder.hpp"
#include "suite/schedule/work_unit.hpp"
#include "suite/store/results.hpp"

namespace taugrid::program {

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Rank 0's, on all ranks: what one rank sees (variables that an mpirun without -x does not hand on, a
/// library of another version) must not decide how many collective calls it makes. Collective.
Pairs of_first_rank(const comm::Communicator& world, const Pairs& mine, const char* what);

/// "taugrid 0.1 (revision), LibTorch 2.4.0, cpu: AMD EPYC 7B13, AVX2": what decides the last bits of a
/// number.
std::string computed_by(const comm::Runtime& runtime);

/// Enters what this launch computes with into RUN/computed_by, a line each. Throws InputError, naming both,
/// where its ranks differ, or another start differed, unless `mixed`. Collective. Returns all lines.
std::vector<std::string> admit(const comm::Runtime& runtime, const schedule::RunFolder& folder, bool mixed);

/// What rank 0 reads in the headers of the finished units.
struct Finish {
  std::vector<store::UnitRow> rows;
  std::vector<std::string> computed_by;  ///< sorted; each once
  std::string digest;                    ///< of all headers: a unit that is computed again has another
};
Finish read_finished(const schedule::RunFolder& folder, const std::vector<schedule::WorkUnit>& units);

/// Keeps the digest of results.h5 beside it, in RUN/results.digest, by which damage is known. One rank, once
/// the file is there.
void keep_digest(const std::filesystem::path& results);
/// Whether results.h5 is there, as it was written, and made of these units. Says so where it is damaged.
bool made_of(const std::filesystem::path& results, const std::string& digest);

}  // namespace taugrid::program
