// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// SCE, tensor by tensor (Wan et al. 2024, FuseChat): select, calculate, erase.
//
//   select      the places where the τ_t differ most: of those whose variance over t is not 0, the share
//               select_topk with the largest; all else of each τ_t is zero
//   calculate   w_t = Σ τ_t² / Σ_s Σ τ_s², of what was selected
//   erase       γ = sign(Σ τ_t), + where they cancel;   τ = Σ w_t τ_t / Σ w_t over those of sign γ
//
// mergekit counts the tensors alike where their mean squares are small; `least_energy` says how small.
#include <ATen/ATen.h>

#include <limits>

#include "kernels/weights/merging.hpp"
#include "suite/merging/table.hpp"

namespace taugrid::merging {
namespace {

/// The variance of each place's numbers: in double, so that equal ones have none.
at::Tensor variance(std::span<const at::Tensor> tau) {
  const auto count = static_cast<double>(tau.size());
  auto mean = at::zeros(tau.front().sizes(), at::kDouble);
  for (const auto& x : tau) mean += x;
  mean /= count;
  auto sum = at::zeros_like(mean);
  for (const auto& x : tau) sum += (x - mean).square();
  return (sum / count).to(at::kFloat);
}

class Sce final : public VectorMethod {
 public:
  Sce(double share, double least_energy) : share_(share), least_energy_(least_energy) {}

  void check(const std::string& what, const std::vector<double>& weights) const override {
    require_alike(what, "sce", weights);
  }
  /// The squares take a pass beside the merge's; selecting one that counts and two that search.
  MergeWork work(const std::vector<NamedTensor>& tensors, std::size_t) const override {
    if (share_ >= 1) return {.passes = 2};
    return {.passes = 5, .bytes = weights::KthMagnitude::most_bytes(longest_of(tensors))};
  }
  std::shared_ptr<const VectorMethod> with(const std::string& parameter,
                                           const std::vector<double>& values) const override {
    return parameter == "select_topk" ? std::make_shared<Sce>(values.front(), least_energy_) : nullptr;
  }

 protected:
  std::int64_t run(const TaskVectors& vectors, const std::vector<double>&, const Sink& sink,
                   const Team&) const override {
    std::int64_t nonzero = 0;
    for (const auto& tensor : vectors.tensors()) {
      const auto selected = cut_of(vectors, tensor.range);
      const auto w = energies(vectors, tensor.range, selected);
      each_selected(vectors, tensor.range, selected,
                    [&](std::int64_t begin, const std::vector<at::Tensor>& tau) {
                      const auto merged = erased(tau, w);
                      nonzero += at::count_nonzero(merged).item<std::int64_t>();
                      sink.put(begin, merged);
                    });
    }
    return nonzero;
  }

 private:
  /// Which variances are selected: all of a cut of 0.
  weights::Cut cut_of(const TaskVectors& vectors, Range range) const {
    if (share_ >= 1) return {};
    const auto each = [&](const std::function<void(std::int64_t, const at::Tensor&)>& see) {
      vectors.visit(vectors.all(), range, 1,
                    [&](std::int64_t begin, std::span<const at::Tensor> tau) { see(begin, variance(tau)); });
    };
    std::int64_t differ = 0;
    each([&](std::int64_t, const at::Tensor& x) { differ += at::count_nonzero(x).item<std::int64_t>(); });
    const auto k = static_cast<std::int64_t>(share_ * static_cast<double>(differ));
    if (k == 0) return {std::numeric_limits<float>::infinity(), 0};
    weights::KthMagnitude kth(k, range.count);
    do {
      each([&](std::int64_t, const at::Tensor& x) { kth.add(x); });
    } while (kth.next());
    weights::Cut cut{kth.value()};
    if (kth.above() + kth.equal() == k) return cut;
    auto left = k - kth.above();
    each([&](std::int64_t begin, const at::Tensor& x) {
      if (left == 0) return;
      if (const auto place = weights::find_magnitude(x, kth.value(), left); place >= 0)
        cut.limit = begin + place + 1;
    });
    return cut;
  }

  /// Calls see(begin, τ) with what is selected.
  template <class See>
  void each_selected(const TaskVectors& vectors, Range range, const weights::Cut& cut, const See& see) const {
    vectors.visit(vectors.all(), range, 1, [&](std::int64_t begin, std::span<const at::Tensor> tau) {
      std::vector<at::Tensor> selected(tau.begin(), tau.end());
      if (share_ < 1) {
        const auto spread = variance(tau);
        const auto place = at::arange(begin, begin + spread.numel());
        const auto stays = (spread > cut.value) | ((spread == cut.value) & (place < cut.limit));
        for (auto& x : selected) x = at::where(stays, x, 0.0F);
      }
      see(begin, selected);
    });
  }

  /// w [T]; the sums are the same however a tensor is cut into stretches.
  std::vector<float> energies(const TaskVectors& vectors, Range range, const weights::Cut& cut) const {
    std::vector<weights::MagnitudeSum> squares(vectors.count());
    each_selected(vectors, range, cut, [&](std::int64_t, const std::vector<at::Tensor>& tau) {
      for (std::size_t t = 0; t < tau.size(); ++t) squares[t].add(tau[t].square());
    });
    double all = 0;
    for (const auto& sum : squares) all += sum.sum();
    const bool are_alike = all == 0 || all / static_cast<double>(range.count) < least_energy_;
    std::vector<float> w;
    for (const auto& sum : squares)
      w.push_back(static_cast<float>(are_alike ? 1 / static_cast<double>(squares.size()) : sum.sum() / all));
    return w;
  }

  /// τ of x and their weights.
  static at::Tensor erased(const std::vector<at::Tensor>& x, const std::vector<float>& w) {
    constexpr double least = 1e-6;  // as mergekit has it, where hardly any weight is left
    auto elected = at::zeros_like(x.front());
    for (const auto& each : x) elected += each;
    const auto sign = at::where(elected >= 0, 1.0F, -1.0F);
    auto sum = at::zeros_like(elected), weight = at::zeros_like(elected);
    for (std::size_t t = 0; t < x.size(); ++t) {
      const auto counts = (x[t].sign() == sign).to(at::kFloat) * w[t];
      sum += x[t] * counts;
      weight += counts;
    }
    return sum / weight.clamp_min(least);
  }

  double share_, least_energy_;
};

std::shared_ptr<const VectorMethod> make_sce(config::Section parameters) {
  const double share = parameters.real(
      "select_topk", "The share of each tensor's places, those where the vectors differ most, that stays", 1,
      config::some_share);
  const double least = parameters.real("least_energy",
                                       "Vectors count alike in tensors where the mean squares of their "
                                       "numbers add up to less (mergekit: 1e-6)",
                                       0, {0, 1});
  return std::make_shared<Sce>(share, least);
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(sce, 66, make_sce, nullptr,
                       "SCE (Wan et al. 2024): selects the places where the vectors differ most, weights "
                       "each vector by its squares "
                       "there, and erases the numbers of the sign that has less",
                       false)
