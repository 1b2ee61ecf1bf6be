// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Orthonormal V with A·V = V·H + β·w·eᵐᵀ, H = VᵀAV small. An eigenpair (λ, s) of H gives the Ritz pair (λ,
// V·s), whose residual is β·|sₘ|. When V is full, its best half of Ritz vectors and w start the next V, and H
// is their eigenvalues on the diagonal. Every column of H is taken from the reorthogonalisation itself, so
// the couplings after a restart need no formula of their own.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "kernels/spectral/detail/operator.hpp"
#include "kernels/spectral/detail/reached.hpp"
#include "kernels/weights/weights.hpp"

namespace taugrid::spectral {
namespace {

using Basis = std::vector<at::Tensor>;
using Some = std::span<const at::Tensor>;

// Vᵀw: float64 [m], on the CPU. Three at a time, which with w are a tile of the Gram kernel: w is read once
// for them.
at::Tensor coordinates(Some basis, const at::Tensor& w) {
  constexpr std::size_t at_once = 3;
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < basis.size(); i += at_once) {
    const auto n = std::min(at_once, basis.size() - i);
    Basis some(basis.begin() + static_cast<std::ptrdiff_t>(i),
               basis.begin() + static_cast<std::ptrdiff_t>(i + n));
    some.push_back(w);
    parts.push_back(
        weights::gram(some)[static_cast<std::int64_t>(n)].narrow(0, 0, static_cast<std::int64_t>(n)));
  }
  return at::cat(parts);
}

// out = w − V·h, out being other memory: w may belong to the operator.
void subtract(Some basis, const at::Tensor& h, const at::Tensor& w, const at::Tensor& out) {
  auto row = out.unsqueeze(0);
  weights::combine(w, basis, h.neg().unsqueeze(0), row);
}

// V ← V·s with s [m,k], k ≤ m: in place, block by block, since a second basis may not fit in memory.
void rotate(Basis& basis, const at::Tensor& s) {
  constexpr std::int64_t block = std::int64_t{1} << 18;
  const std::int64_t length = basis.front().numel();
  const auto kept = static_cast<std::size_t>(s.size(1));
  const at::Tensor zeros = at::zeros({std::min(block, length)}, basis.front().options());
  for (std::int64_t begin = 0; begin < length; begin += block) {
    const std::int64_t size = std::min(block, length - begin);
    Basis parts;
    for (const at::Tensor& v : basis) parts.push_back(v.narrow(0, begin, size));
    const at::Tensor rotated = weights::combine(zeros.narrow(0, 0, size), parts, s.t());
    for (std::size_t k = 0; k < kept; ++k) parts[k].copy_(rotated[static_cast<std::int64_t>(k)]);
  }
  basis.resize(kept);
}

double rounding_of(at::ScalarType type) {
  return type == at::kFloat ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
}

}  // namespace

EigenResult lanczos(const LinearOperator& apply, const at::Tensor& like, const EigenOptions& options,
                    at::Tensor near) {
  detail::check_arguments(like, options);
  LinearOperator operate = apply;
  detail::CountedOperator product(operate);
  Basis basis{detail::start_vector(like, options.seed, near)};
  near.reset();  // its memory is the next vector's
  at::Tensor image = product(basis.front());
  double scale = product.last_norm();  // at most ‖A‖
  detail::Reached reached(image);
  const bool narrows = reached.leaves_out_much();
  if (narrows) {  // the start without the places that A leaves out has the same image
    basis.front() = reached.narrowed(basis.front());
    const double length = weights::norm(basis.front());
    basis.front().div_(length);
    image = reached.narrowed(image).div_(length);
    operate = [&](const at::Tensor& v) { return reached.narrowed(apply(reached.widened(v))); };
  }
  const double rounding = rounding_of(like.scalar_type());
  const std::int64_t length = basis.front().numel(), capacity = std::min(options.max_basis, length);
  at::Tensor projected = at::zeros({capacity, capacity}, at::kDouble);  // H
  bool restarted = false;
  at::Tensor once;

  while (true) {
    const auto size = static_cast<std::int64_t>(basis.size());
    // Av has, but for rounding, parts along the last two vectors alone; behind a restart, along all. What is
    // left without these may be small, and what rounding has left along V as large: a second time, along all.
    const Some all = basis;
    const auto coupled = restarted ? all : all.last(std::min<std::size_t>(2, all.size()));
    restarted = false;
    if (!once.defined()) once = at::empty_like(image);  // fresh memory costs more than what is done with it
    const at::Tensor parts = coordinates(coupled, image);
    subtract(coupled, parts, image, once);
    const at::Tensor h = coordinates(all, once), w = at::empty_like(once);
    subtract(all, h, once, w);
    h.narrow(0, static_cast<std::int64_t>(all.size() - coupled.size()), parts.size(0)).add_(parts);
    projected.select(1, size - 1).narrow(0, 0, size).copy_(h);
    projected.select(0, size - 1).narrow(0, 0, size).copy_(h);
    const double beta = weights::norm(w);

    const auto [values, vectors] = at::linalg_eigh(projected.narrow(0, 0, size).narrow(1, 0, size));
    const at::Tensor order = values.abs().argsort(0, /*descending=*/true);
    const at::Tensor best = vectors.index_select(1, order.narrow(0, 0, 1));  // [m,1]
    EigenResult result{values[order[0]].item<double>(), 0, product.products(), false, {}};
    if (scale > 0) {
      const double remainder = beta * std::abs(best[size - 1][0].item<double>());
      result.residual = std::max(rounding, remainder / std::abs(result.value));
    }
    result.converged = result.residual <= options.tolerance;
    // An invariant subspace holds all that the start vector can reach.
    const bool invariant = size == length || beta <= 4 * rounding * scale;
    if (result.converged || invariant || result.products == options.max_products) {
      rotate(basis, best);
      result.vector = basis.front().div_(weights::norm(basis.front()));
      if (narrows) result.vector = reached.widened(result.vector);
      return result;
    }
    if (size == capacity) {
      const at::Tensor kept = order.narrow(0, 0, capacity / 2);
      rotate(basis, vectors.index_select(1, kept));
      projected.zero_();
      projected.diagonal().narrow(0, 0, capacity / 2).copy_(values.index_select(0, kept));
      restarted = true;
    }
    basis.push_back(w.div_(beta));
    image = product(basis.back());
    scale = std::max(scale, product.last_norm());
  }
}

}  // namespace taugrid::spectral
