// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What another project would do with the libraries: read a model, and compare f(x; θ0 + τ) with its
// linearisation.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <Kokkos_Core.hpp>
#include <cstdio>
#include <kernels/autodiff/products.hpp>
#include <kernels/weights/weights.hpp>
#include <suite/models/checkpoint.hpp>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const Kokkos::ScopeGuard kokkos;
  const at::NoGradGuard no_grad;
  const auto model = taugrid::models::read_checkpoint(argv[1]);
  const auto& layout = model.encoder->layout();
  at::manual_seed(1);
  const auto takes = model.encoder->takes();
  const auto pixels =
      taugrid::models::pictures(at::randn({4, takes.channels, takes.image_size, takes.image_size}));
  const auto& theta = model.state.theta;
  const auto tau = 1e-4 * at::randn_like(theta);
  const auto f = taugrid::autodiff::jvp(
      layout, [&](const std::vector<taugrid::autodiff::Dual>& p) { return model.encoder->encode(p, pixels); },
      theta, tau);
  const auto exact = model.encoder->encode(layout.views(theta + tau), pixels);
  const double error = ((f.value + f.tangent - exact).norm() / (exact - f.value).norm()).item<double>();
  std::printf("norm of theta %.3f, relative error of the linearisation %.2e\n",
              taugrid::weights::norm(theta), error);
  return error < 0.05 ? 0 : 1;
}
