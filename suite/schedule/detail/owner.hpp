// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Who holds a run folder, as its owner file says.
#pragma once

#include <optional>
#include <string>

namespace taugrid::schedule::detail {

struct Owner {
  std::string who;      ///< for people: "process 5 on node7, Slurm job 3, since …"
  std::string token;    ///< random: tells this hold from all others
  std::string machine;  ///< the kernel's boot, which host names and containers do not tell apart
  std::string pids;     ///< the process's number space
  int pid = 0;
  std::string started;  ///< when the process started, in the kernel's ticks
  long beat = 0;        ///< counts its signs of life
};

/// This process, with a new token.
Owner this_process();
/// Empty where there is no such process.
std::string start_of_process(int pid);
/// All beats have one length, so that a sign of life is written in place.
std::string text_of(const Owner& owner);
/// Nothing where the text is no owner's: half written, or of somebody else.
std::optional<Owner> parse_owner(const std::string& text);

}  // namespace taugrid::schedule::detail
