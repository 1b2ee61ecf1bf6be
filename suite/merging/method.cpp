// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/method.hpp"

#include <ATen/ATen.h>

namespace taugrid::merging {

void Method::check(const std::string&, const std::vector<double>&) const {}

std::optional<double> Method::factor(std::size_t) const { return std::nullopt; }

bool Method::takes(const std::string&) const { return true; }

std::filesystem::path Method::checkpoint(const std::string&) const { return {}; }

void Method::add_units(std::vector<schedule::WorkUnit>&, const std::string&,
                       const schedule::RunFolder&) const {}

std::vector<std::string> Method::needs(const std::string&) const { return {}; }

store::TensorFile Method::part(const ModelToMerge&, schedule::UnitContext&) const { return {}; }

void Method::count_parts(Tally&, const std::string&, const std::vector<std::size_t>&) const {}

std::int64_t Method::part_bytes(std::size_t) const { return 0; }

Tally Method::part_work(const Study& study, const std::string& regime_name, std::size_t t) const {
  Tally tally(study);
  tally.vectors(regime_name, {t}).stores(part_bytes(t), 1);
  count_parts(tally, regime_name, {t});
  return tally;
}

double Method::passes(const Study&, std::size_t) const { return 1; }

Lengths Method::lengths(const std::string&) const { return {}; }

void Method::write(Results&, const Finished&, const std::string&, const std::string&,
                   const std::string&) const {}

RecipeNote Method::recipe_note(const std::string&, const std::vector<std::size_t>&) const { return {}; }

void count_merge(Tally& tally, const Method& method, const std::string& regime_name,
                 const std::vector<std::size_t>& tasks) {
  const auto& study = tally.study();
  const auto count = tasks.size();
  method.count(tally, regime_name, count, count);
  if (count > study.vectors.kept())  // each pass reads again
    tally.reads((method.passes(study, count) - 1) * 4 * static_cast<double>(study.model.layout().size()) *
                static_cast<double>(count));
}

}  // namespace taugrid::merging
