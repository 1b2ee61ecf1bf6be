// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Convolutions of pictures, and the mean over their places.
#include <ATen/ATen.h>

#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {
namespace {

at::Tensor convolved(const at::Tensor& x, const at::Tensor& weight, std::int64_t side, std::int64_t stride,
                     std::int64_t padding) {
  return at::conv2d(x, weight.view({weight.size(0), -1, side, side}), {}, at::IntArrayRef{stride},
                    at::IntArrayRef{padding});
}

/// [n, places, in·side·side]: what each place of the output is a product with.
at::Tensor unfolded(const at::Tensor& x, std::int64_t side, std::int64_t stride, std::int64_t padding) {
  return at::im2col(x, {side, side}, {1, 1}, {padding, padding}, {stride, stride}).transpose(1, 2);
}

}  // namespace

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, std::int64_t side, std::int64_t stride,
                    std::int64_t padding) {
  return convolved(x, weight, side, stride, padding);
}

Dual convolve(const Dual& x, const Dual& weight, std::int64_t side, std::int64_t stride,
              std::int64_t padding) {
  Dual y{convolved(x.value, weight.value, side, stride, padding), {}};
  y.tangent = detail::tangent_of([&] {  // dW ∗ x + W ∗ dx
    at::Tensor t;
    if (weight.tangent.defined()) t = convolved(x.value, weight.tangent, side, stride, padding);
    if (x.tangent.defined())
      t = detail::sum_of(t, convolved(x.tangent, weight.value, side, stride, padding));
    return t;
  });
  return y;
}

Recorded convolve(const Recorded& x, const Recorded& weight, std::int64_t side, std::int64_t stride,
                  std::int64_t padding) {
  Recorded y{convolved(x.value, weight.value, side, stride, padding), x.tape, -1};
  const auto output = detail::keep(*y.tape, y.value);
  y.tape->uses.push_back({Use::Form::convolution, weight.block,
                          unfolded(x.value.detach(), side, stride, padding), {}, output});
  return y;
}

Counted convolve(const Counted& x, const Counted& weight, std::int64_t side, std::int64_t stride,
                 std::int64_t padding) {
  const auto places = [&](std::int64_t extent) { return (extent + 2 * padding - side) / stride + 1; };
  auto y = detail::counted(x.meter, {x.shape[0], weight.shape[0], places(x.shape[2]), places(x.shape[3])});
  const double all = static_cast<double>(y.shape[0] * y.shape[2] * y.shape[3]);
  y.meter->multiply(2 * all * detail::numbers(weight), weight.block);
  y.meter->use_matrix({weight.block, all / static_cast<double>(x.shape[0]),
                       static_cast<double>(weight.shape[0]), static_cast<double>(weight.shape[1])});
  detail::keep(x);
  y.meter->record(y.storage);
  y.meter->record(all * static_cast<double>(weight.shape[1]));
  return y;
}

at::Tensor mean_places(const at::Tensor& x) { return x.mean(at::IntArrayRef{2, 3}); }

Dual mean_places(const Dual& x) {
  return {mean_places(x.value), detail::tangent_of([&] {
            return x.tangent.defined() ? mean_places(x.tangent) : at::Tensor();
          })};
}

Recorded mean_places(const Recorded& x) { return {mean_places(x.value), x.tape, -1}; }

Counted mean_places(const Counted& x) { return detail::counted(x.meter, {x.shape[0], x.shape[1]}); }

}  // namespace taugrid::autodiff
