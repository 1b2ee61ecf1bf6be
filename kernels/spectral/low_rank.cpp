// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/spectral/low_rank.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <stdexcept>

namespace taugrid::spectral {
namespace {

void check(const at::Tensor& gram, std::int64_t m) {
  if (gram.dim() != 2 || gram.size(0) != gram.size(1) || gram.scalar_type() != at::kDouble || !gram.is_cpu())
    throw std::invalid_argument("Gram matrix: expected float64 [T,T] on the host");
  if (m < 1 || m > gram.size(0)) throw std::invalid_argument("bases: expected 1 to the number of tasks");
}

/// Adam (Kingma and Ba 2015) with PyTorch's constants.
class Adam {
 public:
  Adam(at::Tensor x, const AutoencoderSettings& settings)
      : x_(std::move(x)), settings_(settings), m_(at::zeros_like(x_)), v_(at::zeros_like(x_)) {}
  void step(const at::Tensor& slope) {
    const auto g = slope + settings_.weight_decay * x_;
    ++steps_;
    m_.mul_(0.9).add_(g, 0.1);
    v_.mul_(0.999).addcmul_(g, g, 0.001);
    const double first = 1 - std::pow(0.9, steps_), second = std::sqrt(1 - std::pow(0.999, steps_));
    x_.addcdiv_(m_, v_.sqrt().div_(second).add_(1e-8), -settings_.learning_rate / first);
  }

 private:
  at::Tensor x_;
  const AutoencoderSettings& settings_;
  at::Tensor m_, v_;
  double steps_ = 0;
};

}  // namespace

LowRank principal_components(const at::Tensor& gram, std::int64_t m) {
  check(gram, m);
  const auto t = gram.size(0);
  const auto mean = at::full_like(gram, 1 / static_cast<double>(t)),
             centre = at::eye(t, gram.options()) - mean;
  const auto vectors = std::get<1>(at::linalg_eigh(at::linalg_multi_dot({centre, gram, centre})));
  auto leading = vectors.narrow(1, t - m, m).flip({1}).clone();
  const auto size = leading.abs();
  const auto first = size.ge(size.amax({0}, true) / 2).to(at::kByte).argmax(0, true);
  leading.mul_(at::where(leading.gather(0, first) < 0, -1.0, 1.0));
  return {centre.mm(leading), leading.t().contiguous(), mean};
}

LowRank autoencoder(const at::Tensor& gram, std::int64_t m, const AutoencoderSettings& settings,
                    std::uint64_t seed) {
  check(gram, m);
  const auto t = gram.size(0);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  auto a = at::randn({t, m}, generator, gram.options()), w = at::zeros({m, t}, gram.options());
  const auto eye = at::eye(t, gram.options());
  Adam of_a(a, settings), of_w(w, settings);
  const auto encoded = [&] { return (a / settings.temperature).softmax(0); };
  for (std::int64_t step = 0; step < settings.steps; ++step) {
    const auto b = encoded();
    const auto of_error = gram.mm(b.mm(w) - eye).mul_(2 / static_cast<double>(t * t));
    const auto of_b = of_error.mm(w.t());
    const auto slope = b * (of_b - (b * of_b).sum(0, true)) / settings.temperature;
    of_w.step(b.t().mm(of_error));
    of_a.step(slope);
  }
  return {encoded(), w, at::zeros_like(gram)};
}

double relative_error(const at::Tensor& gram, const LowRank& factors) {
  const auto error =
      factors.encoder.mm(factors.decoder) + factors.rest - at::eye(gram.size(0), gram.options());
  return ((error * gram.mm(error)).sum() / gram.trace()).item<double>();
}

}  // namespace taugrid::spectral
