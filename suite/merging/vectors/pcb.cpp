// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// PCB-Merging (Du et al. 2024, "Parameter Competition Balancing for Model Merging", section 3), as the
// authors' code has it. Of T vectors, with |τ_t| clipped to between its share `clip` from below and from
// above (τ̃_t), and N(x) = (x − min x) / (max x − min x):
//
//   intra-balancing  exp(T · N(|τ̃_t|)²)
//   inter-balancing  tanh(τ_t · Σ τ_s), or tanh(τ_t · Σ sign(τ_s) N(|τ̃_s|))
//   scores           β_t = their product
//   drop             what is below the share `density` with the largest β_t is raised to its least
//   rescale          s_t = N(β_t);   τ = Σ w_t s_t τ̃_t / Σ s_t
//
// The paper writes softmax where the code has exp and tanh. The constant exp(−T) that is taken out of β here
// changes no s_t, and keeps it finite. Where all that stays scores alike, s_t is 1 there.
#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "kernels/weights/merging.hpp"
#include "suite/merging/table.hpp"
#include "suite/merging/vectors/ranked_drop.hpp"

namespace taugrid::merging {
namespace {

/// Calls see(t, numbers) with stretches of several vectors, all of each.
using SeeEach = std::function<void(const std::function<void(std::size_t, const at::Tensor&)>&)>;

/// The k-th largest magnitude of each of several vectors of a length; of k = 0 nothing.
std::vector<float> kth_largest(const std::vector<std::int64_t>& k, std::int64_t length, const SeeEach& each) {
  std::vector<weights::KthMagnitude> search;
  std::vector<bool> goes_on;
  for (const auto rank : k) {
    search.emplace_back(std::max<std::int64_t>(rank, 1), length);
    goes_on.push_back(rank > 0);
  }
  while (std::find(goes_on.begin(), goes_on.end(), true) != goes_on.end()) {
    each([&](std::size_t i, const at::Tensor& x) {
      if (goes_on[i]) search[i].add(x);
    });
    for (std::size_t i = 0; i < k.size(); ++i) goes_on[i] = goes_on[i] && search[i].next();
  }
  std::vector<float> values;
  for (std::size_t i = 0; i < k.size(); ++i) values.push_back(k[i] > 0 ? search[i].value() : 0);
  return values;
}

/// As int(length · share) of the authors' code, a place in ascending order.
std::int64_t place(double share, std::int64_t length) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(length) * share), 0,
                                  length - 1);
}

class Pcb final : public VectorMethod {
 public:
  PerVector density = {};
  double clip = 0;
  bool by_tensor = false, sums_normalised = false;

  bool spans_tensors() const override { return !by_tensor; }
  /// Clipping searches in two passes, scores are counted in one and cut in two.
  MergeWork work(const std::vector<NamedTensor>& tensors, std::size_t count) const override {
    std::int64_t all = 0;
    for (const auto& tensor : tensors) all += tensor.range.count;
    const double searched = weights::KthMagnitude::most_bytes(by_tensor ? longest_of(tensors) : all);
    return {.passes = 6, .bytes = 2 * static_cast<double>(count) * searched};  // low and high at once
  }
  std::shared_ptr<const VectorMethod> with(const std::string& parameter,
                                           const std::vector<double>& values) const override {
    if (parameter != "density") return nullptr;
    auto other = std::make_shared<Pcb>(*this);
    other->density.set(values);
    return other;
  }

 protected:
  std::int64_t run(const TaskVectors& vectors, const std::vector<double>& weights, const Sink& sink,
                   const Team&) const override {
    if (!by_tensor) return run_in(vectors, vectors.range(), weights, sink);
    std::int64_t nonzero = 0;
    for (const auto& tensor : vectors.tensors()) nonzero += run_in(vectors, tensor.range, weights, sink);
    return nonzero;
  }

 private:
  /// Each vector is clipped to magnitudes from low to high, and rescaled by its scores from cut to top.
  struct Bounds {
    std::vector<float> low, high, cut, top;
  };

  std::int64_t run_in(const TaskVectors& vectors, Range range, const std::vector<double>& weights,
                      const Sink& sink) const {
    constexpr double least = 1e-12;  // of Σ s, as the authors' code has it
    if (range.count == 0) return 0;
    Bounds bounds;
    find_clip(vectors, range, bounds);
    find_cut(vectors, range, bounds);
    std::int64_t nonzero = 0;
    vectors.visit(vectors.all(), range, 1, [&](std::int64_t begin, std::span<const at::Tensor> tau) {
      const auto scores = scores_of(tau, bounds);
      auto sum = at::zeros(tau.front().sizes(), at::kDouble), scale = at::zeros_like(sum);
      for (std::size_t t = 0; t < tau.size(); ++t) {
        const double cut = bounds.cut[t], span = bounds.top[t] - cut;
        const auto x = scores[t].to(at::kDouble);
        const auto s = span > 0 ? (x.clamp_min(cut) - cut) / span : (x >= cut).to(at::kDouble);
        sum += s * (tau[t].sign() * clipped(tau[t], bounds, t)) * weights[t];
        scale += s;
      }
      const auto merged = (sum / scale.clamp_min(least)).to(at::kFloat);
      nonzero += at::count_nonzero(merged).item<std::int64_t>();
      sink.put(begin, merged);
    });
    return nonzero;
  }

