// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/matrices/calibrated.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>
#include <utility>

#include "suite/merging/matrices/dealt_tensors.hpp"
#include "suite/merging/matrices/on_matrices.hpp"

namespace taugrid::merging {
namespace {

at::Tensor calibrate(const at::Tensor& merged, std::span<const at::Tensor> tau, double least) {
  const auto [u, s, vh] = thin_svd(merged.to(at::kDouble));
  const auto coordinates = vh * s.unsqueeze(1);  // [r,n]
  auto counted = at::zeros_like(s);
  for (const auto& vector : tau) {
    const auto along = at::mm(u.t(), vector.view(merged.sizes()).to(at::kDouble));
    const auto square = along.square().sum(1);
    const auto share = at::where(square.gt(0), (coordinates * along).sum(1) / square, least);
    counted.add_(share.clamp_min(least));
  }
  return at::mm(u * (static_cast<double>(tau.size()) / counted), coordinates).to(at::kFloat);
}

bool is_matrix(const NamedTensor& tensor) { return tensor.shape.size() == 2 && tensor.range.count > 0; }

double flops(const NamedTensor& tensor, std::size_t count) {
  if (!is_matrix(tensor)) return 0;
  const auto m = static_cast<double>(tensor.shape[0]), n = static_cast<double>(tensor.shape[1]);
  return svd_flops(m, n) + 2 * (static_cast<double>(count) + 1) * m * n * std::min(m, n);
}

/// Puts all tensors, of which `merged_of` gives what is merged of each.
template <class MergedOf>
std::int64_t put_all(const TaskVectors& vectors, double least, const MergedOf& merged_of, const Sink& sink,
                     const Team& team) {
  return put_tensors(
      vectors, [&](const NamedTensor& tensor) { return flops(tensor, vectors.count()); },
      [&](const NamedTensor& tensor, const Sink::See& see) {
        const auto range = tensor.range;
        if (range.count == 0) return;
        const auto merged = merged_of(tensor);
        if (!is_matrix(tensor) || !merged.any().template item<bool>()) return see(range.begin, merged);
        vectors.visit(vectors.all(), range, range.count,
                      [&](std::int64_t begin, std::span<const at::Tensor> tau) {
                        see(begin, calibrate(merged.view(tensor.shape), tau, least).flatten());
                      });
      },
      sink, team);
}

class Calibrated final : public VectorMethod {
 public:
  Calibrated(std::shared_ptr<const VectorMethod> method, double least)
      : method_(std::move(method)), least_(least) {}

  void check(const std::string& what, const std::vector<double>& weights) const override {
    method_->check(what, weights);
  }
  bool takes(const std::string& regime) const override { return method_->takes(regime); }
  bool needs_full_rank() const override { return method_->needs_full_rank(); }
  bool spans_tensors() const override { return method_->spans_tensors(); }
  void check_values(const std::string& what, std::size_t count) const override {
    method_->check_values(what, count);
  }
  std::shared_ptr<const VectorMethod> with(const std::string& parameter,
                                           const std::vector<double>& values) const override {
    auto other = method_->with(parameter, values);
    return other == nullptr ? nullptr : std::make_shared<Calibrated>(std::move(other), least_);
  }

  MergeWork work(const std::vector<NamedTensor>& tensors, std::size_t count) const override {
    auto work = method_->work(tensors, count);
    const auto more = work_of_calibration(tensors, count);
    work.passes += more.passes;
    work.flops += more.flops;
    work.at_once = std::max(work.at_once, more.at_once);
    work.bytes += more.bytes;
    for (const auto& tensor : tensors)
      if (spans_tensors()) work.bytes += 4 * static_cast<double>(tensor.range.count);
    return work;
  }

  // Else each rank makes other tensors.
  bool is_shared() const override { return !spans_tensors() || method_->is_shared(); }

 protected:
  std::int64_t run(const TaskVectors& vectors, const std::vector<double>& weights, const Sink& sink,
                   const Team& all_ranks) const override {
    const Team team = is_shared() ? all_ranks : Team();
    if (spans_tensors())
      return put_calibrated(merged_by_method(vectors, weights, team), vectors, least_, sink, team);
    return put_all(
        vectors, least_,
        [&](const NamedTensor& tensor) {
          return merged_by_method(PartOfVectors(vectors, {tensor}), weights, {});
        },
        sink, team);
  }

 private:
  at::Tensor merged_by_method(const TaskVectors& vectors, const std::vector<double>& weights,
                              const Team& team) const {
    const auto first = vectors.range().begin;
    auto merged = at::zeros({vectors.length()}, at::kFloat);
    method_->merge(vectors, weights, Sink([&](std::int64_t begin, const at::Tensor& tau) {
                     merged.narrow(0, begin - first, tau.numel()).copy_(tau);
                   }),
                   team);
    return merged;
  }

  std::shared_ptr<const VectorMethod> method_;
  double least_;
};

}  // namespace

double read_calibration(config::Section& parameters) {
  return parameters.real(
      "calibration",
      "c of singular value calibration (Li et al. 2026), above 0: of each merged matrix, before λ, the "
      "singular values of directions in which it has the tasks' parts more than once become smaller, and "
      "those it has less than once larger, by 1/c at most (FusionBench: 0.1 or 1, of λτ, which is c/λ here); "
      "0: none",
      0, {0, 1e3});
}

std::shared_ptr<const VectorMethod> calibrated(double least, std::shared_ptr<const VectorMethod> method) {
  if (least == 0) return method;
  return std::make_shared<Calibrated>(std::move(method), least);
}

std::int64_t put_calibrated(const at::Tensor& tau, const TaskVectors& vectors, double least, const Sink& sink,
                            const Team& team) {
  const auto first = vectors.range().begin;
  return put_all(
      vectors, least,
      [&](const NamedTensor& tensor) {
        return tau.narrow(0, tensor.range.begin - first, tensor.range.count);
      },
      sink, team);
}

MergeWork work_of_calibration(const std::vector<NamedTensor>& tensors, std::size_t count) {
  MergeWork work;
  for (const auto& tensor : tensors) {
    work.flops += flops(tensor, count);
    if (is_matrix(tensor)) work.at_once = std::max(work.at_once, static_cast<double>(tensor.range.count));
  }
  work.bytes = 8 * 6 * work.at_once + 4 * static_cast<double>(most_of_a_round(tensors));
  return work;
}

}  // namespace taugrid::merging
