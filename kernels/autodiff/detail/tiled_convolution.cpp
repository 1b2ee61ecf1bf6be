// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/autodiff/detail/tiled_convolution.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/lanes.hpp"

namespace taugrid::autodiff::detail {
namespace {

constexpr auto channels_at_once = lanes_at_once;  // a multiple of these can be tiled
constexpr std::int64_t out_side = 4, in_side = 6, points = in_side * in_side;

// One dimension of each transform: `x` and `y` are `step` vectors from one number to the next.

/// y [6] = Bᵀ x [6]
inline void to_tile(const Lanes* x, std::ptrdiff_t step, Lanes* y, std::ptrdiff_t to) {
  const Lanes x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step], x5 = x[5 * step];
  const Lanes a = x4 - 4.0F * x2, b = x3 - 4.0F * x1, c = x4 - x2, d = 2.0F * (x3 - x1);
  y[0] = 4.0F * x0 - 5.0F * x2 + x4;
  y[to] = a + b;
  y[2 * to] = a - b;
  y[3 * to] = c + d;
  y[4 * to] = c - d;
  y[5 * to] = 4.0F * x1 - 5.0F * x3 + x5;
}

/// y [4] = Aᵀ x [6]
inline void to_output(const Lanes* x, std::ptrdiff_t step, Lanes* y, std::ptrdiff_t to) {
  const Lanes x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step];
  const Lanes sum = x1 + x2, difference = x1 - x2, far_sum = x3 + x4, far_difference = x3 - x4;
  y[0] = x[0] + sum + far_sum;
  y[to] = difference + 2.0F * far_difference;
  y[2 * to] = sum + 4.0F * far_sum;
  y[3 * to] = difference + 8.0F * far_difference + x[5 * step];
}

/// y [6] = A x [4]
inline void from_output(const Lanes* x, std::ptrdiff_t step, Lanes* y, std::ptrdiff_t to) {
  const Lanes x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
  const Lanes even = x0 + x2, odd = x1 + x3, far_even = x0 + 4.0F * x2, far_odd = 2.0F * x1 + 8.0F * x3;
  y[0] = x0;
  y[to] = even + odd;
  y[2 * to] = even - odd;
  y[3 * to] = far_even + far_odd;
  y[4 * to] = far_even - far_odd;
  y[5 * to] = x3;
}

/// y [3] = Gᵀ x [6]
inline void to_filter(const Lanes* x, std::ptrdiff_t step, Lanes* y, std::ptrdiff_t to) {
  const Lanes x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step];
  const Lanes sixth = (1.0F / 6.0F) * (x1 + x2), far_sum = x3 + x4;
  y[0] = 0.25F * x[0] - sixth + (1.0F / 24.0F) * far_sum;
  y[to] = (1.0F / 6.0F) * (x2 - x1) + (1.0F / 12.0F) * (x3 - x4);
  y[2 * to] = (1.0F / 6.0F) * far_sum - sixth + x[5 * step];
}

/// A picture [h, w, channels] and its tiles, the last of which go beyond it.
struct Picture {
  std::int64_t h, w, channels;
  std::int64_t down() const { return (h + out_side - 1) / out_side; }
  std::int64_t along() const { return (w + out_side - 1) / out_side; }
  std::int64_t tiles() const { return down() * along(); }
  std::int64_t size() const { return h * w * channels; }
};

/// `side`² places from (y, x) of `lanes` channels, zeros beyond the picture.
template <std::int64_t side>
inline void load(const Picture& of, const float* picture, std::int64_t y, std::int64_t x, Lanes* d) {
  const bool inside = y >= 0 && x >= 0 && y + side <= of.h && x + side <= of.w;
  for (std::int64_t i = 0; i < side; ++i) {
    const float* row = picture + ((y + i) * of.w + x) * of.channels;
    for (std::int64_t j = 0; j < side; ++j) {
      const bool there = inside || (y + i >= 0 && y + i < of.h && x + j >= 0 && x + j < of.w);
      d[i * side + j] = there ? read(row + j * of.channels) : Lanes{};
    }
  }
}

// Memory has each point's numbers of some tiles together, [36][tiles, channels], and behind them some
// places that are not used: without these, all points of a tile would share one set of the cache's.
std::int64_t step_of(std::int64_t tiles, std::int64_t channels) {
  return tiles * channels + channels_at_once;
}

// Takes one tile, about `lanes` channels of the picture, `step` numbers from point to point.

/// Bᵀ d B of tile t.
inline void tile_of_input(const Picture& of, const float* picture, std::int64_t t, float* tile,
                          std::int64_t step) {
  Lanes d[points], half[points];
  load<in_side>(of, picture, t / of.along() * out_side - 1, t % of.along() * out_side - 1, d);
  for (std::int64_t j = 0; j < in_side; ++j) to_tile(d + j, in_side, half + j, in_side);
  for (std::int64_t i = 0; i < in_side; ++i) to_tile(half + i * in_side, 1, d + i * in_side, 1);
  for (std::int64_t p = 0; p < points; ++p) write(tile + p * step, d[p]);
}