  static at::Tensor clipped(const at::Tensor& x, const Bounds& bounds, std::size_t t) {
    return x.abs().clamp(bounds.low[t], bounds.high[t]).to(at::kDouble);
  }

  /// N of the clipped magnitudes; 0 where all are alike.
  static at::Tensor normalised(const at::Tensor& x, const Bounds& bounds, std::size_t t) {
    const double low = bounds.low[t], span = bounds.high[t] - low;
    return span > 0 ? (clipped(x, bounds, t) - low) / span : at::zeros(x.sizes(), at::kDouble);
  }

  /// β e^(−T), float32.
  std::vector<at::Tensor> scores_of(std::span<const at::Tensor> tau, const Bounds& bounds) const {
    std::vector<at::Tensor> size;
    auto sum = at::zeros(tau.front().sizes(), at::kDouble);
    for (std::size_t t = 0; t < tau.size(); ++t) {
      size.push_back(normalised(tau[t], bounds, t));
      sum += sums_normalised ? tau[t].sign() * size[t] : tau[t];
    }
    std::vector<at::Tensor> scores;
    const auto count = static_cast<double>(tau.size());
    for (std::size_t t = 0; t < tau.size(); ++t)
      scores.push_back(((size[t].square() - 1) * count).exp().mul((tau[t] * sum).tanh()).to(at::kFloat));
    return scores;
  }

  void find_clip(const TaskVectors& vectors, Range range, Bounds& bounds) const {
    const auto n = range.count, count = static_cast<std::int64_t>(vectors.count());
    // The first T searches are those of the lower bounds, the others of the upper.
    const auto highest =
        std::max<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(n) * (1 - clip) - 1), 0);
    std::vector<std::int64_t> k(static_cast<std::size_t>(count), n - place(clip, n));
    k.resize(static_cast<std::size_t>(2 * count), n - highest);
    const auto largest = kth_largest(k, n, [&](const auto& see) {
      vectors.visit(vectors.all(), range, 1, [&](std::int64_t, std::span<const at::Tensor> tau) {
        for (std::size_t t = 0; t < tau.size(); ++t) {
          see(t, tau[t]);
          see(tau.size() + t, tau[t]);
        }
      });
    });
    bounds.low.assign(largest.begin(), largest.begin() + count);
    bounds.high.assign(largest.begin() + count, largest.end());
  }

  /// The scores of the places that a cut is at; below 0 where hardly any vector agrees with the sum.
  void find_cut(const TaskVectors& vectors, Range range, Bounds& bounds) const {
    const auto count = vectors.count();
    std::vector<std::int64_t> above(count), below(count), first(count), last(count);
    bounds.top.assign(count, -std::numeric_limits<float>::infinity());
    const auto each = [&](const auto& see) {
      vectors.visit(vectors.all(), range, 1, [&](std::int64_t, std::span<const at::Tensor> tau) {
        const auto scores = scores_of(tau, bounds);
        for (std::size_t t = 0; t < count; ++t) see(t, scores[t]);
      });
    };
    each([&](std::size_t t, const at::Tensor& x) {
      above[t] += at::count_nonzero(x > 0).item<std::int64_t>();
      below[t] += at::count_nonzero(x < 0).item<std::int64_t>();
      bounds.top[t] = std::max(bounds.top[t], x.max().item<float>());
    });
    for (std::size_t t = 0; t < count; ++t) {
      const auto at = place(1 - density.of(t), range.count), k = range.count - at;
      if (k <= above[t]) first[t] = k;
      if (at < below[t]) last[t] = at + 1;
    }
    const auto positive = kth_largest(first, range.count, [&](const auto& see) {
      each([&](std::size_t t, const at::Tensor& x) { see(t, x.clamp_min(0)); });
    });
    const auto negative = kth_largest(last, range.count, [&](const auto& see) {
      each([&](std::size_t t, const at::Tensor& x) { see(t, x.clamp_max(0)); });
    });
    for (std::size_t t = 0; t < count; ++t) bounds.cut.push_back(positive[t] - negative[t]);
  }
};

std::shared_ptr<const VectorMethod> make_pcb(config::Section parameters) {
  auto method = std::make_shared<Pcb>();
  method->density.all = parameters.real(
      "density", "The share of each vector's numbers, those with the highest scores, that stays", 0.1,
      config::some_share);
  method->clip = parameters.real(
      "clip",
      "The share of each vector's magnitudes that is raised to the next one, and of those that are lowered "
      "(the authors' summary of the method: 0.0001, their script for images: 0.01)",
      1e-4, {0, 0.25});
  method->sums_normalised =
      parameters.word("agreement",
                      "What a number is multiplied by in inter-balancing: the vectors' sum, or that of their "
                      "normalised numbers (the authors' script for images)",
                      "sum", {"sum", "normalised"}) == "normalised";
  method->by_tensor =
      parameters.word("scope", "What shares are of: the whole vector (the authors), or each tensor by itself",
                      "vector", {"vector", "tensor"}) == "tensor";
  return method;
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    pcb, 69, make_pcb, nullptr,
    "PCB-Merging (Du et al. 2024): weighs each number by its size within its vector and by how far it agrees "
    "with the others', and drops those that weigh least")
