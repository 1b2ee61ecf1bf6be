// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/weights.hpp"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/weights/detail/aten.hpp"
#include "kernels/weights/detail/checks.hpp"
#include "kernels/weights/detail/kokkos.hpp"

namespace taugrid::weights {
namespace {

// The one place that chooses between Kokkos and ATen (nothing).
std::optional<detail::Space> kokkos_space(const at::Device& device) {
  // LibTorch calls HIP devices CUDA too.
  const bool on_host = device.is_cpu();
  if (!on_host && !(device.is_cuda() && detail::kokkos_runs_on_device(device.index()))) return std::nullopt;
  detail::require_kokkos();
  if (on_host) return detail::Space::host;
  // Kokkos has a stream of its own: what LibTorch has queued must be done before Kokkos reads it.
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
  return detail::Space::device;
}

template <class Scalar>
std::vector<const Scalar*> pointers(std::span<const at::Tensor> vectors) {
  std::vector<const Scalar*> result;
  for (const at::Tensor& vector : vectors) result.push_back(vector.const_data_ptr<Scalar>());
  return result;
}

template <class Function>
void with_scalar(at::ScalarType type, Function function) {
  if (type == at::kFloat) {
    function(float{});
  } else {
    function(double{});
  }
}

}  // namespace

void combine(const at::Tensor& theta0, std::span<const at::Tensor> tau, const at::Tensor& alpha,
             at::Tensor& out) {
  detail::check_vector(theta0, "theta0");
  detail::check_vectors(tau, theta0, "tau");
  detail::check_coefficients(alpha, tau.size());
  const std::int64_t rows = alpha.size(0);
  detail::check_out(out, rows, theta0, tau);
  if (out.numel() == 0) return;
  const auto space = kokkos_space(theta0.device());
  if (!space) {
    detail::combine_aten(theta0, tau, alpha.detach().cpu(), out);
    return;
  }
  with_scalar(theta0.scalar_type(), [&](auto zero) {
    using Scalar = decltype(zero);
    const at::Tensor coefficients = alpha.detach().to(at::kCPU, theta0.scalar_type()).contiguous();
    const std::span<const Scalar> values(coefficients.const_data_ptr<Scalar>(),
                                         static_cast<std::size_t>(coefficients.numel()));
    detail::combine_kokkos<Scalar>(*space, theta0.numel(), theta0.const_data_ptr<Scalar>(),
                                   pointers<Scalar>(tau), values, rows, out.mutable_data_ptr<Scalar>());
  });
}

at::Tensor combine(const at::Tensor& theta0, std::span<const at::Tensor> tau, const at::Tensor& alpha) {
  detail::check_vector(theta0, "theta0");
  detail::check_coefficients(alpha, tau.size());
  at::Tensor out = at::empty({alpha.size(0), theta0.numel()}, theta0.options().requires_grad(false));
  combine(theta0, tau, alpha, out);
  return out;
}

at::Tensor gram(std::span<const at::Tensor> vectors) {
  const auto tasks = static_cast<std::int64_t>(vectors.size());
  at::Tensor result = at::zeros({tasks, tasks}, at::kDouble);
  if (tasks == 0) return result;
  detail::check_vector(vectors.front(), "vectors[0]");
  detail::check_vectors(vectors, vectors.front(), "vectors");
  if (vectors.front().numel() == 0) return result;
  const auto space = kokkos_space(vectors.front().device());
  if (!space) return detail::gram_aten(vectors);
  with_scalar(vectors.front().scalar_type(), [&](auto zero) {
    using Scalar = decltype(zero);
    detail::gram_kokkos<Scalar>(*space, vectors.front().numel(), pointers<Scalar>(vectors),
                                result.mutable_data_ptr<double>());
  });
  return result;
}

// Memory-bound: the products of each vector with itself cost nothing.
double inner_product(const at::Tensor& a, const at::Tensor& b) {
  const std::array<at::Tensor, 2> vectors{a, b};
  return gram(vectors)[0][1].item<double>();
}

double norm(const at::Tensor& a) {
  return std::sqrt(gram(std::span<const at::Tensor>(&a, 1)).item<double>());
}

}  // namespace taugrid::weights
