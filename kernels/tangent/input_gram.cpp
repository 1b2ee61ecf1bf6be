// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A stretch of X's rows lies in panels of two registers' width, [panels][stretch, panel], whose rows are
// neighbours: those of X itself are often a power of two apart, and then share few sets of the first cache.
// Two panels of a stretch fit into that, all of them into the second. A tile's sums over a stretch are made
// in registers, and then added to G in memory.
#include "kernels/tangent/input_gram.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "kernels/full_products.hpp"
#include "kernels/lanes.hpp"
#include "kernels/require.hpp"

namespace taugrid::tangent {
namespace {

constexpr std::int64_t panel = 2 * lanes;           // columns
constexpr std::int64_t stretch_rows = 192;          // at most
constexpr int tile_sums = many_registers ? 16 : 8;  // registers
constexpr std::int64_t mirrored_at_once = 32;       // rows and columns of a block

struct Stretch {
  const float* packed;
  std::int64_t in, rows;
  const float* column(std::int64_t j) const { return packed + j / panel * panel * rows + j % panel; }
};

/// Columns of `rows` rows, each `step` from the next, to a panel, with zeros behind them.
void pack(const float* from, std::int64_t step, std::int64_t rows, std::int64_t columns, float* to) {
  for (std::int64_t k = 0; k < rows; ++k, from += step, to += panel) {
    if (columns == panel) {
      for (std::int64_t l = 0; l < panel; l += lanes) write(to + l, read(from + l));
    } else {
      std::fill(std::copy_n(from, columns, to), to + panel, 0.0F);
    }
  }
}

/// To G's rows i … i + lanes, columns j … j + columns·lanes: what is right of the diagonal, as far as G goes.
template <int columns>
void add_tiles(const Stretch& x, std::int64_t i, std::int64_t j, float* gram, std::int64_t down) {
  constexpr std::int64_t width = columns * lanes;
  constexpr int rows = std::min<int>(tile_sums / columns, lanes);
  alignas(64) float sums[rows * width];
  const auto end = std::min(j + width, x.in);
  for (const auto last = std::min(i + lanes, x.in); i < last; i += rows) {
    product_sums<rows, columns>(x.column(i), 1, panel, x.column(j), panel, x.rows, sums, width);
    for (auto r = i; r < std::min(i + rows, last); ++r) {
      const float* from = sums + (r - i) * width;
      for (auto c = std::max(j, r); c < end; ++c) gram[r * down + c] += from[c - j];
    }
  }
}

/// To G's rows i … i + lanes, in the panel that begins at column j.
void add_block(const Stretch& x, std::int64_t i, std::int64_t j, float* gram, std::int64_t down) {
  const bool single = i > j || x.in - j <= lanes;  // left of the diagonal, or beyond G, is the other
  if (single) return add_tiles<1>(x, i, std::max(i, j), gram, down);
  add_tiles<2>(x, i, j, gram, down);
}

void add_on_host(at::Tensor& gram, const at::Tensor& given) {
  const auto x = given.stride(1) == 1 ? given : given.contiguous();
  const auto rows = x.size(0), in = x.size(1), step = x.stride(0), down = gram.stride(0);
  const auto panels = (in + panel - 1) / panel, blocks = (in + lanes - 1) / lanes;
  auto packed = at::empty({panels * panel * std::min(stretch_rows, rows)}, x.options());
  const float* from = x.const_data_ptr<float>();
  float *to = packed.mutable_data_ptr<float>(), *out = gram.mutable_data_ptr<float>();
  for (std::int64_t begin = 0; begin < rows; begin += stretch_rows) {
    const Stretch stretch{to, in, std::min(stretch_rows, rows - begin)};
    at::parallel_for(0, panels, 1, [&](std::int64_t first, std::int64_t last) {
      for (auto j = first * panel; j < std::min(last * panel, in); j += panel)
        pack(from + begin * step + j, step, stretch.rows, std::min(panel, in - j), to + j * stretch.rows);
    });
    // A block of rows and its mirror image have as much to do as any other two.
    at::parallel_for(0, (blocks + 1) / 2, 1, [&](std::int64_t first, std::int64_t last) {
      const auto add = [&](std::int64_t j, std::int64_t block, std::int64_t end) {
        for (auto i = block * lanes; i < std::min(end * lanes, j + panel); i += lanes)
          add_block(stretch, i, j, out, down);
      };
      for (std::int64_t j = 0; j < in; j += panel) {
        add(j, first, last);
        add(j, std::max(last, blocks - last), blocks - first);
      }
    });
  }
}

bool is_on_host(const at::Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kFloat; }

}  // namespace

void add_input_gram(at::Tensor& gram, const at::Tensor& x) {
  require(x.dim() == 2 && gram.is_contiguous() && gram.sizes() == at::IntArrayRef({x.size(1), x.size(1)}),
          "add_input_gram: G is [in, in] and contiguous, for X [rows, in]");
  if (is_on_host(x)) return add_on_host(gram, x);
  const FullProducts full;
  // In four panels: what is right of the diagonal's blocks.
  const auto in = x.size(1), width = (in + 3) / 4;
  for (std::int64_t p = 0; p < in; p += width) {
    const auto w = std::min(width, in - p);
    gram.narrow(0, p, w).narrow(1, p, in - p).addmm_(x.narrow(1, p, w).t(), x.narrow(1, p, in - p));
  }
}

void mirror_gram(at::Tensor& gram) {
  if (!is_on_host(gram)) {
    gram.copy_(gram.triu() + gram.triu(1).t());
    return;
  }
  const auto in = gram.size(0);
  float* g = gram.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < in; i += mirrored_at_once)
    for (auto j = i; j < in; j += mirrored_at_once)
      for (auto c = j; c < std::min(j + mirrored_at_once, in); ++c)
        for (auto r = i; r < std::min({i + mirrored_at_once, in, c}); ++r) g[c * in + r] = g[r * in + c];
}

}  // namespace taugrid::tangent
