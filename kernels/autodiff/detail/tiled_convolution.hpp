// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Convolutions of 3×3 places, stride 1 and padding 1, by tiles of 4×4 places of the output (Winograd's
// minimal filtering F(4×4, 3×3), Lavin and Gray 2016): of each tile 36 products a pair of channels instead of
// 144. With
//   Y = Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A
// for a filter g [3,3], the tile's input d [6,6] and output Y [4,4], the gradient of g is
//   Gᵀ[Σ_tiles (Bᵀ d B) ⊙ (A dY Aᵀ)]G,
// and that of the input is the convolution of dY with g turned round. On a host, in float32, whose rounding
// the tiles' sums and differences multiply by about ten.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/autodiff/detail/convolution.hpp"
#include "kernels/range.hpp"

namespace taugrid::autodiff::detail {

/// Numbers of tiles_of() a sample [in, h, w], where such convolutions with `out` filters can be taken by
/// tiles on a host; else 0.
std::int64_t tile_numbers(std::int64_t in, std::int64_t h, std::int64_t w, std::int64_t out,
                          const Window& window);

/// Whether such convolutions of x [n, in, h, w] with `out` filters can be taken by tiles here.
bool can_be_tiled(const at::Tensor& x, std::int64_t out, const Window& window);

/// Bᵀ d B of all tiles: x [n, in, h, w] → [n, 36, …], for per_sample_tiled_filters().
at::Tensor tiles_of(const at::Tensor& x);

/// G g Gᵀ of W [out, in·9] turned round, for gradients of inputs: [36, out, in].
at::Tensor turned_filters(const at::Tensor& weight);

/// dx [n, in, h, w] of y = W ∗ x, for dy [n, out, h, w] and what turned_filters() makes of W; with
/// `rectified` [n, in, h, w], which x was made by max(·, 0), 0 where that is 0.
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& turned, const at::Tensor& rectified);

/// Σ_places (dy ⊙ factor) ⊗ x of each sample, of these filters, channels last: tiles_of(x), dy [n, out, h, w]
/// and factor [out] or undefined → [n, filters.count·9·in]. Filters come in multiples of tiled_filters().
at::Tensor per_sample_tiled_filters(const at::Tensor& tiles, const at::Tensor& dy, const at::Tensor& factor,
                                    Range filters);
std::int64_t tiled_filters();

}  // namespace taugrid::autodiff::detail
