// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A merge looked at before it is made: whether the models belong together, and how far each is from its base.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suite/merging/recipe.hpp"

namespace taugrid::merging {

struct Finding {
  bool wrong;        ///< a merge would be no sensible model; else worth a look
  std::string line;  ///< what, where, what was expected
};

/// Squared norms over some tensors, of each model where it has them.
struct Distances {
  std::string name;  ///< the tensors' kind or layer
  std::size_t tensors = 0;
  std::vector<std::int64_t> numbers = {};
  std::vector<double> base = {};  ///< ‖θ0‖² there
  std::vector<double> tau = {};   ///< ‖τ_t‖²

  /// Adds those of other tensors; the name stays.
  void add(const Distances& other);
};

struct Check {
  std::vector<std::filesystem::path> bases, models;
  std::vector<Finding> findings;
  std::vector<Distances> kinds;  ///< in the order of their first tensors; empty where weights do not fit
  std::map<std::optional<std::int64_t>, Distances> layers;  ///< of the same tensors, by layer_of()
  std::vector<double> gram;   ///< ⟨τ_s, τ_t⟩ [T,T], row by row, over the places where both are
  std::vector<double> norms;  ///< ‖τ_s‖² there
  std::int64_t numbers = 0;
  double bytes = 0;  ///< of all files of weights

  bool wrong() const;
};

/// Compares configurations, tokenizers and weights of a recipe's models with those of the base, in the
/// recipe's vocabulary, and reads all numbers once, stretch by stretch. Layers of a slice are compared with
/// those of θ0 that its vectors are taken from or, where a method takes none, with the base's own of the same
/// numbers. What is wrong is found, not thrown. `go_on` may throw.
Check check(const Recipe& recipe, const std::function<void()>& go_on);

}  // namespace taugrid::merging
