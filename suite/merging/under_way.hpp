// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A merge of checkpoints that is under way: the ranks that make it, and what of it is finished. Each rank
// keeps a journal of its own in the folder that is built; the next start reads all of them, and makes the
// rest.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kernels/range.hpp"
#include "suite/merging/sink.hpp"
#include "suite/merging/team.hpp"
#include "suite/store/atomic_file.hpp"

namespace taugrid::merging {

class UnderWay {
 public:
  /// Collective. `lengths`: of each stage's vectors. `flush`: returns when what this rank has written of the
  /// weights is on the disk.
  UnderWay(const Team& team, const std::filesystem::path& folder, const std::vector<std::int64_t>& lengths,
           std::function<void()> flush);

  const Team& team() const { return team_; }
  /// The parts of a range of a stage's vectors that no earlier start has finished.
  std::vector<Range> left(std::size_t stage, Range range) const;
  /// What earlier starts have finished, by place, apart from each other.
  const std::vector<Counted>& earlier(std::size_t stage) const { return finished_[stage]; }
  /// The range was written here. It is in the journal when the next one comes some seconds later, or
  /// settle().
  void finish(std::size_t stage, const Counted& counted);
  /// What was finished is in the journal.
  void settle();
  /// Removes all ranks' journals from a folder that is finished; what stays is no harm. By one rank.
  static void remove_journals(const std::filesystem::path& folder);

 private:
  Team team_;
  store::Journal journal_;
  std::function<void()> flush_;
  std::vector<std::vector<Counted>> finished_;  ///< of each stage
  std::string lines_;                           ///< that are not in the journal yet
  std::chrono::steady_clock::time_point settled_ = std::chrono::steady_clock::now();
};

/// Which of so many ranks makes each piece of work: the dearest first, each by the rank that has least.
std::vector<int> dealt(const std::vector<double>& costs, int ranks);

}  // namespace taugrid::merging
