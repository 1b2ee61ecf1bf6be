// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/merging.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>

#include "kernels/require.hpp"
#include "kernels/weights/detail/checks.hpp"
#include "kernels/weights/detail/kokkos.hpp"
#include "kernels/weights/detail/merge_host.hpp"

namespace taugrid::weights {
namespace {

constexpr int trailing_bits = 20;

void check_stretch(const at::Tensor& stretch, const std::string& name) {
  detail::check_vector(stretch, name);
  require(stretch.scalar_type() == at::kFloat && stretch.is_cpu(), name + " is not float32 on the host");
}

detail::Draw draw_of(const Drop& rule, std::int64_t t) {
  require(rule.density > 0 && rule.density <= 1,
          "a density of " + std::to_string(rule.density) + ", expected one above 0 and at most 1");
  return {rule.seed, t, static_cast<std::uint64_t>(std::llround(std::ldexp(rule.density, 32))),
          rule.rescale ? static_cast<float>(1 / rule.density) : 1.0F};
}

}  // namespace

KthMagnitude::KthMagnitude(std::int64_t k) : k_(k), counts_(std::size_t{1} << (31 - trailing_bits)) {
  require(k > 0, "the k-th largest magnitude, k = " + std::to_string(k) + ", expected at least 1");
}

void KthMagnitude::add(const at::Tensor& stretch) {
  check_stretch(stretch, "stretch");
  const auto* x = stretch.const_data_ptr<float>();
  if (pass_ == 0) {
    detail::count_leading(x, stretch.numel(), counts_.data());
  } else if (few_) {
    detail::collect_trailing(x, stretch.numel(), bin_, inside_);
  } else {
    detail::count_trailing(x, stretch.numel(), bin_, counts_.data());
  }
}

bool KthMagnitude::next() {
  if (pass_ == 0) {
    bin_ = choose_bin();
    constexpr std::int64_t few = std::int64_t{1} << 16;
    few_ = equal_ <= few;
    if (!few_) counts_.assign(std::size_t{1} << trailing_bits, 0);
    pass_ = 1;
    return true;
  }
  std::uint32_t low = 0;
  if (few_) {
    const auto kth = inside_.begin() + (k_ - above_ - 1);
    std::nth_element(inside_.begin(), kth, inside_.end(), std::greater<>());
    low = *kth;
    above_ +=
        std::count_if(inside_.begin(), inside_.end(), [low](std::uint32_t other) { return other > low; });
    equal_ = std::count(inside_.begin(), inside_.end(), low);
  } else {
    low = choose_bin();
  }
  value_ = std::bit_cast<float>(bin_ << trailing_bits | low);
  return false;
}

/// The bin that holds the k-th largest; its numbers are `equal_`.
std::uint32_t KthMagnitude::choose_bin() {
  auto bin = static_cast<std::int64_t>(counts_.size());
  equal_ = 0;
  while (above_ + equal_ < k_) {
    above_ += equal_;
    require(--bin >= 0, "the vector has less than " + std::to_string(k_) + " numbers");
    equal_ = static_cast<std::int64_t>(counts_[static_cast<std::size_t>(bin)]);
  }
  return static_cast<std::uint32_t>(bin);
}

std::int64_t find_magnitude(const at::Tensor& stretch, float magnitude, std::int64_t& n) {
  check_stretch(stretch, "stretch");
  const auto* x = stretch.const_data_ptr<float>();
  for (std::int64_t i = 0; i < stretch.numel(); ++i) {
    if (std::fabs(x[i]) == magnitude && --n == 0) return i;
  }
  return -1;
}

void drop(const Drop& rule, std::int64_t t, std::int64_t begin, const at::Tensor& stretch, at::Tensor& out) {
  check_stretch(stretch, "stretch");
  check_stretch(out, "out");
  require(out.numel() == stretch.numel(), "out has another length than the stretch");
  detail::drop(draw_of(rule, t), begin, stretch.const_data_ptr<float>(), stretch.numel(),
               out.mutable_data_ptr<float>());
}

MergeCount merge(const MergeRule& rule, std::int64_t begin, std::span<const at::Tensor> tau,
                 at::Tensor& out) {
  detail::require_kokkos();
  check_stretch(out, "out");
  detail::check_vectors(tau, out, "tau");
  const auto t = tau.size();
  require(t > 0, "no vectors to merge");
  require(rule.weight.size() == t, "as many weights as vectors are expected");
  require(rule.cut.empty() || rule.cut.size() == t, "as many cuts as vectors are expected");
  require(rule.claim.empty() || rule.claim.size() == t, "as many claims as vectors are expected");
  require(rule.divisor != 0, "the divisor is 0");
  std::vector<detail::Draw> draws;
  if (rule.drop) {
    for (std::size_t i = 0; i < t; ++i) draws.push_back(draw_of(*rule.drop, static_cast<std::int64_t>(i)));
  }
  std::vector<detail::Term> terms;
  for (std::size_t i = 0; i < t; ++i) {
    const auto cut = rule.cut.empty() ? Cut{} : rule.cut[i];
    const auto bits = std::bit_cast<std::uint32_t>(std::fabs(cut.value));
    // What is zero adds nothing: where the cut is zero, nothing is trimmed.
    terms.push_back({tau[i].const_data_ptr<float>(), rule.weight[i], draws.empty() ? nullptr : &draws[i],
                     bits, bits + 1, cut.limit, rule.claim.empty() ? 0 : rule.claim[i]});
  }
  const auto found =
      detail::merge({terms, static_cast<detail::Vote>(rule.vote), rule.divide == MergeRule::Divide::voters,
                     rule.divisor, rule.claim.empty() ? 0 : rule.claims},
                    begin, out.numel(), out.mutable_data_ptr<float>());
  return {found.nonzero, found.undecided, found.balance};
}

}  // namespace taugrid::weights
