// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// One log a rank: RUN/log/rank-00000.log. Times are UTC; reruns append.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace spdlog {
class logger;
}

namespace taugrid::schedule {

class RankLog {
 public:
  /// Throws InputError where the file cannot be opened.
  RankLog(const std::filesystem::path& folder, int rank);
  /// One line, on disk when this returns.
  void info(const std::string& line) const;
  void warn(const std::string& line) const;

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace taugrid::schedule
