// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/difference.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/weights/compare.hpp"
#include "suite/error.hpp"
#include "suite/merging/checkpoints.hpp"
#include "suite/merging/layers.hpp"
#include "suite/store/quoted.hpp"
#include "suite/store/tensor_folder.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;
using Folder = store::TensorFolder;
using store::quoted;

constexpr std::int64_t stretch = std::int64_t{1} << 20;
constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

const std::uint16_t* halves(const at::Tensor& x) {
  return x.defined() ? static_cast<const std::uint16_t*>(x.const_data_ptr()) : nullptr;
}
const float* floats(const at::Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }

/// Compares a and b [n], or a − start and b − start, float32.
weights::Compared compared(const at::Tensor& a, const at::Tensor& b, const at::Tensor& start) {
  return weights::compare(floats(a), floats(b), floats(start), a.numel());
}

/// Adds what some numbers of a and b [n], of any types, say; of a − start and b − start where this is
/// defined.
void add_numbers(Difference& sums, const at::Tensor& a, const at::Tensor& b, const at::Tensor& start) {
  const auto is_half = [](const at::Tensor& x) { return !x.defined() || x.scalar_type() == at::kBFloat16; };
  const auto as_float = [](const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; };
  auto all = is_half(a) && is_half(b) && is_half(start)
                 ? weights::compare(halves(a), halves(b), halves(start), a.numel())
                 : compared(as_float(a), as_float(b), as_float(start));
  if (!all.finite) {  // without what is not
    auto x = as_float(a), y = as_float(b);
    if (start.defined()) {
      x = at::sub(x, as_float(start));
      y = at::sub(y, as_float(start));
    }
    const auto finite = at::isfinite(x).logical_and_(at::isfinite(y));
    const auto left_out = a.numel() - finite.sum().item<std::int64_t>();
    const double base = all.base;
    all = compared(x.where(finite, 0), y.where(finite, 0), {});
    all.base = base;
    all.equal -= left_out;  // where zeros stand now
    sums.not_finite += left_out;
  }
  sums.numbers += a.numel();
  sums.aa += all.aa;
  sums.ad += all.ad;
  sums.dd += all.dd;
  sums.bb += all.aa + 2 * all.ad + all.dd;
  sums.base += all.base;
  sums.largest = std::max(sums.largest, static_cast<double>(all.largest));
  sums.equal += all.equal;
  sums.opposed += all.opposed;
}

bool have_same_numbers(const Folder& a, const Folder& b, const std::string& name) {
  const auto x = a.tensor(name), y = b.tensor(name);
  return x.scalar_type() == y.scalar_type() && at::equal(x, y);
}

}  // namespace

std::string kind_of(const std::string& name) {
  std::string kind;
  for (const auto step : steps_of(name)) {
    if (!kind.empty()) kind += '.';
    kind += is_number(step) ? "*" : step;
  }
  return kind;
}

std::optional<std::int64_t> layer_of(const std::string& name) {
  for (const auto step : steps_of(name))
    if (is_number(step) && step.size() < 10) return std::stoll(std::string(step));
  return std::nullopt;
}

std::string layer_name(std::optional<std::int64_t> layer) {
  return layer ? fmt::format("layer {}", *layer) : "outside layers";
}

void Difference::add(const Difference& other) {
  numbers += other.numbers;
  aa += other.aa;
  bb += other.bb;
  dd += other.dd;
  ad += other.ad;
  base += other.base;
  largest = std::max(largest, other.largest);
  equal += other.equal;
  opposed += other.opposed;
  not_finite += other.not_finite;
}

double Difference::norm_a() const { return std::sqrt(aa); }
double Difference::norm_b() const { return std::sqrt(std::max(0.0, bb)); }
double Difference::norm() const { return std::sqrt(dd); }
double Difference::cosine() const {
  const auto norms = norm_a() * norm_b();
  return norms > 0 ? std::clamp((aa + ad) / norms, -1.0, 1.0) : no_number;
}
double Difference::relative() const { return aa > 0 ? norm() / norm_a() : no_number; }

Differences differences(const fs::path& first, const fs::path& second, const fs::path& base,
                        const std::function<void()>& go_on) {
  const at::NoGradGuard no_grad;
  const auto a = open_weights(first), b = open_weights(second);
  const auto start = base.empty() ? std::nullopt : std::optional(open_weights(base));
  Differences differences;
  differences.bytes = static_cast<double>(a.bytes() + b.bytes() + (start ? start->bytes() : 0));
  for (const auto& entry : b.tensors()) {
    if (!a.has(entry.first)) differences.only_in_b.push_back(entry.first);
  }
  at::Tensor own_a, own_b, own_start;
  for (const auto& [name, info] : a.tensors()) {
    go_on();
    if (!b.has(name)) {
      differences.only_in_a.push_back(name);
      continue;
    }
    const auto& its = b.tensors().at(name);
    if (its.shape != info.shape) {
      differences.other_shapes.push_back(
          fmt::format("{} [{}] and [{}]", name, fmt::join(info.shape, ","), fmt::join(its.shape, ",")));
      continue;
    }
    if (!at::isFloatingType(info.scalar) || !at::isFloatingType(its.scalar)) {
      if (!have_same_numbers(a, b, name)) differences.other_numbers.push_back(name);
      continue;
    }
    if (start && (!start->has(name) || start->tensors().at(name).shape != info.shape))
      throw InputError(fmt::format("{}: has no {} [{}], which {} and {} have; expected the base of both",
                                   base.string(), quoted(name), fmt::join(info.shape, ","), first.string(),
                                   second.string()));
    TensorDifference tensor{
        name, kind_of(name), layer_of(name), info.shape, at::toString(info.scalar), at::toString(its.scalar),
        {}};
    const auto count = c10::multiply_integers(info.shape);
    for (std::int64_t begin = 0; begin < count; begin += stretch) {
      go_on();
      const auto n = std::min(stretch, count - begin);
      add_numbers(tensor.sums, a.numbers(name, begin, n, own_a), b.numbers(name, begin, n, own_b),
                  start ? start->numbers(name, begin, n, own_start) : at::Tensor());
    }
    differences.tensors.push_back(std::move(tensor));
  }
  if (differences.tensors.empty())
    throw InputError(
        fmt::format("{} and {} have no floating-point tensor of one name and shape; expected two models "
                    "of one architecture",
                    first.string(), second.string()));
  return differences;
}

std::vector<Group> grouped(const Differences& differences, By by) {
  std::vector<Group> groups;
  for (const auto& tensor : differences.tensors) {
    const auto name = by == By::tensor ? tensor.name
                      : by == By::kind ? tensor.kind
                                       : layer_name(tensor.layer);
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& other) { return other.name == name; });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{name, 0, {}});
    ++group->tensors;
    group->sums.add(tensor.sums);
  }
  if (by == By::layer)
    std::stable_sort(groups.begin(), groups.end(), [](const auto& x, const auto& y) {
      const auto number = [](const Group& group) {
        return group.name.starts_with("layer ") ? std::stoll(group.name.substr(6)) : -1;
      };
      return number(x) < number(y);
    });
  return groups;
}

}  // namespace taugrid::merging
