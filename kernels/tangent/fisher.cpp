// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/tangent/fisher.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace taugrid::tangent {
namespace {

using autodiff::Block;
using autodiff::Use;
using Uses = std::vector<const Use*>;
using Form = Use::Form;

constexpr std::int64_t multiplied_out = std::int64_t{1}
                                        << 18;  // numbers of gradients at once: they stay in cache

bool is_of_table(const Use& use) { return use.form == Form::lookup || use.form == Form::rows; }

/// The use on some samples alone.
Use narrowed(const Use& use, std::int64_t begin, std::int64_t n) {
  auto part = use;
  if (use.input.defined()) part.input = use.input.narrow(0, begin, n);
  if (use.form == Form::lookup || (use.places.defined() && use.places.dim() == 3))
    part.places = use.places.narrow(0, begin, n);
  return part;
}

/// For a table [rows, d], of which a sample uses few rows: adds what it gives to each, summed over its tokens
/// and uses, then squared.
void add_of_table(const Uses& uses, const std::vector<at::Tensor>& gradients, at::Tensor table) {
  std::vector<at::Tensor> keys, vectors;
  for (const auto* use : uses) {
    const auto& dy = gradients[use->output];
    if (!dy.defined()) continue;
    const auto f = autodiff::factors(*use, dy);
    const auto first = at::arange(dy.size(0), f.left.places.options()).mul_(table.size(0)).unsqueeze(1);
    keys.push_back((f.left.places + first).flatten());
    vectors.push_back(f.right.vectors.reshape({-1, table.size(1)}));
  }
  if (keys.empty()) return;
  const auto [unique, place, counts] = at::_unique2(at::cat(keys), /*sorted=*/true, /*return_inverse=*/true);
  auto rows = at::zeros({unique.size(0), table.size(1)}, table.options());
  rows.index_add_(0, place, at::cat(vectors));
  table.index_add_(0, unique.remainder(table.size(0)), rows.square_());
}

void add_of_block(const Uses& uses, const Block& block, const std::vector<at::Tensor>& gradients,
                  std::int64_t n, at::Tensor& sum) {
  auto mine = sum.narrow(0, block.offset, block.count);
  if (std::all_of(uses.begin(), uses.end(), [](const Use* use) { return is_of_table(*use); })) {
    add_of_table(uses, gradients, mine.view(block.shape));
    return;
  }
  const auto& first = *uses.front();
  const auto& dy = gradients[first.output];
  if (uses.size() == 1 && !dy.defined()) return;
  if (uses.size() == 1 && first.form == Form::product && dy.numel() == n * dy.size(-1)) {
    // One token a sample: the square of an outer product is that of the squares.
    mine.view(block.shape).addmm_(dy.reshape({n, -1}).square().t(), first.input.reshape({n, -1}).square());
    return;
  }
  const auto at_once = std::clamp<std::int64_t>(multiplied_out / block.count, 1, n);
  for (std::int64_t i = 0; i < n; i += at_once) {
    const auto m = std::min(at_once, n - i);
    at::Tensor gradient;
    for (const auto* use : uses) {
      const auto& all = gradients[use->output];
      if (!all.defined()) continue;
      const auto part = autodiff::per_sample_gradient(narrowed(*use, i, m), block, all.narrow(0, i, m));
      gradient = gradient.defined() ? gradient + part : part;
    }
    if (!gradient.defined()) return;
    mine.add_(gradient.square().sum(0));
  }
}

}  // namespace

void add_squared_gradients(const autodiff::Layout& layout, const autodiff::Recording& recording,
                           const at::Tensor& cotangent, bool keep_graph, at::Tensor& sum) {
  const auto gradients = autodiff::output_gradients(recording, cotangent, keep_graph);
  const at::NoGradGuard no_grad;
  for (const auto& uses : autodiff::uses_by_block(recording.tape)) {
    const auto& block = layout.blocks()[static_cast<std::size_t>(uses.front()->block)];
    add_of_block(uses, block, gradients, cotangent.size(0), sum);
  }
}

}  // namespace taugrid::tangent
