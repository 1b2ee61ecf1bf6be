// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// One log a rank. Times are UTC; reruns append.
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
  explicit RankLog(const std::filesystem::path& file);
  /// One line, which the system has when this returns.
  void info(const std::string& line) const;
  void warn(const std::string& line) const;

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace taugrid::schedule
