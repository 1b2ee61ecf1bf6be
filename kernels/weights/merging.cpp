// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/merging.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "kernels/require.hpp"
#include "kernels/weights/detail/checks.hpp"
#include "kernels/weights/detail/kokkos.hpp"
#include "kernels/weights/detail/merge_host.hpp"
#include "kernels/weights/detail/select_host.hpp"

namespace taugrid::weights {
namespace {

constexpr int trailing_bits = 20;

// Magnitudes that a bracket collects: a small share of all, and never more than 64 MiB of them.
constexpr double small_share = 1.0 / 8, spare = 1.25;
constexpr double most_held = 1 << 24;

void check_stretch(const at::Tensor& stretch, const std::string& name) {
  detail::check_vector(stretch, name);
  require(stretch.scalar_type() == at::kFloat && stretch.is_cpu(), name + " is not float32 on the host");
}

/// A sample looks at one line in so many numbers; 0: the vector is so short that no sample is taken.
std::int64_t sampled_every(std::int64_t length) {
  constexpr std::int64_t is_long = std::int64_t{1} << 20;
  if (length < is_long) return 0;
  // Looks enough, and few enough that the sample does not count beside a pass.
  constexpr std::int64_t looks = 4096, closest = 1024, furthest = 8192;
  return std::clamp(length / looks, closest, furthest) / detail::line * detail::line;
}

detail::Draw draw_of(const Drop& rule, std::int64_t t) {
  const auto vector = static_cast<std::size_t>(t);
  require(rule.densities.empty() || vector < rule.densities.size(),
          "no density of vector " + std::to_string(t));
  const double density = rule.densities.empty() ? rule.density : rule.densities[vector];
  require(density > 0 && density <= 1,
          "a density of " + std::to_string(density) + ", expected one above 0 and at most 1");
  const auto place = rule.scale.size() == 1 ? 0 : vector;
  require(place < rule.scale.size(), "no scale of vector " + std::to_string(t));
  return {rule.seed, t, detail::draws_below(density), rule.scale[place]};
}

/// What a cut leaves.
detail::Largest largest_of(const Cut& cut) {
  const auto bits = std::bit_cast<std::uint32_t>(std::fabs(cut.value));
  return {bits, bits + 1, cut.limit};
}

}  // namespace

KthMagnitude::KthMagnitude(std::int64_t k, std::int64_t length)
    : k_(k), length_(length), every_(sampled_every(length)) {
  require(k > 0, "the k-th largest magnitude, k = " + std::to_string(k) + ", expected at least 1");
  if (every_ > 0) {
    pass_ = Pass::sample;
    counts_.assign(std::size_t{1} << (31 - detail::sample_shift), 0);
  } else {
    begin_histograms();
  }
}

void KthMagnitude::begin_histograms() {
  pass_ = Pass::leading;
  above_ = 0;
  inside_.clear();
  counts_.assign(std::size_t{1} << (31 - trailing_bits), 0);
}

void KthMagnitude::add(const at::Tensor& stretch, const at::Tensor& start) {
  check_stretch(stretch, "stretch");
  if (start.defined()) {
    check_stretch(start, "start");
    require(start.numel() == stretch.numel(), "start has another length than the stretch");
  }
  const auto* x = stretch.const_data_ptr<float>();
  const auto* from = start.defined() ? start.const_data_ptr<float>() : nullptr;
  const auto n = stretch.numel();
  switch (pass_) {
    case Pass::sample:
      return detail::sample_leading(x, from, n, every_, counts_.data());
    case Pass::bracket:
      return detail::collect_between(x, from, n, low_, high_, above_, inside_);
    case Pass::leading:
    case Pass::trailing:
      return start.defined() ? count(stretch - start) : count(stretch);
  }
}

double KthMagnitude::share() const { return pass_ == Pass::sample ? first_share(length_) : 1; }

double KthMagnitude::most_bytes(std::int64_t length) {
  constexpr auto bins = std::size_t{1} << (31 - detail::sample_shift);  // of the sample
  return sizeof(float) * std::min(most_held, spare * small_share * static_cast<double>(length)) +
         sizeof(std::uint64_t) * bins;
}

double KthMagnitude::first_share(std::int64_t length) {
  const auto every = sampled_every(length);
  return every > 0 ? static_cast<double>(detail::looked_at) / static_cast<double>(every) : 1;
}

void KthMagnitude::count(const at::Tensor& stretch) {
  const auto* x = stretch.const_data_ptr<float>();
  if (pass_ == Pass::leading) {
    detail::count_leading(x, stretch.numel(), counts_.data());
  } else {
    detail::count_trailing(x, stretch.numel(), bin_, counts_.data());
  }
}

void KthMagnitude::combine(const Holders& holders) {
  if (pass_ == Pass::bracket) {
    above_ = holders.sums({above_}).front();
    inside_ = holders.joined(inside_);
    return;
  }
  const auto sums = holders.sums({counts_.begin(), counts_.end()});
  counts_.assign(sums.begin(), sums.end());
}

bool KthMagnitude::next() {
  if (pass_ == Pass::sample) {
    if (choose_bracket()) {
      pass_ = Pass::bracket;
    } else {
      begin_histograms();
    }
    return true;
  }
  if (pass_ == Pass::bracket) {
    if (above_ < k_ && k_ <= above_ + static_cast<std::int64_t>(inside_.size())) {
      value_ = choose_inside();
      return false;
    }
    begin_histograms();  // chance had it outside
    return true;
  }
  if (pass_ == Pass::leading) {
    bin_ = choose_bin();
    constexpr std::int64_t few = std::int64_t{1} << 16;
    if (equal_ <= few) {
      low_ = bin_ << trailing_bits;
      high_ = low_ + (1U << trailing_bits);
      above_ = 0;
      pass_ = Pass::bracket;
    } else {
      counts_.assign(std::size_t{1} << trailing_bits, 0);
      pass_ = Pass::trailing;
    }
    return true;
  }
  value_ = std::bit_cast<float>(bin_ << trailing_bits | choose_bin());
  return false;
}

/// Bins of the sample within some deviations of the k-th largest's rank; whether they hold a small part of
/// it.
bool KthMagnitude::choose_bracket() {
  const auto all = static_cast<double>(std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0}));
  const double share = static_cast<double>(k_) / static_cast<double>(length_);
  // Neighbours may be alike: as if eight were one.
  const double deviation = 4.5 * std::sqrt(8 * all * std::max(share * (1 - share), 1 / all));
  const double most = share * all + deviation, least = share * all - deviation;
  double before = 0;
  std::size_t high = counts_.size(), low = 0;
  for (auto bin = counts_.size(); bin-- > 0;) {
    if (before <= least) high = bin + 1;
    before += static_cast<double>(counts_[bin]);
    low = bin;
    if (before >= most) break;
  }
  double inside = 0;
  for (auto bin = low; bin < high; ++bin) inside += static_cast<double>(counts_[bin]);
  low_ = static_cast<std::uint32_t>(low) << detail::sample_shift;
  // Above the last bin is nothing.
  high_ = static_cast<std::uint32_t>(high) << detail::sample_shift;
  if (all == 0 || inside > small_share * all) return false;
  const double held = spare * inside / all * static_cast<double>(length_);
  if (held > most_held) return false;
  inside_.reserve(static_cast<std::size_t>(held));
  return true;
}

