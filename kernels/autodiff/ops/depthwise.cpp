// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Convolutions of each channel by a filter of its own. y = F(x, W), dx = X(dy, W) and dW = S(x, dy) are
// linear in each argument, and each is the derivative of the others, so that a Hessian product is made of the
// same three. Autograd alone would cut the second derivative into one convolution a channel.
#include "kernels/autodiff/detail/depthwise.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cmath>
#include <tuple>

#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using Variables = torch::autograd::variable_list;

std::int64_t side_of(std::int64_t places) { return std::llround(std::sqrt(static_cast<double>(places))); }

/// [channels, side·side] as ATen takes it.
at::Tensor filters_of(const at::Tensor& weight) {
  const auto side = side_of(weight.size(1));
  return weight.view({weight.size(0), 1, side, side});
}

/// F(x, W) + b
at::Tensor filtered(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::conv2d(x, filters_of(weight), bias, at::IntArrayRef{1},
                    at::IntArrayRef{side_of(weight.size(1)) / 2}, at::IntArrayRef{1}, x.size(1));
}

/// The gradients of F at x and W, for dy: X(dy, W), S(x, dy) and Σ dy by channels, those of `which`.
std::tuple<at::Tensor, at::Tensor, at::Tensor> gradients_of(const at::Tensor& dy, const at::Tensor& x,
                                                            const at::Tensor& weight,
                                                            std::array<bool, 3> which) {
  const auto channels = x.size(1), pad = side_of(weight.size(1)) / 2;
  auto [dx, dw, db] = at::convolution_backward(dy, x, filters_of(weight), at::IntArrayRef{channels}, {1, 1},
                                               {pad, pad}, {1, 1},
                                               /*transposed=*/false, {0, 0}, channels, which);
  return {dx, dw.defined() ? dw.reshape_as(weight) : dw, db};
}

using detail::with_channels_last;

struct Gradients : Function<Gradients> {
  static Variables forward(AutogradContext* context, const at::Tensor& dy, const at::Tensor& x,
                           const at::Tensor& weight, std::array<bool, 3> which) {
    context->save_for_backward({dy, x, weight});
    context->set_materialize_grads(false);
    const auto [dx, dw, db] = gradients_of(dy, x, weight, which);
    Variables all = {dx, dw, db};
    for (auto& each : all) {
      if (!each.defined()) each = at::empty({0}, dy.options());  // autograd takes no undefined output
    }
    return all;
  }
  static Variables backward(AutogradContext* context, const Variables& along) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "a depthwise convolution has no third derivative here");
    const auto saved = context->get_saved_variables();
    const auto &dy = saved[0], &x = saved[1], &weight = saved[2];
    const auto &gx = along[0], &gw = along[1], &gb = along[2];
    at::Tensor of_dy, of_x, of_weight;
    if (gw.defined()) {
      of_dy = filtered(x, gw, gb);
      if (context->needs_input_grad(1)) of_x = std::get<0>(gradients_of(dy, x, gw, {true, false, false}));
    }
    if (gx.defined()) {
      const auto last = with_channels_last(gx);
      of_dy = detail::sum_of(of_dy, filtered(last, weight, {}));
      if (context->needs_input_grad(2))
        of_weight = std::get<1>(gradients_of(dy, last, weight, {false, true, false}));
    }
    return {of_dy, of_x, of_weight, {}};
  }
};

struct Depthwise : Function<Depthwise> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    context->save_for_backward({x, weight});
    return filtered(x, weight, bias);
  }
  static Variables backward(AutogradContext* context, const Variables& along) {
    const auto saved = context->get_saved_variables();
    const std::array<bool, 3> which = {context->needs_input_grad(0), context->needs_input_grad(1),
                                       context->needs_input_grad(2)};
    auto all = Gradients::apply(with_channels_last(along[0]), saved[0], saved[1], which);
    for (std::size_t i = 0; i < which.size(); ++i) {
      if (!which[i]) all[i] = at::Tensor();
    }
    return all;
  }
};

}  // namespace

namespace detail {

at::Tensor per_sample_filters(const at::Tensor& x, const at::Tensor& dy, std::int64_t places) {
  const auto n = x.size(0), channels = x.size(1);
  auto all = at::empty({n, channels * places}, dy.options());
  const auto shape = at::empty({channels, places}, dy.options());
  for (std::int64_t i = 0; i < n; ++i) {
    const auto dw =
        std::get<1>(gradients_of(dy.narrow(0, i, 1), x.narrow(0, i, 1), shape, {false, true, false}));
    all.select(0, i).copy_(dw.flatten());
  }
  return all;
}

}  // namespace detail

at::Tensor convolve_depthwise(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return Depthwise::apply(x, weight, bias);
}

Dual convolve_depthwise(const Dual& x, const Dual& weight, const Dual& bias) {
  Dual y{convolve_depthwise(x.value, weight.value, bias.value), {}};
  y.tangent = detail::tangent_of([&] {  // F(x, dW) + db + F(dx, W)
    at::Tensor t;
    if (weight.tangent.defined()) t = filtered(x.value, weight.tangent, bias.tangent);
    if (x.tangent.defined()) {
      const auto& rest = t.defined() ? at::Tensor() : bias.tangent;
      t = detail::sum_of(t, filtered(x.tangent, weight.value, rest));
    }
    return t;
  });
  return y;
}

Recorded convolve_depthwise(const Recorded& x, const Recorded& weight, const Recorded& bias) {
  Recorded y{convolve_depthwise(x.value, weight.value, bias.value), x.tape, -1};
  const auto output = detail::keep(*y.tape, y.value);
  y.tape->uses.push_back({Use::Form::depthwise, weight.block, x.value.detach(), {}, output});
  y.tape->uses.push_back({Use::Form::channel_sum, bias.block, {}, {}, output});
  return y;
}

Counted convolve_depthwise(const Counted& x, const Counted& weight, const Counted&) {
  auto y = detail::counted(x.meter, x.shape);
  y.meter->multiply(2 * detail::numbers(x) * static_cast<double>(weight.shape[1]), weight.block);
  detail::keep(x);
  y.meter->record(y.storage);
  return y;
}

}  // namespace taugrid::autodiff
