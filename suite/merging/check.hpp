// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A merge looked at before it is made: whether the models belong together, and how far each is from its base.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace taugrid::merging {

struct Finding {
  bool wrong;        ///< a merge would be no sensible model; else worth a look
  std::string line;  ///< what, where, what was expected
};

/// Squared norms and inner products over tensors of one kind.
struct Distances {
  std::string kind;  ///< names with `*` in the place of numbers
  std::size_t tensors = 0;
  std::int64_t numbers = 0;
  double base = 0;          ///< ‖θ0‖²
  std::vector<double> tau;  ///< ‖τ_t‖² of each model
};

struct Check {
  std::vector<Finding> findings;
  std::vector<Distances> kinds;  ///< in the order of their first tensors; empty where weights do not fit
  std::vector<double> gram;      ///< ⟨τ_s, τ_t⟩ [T,T], row by row
  double base = 0;               ///< ‖θ0‖²
  std::int64_t numbers = 0;
  double bytes = 0;  ///< of all files of weights

  bool wrong() const;
};

/// Compares configurations, tokenizers and weights of `models` with those of `base`, and reads all numbers
/// once, stretch by stretch. What is wrong is found, not thrown. `go_on` may throw.
Check check(const std::filesystem::path& base, const std::vector<std::filesystem::path>& models,
            const std::function<void()>& go_on);

}  // namespace taugrid::merging