/// The k-th largest among inside_, before which `above_` numbers come: in one of some thousand bins.
float KthMagnitude::choose_inside() {
  const int shift = std::max(0, static_cast<int>(std::bit_width(high_ - low_)) - 12);
  std::vector<std::uint32_t> counts((static_cast<std::size_t>(high_ - low_) >> shift) + 1);
  for (const auto x : inside_) ++counts[(detail::bits_of(x) - low_) >> shift];
  auto bin = counts.size() - 1;
  for (; above_ + counts[bin] < k_; --bin) above_ += counts[bin];
  std::vector<float> few;
  few.reserve(counts[bin]);
  const auto begin = low_ + (static_cast<std::uint32_t>(bin) << shift);
  std::int64_t of_bins_above = 0;
  detail::collect_between(inside_.data(), nullptr, std::ssize(inside_), begin, begin + (1U << shift),
                          of_bins_above, few);
  const auto larger = [](float x, float y) { return detail::bits_of(x) > detail::bits_of(y); };
  const auto kth = few.begin() + (k_ - above_ - 1);
  std::nth_element(few.begin(), kth, few.end(), larger);
  const auto magnitude = *kth;
  above_ += std::count_if(few.begin(), few.end(), [&](float other) { return larger(other, magnitude); });
  equal_ = std::count_if(few.begin(), few.end(),
                         [&](float other) { return detail::bits_of(other) == detail::bits_of(magnitude); });
  return magnitude;
}

