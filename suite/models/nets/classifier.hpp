// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The classifier that a model of pictures brings: its last linear map, a part of θ. Tasks whose /head is of
// kind words read its rows; others have rows of their own, and leave it as it is.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "suite/models/encoder.hpp"
#include "suite/models/registry.hpp"

namespace taugrid::models {

struct Classifier {
  int weight = -1, bias = -1;  ///< blocks [classes, width] and [classes, 1]; −1 where the model brings none
};

/// Appends NAME.weight and NAME.bias, where config.json says num_classes.
inline Classifier add_classifier(autodiff::Layout& layout, const std::string& name, std::int64_t classes,
                                 std::int64_t width) {
  if (classes == 0) return {};
  const auto weight = layout.add(autodiff::Kind::projection, {name + ".weight"}, {classes, width});
  const auto bias = layout.add(autodiff::Kind::projection, {name + ".bias"}, {classes}, {classes, 1});
  return {static_cast<int>(weight), static_cast<int>(bias)};
}

/// PyTorch's start of a linear map of `width` numbers: weights and biases even in ±1/√width.
inline void start_linear(at::Tensor& view, std::int64_t width, at::Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(width));
  view.uniform_(-bound, bound, generator);
}

/// num_classes of a config.json; 0 where it says none.
inline std::int64_t classes_of(const Keys& keys) { return keys.integer("num_classes", 0); }

}  // namespace taugrid::models