/// A dY Aᵀ of tile t.
inline void tile_of_gradient(const Picture& of, const float* picture, std::int64_t t, float* tile,
                             std::int64_t step) {
  Lanes d[out_side * out_side], half[in_side * out_side], row[in_side];
  load<out_side>(of, picture, t / of.along() * out_side, t % of.along() * out_side, d);
  for (std::int64_t j = 0; j < out_side; ++j) from_output(d + j, out_side, half + j, out_side);
  for (std::int64_t i = 0; i < in_side; ++i) {
    from_output(half + i * out_side, 1, row, 1);
    for (std::int64_t j = 0; j < in_side; ++j) write(tile + (i * in_side + j) * step, row[j]);
  }
}

/// Aᵀ m A of tile t into the picture, as far as that goes; 0 where the mask is no number above 0.
inline void output_of_tile(const Picture& of, const float* tile, std::int64_t step, std::int64_t t,
                           const float* mask, float* picture) {
  Lanes m[points], half[out_side * in_side], row[out_side];
  for (std::int64_t p = 0; p < points; ++p) m[p] = read(tile + p * step);
  for (std::int64_t j = 0; j < in_side; ++j) to_output(m + j, in_side, half + j, in_side);
  const auto y = t / of.along() * out_side, x = t % of.along() * out_side;
  for (std::int64_t i = 0; i < std::min(out_side, of.h - y); ++i) {
    to_output(half + i * in_side, 1, row, 1);
    for (std::int64_t j = 0; j < std::min(out_side, of.w - x); ++j) {
      const auto place = ((y + i) * of.w + x + j) * of.channels;
      if (mask != nullptr) row[j] = read(mask + place) > 0.0F ? row[j] : Lanes{};
      write(picture + place, row[j]);
    }
  }
}

/// Gᵀ m G times a number; the filter's places are `channels` numbers from one to the next.
inline void filter_of(const float* m, std::int64_t step, std::int64_t channels, float times, float* filter) {
  Lanes all[points], half[3 * in_side], row[3];
  for (std::int64_t p = 0; p < points; ++p) all[p] = read(m + p * step);
  for (std::int64_t j = 0; j < in_side; ++j) to_filter(all + j, in_side, half + j, in_side);
  for (std::int64_t i = 0; i < 3; ++i) {
    to_filter(half + i * in_side, 1, row, 1);
    for (std::int64_t j = 0; j < 3; ++j) write(filter + (i * 3 + j) * channels, times * row[j]);
  }
}

at::Tensor channels_last(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }
Picture picture_of(const at::Tensor& x) { return {x.size(2), x.size(3), x.size(1)}; }

}  // namespace

std::int64_t tile_numbers(std::int64_t in, std::int64_t h, std::int64_t w, std::int64_t out,
                          const Window& window) {
  constexpr bool is_faster = lanes > 4;  // ATen's choose a processor's instructions when they run
  const bool tiled = is_faster && window.side == 3 && window.stride == 1 && window.padding == 1 &&
                     in % channels_at_once == 0 && out % channels_at_once == 0;
  return tiled ? points * step_of(Picture{h, w, in}.tiles(), in) : 0;
}

bool can_be_tiled(const at::Tensor& x, std::int64_t out, const Window& window) {
  return x.is_cpu() && x.scalar_type() == at::kFloat &&
         tile_numbers(x.size(1), x.size(2), x.size(3), out, window) > 0;
}

at::Tensor tiles_of(const at::Tensor& x) {
  const auto pictures = channels_last(x.detach());
  const auto of = picture_of(x);
  const auto n = x.size(0), count = of.tiles(), step = step_of(count, of.channels);
  auto all = at::empty({n, points, step}, x.options().requires_grad(false));
  const float* from = pictures.const_data_ptr<float>();
  float* to = all.mutable_data_ptr<float>();
  at::parallel_for(0, n, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i)
      for (std::int64_t t = 0; t < count; ++t)
        for (std::int64_t c = 0; c < of.channels; c += lanes)
          tile_of_input(of, from + i * of.size() + c, t, to + i * points * step + t * of.channels + c, step);
  });
  return all;
}

