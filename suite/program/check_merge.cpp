// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid merge --check: one screen about what a recipe would merge.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "suite/error.hpp"
#include "suite/merging/check.hpp"
#include "suite/merging/recipe.hpp"
#include "suite/program/commands.hpp"
#include "suite/program/short_name.hpp"

namespace taugrid::program {
namespace {

using merging::Check;

constexpr std::size_t kinds_most = 16, layers_most = 8, models_most = 8, name_most = 44;

std::string percent(double tau, double base) {
  return base > 0 ? fmt::format("{:.3g} %", 100 * std::sqrt(tau / base)) : tau > 0 ? "θ0 = 0" : "-";
}

/// Layers first … last that lie side by side.
struct Layers {
  std::int64_t first, last;
  merging::Distances sums;
};

/// How unlike two rows are, in the logarithm of ‖τ‖/‖θ0‖, whichever model tells them apart most; a layer that
/// did not change, or is not there, is unlike all others.
double unlikeness(const merging::Distances& x, const merging::Distances& y) {
  const auto level = [](const merging::Distances& row, std::size_t t) {
    return row.base[t] <= 0 ? -2e3 : row.tau[t] <= 0 ? -1e3 : std::log(row.tau[t] / row.base[t]) / 2;
  };
  double most = 0;
  for (std::size_t t = 0; t < x.tau.size(); ++t) most = std::max(most, std::abs(level(x, t) - level(y, t)));
  return most;
}

/// The layers in a few rows: the two neighbours that are most alike become one until few are left, so that a
/// layer that stands out keeps its own.
std::vector<Layers> in_few_rows(const Check& check) {
  std::vector<Layers> rows;
  for (const auto& [layer, sums] : check.layers)
    if (layer) rows.push_back({*layer, *layer, sums});
  while (rows.size() > layers_most) {
    std::size_t alike = 1;
    for (std::size_t i = 2; i < rows.size(); ++i)
      if (unlikeness(rows[i - 1].sums, rows[i].sums) < unlikeness(rows[alike - 1].sums, rows[alike].sums))
        alike = i;
    rows[alike - 1].last = rows[alike].last;
    rows[alike - 1].sums.add(rows[alike].sums);
    rows[alike - 1].sums.name = fmt::format("layers {}-{}", rows[alike - 1].first, rows[alike].last);
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(alike));
  }
  return rows;
}

/// Rows by kind, those that moved most first where there are many, and by layer; columns by model.
void print_distances(const Check& check) {
  const auto all = check.models.size(), columns = std::min(all, models_most);
  fmt::print("\n‖τ‖ / ‖θ0‖{:>{}}", "tensors", name_most + 1 - 10 + 8);
  for (std::size_t t = 0; t < columns; ++t) fmt::print(" {:>10}", fmt::format("[{}]", t + 1));
  fmt::print("\n");
  auto kinds = check.kinds;
  const auto most = [](const merging::Distances& kind) {
    double farthest = 0;
    for (std::size_t t = 0; t < kind.tau.size(); ++t)
      if (kind.base[t] > 0) farthest = std::max(farthest, kind.tau[t] / kind.base[t]);
    return farthest;
  };
  if (kinds.size() > kinds_most) {
    std::stable_sort(kinds.begin(), kinds.end(),
                     [&](const auto& x, const auto& y) { return most(x) > most(y); });
    kinds.resize(kinds_most);
  }
  const auto row = [&](const merging::Distances& kind) {
    fmt::print("{:<{}} {:>7}", short_name(kind.name, name_most), name_most + 1, kind.tensors);
    for (std::size_t t = 0; t < columns; ++t) fmt::print(" {:>10}", percent(kind.tau[t], kind.base[t]));
    fmt::print("\n");
  };
  for (const auto& kind : kinds) row(kind);
  if (kinds.size() < check.kinds.size())
    fmt::print("… of {} kinds those that moved most\n", check.kinds.size());
  merging::Distances whole{"all"};
  for (const auto& kind : check.kinds) whole.add(kind);
  row(whole);
  if (const auto layers = in_few_rows(check); layers.size() > 1) {
    fmt::print("\n");
    if (const auto outside = check.layers.find(std::nullopt); outside != check.layers.end())
      row(outside->second);
    for (const auto& some : layers) row(some.sums);
  }
  if (all < 2) return;
  fmt::print("\ncosines of task vectors\n");
  for (std::size_t s = 0; s < columns; ++s) {
    fmt::print("[{}]", s + 1);
    for (std::size_t t = 0; t < columns; ++t) {
      const auto norms = std::sqrt(check.norms[s * all + t] * check.norms[t * all + s]);
      fmt::print(" {:>7}", norms > 0 ? fmt::format("{:.3f}", check.gram[s * all + t] / norms) : "-");
    }
    fmt::print("\n");
  }
}

}  // namespace

int check_merge(const std::filesystem::path& path, const std::filesystem::path& out) {
  const auto began = std::chrono::steady_clock::now();
  const auto recipe = merging::Recipe::read(path, out, /*needs_out=*/false);
  const auto check = merging::check(recipe, [] {});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  fmt::print("{} of {} models{}\n", recipe.method_name, recipe.models.size(),
             recipe.out.empty() ? "" : " into " + as_line(recipe.out.string()));
  for (const auto& base : check.bases) fmt::print("base {}\n", as_line(base.string()));
  for (std::size_t t = 0; t < check.models.size(); ++t)
    fmt::print(" [{}] {}\n", t + 1, as_line(check.models[t].string()));
  if (!check.kinds.empty()) print_distances(check);
  fmt::print("\n");
  for (const bool wrong : {true, false}) {
    for (const auto& finding : check.findings) {
      if (finding.wrong == wrong) fmt::print("{} {}\n", wrong ? "WRONG" : "note ", as_line(finding.line));
    }
  }
  fmt::print("{} numbers, {:.1f} s, {:.2f} GB/s\n", check.numbers, seconds, check.bytes / 1e9 / seconds);
  if (check.wrong())
    throw InputError(path.string() + ": a merge would be wrong, see above; nothing was written");
  fmt::print("the models belong together\n");
  return 0;
}

}  // namespace taugrid::program
