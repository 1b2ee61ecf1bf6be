// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The analytic examples of "Task arithmetic in the tangent space", appendix C, by the kernels that runs use.
// On a ring the tangent kernel of a network at initialisation has Fourier modes as eigenfunctions, which no
// half of the ring holds, and the sum of two task vectors spoils each task (proposition 3). Where each task
// has parameters that act on its domain alone, each eigenfunction lies in one domain, and the sum is each
// task's own model there (proposition 2).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "kernels/autodiff/ops.hpp"
#include "kernels/tangent/ntk.hpp"

namespace {

using namespace taugrid;
using autodiff::Kind;
using autodiff::Recorded;

constexpr std::int64_t points = 24, half = points / 2, units = 24 * 64;

/// Directions at equal angles [count, 2], double, the first a part of a step away from the axis.
at::Tensor ring(std::int64_t count, double part = 0) {
  const auto angle =
      (at::arange(count, at::kDouble) + part) * (2 * std::numbers::pi / static_cast<double>(count));
  return at::stack({at::cos(angle), at::sin(angle)}, 1);
}

/// f(x) = Σ a_k relu(w_k · x) / √m, in double.
struct Network {
  autodiff::Layout layout;
  at::Tensor theta;

  /// `networks` of them side by side, in one θ.
  explicit Network(int networks) {
    std::vector<at::Tensor> parts;
    for (int t = 0; t < networks; ++t) {
      const auto name = std::to_string(t);
      layout.add(Kind::mlp_weight, {name + ".in"}, {units, 2});
      layout.add(Kind::mlp_weight, {name + ".out"}, {1, units});
      // Every rotation of the points is one of the units, and no unit stands upright on a point.
      parts.push_back(ring(units, 0.5).flatten());
      parts.push_back(at::ones(units, at::kDouble) * at::tensor({1.0, -1.0}, at::kDouble).repeat(units / 2));
    }
    theta = at::cat(parts);
  }
  static Recorded value(const std::vector<Recorded>& p, std::size_t t, const at::Tensor& x) {
    const auto hidden = autodiff::activate(autodiff::linear(autodiff::constant(x, p[2 * t]), p[2 * t]),
                                           autodiff::Activation::relu);
    return autodiff::scale(autodiff::linear(hidden, p[2 * t + 1]), 1 / std::sqrt(static_cast<double>(units)));
  }
  at::Tensor kernel(const autodiff::Function<Recorded>& f) const {
    return tangent::ntk_gram(layout, f, theta, {0}, {0, points})[0];
  }
};

/// K of one network on the ring.
at::Tensor of_the_ring() {
  const Network network(1);
  const auto x = ring(points);
  return network.kernel([&](const std::vector<Recorded>& p) { return Network::value(p, 0, x); });
}

/// K of two networks, each multiplied by its half's indicator.
at::Tensor of_two_domains() {
  const Network network(2);
  const auto x = ring(points);
  auto first = at::zeros({points, 1}, at::kDouble);
  first.narrow(0, 0, half).fill_(1);
  return network.kernel([&](const std::vector<Recorded>& p) {
    return autodiff::add(autodiff::multiply(Network::value(p, 0, x), autodiff::constant(first, p[0])),
                         autodiff::multiply(Network::value(p, 1, x), autodiff::constant(1 - first, p[0])));
  });
}

/// How far the sum of both tasks' linear models is from each one's own on its half: ‖f_1 + f_2 − f_t‖ /
/// ‖f_t‖. The tasks' functions are the kernel's own interpolants of `y` on each half, with a small ridge.
double disturbance(const at::Tensor& kernel, const at::Tensor& y) {
  double most = 0;
  std::vector<at::Tensor> f;
  for (const auto begin : {std::int64_t{0}, half}) {
    const auto block = kernel.narrow(0, begin, half).narrow(1, begin, half);
    const auto ridge = 1e-8 * block.diagonal().mean() * at::eye(half, at::kDouble);
    f.push_back(
        at::mv(kernel.narrow(1, begin, half), at::linalg_solve(block + ridge, y.narrow(0, begin, half))));
  }
  for (const std::size_t t : {0U, 1U}) {
    const auto begin = t == 0 ? 0 : half;
    const auto other = f[1 - t].narrow(0, begin, half), mine = f[t].narrow(0, begin, half);
    most = std::max(most, (other.norm() / mine.norm()).item<double>());
  }
  return most;
}

/// The part of each eigenfunction's square that lies in the first half, [m], of eigenvalues above rounding.
at::Tensor shares_in_the_first_half(const at::Tensor& kernel) {
  const auto [values, vectors] = at::linalg_eigh(kernel);
  const auto kept = values.gt(1e-9 * values.max()).nonzero().flatten();
  return vectors.index_select(1, kept).narrow(0, 0, half).square().sum(0);
}

TEST(Spectrum, OnARingItIsTheArcCosineKernels) {
  // Cho and Saul (2009) have infinitely many units of normal weights; here they lie on the circle, with E|w|²
  // = 1, not 2.
  const auto kernel = of_the_ring();
  for (std::int64_t i = 0; i < points; ++i) {
    const auto steps = static_cast<double>(std::min(i, points - i));
    const auto angle = steps * 2 * std::numbers::pi / points, left = std::numbers::pi - angle;
    const auto of_in = std::cos(angle) * left / (2 * std::numbers::pi);
    const auto of_out = (std::sin(angle) + left * std::cos(angle)) / (4 * std::numbers::pi);
    EXPECT_NEAR(kernel[0][i].item<double>(), of_in + of_out, 2e-3) << i;
  }
}

TEST(Spectrum, OnARingEigenfunctionsAreFourierModes) {
  const auto kernel = of_the_ring();
  for (std::int64_t shift = 1; shift < points; ++shift)  // circulant: the Fourier series diagonalises it
    EXPECT_TRUE(kernel[0].roll(shift).allclose(kernel[shift], 1e-10, 1e-12)) << shift;
  for (std::int64_t frequency = 0; frequency <= half; ++frequency) {
    const auto mode = at::cos(at::arange(points, at::kDouble) *
                              (2 * std::numbers::pi * static_cast<double>(frequency) / points));
    const auto image = at::mv(kernel, mode);
    const auto eigenvalue = at::dot(image, mode) / at::dot(mode, mode);
    EXPECT_LT((image - eigenvalue * mode).norm().item<double>(), 1e-10 * kernel.norm().item<double>())
        << frequency;
  }
  const auto [energy, rank] = tangent::local_energy(kernel);
  EXPECT_GT(rank, half);
  EXPECT_TRUE(energy.allclose(at::full({points}, static_cast<double>(rank) / points, at::kDouble),
                              1e-6));  // nowhere more
}

TEST(Spectrum, EigenfunctionsOfNoDomainDisturbTheOtherTask) {
  at::manual_seed(1);
  EXPECT_GT(disturbance(of_the_ring(), at::randn({points}, at::kDouble)), 0.5);
}

TEST(Spectrum, EigenfunctionsOfOneDomainEachLeaveTheOtherTaskAlone) {
  at::manual_seed(1);
  const auto kernel = of_two_domains();
  const auto shares = shares_in_the_first_half(kernel);
  EXPECT_GT(shares.size(0), half);
  EXPECT_LT(at::minimum(shares, 1 - shares).max().item<double>(), 1e-9);
  EXPECT_EQ(disturbance(kernel, at::randn({points}, at::kDouble)), 0);
}

}  // namespace