at::Tensor turned_filters(const at::Tensor& weight) {
  const auto g = at::tensor({0.25, 0., 0., -1 / 6., -1 / 6., -1 / 6., -1 / 6., 1 / 6., -1 / 6., 1 / 24.,
                             1 / 12., 1 / 6., 1 / 24., -1 / 12., 1 / 6., 0., 0., 1.},
                            at::kDouble)
                     .view({in_side, 3});
  const auto turned = weight.detach().view({weight.size(0), -1, 3, 3}).flip({2, 3}).to(at::kDouble);
  const auto all = at::matmul(at::matmul(g, turned), g.t());  // [out, in, 6, 6]
  return all.flatten(2).permute({2, 0, 1}).to(weight.scalar_type()).contiguous();
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& turned, const at::Tensor& rectified) {
  const auto pictures = channels_last(dy.detach());
  const auto masks = rectified.defined() ? channels_last(rectified) : at::Tensor();
  const auto from = picture_of(dy);
  const Picture to{from.h, from.w, turned.size(2)};
  const auto in_each = from.tiles(), tiles = dy.size(0) * in_each;
  auto dx = at::empty({dy.size(0), to.channels, to.h, to.w}, dy.options().requires_grad(false),
                      at::MemoryFormat::ChannelsLast);
  const float *g = turned.const_data_ptr<float>(), *source = pictures.const_data_ptr<float>();
  const float* mask = masks.defined() ? masks.const_data_ptr<float>() : nullptr;
  float* target = dx.mutable_data_ptr<float>();
  // Tiles at once: filters are read once for them, and they stay in cache.
  constexpr std::int64_t at_once = 32;
  const auto given_step = step_of(at_once, from.channels), output_step = step_of(at_once, to.channels);
  at::parallel_for(0, (tiles + at_once - 1) / at_once, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> given(static_cast<std::size_t>(points * given_step));
    std::vector<float> output(static_cast<std::size_t>(points * output_step));
    for (auto block = begin; block < end; ++block) {
      const auto first = block * at_once, count = std::min(at_once, tiles - first);
      for (std::int64_t t = 0; t < count; ++t)
        for (std::int64_t c = 0; c < from.channels; c += lanes)
          tile_of_input(from, source + (first + t) / in_each * from.size() + c, (first + t) % in_each,
                        given.data() + t * from.channels + c, given_step);
      by_columns(to.channels, [&]<int columns, int rows>() {
        static_assert(at_once % rows == 0);  // the last rows may be of no tile, and nobody reads them
        for (std::int64_t p = 0; p < points; ++p)
          for (std::int64_t c = 0; c < to.channels; c += columns * lanes)
            for (std::int64_t t = 0; t < count; t += rows)
              product_sums<rows, columns>(given.data() + p * given_step + t * from.channels, from.channels, 1,
                                          g + p * from.channels * to.channels + c, to.channels, from.channels,
                                          output.data() + p * output_step + t * to.channels + c, to.channels);
      });
      for (std::int64_t t = 0; t < count; ++t)
        for (std::int64_t c = 0; c < to.channels; c += lanes) {
          const auto picture = (first + t) / in_each * to.size() + c;
          output_of_tile(to, output.data() + t * to.channels + c, output_step, (first + t) % in_each,
                         mask != nullptr ? mask + picture : nullptr, target + picture);
        }
    }
  });
  return dx;
}

std::int64_t tiled_filters() { return channels_at_once; }

at::Tensor per_sample_tiled_filters(const at::Tensor& tiles, const at::Tensor& dy, const at::Tensor& factor,
                                    Range chosen) {
  const auto pictures = channels_last(dy.detach());
  const auto factors = factor.defined() ? factor.contiguous() : at::ones({dy.size(1)}, at::kFloat);
  const auto of = picture_of(dy);
  const auto n = dy.size(0), count = of.tiles(), out = chosen.count;
  const auto in_step = tiles.size(2), in = (in_step - channels_at_once) / count, step = step_of(count, out);
  auto all = at::empty({n, out * 9 * in}, dy.options().requires_grad(false));
  const float *inputs = tiles.const_data_ptr<float>(),
              *gradients = pictures.const_data_ptr<float>() + chosen.begin,
              *by = factors.const_data_ptr<float>() + chosen.begin;
  float* filters = all.mutable_data_ptr<float>();
  at::parallel_for(0, n, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> dy_tiles(static_cast<std::size_t>(points * step));  // of one sample
    for (auto i = begin; i < end; ++i) {
      for (std::int64_t t = 0; t < count; ++t)
        for (std::int64_t c = 0; c < out; c += lanes)
          tile_of_gradient(of, gradients + i * of.size() + c, t, dy_tiles.data() + t * out + c, step);
      const float* x = inputs + i * points * in_step;
      float* filter = filters + i * out * 9 * in;
      by_columns(in, [&]<int columns, int rows>() {
        constexpr int width = columns * lanes, sums_step = rows * width;
        alignas(64) float sums[points * sums_step];
        for (std::int64_t o = 0; o < out; o += rows)
          for (std::int64_t c = 0; c < in; c += width) {
            for (std::int64_t p = 0; p < points; ++p)
              product_sums<rows, columns>(dy_tiles.data() + p * step + o, 1, out, x + p * in_step + c, in,
                                          count, sums + p * sums_step, width);
            for (int r = 0; r < rows; ++r)
              for (int l = 0; l < width; l += lanes)
                filter_of(sums + r * width + l, sums_step, in, by[o + r], filter + (o + r) * 9 * in + c + l);
          }
      });
    }
  });
  return all;
}

}  // namespace taugrid::autodiff::detail
