// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Weights and biases of linear maps and layer norms, which transformers are made of.
#pragma once

#include <string>

#include "kernels/autodiff/ops.hpp"
#include "suite/models/encoder.hpp"

namespace taugrid::models {

/// The blocks NAME.weight and NAME.bias, by their numbers in the layout.
struct Affine {
  std::size_t weight = 0, bias = 0;
};

inline Affine add_norm(autodiff::Layout& layout, const std::string& name, std::int64_t width) {
  const auto weight = layout.add(autodiff::Kind::norm, {name + ".weight"}, {width});
  return {weight, layout.add(autodiff::Kind::norm, {name + ".bias"}, {width})};
}

inline Affine add_linear(autodiff::Layout& layout, autodiff::Kind weight_kind, autodiff::Kind bias_kind,
                         const std::string& name, std::int64_t out, std::int64_t in) {
  const auto weight = layout.add(weight_kind, {name + ".weight"}, {out, in});
  return {weight, layout.add(bias_kind, {name + ".bias"}, {out})};
}

/// Queries, keys and values as one map: their matrices [width, width] and biases, of these names, one behind
/// the other.
inline Affine add_qkv(autodiff::Layout& layout, const std::string& query, const std::string& key,
                      const std::string& value, std::int64_t width) {
  const auto weight = layout.add(autodiff::Kind::attention_weight,
                                 {query + ".weight", key + ".weight", value + ".weight"}, {width, width});
  return {weight, layout.add(autodiff::Kind::attention_bias,
                             {query + ".bias", key + ".bias", value + ".bias"}, {width})};
}

template <class T>
T normed(const T& x, const Blocks<T>& p, const Affine& at, double epsilon) {
  return autodiff::layer_norm(x, p[at.weight], p[at.bias], epsilon);
}

}  // namespace taugrid::models
