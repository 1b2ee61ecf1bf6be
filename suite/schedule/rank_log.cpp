// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/rank_log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include "suite/error.hpp"

namespace taugrid::schedule {

RankLog::RankLog(const std::filesystem::path& file) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_st>(file.string());
    logger_ = std::make_shared<spdlog::logger>(file.filename().string(), std::move(sink));
  } catch (const spdlog::spdlog_ex& error) {
    throw InputError(error.what());
  }
  logger_->set_formatter(std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                                                                     spdlog::pattern_time_type::utc));
  logger_->flush_on(spdlog::level::info);
}

void RankLog::info(const std::string& line) const { logger_->info(line); }
void RankLog::warn(const std::string& line) const { logger_->warn(line); }

}  // namespace taugrid::schedule
