// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/under_way.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <sstream>
#include <utility>

#include "suite/store/input_file.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;

constexpr const char* prefix = ".finished.";
// A line has stage, first number, numbers, how many are not zero, how many are undecided, the signs' balance.
constexpr std::size_t words = 6;
constexpr const char* whole = "end";

std::vector<fs::path> journals_in(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(prefix)) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

/// The numbers of all whole lines: a kill may have cut the last one of a start.
std::vector<std::int64_t> read_all(const fs::path& folder) {
  std::vector<std::int64_t> read;
  for (const auto& journal : journals_in(folder)) {
    std::istringstream lines(store::InputFile::text(journal).value_or(""));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::array<std::int64_t, words> numbers{};
      for (auto& number : numbers) fields >> number;
      std::string last;
      fields >> last;
      if (fields && last == whole) read.insert(read.end(), numbers.begin(), numbers.end());
    }
  }
  return read;
}

}  // namespace

UnderWay::UnderWay(const Team& team, const fs::path& folder, const std::vector<std::int64_t>& lengths,
                   std::function<void()> flush)
    : team_(team),
      journal_(folder / (prefix + std::to_string(team.rank()))),
      flush_(std::move(flush)),
      finished_(lengths.size()) {
  lines_ = "\n";  // ends one that a kill has cut
  // One rank reads, so that all know the same.
  const auto read = team_.joined(team_.rank() == 0 ? read_all(folder) : std::vector<std::int64_t>{});
  for (std::size_t i = 0; i + words <= read.size(); i += words) {
    const auto stage = static_cast<std::size_t>(read[i]);
    const Range range = {read[i + 1], read[i + 2]};
    if (read[i] < 0 || stage >= lengths.size() || range.begin < 0 || range.count <= 0 ||
        range.count > lengths[stage] - std::min(range.begin, lengths[stage]))
      continue;
    finished_[stage].push_back({range, read[i + 3], read[i + 4], read[i + 5]});
  }
  for (auto& parts : finished_) {
    std::sort(parts.begin(), parts.end(),
              [](const Counted& a, const Counted& b) { return a.range.begin < b.range.begin; });
    std::int64_t end = 0;
    std::erase_if(parts, [&](const Counted& part) {
      if (part.range.begin < end) return true;
      end = part.range.end();
      return false;
    });
  }
}

std::vector<Range> UnderWay::left(std::size_t stage, Range range) const {
  std::vector<Range> parts;
  auto begin = range.begin;
  for (const auto& part : finished_[stage]) {
    if (part.range.end() <= begin) continue;
    if (part.range.begin >= range.end()) break;
    if (part.range.begin > begin) parts.push_back({begin, part.range.begin - begin});
    begin = part.range.end();
  }
  if (begin < range.end()) parts.push_back({begin, range.end() - begin});
  return parts;
}

void UnderWay::finish(std::size_t stage, const Counted& counted) {
  constexpr auto at_least = std::chrono::seconds(2);  // between two journeys to the disk
  lines_ += fmt::format("{} {} {} {} {} {} {}\n", stage, counted.range.begin, counted.range.count,
                        counted.nonzero, counted.undecided, counted.balance, whole);
  if (std::chrono::steady_clock::now() - settled_ > at_least) settle();
}

void UnderWay::settle() {
  if (lines_.size() < 2) return;
  flush_();
  journal_.append(lines_);
  lines_.clear();
  settled_ = std::chrono::steady_clock::now();
}

void UnderWay::remove_journals(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& journal : journals_in(folder)) fs::remove(journal, ignored);
}

std::vector<int> dealt(const std::vector<double>& costs, int ranks) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return costs[a] > costs[b]; });
  std::vector<double> load(static_cast<std::size_t>(ranks));
  std::vector<int> owner(costs.size());
  for (const auto i : order) {
    const auto least = std::min_element(load.begin(), load.end()) - load.begin();
    load[static_cast<std::size_t>(least)] += costs[i];
    owner[i] = static_cast<int>(least);
  }
  return owner;
}

}  // namespace taugrid::merging
