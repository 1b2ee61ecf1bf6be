// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Convolutions of pictures, and what is taken of their places without a parameter.
#include "kernels/autodiff/detail/convolution.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/detail/tiled_convolution.hpp"
#include "kernels/autodiff/ops.hpp"
#include "kernels/lanes.hpp"

namespace taugrid::autodiff {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using Variables = torch::autograd::variable_list;

/// Every stride-th place of a picture's rows and columns.
at::Tensor thinned(const at::Tensor& x, std::int64_t stride) {
  return x.slice(2, 0, std::nullopt, stride).slice(3, 0, std::nullopt, stride);
}

at::Tensor convolved(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, std::int64_t side,
                     std::int64_t stride, std::int64_t padding) {
  // LibTorch 2.11's gradient of a filter of 1×1 that skips places writes beyond its memory, where two to
  // seven channels stand last (tried for 1 to 33, with vectors of eight; twice as many count where vectors
  // are of sixteen). Places that are skipped are left out before.
  if (side == 1 && padding == 0 && stride > 1 && x.size(1) < 16)
    return convolved(thinned(x, stride), weight, bias, side, 1, 0);
  return at::conv2d(detail::with_channels_last(x), weight.view({weight.size(0), -1, side, side}), bias,
                    at::IntArrayRef{stride}, at::IntArrayRef{padding});
}

/// The output's places along one side of the picture.
std::int64_t places_along(std::int64_t extent, std::int64_t side, std::int64_t stride, std::int64_t padding) {
  return (extent + 2 * padding - side) / stride + 1;
}

using detail::Window;

/// y = (W ∗ x) ⊙ factor + shift, and what of it stays for gradients of x.
struct Step {
  at::Tensor x, weight, factor, shift;  ///< none of them a variable, x rectified where it is to be
  bool rectified;
  Window window;
  bool tiled() const { return detail::can_be_tiled(x, weight.size(0), window); }
};

/// The step as one of x that is a variable; what goes back to that has no further derivative.
struct Convolution : Function<Convolution> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& variable, const Step* step,
                            at::Tensor* plain) {
    static_cast<void>(variable);
    const auto& [x, weight, factor, shift, rectified, window] = *step;
    const auto by_channel = [](const at::Tensor& of) { return of.view({1, -1, 1, 1}); };
    *plain = convolved(x, weight, {}, window.side, window.stride, window.padding);
    auto y = *plain;
    if (factor.defined()) y = y * by_channel(factor);
    if (shift.defined()) y = y + by_channel(shift);
    const auto back = factor.defined() ? weight * factor.unsqueeze(1) : weight;
    auto& saved = context->saved_data;
    saved["x"] = x;
    saved["tiled"] = step->tiled();
    saved["rectified"] = rectified;
    saved["weight"] = step->tiled() ? detail::turned_filters(back)
                                    : back.view({back.size(0), x.size(1), window.side, window.side});
    saved["stride"] = window.stride;
    saved["padding"] = window.padding;
    return y;
  }
  static Variables backward(AutogradContext* context, const Variables& dy) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "a recorded convolution has no second derivative");
    auto& saved = context->saved_data;
    const auto &x = saved["x"].toTensor(), &weight = saved["weight"].toTensor();
    const bool rectified = saved["rectified"].toBool();
    if (saved["tiled"].toBool())
      return {detail::input_gradient(dy[0], weight, rectified ? x : at::Tensor()), {}, {}};
    const auto stride = saved["stride"].toInt(), padding = saved["padding"].toInt();
    const auto dx =
        std::get<0>(at::convolution_backward(detail::with_channels_last(dy[0]), x, weight, std::nullopt,
                                             {stride, stride}, {padding, padding}, {1, 1},
                                             /*transposed=*/false, {0, 0}, 1, {true, false, false}));
    return {rectified ? at::threshold_backward(dx, x, 0) : dx, {}, {}};
  }
};

}  // namespace

