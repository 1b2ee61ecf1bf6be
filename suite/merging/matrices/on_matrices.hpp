// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What methods on matrices have in common. A formula takes each tensor with two dimensions, of the tasks
// Δ_t = w_t·τ_t [m,n]; stacked projections count as matrices. All other tensors, and those named in
// `exclude`, are averaged: Σ Δ_t / T.
//
// Matrices of low rank, as adapters make them, have singular vectors that nothing determines. With space =
// "core" a formula is that of Uᵀ Δ_t V, where U and V are orthonormal bases of all the tasks' columns and
// rows, and the result is lifted by U and V (Core Space, Panariello et al. 2025): nothing is lost, and the
// largest rank is that of all tasks together.
//
// Factors are computed in double, of one Δ_t after another: beside the float vectors' own matrices a few
// matrices in double are held, whatever T is. They come from the Gram matrix of the shorter side, at a third
// to a fifth of an SVD's time, where all singular values that are asked for are at least 1e-4 of the largest:
// its squares then cost 1e-8 of relative precision, less than float32's vectors have. Else an SVD is taken.
// Of a team each rank makes other tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "suite/merging/table.hpp"

namespace taugrid::merging {

using Matrices = std::vector<at::Tensor>;

/// The tasks' matrices, made in double when they are asked for.
struct Deltas {
  std::size_t count;
  std::function<at::Tensor(std::size_t t)> at;
  bool low_rank = false;  ///< singular values that are zero but for rounding count as none
};

std::tuple<at::Tensor, at::Tensor, at::Tensor> thin_svd(const at::Tensor& matrix);
/// The nearest matrix with orthonormal columns (or rows), U Vᵀ of the SVD; and the singular values, in no
/// order.
struct Polar {
  at::Tensor factor, values;
};
Polar polar(const at::Tensor& matrix);
at::Tensor sum_of(const Deltas& deltas);
/// The leading triples of one task, `most` at most: u [m,k], s [k], vh [k,n].
std::tuple<at::Tensor, at::Tensor, at::Tensor> leading(const Deltas& deltas, const at::Tensor& delta,
                                                       std::int64_t most);
/// The share of the largest singular value of a matrix that float32's rounding of its numbers may have
/// made: max(rows, columns) ε.
double rounding_share(std::int64_t rows, std::int64_t columns);
/// How many singular values are more than float32's rounding of a matrix' numbers may have made.
std::int64_t numerical_rank(const at::Tensor& values, const at::Tensor& matrix);

/// The nearest matrix of rank k: the projection on the k leading eigenvectors of the Gram matrix of the
/// shorter side, which takes a fifth of an SVD.
at::Tensor nearest_of_rank(const at::Tensor& matrix, std::int64_t k);

/// A thin SVD with both factors of [m,n], 6ab² + 20b³ of its sides a ≥ b (Golub and Van Loan, table 8.6.1),
/// and eigenvalues and vectors of [n,n] (section 8.3).
double svd_flops(double m, double n);
double eigh_flops(double n);
double nearest_flops(double m, double n);  ///< of nearest_of_rank(), and about those of leading() and polar()

/// What a matrix [m,n] of T tasks takes.
using OfShape = std::function<double(double tasks, double m, double n)>;

class OnMatrices final : public VectorMethod {
 public:
  using Formula = std::function<at::Tensor(const Deltas&)>;
  struct Traits {
    OfShape flops;  ///< of the factorisations
    /// Numbers in double that are held.
    OfShape held = [](double, double m, double n) { return 5 * m * n; };
    bool takes_low_rank = false;  ///< whether low ranks determine the result in the whole space, too
    std::vector<std::string> exclude = {"text_projection"};
  };
  OnMatrices(config::Section& parameters, Formula formula, Traits traits);

  bool needs_full_rank() const override { return !core_ && !traits_.takes_low_rank; }
  MergeWork work(const std::vector<NamedTensor>& tensors, std::size_t count) const override;

 protected:
  bool is_shared() const override { return true; }
  std::int64_t run(const TaskVectors& vectors, const std::vector<double>& w, const Sink& sink,
                   const Team& team) const override;

 private:
  double flops(const NamedTensor& tensor, std::size_t count) const;
  bool is_matrix(const NamedTensor& tensor) const;
  at::Tensor of_matrix(const NamedTensor& tensor, std::span<const at::Tensor> tau,
                       const std::vector<double>& w) const;

  std::vector<std::string> exclude_;
  bool core_;
  Formula formula_;
  Traits traits_;
};

/// Embeddings, projections and heads, which are no layers of a tower.
std::vector<std::string> names_of_no_layer();

}  // namespace taugrid::merging