/// The bin that holds the k-th largest; its numbers are `equal_`.
std::uint32_t KthMagnitude::choose_bin() {
  auto bin = counts_.size();
  equal_ = 0;
  while (above_ + equal_ < k_ && bin > 0) {
    above_ += equal_;
    equal_ = static_cast<std::int64_t>(counts_[--bin]);
  }
  require(above_ + equal_ >= k_, "the vector has less than " + std::to_string(k_) + " numbers");
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

void drop_each(const Drop& rule, std::int64_t t, std::int64_t begin, const at::Tensor& stretch,
               const at::Tensor& probability, bool rescales, at::Tensor& out) {
  check_stretch(stretch, "stretch");
  check_stretch(out, "out");
  detail::check_vector(probability, "probability");
  require(probability.scalar_type() == at::kDouble && probability.is_cpu(),
          "probability is not float64 on the host");
  require(out.numel() == stretch.numel() && probability.numel() == stretch.numel(),
          "out or probability has another length than the stretch");
  detail::drop_each(draw_of(rule, t), begin, stretch.const_data_ptr<float>(),
                    probability.const_data_ptr<double>(), rescales, stretch.numel(),
                    out.mutable_data_ptr<float>());
}

void MagnitudeSum::add(const at::Tensor& stretch) {
  check_stretch(stretch, "stretch");
  detail::add_magnitudes(stretch.const_data_ptr<float>(), stretch.numel(), place_, parts_);
  place_ += stretch.numel();
}

double MagnitudeSum::sum() const { return std::accumulate(parts_.begin(), parts_.end(), 0.0); }

MergeCount merge(const MergeRule& rule, std::int64_t begin, const Stretches& tau, at::Tensor& out) {
  detail::require_kokkos();
  check_stretch(out, "out");
  detail::check_vectors(tau.x, out, "tau");
  if (tau.start.defined()) detail::check_vectors({&tau.start, 1}, out, "start");
  const auto t = tau.x.size();
  require(t > 0, "no vectors to merge");
  require(rule.weight.size() == t, "as many weights as vectors are expected");
  require(rule.cut.empty() || rule.cut.size() == t, "as many cuts as vectors are expected");
  require(rule.outliers.empty() || rule.outliers.size() == t,
          "as many cuts of outliers as vectors are expected");
  require(rule.claim.empty() || rule.claim.size() == t, "as many claims as vectors are expected");
  require(rule.divisor != 0, "the divisor is 0");
  std::vector<detail::Draw> draws;
  if (rule.drop) {
    for (std::size_t i = 0; i < t; ++i) draws.push_back(draw_of(*rule.drop, static_cast<std::int64_t>(i)));
  }
  std::vector<detail::Largest> outliers;
  for (const auto& cut : rule.outliers) outliers.push_back(largest_of(cut));
  std::vector<detail::Term> terms;
  for (std::size_t i = 0; i < t; ++i) {
    // What is zero adds nothing: where the cut is zero, nothing is trimmed.
    terms.push_back({tau.x[i].const_data_ptr<float>(), rule.weight[i], draws.empty() ? nullptr : &draws[i],
                     largest_of(rule.cut.empty() ? Cut{} : rule.cut[i]),
                     outliers.empty() ? nullptr : &outliers[i], rule.claim.empty() ? 0 : rule.claim[i]});
  }
  const auto count =
      detail::merge({terms, tau.start.defined() ? tau.start.const_data_ptr<float>() : nullptr,
                     static_cast<detail::Vote>(rule.vote), rule.divide == MergeRule::Divide::voters,
                     rule.divisor, rule.claim.empty() ? 0 : rule.claims, rule.rounds_products},
                    begin, out.numel(), out.mutable_data_ptr<float>());
  const Range undecided{count.undecided_begin, count.undecided_end - count.undecided_begin};
  return {count.nonzero, count.undecided, count.balance, count.finite, {undecided, count.undecided_nonzero}};
}

}  // namespace taugrid::weights