namespace detail {

at::Tensor patches(const at::Tensor& x, const Window& window) {
  const auto [side, stride, padding] = window;
  const auto n = x.size(0), in = x.size(1), h = places_along(x.size(2), side, stride, padding),
             w = places_along(x.size(3), side, stride, padding);
  const auto padded = at::constant_pad_nd(with_channels_last(x), {padding, padding, padding, padding})
                          .permute({0, 2, 3, 1})
                          .contiguous();
  const auto row = padded.stride(1), place = padded.stride(2);
  return padded
      .as_strided({n, h, w, side, side * in}, {padded.stride(0), stride * row, stride * place, row, 1})
      .reshape({n, h * w, side * side, in});
}

at::Tensor per_sample_filters(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& factor) {
  const auto n = dy.size(0), out = dy.size(1), places = x.size(1), width = x.size(2) * x.size(3);
  const bool here = dy.is_cpu() && dy.scalar_type() == at::kFloat && x.scalar_type() == at::kFloat &&
                    out % lanes_at_once == 0 && width % lanes_at_once == 0;
  if (!here) {
    const auto left = dy.flatten(2);
    return at::bmm(factor.defined() ? left * factor.unsqueeze(1) : left, x.flatten(2)).view({n, -1});
  }
  const auto pictures = with_channels_last(dy.detach());
  const auto patches = x.contiguous();
  auto all = at::empty({n, out, width}, dy.options().requires_grad(false));
  const float *left = pictures.const_data_ptr<float>(), *right = patches.const_data_ptr<float>();
  float* filters = all.mutable_data_ptr<float>();
  at::parallel_for(0, n, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i)
      by_columns(width, [&]<int columns, int rows>() {
        for (std::int64_t c = 0; c < width; c += columns * lanes)
          for (std::int64_t o = 0; o < out; o += rows)
            product_sums<rows, columns>(left + i * places * out + o, 1, out, right + i * places * width + c,
                                        width, places, filters + (i * out + o) * width + c, width);
      });
  });
  if (factor.defined()) all.mul_(factor.unsqueeze(1));
  return all.view({n, -1});
}

RecordedConvolution record_convolution(const Recorded& x, bool rectified, const Recorded& weight,
                                       const at::Tensor& factor, const at::Tensor& shift,
                                       const Window& window) {
  const auto given = rectified ? at::relu(x.value.detach()) : x.value.detach();
  const Step step{given, weight.value, factor, shift, rectified, window};
  RecordedConvolution convolution;
  convolution.y.tape = x.tape;
  convolution.y.value = Convolution::apply(x.value, &step, &convolution.plain);
  const auto output = keep(*x.tape, convolution.y.value);
  x.tape->uses.push_back({step.tiled() ? Use::Form::tiled : Use::Form::convolution,
                          weight.block,
                          step.tiled() ? given : patches(given, window),
                          {},
                          output,
                          0,
                          factor});
  return convolution;
}

Counted count_convolution(const Counted& x, const Counted& weight, const Window& window) {
  const auto [side, stride, padding] = window;
  auto y = counted(x.meter, {x.shape[0], weight.shape[0], places_along(x.shape[2], side, stride, padding),
                             places_along(x.shape[3], side, stride, padding)});
  const double all = static_cast<double>(y.shape[0] * y.shape[2] * y.shape[3]);
  y.meter->multiply(2 * all * numbers(weight), weight.block);
  y.meter->use_matrix({weight.block, all / static_cast<double>(x.shape[0]),
                       static_cast<double>(weight.shape[0]), static_cast<double>(weight.shape[1])});
  keep(x);
  const auto tiles = tile_numbers(x.shape[1], x.shape[2], x.shape[3], weight.shape[0], window);
  y.meter->record(tiles > 0 ? static_cast<double>(x.shape[0] * tiles)
                            : all * static_cast<double>(weight.shape[1]));  // patches
  return y;
}

}  // namespace detail

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, std::int64_t side,
                    std::int64_t stride, std::int64_t padding) {
  return convolved(x, weight, bias, side, stride, padding);
}

Dual convolve(const Dual& x, const Dual& weight, const Dual& bias, std::int64_t side, std::int64_t stride,
              std::int64_t padding) {
  Dual y{convolved(x.value, weight.value, bias.value, side, stride, padding), {}};
  y.tangent = detail::tangent_of([&] {  // dW ∗ x + db + W ∗ dx
    at::Tensor t;
    if (weight.tangent.defined()) t = convolved(x.value, weight.tangent, bias.tangent, side, stride, padding);
    if (x.tangent.defined()) {
      const auto& rest = t.defined() ? at::Tensor() : bias.tangent;
      t = detail::sum_of(t, convolved(x.tangent, weight.value, rest, side, stride, padding));
    }
    return t;
  });
  return y;
}

Recorded convolve(const Recorded& x, const Recorded& weight, const Recorded& bias, std::int64_t side,
                  std::int64_t stride, std::int64_t padding) {
  auto y = detail::record_convolution(x, false, weight, {}, bias.value, {side, stride, padding}).y;
  if (bias.value.defined())
    y.tape->uses.push_back({Use::Form::channel_sum, bias.block, {}, {}, y.tape->outputs.size() - 1});
  return y;
}

