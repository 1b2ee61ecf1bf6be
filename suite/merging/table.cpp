// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/table.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "suite/merging/matrices/calibrated.hpp"

namespace taugrid::merging {
namespace {

template <class Wanted>
std::vector<std::string> names_where(Wanted wanted) {
  std::vector<std::string> all;
  for (const auto* each : methods())
    if (wanted(*each)) all.emplace_back(each->name);
  return all;
}

}  // namespace

std::shared_ptr<const VectorMethod> Entry::make(config::Section parameters) const {
  auto method = of_vectors(parameters);
  return calibrated(read_calibration(parameters), std::move(method));
}

const std::vector<std::string>& Place::merged_regimes() const {
  return regimes.empty() ? study.settings.vector_regimes : regimes;
}

MakeInRun Entry::read(config::Section parameters, Scope scope) const {
  if (in_run != nullptr && (takes_data() || !scope.of_cluster)) {
    auto maker = in_run(parameters, scope);
    if (!is_merge) return maker;
    return [maker = std::move(maker), calibration = read_calibration(parameters)](Place place) {
      place.calibration = calibration;
      return maker(place);
    };
  }
  return [method = make(parameters), parameters](const Place& place) {
    method->check_values(place.section, 1);
    for (const auto& regime : place.merged_regimes()) {
      if (study::regime(regime).low_rank && method->needs_full_rank())
        parameters.refuse("space", "is full, which takes more singular vectors than the matrices of " +
                                       regime + " have; expected core");
    }
    return method;
  };
}

const std::vector<const Entry*>& methods() {
  static const auto all = [] {
    auto entries = registered_methods();
    std::sort(entries.begin(), entries.end(),
              [](const auto* a, const auto* b) { return a->order < b->order; });
    return entries;
  }();
  return all;
}

std::vector<ledger::Output> method_outputs() {
  std::vector<ledger::Output> all;
  for (const auto* method : methods()) {
    for (const auto& output : method->own_outputs())
      if (std::none_of(all.begin(), all.end(),
                       [&](const ledger::Output& each) { return each.name == output.name; }))
        all.push_back(output);
  }
  return all;
}

const Entry& entry(const std::string& name) {
  for (const auto* each : methods())
    if (name == each->name) return *each;
  throw std::logic_error("no method " + name);
}

const std::vector<std::string>& names() {
  static const auto all = names_where([](const Entry&) { return true; });
  return all;
}

const std::vector<std::string>& names_of_vectors() {
  static const auto all = names_where([](const Entry& each) { return !each.takes_data(); });
  return all;
}

std::shared_ptr<const VectorMethod> make(const std::string& name, config::Section parameters) {
  return entry(name).make(std::move(parameters));
}

}  // namespace taugrid::merging
