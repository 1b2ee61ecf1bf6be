// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/weights.hpp"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
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
  if (tasks == 0) return at::zeros({0, 0}, at::kDouble);
  detail::check_vector(vectors.front(), "vectors[0]");
  GramSum sum(tasks, vectors.front().numel());
  sum.add(0, {vectors});
  return sum.gram();
}

namespace {

std::int64_t pairs_of(std::int64_t vectors) { return vectors * (vectors + 1) / 2; }

}  // namespace

GramSum::GramSum(std::int64_t vectors, std::int64_t length)
    : vectors_(vectors),
      length_(length),
      step_(detail::gram_chunk(length)),
      sums_(at::zeros({(length + step_ - 1) / step_, pairs_of(vectors)}, at::kDouble)) {}

bool GramSum::add(std::int64_t begin, const Stretches& stretches) {
  const auto x = stretches.x;
  const auto& start = stretches.start;
  if (std::ssize(x) != vectors_)
    throw std::invalid_argument("a stretch of " + std::to_string(x.size()) + " vectors, expected " +
                                std::to_string(vectors_));
  detail::check_vector(x.front(), "vectors[0]");
  detail::check_vectors(x, x.front(), "vectors");
  if (start.defined()) detail::check_vectors({&start, 1}, x.front(), "start");
  const auto length = x.front().numel();
  if (length == 0) return true;
  if (begin % step_ != 0 || begin + length > length_ || (length % step_ != 0 && begin + length != length_))
    throw std::invalid_argument("a stretch of " + std::to_string(length) + " numbers at " +
                                std::to_string(begin) + ", expected multiples of " + std::to_string(step_));
  auto rows = sums_.narrow(0, begin / step_, (length + step_ - 1) / step_);
  const auto space = kokkos_space(x.front().device());
  if (space != detail::Space::host) {  // an order of its own: all of the stretch is one row's
    if (start.defined())
      throw std::invalid_argument("start is on " + start.device().str() + "; expected the host");
    auto whole = space ? at::empty({vectors_, vectors_}, at::kDouble) : detail::gram_aten(x);
    if (space) {
      with_scalar(x.front().scalar_type(), [&](auto zero) {
        using Scalar = decltype(zero);
        detail::gram_kokkos<Scalar>(*space, length, pointers<Scalar>(x), whole.mutable_data_ptr<double>());
      });
    }
    const auto upper = at::triu_indices(vectors_, vectors_, 0, at::kLong);
    rows[0].copy_(whole.index({upper[0], upper[1]}));
    return true;
  }
  with_scalar(x.front().scalar_type(), [&](auto zero) {
    using Scalar = decltype(zero);
    detail::gram_chunks<Scalar>(length, step_, pointers<Scalar>(x),
                                start.defined() ? start.const_data_ptr<Scalar>() : nullptr,
                                rows.mutable_data_ptr<double>());
  });
  // The square of a float32 is finite in float64: a sum that is not finite has a difference that is not.
  return !start.defined() || at::isfinite(rows).all().item<bool>();
}

at::Tensor GramSum::gram() const {
  auto total = at::zeros({pairs_of(vectors_)}, at::kDouble);
  auto* sum = total.mutable_data_ptr<double>();
  const auto* each = sums_.const_data_ptr<double>();
  for (std::int64_t row = 0; row < sums_.size(0); ++row) {
    for (std::int64_t pair = 0; pair < total.size(0); ++pair) sum[pair] += *each++;
  }
  auto result = at::empty({vectors_, vectors_}, at::kDouble);
  auto* g = result.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < vectors_; ++i) {
    for (std::int64_t j = i; j < vectors_; ++j) g[i * vectors_ + j] = g[j * vectors_ + i] = *sum++;
  }
  return result;
}

// Memory-bound: the products of each vector with itself cost nothing.
double inner_product(const at::Tensor& a, const at::Tensor& b) {
  const std::array<at::Tensor, 2> vectors{a, b};
  return gram(vectors)[0][1].item<double>();
}

at::Tensor inner_products(const at::Tensor& a, std::span<const at::Tensor> vectors) {
  detail::check_vector(a, "a");
  detail::check_vectors(vectors, a, "vectors");
  if (!kokkos_space(a.device())) return detail::inner_products_aten(a, vectors);
  auto result = at::empty({std::ssize(vectors)}, at::kDouble);
  for (std::size_t t = 0; t < vectors.size(); ++t)
    result[static_cast<std::int64_t>(t)] = inner_product(a, vectors[t]);
  return result.to(a.device());
}

double norm(const at::Tensor& a) {
  return std::sqrt(gram(std::span<const at::Tensor>(&a, 1)).item<double>());
}

}  // namespace taugrid::weights