Counted convolve(const Counted& x, const Counted& weight, const Counted& bias, std::int64_t side,
                 std::int64_t stride, std::int64_t padding) {
  static_cast<void>(bias);
  auto y = detail::count_convolution(x, weight, {side, stride, padding});
  y.meter->record(y.storage);
  return y;
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, std::int64_t side, std::int64_t stride,
                    std::int64_t padding) {
  return convolve(x, weight, at::Tensor(), side, stride, padding);
}
Dual convolve(const Dual& x, const Dual& weight, std::int64_t side, std::int64_t stride,
              std::int64_t padding) {
  return convolve(x, weight, Dual{}, side, stride, padding);
}
Recorded convolve(const Recorded& x, const Recorded& weight, std::int64_t side, std::int64_t stride,
                  std::int64_t padding) {
  return convolve(x, weight, Recorded{}, side, stride, padding);
}
Counted convolve(const Counted& x, const Counted& weight, std::int64_t side, std::int64_t stride,
                 std::int64_t padding) {
  return convolve(x, weight, Counted{}, side, stride, padding);
}

at::Tensor channels_last(const at::Tensor& x) { return x.permute({0, 2, 3, 1}); }
at::Tensor channels_first(const at::Tensor& x) { return x.permute({0, 3, 1, 2}); }

namespace {

template <class View>
Dual viewed(const Dual& x, View view) {
  return {view(x.value), x.tangent.defined() ? view(x.tangent) : at::Tensor()};
}

}  // namespace

Dual channels_last(const Dual& x) {
  return viewed(x, [](const at::Tensor& of) { return channels_last(of); });
}
Dual channels_first(const Dual& x) {
  return viewed(x, [](const at::Tensor& of) { return channels_first(of); });
}

Recorded channels_last(const Recorded& x) { return {channels_last(x.value), x.tape, -1}; }
Recorded channels_first(const Recorded& x) { return {channels_first(x.value), x.tape, -1}; }

Counted channels_last(const Counted& x) {
  return {{x.shape[0], x.shape[2], x.shape[3], x.shape[1]}, x.storage, x.meter, -1};
}
Counted channels_first(const Counted& x) {
  return {{x.shape[0], x.shape[3], x.shape[1], x.shape[2]}, x.storage, x.meter, -1};
}

at::Tensor mean_places(const at::Tensor& x) { return x.mean(at::IntArrayRef{2, 3}); }

Dual mean_places(const Dual& x) {
  return {mean_places(x.value),
          detail::tangent_of([&] { return x.tangent.defined() ? mean_places(x.tangent) : at::Tensor(); })};
}

Recorded mean_places(const Recorded& x) { return {mean_places(x.value), x.tape, -1}; }

Counted mean_places(const Counted& x) { return detail::counted(x.meter, {x.shape[0], x.shape[1]}); }

at::Tensor max_pool(const at::Tensor& x, std::int64_t side, std::int64_t stride, std::int64_t padding) {
  return at::max_pool2d(x, {side, side}, {stride, stride}, {padding, padding});
}

Dual max_pool(const Dual& x, std::int64_t side, std::int64_t stride, std::int64_t padding) {
  const auto [value, places] =
      at::max_pool2d_with_indices(x.value, {side, side}, {stride, stride}, {padding, padding});
  Dual y{value, {}};
  y.tangent = detail::tangent_of([&, at = places] {  // dx at the places that were the largest
    if (!x.tangent.defined()) return at::Tensor();
    return x.tangent.flatten(2).gather(2, at.flatten(2)).view(at.sizes());
  });
  return y;
}

Recorded max_pool(const Recorded& x, std::int64_t side, std::int64_t stride, std::int64_t padding) {
  return {max_pool(x.value, side, stride, padding), x.tape, -1};
}

Counted max_pool(const Counted& x, std::int64_t side, std::int64_t stride, std::int64_t padding) {
  auto y = detail::counted(x.meter, {x.shape[0], x.shape[1], places_along(x.shape[2], side, stride, padding),
                                     places_along(x.shape[3], side, stride, padding)});
  detail::keep(x);
  y.meter->keep(2 * detail::numbers(y));  // places, int64
  return y;
}

at::Tensor thin_out(const at::Tensor& x, std::int64_t stride, std::int64_t channels) {
  return at::constant_pad_nd(thinned(x, stride), {0, 0, 0, 0, 0, channels - x.size(1)});
}

Dual thin_out(const Dual& x, std::int64_t stride, std::int64_t channels) {
  return {thin_out(x.value, stride, channels), detail::tangent_of([&] {
            return x.tangent.defined() ? thin_out(x.tangent, stride, channels) : at::Tensor();
          })};
}

Recorded thin_out(const Recorded& x, std::int64_t stride, std::int64_t channels) {
  return {thin_out(x.value, stride, channels), x.tape, -1};
}

Counted thin_out(const Counted& x, std::int64_t stride, std::int64_t channels) {
  return detail::counted(x.meter, {x.shape[0], channels, places_along(x.shape[2], 1, stride, 0),
                                   places_along(x.shape[3], 1, stride, 0)});
}

}  // namespace taugrid::autodiff
