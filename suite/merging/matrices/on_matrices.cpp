// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/matrices/on_matrices.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "suite/merging/matrices/dealt_tensors.hpp"

namespace taugrid::merging {
namespace {

// The least singular value, as a share of the largest, that a Gram matrix gives to 1e-8 of itself.
constexpr double least_by_squares = 1e-4;

/// A matrix with its shorter side first, and the singular values, ascending, and vectors of that side.
struct ShorterSide {
  explicit ShorterSide(const at::Tensor& matrix)
      : wide(matrix.size(0) <= matrix.size(1)), flat(wide ? matrix : matrix.t()) {
    const auto [squares, of_gram] = at::linalg_eigh(at::mm(flat, flat.t()));
    values = squares.clamp_min(0).sqrt();
    vectors = of_gram;
  }
  bool wide;
  at::Tensor flat, values, vectors;
};

/// Orthonormal bases [m,r] and [n,r] of a matrix' columns and rows, r its numerical rank. By the Gram matrix
/// of its shorter side: spans need no more digits than the rank is judged by, and an SVD takes five times as
/// long.
std::pair<at::Tensor, at::Tensor> spans_of(const at::Tensor& matrix) {
  const ShorterSide side(matrix);
  const auto rank = numerical_rank(side.values, matrix), dropped = side.values.size(0) - rank;
  const auto shorter = side.vectors.narrow(1, dropped, rank);
  const auto longer = at::mm(side.flat.t(), shorter) / side.values.narrow(0, dropped, rank);
  return side.wide ? std::pair{shorter, longer} : std::pair{longer, shorter};
}

/// An orthonormal basis [m,k] of the space that all these orthonormal columns [m,r] span; undefined where
/// that is everything.
at::Tensor basis_of(const Matrices& columns) {
  const auto m = columns.front().size(0);
  auto gram = at::zeros({m, m}, at::kDouble);
  std::int64_t total = 0;
  for (const auto& of_task : columns) {
    if (of_task.size(1) == m) return {};
    gram.addmm_(of_task, of_task.t());
    total += of_task.size(1);
  }
  // No square exceeds the number of tasks, so a sum of projections that stays positive without this much of
  // each has full rank. That takes a tenth of what its eigenvectors do.
  const double least = rounding_share(m, total);
  const auto shifted = gram - least * least * static_cast<double>(columns.size()) * at::eye(m, at::kDouble);
  if (total >= m && std::get<1>(at::linalg_cholesky_ex(shifted)).item<std::int64_t>() == 0) return {};
  const auto [squares, vectors] = at::linalg_eigh(gram);
  const auto rank = squares.gt(least * least * squares[-1].item<double>()).sum().item<std::int64_t>();
  return vectors.narrow(1, m - rank, rank);
}

/// U · formula(Uᵀ Δ_t V) · Vᵀ.
at::Tensor in_core(const Deltas& deltas, const OnMatrices::Formula& formula) {
  Matrices columns, rows;
  std::int64_t total = 0;
  for (std::size_t t = 0; t < deltas.count; ++t) {
    auto [of_columns, of_rows] = spans_of(deltas.at(t));
    total += of_columns.size(1);
    columns.push_back(std::move(of_columns));
    rows.push_back(std::move(of_rows));
  }
  if (total == 0) return at::zeros_like(deltas.at(0));
  const auto u = basis_of(columns), v = basis_of(rows);
  const auto core = [&](std::size_t t) {
    auto delta = deltas.at(t);
    if (v.defined()) delta = at::mm(delta, v);
    return u.defined() ? at::mm(u.t(), delta) : delta;
  };
  auto merged = formula({deltas.count, core, /*low_rank=*/true});
  if (u.defined()) merged = at::mm(u, merged);
  return v.defined() ? at::mm(merged, v.t()) : merged;
}

at::Tensor mean_of(std::span<const at::Tensor> tau, const std::vector<double>& w) {
  auto sum = at::zeros(tau.front().sizes(), at::kDouble);
  for (std::size_t t = 0; t < tau.size(); ++t) sum.add_(tau[t], w[t]);
  return sum.div_(static_cast<double>(tau.size())).to(at::kFloat);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> thin_svd(const at::Tensor& matrix) {
  return at::linalg_svd(matrix, /*full_matrices=*/false);
}

Polar polar(const at::Tensor& matrix) {
  if (const ShorterSide side(matrix); side.values.numel() > 0) {
    const auto least = side.values[0].item<double>(), largest = side.values[-1].item<double>();
    if (least > least_by_squares * largest) {
      const auto root = at::mm(side.vectors / side.values, side.vectors.t());  // of the inverse Gram matrix
      return {side.wide ? at::mm(root, matrix) : at::mm(matrix, root), side.values};
    }
  }
  const auto [u, s, vh] = thin_svd(matrix);
  return {at::mm(u, vh), s};
}

at::Tensor sum_of(const Deltas& deltas) {
  auto sum = deltas.at(0);
  for (std::size_t t = 1; t < deltas.count; ++t) sum.add_(deltas.at(t));
  return sum;
}

double rounding_share(std::int64_t rows, std::int64_t columns) {
  return static_cast<double>(std::max(rows, columns)) * std::numeric_limits<float>::epsilon();
}

std::int64_t numerical_rank(const at::Tensor& values, const at::Tensor& matrix) {
  if (values.numel() == 0) return 0;
  const auto least = rounding_share(matrix.size(0), matrix.size(1)) * values.max().item<double>();
  return values.gt(least).sum().item<std::int64_t>();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> leading(const Deltas& deltas, const at::Tensor& delta,
                                                       std::int64_t most) {
  const auto rank_of = [&](const at::Tensor& values) {
    return deltas.low_rank ? std::min(most, numerical_rank(values, delta)) : most;
  };
  if (const ShorterSide side(delta); side.values.numel() > 0) {
    const auto k = rank_of(side.values), dropped = side.values.size(0) - k;
    const auto kept = side.values.narrow(0, dropped, k);
    if (k == 0 || kept[0].item<double>() > least_by_squares * kept[-1].item<double>()) {
      const auto values = kept.flip(0), shorter = side.vectors.narrow(1, dropped, k).flip(1);
      const auto longer = at::mm(side.flat.t(), shorter) / values;
      return side.wide ? std::tuple{shorter, values, longer.t()} : std::tuple{longer, values, shorter.t()};
    }
  }
  const auto [u, s, vh] = thin_svd(delta);
  const auto k = rank_of(s);
  return {u.narrow(1, 0, k).clone(), s.narrow(0, 0, k).clone(), vh.narrow(0, 0, k).clone()};
}

at::Tensor nearest_of_rank(const at::Tensor& matrix, std::int64_t k) {
  const bool wide = matrix.size(0) <= matrix.size(1);
  const auto shorter = std::min(matrix.size(0), matrix.size(1));
  if (k >= shorter) return matrix;
  const auto gram = wide ? at::mm(matrix, matrix.t()) : at::mm(matrix.t(), matrix);
  const auto leading_vectors = std::get<1>(at::linalg_eigh(gram)).narrow(1, shorter - k, k);
  return wide ? at::mm(leading_vectors, at::mm(leading_vectors.t(), matrix))
              : at::mm(at::mm(matrix, leading_vectors), leading_vectors.t());
}

double svd_flops(double m, double n) {
  const auto [shorter, longer] = std::minmax(m, n);
  return 6 * longer * shorter * shorter + 20 * shorter * shorter * shorter;
}

double eigh_flops(double n) { return 9 * n * n * n; }

double nearest_flops(double m, double n) {
  const double shorter = std::min(m, n);
  return 6 * m * n * shorter + eigh_flops(shorter);
}

std::vector<std::string> names_of_no_layer() {
  return {"embed", "wte", "wpe", "shared.weight", "lm_head", "text_projection", "visual_projection"};
}

OnMatrices::OnMatrices(config::Section& parameters, Formula formula, Traits traits)
    : exclude_(parameters.words("exclude",
                                "Tensors whose names have one of these parts are averaged, as those without "
                                "two dimensions are",
                                traits.exclude)),
      core_(parameters.word("space",
                            "full: factors of the matrices themselves; core: of what they are in the space "
                            "that all tasks' columns and rows span, which low ranks need, as adapters have "
                            "them (Panariello et al. 2025)",
                            "full", {"full", "core"}) == "core"),
      formula_(std::move(formula)),
      traits_(std::move(traits)) {}

MergeWork OnMatrices::work(const std::vector<NamedTensor>& tensors, std::size_t count) const {
  MergeWork work;
  double held = 0;
  for (const auto& tensor : tensors) {
    work.flops += flops(tensor, count);
    if (!is_matrix(tensor)) continue;
    work.at_once = std::max(work.at_once, static_cast<double>(tensor.range.count));
    held = std::max(held, traits_.held(static_cast<double>(count), static_cast<double>(tensor.shape[0]),
                                       static_cast<double>(tensor.shape[1])));
  }
  // Beside them, what a team's rank has made.
  work.bytes = 8 * held + 4 * static_cast<double>(most_of_a_round(tensors));
  return work;
}

std::int64_t OnMatrices::run(const TaskVectors& vectors, const std::vector<double>& w, const Sink& sink,
                             const Team& team) const {
  return put_tensors(
      vectors, [&](const NamedTensor& tensor) { return flops(tensor, vectors.count()); },
      // A matrix at once, all else stretch by stretch.
      [&](const NamedTensor& tensor, const Sink::See& see) {
        const bool matrix = is_matrix(tensor);
        vectors.visit(vectors.all(), tensor.range, matrix ? tensor.range.count : 1,
                      [&](std::int64_t begin, std::span<const at::Tensor> tau) {
                        see(begin, matrix ? of_matrix(tensor, tau, w) : mean_of(tau, w));
                      });
      },
      sink, team);
}

double OnMatrices::flops(const NamedTensor& tensor, std::size_t count) const {
  if (!is_matrix(tensor)) return 0;
  const auto tasks = static_cast<double>(count), m = static_cast<double>(tensor.shape[0]),
             n = static_cast<double>(tensor.shape[1]);
  return traits_.flops(tasks, m, n) + (core_ ? (tasks + 2) * svd_flops(m, n) : 0);  // the cores are small
}

bool OnMatrices::is_matrix(const NamedTensor& tensor) const {
  return tensor.shape.size() == 2 && tensor.range.count > 0 &&
         std::none_of(exclude_.begin(), exclude_.end(),
                      [&](const std::string& part) { return tensor.name.find(part) != std::string::npos; });
}

at::Tensor OnMatrices::of_matrix(const NamedTensor& tensor, std::span<const at::Tensor> tau,
                                 const std::vector<double>& w) const {
  // Frozen layers' matrices, which no task changes, are most of a large model's.
  if (std::none_of(tau.begin(), tau.end(),
                   [](const auto& vector) { return vector.any().template item<bool>(); }))
    return at::zeros({tensor.range.count}, at::kFloat);
  const Deltas deltas = {tau.size(),
                         [&](std::size_t t) { return tau[t].view(tensor.shape).to(at::kDouble).mul_(w[t]); }};
  return (core_ ? in_core(deltas, formula_) : formula_(deltas)).to(at::kFloat).contiguous().view({-1});
}

}  // namespace taugrid::merging
