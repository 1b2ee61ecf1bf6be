// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How two models of one architecture differ, tensor by tensor: a = θ_A and b = θ_B themselves or, where a
// base is given, their task vectors a = θ_A − θ0 and b = θ_B − θ0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace taugrid::merging {

/// Sums over numbers of a and b, in double; those of several tensors add up.
struct Difference {
  std::int64_t numbers = 0;
  double aa = 0, bb = 0, dd = 0, ad = 0;  ///< ⟨a,a⟩, ⟨b,b⟩, ⟨d,d⟩ and ⟨a,d⟩ of d = b − a
  double base = 0;                        ///< ⟨θ0,θ0⟩, where there is a base
  double largest = 0;                     ///< max |d|
  std::int64_t equal = 0;                 ///< numbers that are the same
  std::int64_t opposed = 0;               ///< numbers with other signs, none of them 0
  std::int64_t not_finite = 0;            ///< NaN or infinity on one side at least; no sum has them

  void add(const Difference& other);
  double norm_a() const;
  double norm_b() const;
  double norm() const;      ///< ‖b − a‖
  double cosine() const;    ///< NaN where a or b is zero
  double relative() const;  ///< ‖b − a‖ / ‖a‖; NaN where a is zero
};

struct TensorDifference {
  std::string name;
  std::string kind;                   ///< the name with `*` in the place of its numbers
  std::optional<std::int64_t> layer;  ///< the first number in the name
  std::vector<std::int64_t> shape;
  std::string type_a, type_b;
  Difference sums;
};

struct Differences {
  std::vector<TensorDifference> tensors;          ///< floating-point ones that both have
  std::vector<std::string> only_in_a, only_in_b;  ///< names
  std::vector<std::string> other_shapes;          ///< of tensors that both have: "NAME [..] and [..]"
  std::vector<std::string> other_numbers;         ///< tensors of integers that differ
  double bytes = 0;                               ///< of all files
};

/// Reads the folders stretch by stretch. `base` may be empty. `go_on` is called now and then, and may throw.
/// Throws InputError where a folder cannot be read, or the base lacks a tensor that both have.
Differences differences(const std::filesystem::path& a, const std::filesystem::path& b,
                        const std::filesystem::path& base, const std::function<void()>& go_on);

/// The name with `*` in the place of each step that is a number: one for all layers.
std::string kind_of(const std::string& name);
/// The first step of the name that is a number.
std::optional<std::int64_t> layer_of(const std::string& name);
/// "layer 3", or "outside layers".
std::string layer_name(std::optional<std::int64_t> layer);

/// Tensors of one kind, one layer or all, in the order of their first ones.
enum class By { tensor, kind, layer };
struct Group {
  std::string name;
  std::size_t tensors = 0;
  Difference sums;
};
std::vector<Group> grouped(const Differences& differences, By by);

}  // namespace taugrid::merging
