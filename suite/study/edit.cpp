// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/edit.hpp"

#include <ATen/ATen.h>

#include "suite/study/keys.hpp"
#include "suite/study/regime.hpp"
#include "suite/study/study.hpp"

namespace taugrid::study {

Edit Edit::single(std::string regime, std::size_t t, const std::vector<double>& alpha) {
  return together(std::move(regime), {t}, alpha);
}

Edit Edit::together(std::string regime, std::vector<std::size_t> tasks, const std::vector<double>& alpha) {
  const auto each = at::tensor(alpha, at::kDouble).view({-1, 1});
  auto rows = each.repeat({1, static_cast<std::int64_t>(tasks.size())});
  return terms(std::move(regime), std::move(tasks), std::move(rows));
}

Edit Edit::sum(std::string regime, std::vector<std::size_t> tasks, const std::vector<double>& alpha) {
  return {Kind::sum, std::move(regime), std::move(tasks), at::tensor(alpha, at::kDouble)};
}

Edit Edit::along(std::string regime, std::vector<std::size_t> tasks, const std::vector<double>& alpha,
                 at::Tensor direction) {
  return {Kind::direction, std::move(regime), std::move(tasks), at::tensor(alpha, at::kDouble),
          std::move(direction)};
}

Edit Edit::weighted(std::string regime, std::vector<std::size_t> tasks, const at::Tensor& factors,
                    const std::vector<double>& alpha, at::Tensor direction) {
  if (!study::regime(regime).linear)
    return along(std::move(regime), std::move(tasks), alpha, std::move(direction));
  auto rows = at::tensor(alpha, at::kDouble).outer(factors);
  return terms(std::move(regime), std::move(tasks), std::move(rows));
}

bool Edit::is_linear() const { return !regime.empty() && study::regime(regime).linear; }

std::vector<std::string> Edit::needs(const Study& study, std::size_t b) const {
  if (regime.empty()) return {};
  if (kind == Kind::joint) return {key::joint(regime)};
  std::vector<std::string> keys;
  const bool adds_tangents = kind == Kind::terms && is_linear();
  if (!adds_tangents) keys = study.vectors.needs(regime, tasks);
  if (!is_linear()) return keys;
  keys.push_back(key::base_features(study.tasks.name(b)));
  if (adds_tangents)
    for (const auto t : tasks) keys.push_back(key::features(regime, study.tasks.name(t)));
  return keys;
}

}  // namespace taugrid::study
