// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "suite/error.hpp"
#include "suite/schedule/scheduler.hpp"

namespace taugrid::schedule {

namespace {

// Keys become file names, a slash two underscores: no two keys may end in one file.
bool fit_for_a_file(const std::string& key) {
  const auto fit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '.' || c == '_' || c == '-' || c == '+';
  };
  return !key.empty() && key.size() < 200 && key.front() != '.' && key.front() != '/' && key.back() != '/' &&
         std::all_of(key.begin(), key.end(), fit) && key.find("__") == std::string::npos &&
         key.find("//") == std::string::npos && key.find("_/") == std::string::npos &&
         key.find("/_") == std::string::npos;
}

}  // namespace

void check_units(const std::vector<WorkUnit>& units, const std::function<bool(const std::string&)>& there) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!fit_for_a_file(units[i].key)) {
      throw InputError(fmt::format("unit \"{}\": the name is unfit for a file", units[i].key));
    }
    if (!index.emplace(units[i].key, i).second) {
      throw InputError(fmt::format("unit {} is there twice", units[i].key));
    }
  }
  for (const auto& unit : units) {
    for (const auto& need : unit.needs) {
      if (!index.contains(need) && !(there && there(need))) {
        throw InputError(fmt::format("unit {} needs {}, which no unit computes", unit.key, need));
      }
    }
  }

  // Depth first, without recursion: chains may be long. On the path and met again: a cycle.
  enum class Mark { unseen, on_path, clear };
  std::vector<Mark> marks(units.size(), Mark::unseen);
  for (std::size_t start = 0; start < units.size(); ++start) {
    std::vector<std::pair<std::size_t, std::size_t>> path;  // unit, how many of its needs were followed
    const auto enter = [&](std::size_t unit) {
      marks[unit] = Mark::on_path;
      path.emplace_back(unit, 0);
    };
    if (marks[start] == Mark::unseen) {
      enter(start);
    }
    while (!path.empty()) {
      auto& [unit, followed] = path.back();
      if (followed == units[unit].needs.size()) {
        marks[unit] = Mark::clear;
        path.pop_back();
        continue;
      }
      const auto need = index.find(units[unit].needs[followed++]);
      if (need == index.end()) {
        continue;
      }
      if (marks[need->second] == Mark::unseen) {
        enter(need->second);
      } else if (marks[need->second] == Mark::on_path) {
        std::string names;
        auto at =
            std::find_if(path.begin(), path.end(), [&](auto& step) { return step.first == need->second; });
        for (; at != path.end(); ++at) {
          names += units[at->first].key + " needs ";
        }
        throw InputError(fmt::format("units wait for each other: {}{}", names, need->first));
      }
    }
  }
}

}  // namespace taugrid::schedule
