// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/tangent/detail/gram_of_uses.hpp"

#include <ATen/ATen.h>

#include <utility>

#include "kernels/tangent/detail/row_products.hpp"

namespace taugrid::tangent::detail {
namespace {

using autodiff::Factors;
using autodiff::Side;
using autodiff::Use;

/// Whether one side follows from the forward pass alone, and so is the same for all logits.
bool has_fixed_side(const Use& use) { return autodiff::is_factored(use) && use.form != Use::Form::rows; }

Side moving_side(const Use& use, const at::Tensor& gradient) {
  auto f = autodiff::factors(use, gradient);
  return use.form == Use::Form::lookup ? f.right : f.left;
}

std::int64_t tokens_of(const Side& side) {
  return side.vectors.defined() ? side.vectors.size(1) : side.places.size(1);
}

/// Tokens of side_of_input() and their width, 1 of places, without the patches of a convolution by tiles.
std::pair<std::int64_t, std::int64_t> extent_of_input(const Use& use) {
  if (use.form == Use::Form::tiled) return {use.input.size(2) * use.input.size(3), 9 * use.input.size(1)};
  const auto x = autodiff::side_of_input(use);
  return {tokens_of(x), x.vectors.defined() ? x.vectors.size(2) : 1};
}

Side rows_of(const Side& side, std::int64_t from, std::int64_t to) {
  return {side.vectors.defined() ? side.vectors.slice(0, from, to) : at::Tensor(),
          side.places.defined() ? side.places.slice(0, from, to) : at::Tensor()};
}

at::Tensor flat(const at::Tensor& x) { return x.flatten(0, 1); }

/// ⟨x_it, y_js⟩ [samples of x · tokens, samples of y · tokens], in numbers of `type`.
at::Tensor products(const Side& x, const Side& y, at::ScalarType type) {
  if (x.vectors.defined() && y.vectors.defined()) return at::mm(flat(x.vectors), flat(y.vectors).t());
  if (x.places.defined() && y.places.defined())
    return flat(x.places).unsqueeze(1).eq(flat(y.places).unsqueeze(0)).to(type);
  if (x.vectors.defined()) return flat(x.vectors).index_select(1, flat(y.places));  // ⟨a, e_i⟩ = a_i
  return flat(y.vectors).index_select(1, flat(x.places)).t();
}

/// [r·t, m·s] → [r, m]
at::Tensor over_tokens(const at::Tensor& both, std::int64_t t, std::int64_t s) {
  return both.view({both.size(0) / t, t, both.size(1) / s, s}).sum({1, 3});
}

at::Tensor all_products(const Side& x, const Window& window, at::ScalarType type) {
  const auto t = tokens_of(x);
  const auto& like = x.vectors.defined() ? x.vectors : x.places;
  auto all = at::empty({window.rows() * t, window.n * t}, like.options().dtype(type));
  window.each_piece([&](std::int64_t i, std::int64_t end, std::int64_t j) {
    auto out = all.slice(0, (i - window.begin) * t, (end - window.begin) * t).slice(1, j * t);
    const auto rows = rows_of(x, i, end), columns = rows_of(x, j, window.n);
    if (x.vectors.defined()) {
      at::mm_out(out, flat(rows.vectors), flat(columns.vectors).t());
    } else {
      out.copy_(products(rows, columns, type));
    }
  });
  return all;
}

/// K += Σ_{t,s} ⟨a_it, a_js⟩⟨b_it, b_js⟩, the products of b being there.
void add_sides(at::Tensor& kernel, const Side& a, const at::Tensor& of_b, const Window& window) {
  const auto t = tokens_of(a);
  window.each_piece([&](std::int64_t i, std::int64_t end, std::int64_t j) {
    const auto row = i - window.begin, r = end - i;
    auto both = products(rows_of(a, i, end), rows_of(a, j, window.n), of_b.scalar_type());
    both.mul_(of_b.slice(0, row * t, (row + r) * t).slice(1, j * t));
    kernel.slice(0, row, row + r).slice(1, j).add_(over_tokens(both, t, t));
  });
}

}  // namespace

bool by_sides_is_better(double tokens, double out, double in, double size, const Window& window,
                        std::int64_t logits, std::int64_t workspace) {
  const double n = static_cast<double>(window.n),
               pairs = window.fraction() * n * static_cast<double>(window.rows());
  const double direct = (n * tokens + pairs) * size;  // multiplications a logit
  const double by_sides = pairs * tokens * tokens * (out + in / static_cast<double>(logits));
  return by_sides < direct || n * size > static_cast<double>(workspace);
}

GramOfUses::GramOfUses(std::vector<const Use*> uses, const autodiff::Block& block, const autodiff::Tape& tape,
                       const Window& window, std::int64_t logits, std::int64_t& workspace)
    : uses_(std::move(uses)), block_(block), window_(window), parts_(*uses_.front()) {
  if (!std::all_of(uses_.begin(), uses_.end(), [](const Use* use) { return autodiff::is_factored(*use); }))
    return;
  const auto size = static_cast<double>(block.count);
  if (uses_.size() > 1 || !has_fixed_side(*uses_.front())) {
    const bool looked_up = std::any_of(uses_.begin(), uses_.end(), [](const Use* use) {
      return use->form == Use::Form::lookup || use->form == Use::Form::rows;
    });
    const bool too_large = static_cast<double>(window.n) * size > static_cast<double>(workspace);
    if (too_large || looked_up) way_ = Way::pairs_of_uses;  // a table's gradients are zero nearly everywhere
    return;
  }
  const auto& use = *uses_.front();
  const auto& output = tape.outputs[use.output];
  const auto [t, in] = extent_of_input(use);
  const double tokens = static_cast<double>(t), width = static_cast<double>(in),
               out = static_cast<double>(use.form == Use::Form::product || use.form == Use::Form::lookup
                                             ? output.size(-1)
                                             : output.size(1));
  const auto needed = window.rows() * window.n * t * t;
  // Work space bounds both: where neither fits, the fixed side's products are found again for each logit.
  if (!by_sides_is_better(tokens, out, width, size, window, logits, workspace)) return;
  way_ = Way::by_sides;
  if (needed <= workspace) {
    workspace -= needed;
    fixed_products_ = all_products(autodiff::side_of_input(use), window, output.scalar_type());
  }
}

void GramOfUses::add(at::Tensor& kernel, const at::Tensor& gradient) const {
  if (way_ == Way::by_sides) return add_by_sides(kernel, gradient);
  parts_.each(block_, gradient, [&](const at::Tensor& part) { add_row_products(kernel, part, window_); });
}

void GramOfUses::add_all(at::Tensor& kernel, const std::vector<at::Tensor>& gradients) const {
  if (way_ == Way::pairs_of_uses) return add_pairs(kernel, gradients);
  at::Tensor sum;  // of the uses' gradients
  for (const auto* use : uses_) {
    const auto& dy = gradients[use->output];
    if (!dy.defined()) continue;
    const auto gradient = autodiff::unordered_gradient(*use, block_, dy);
    sum = sum.defined() ? sum + gradient : gradient;
  }
  if (sum.defined()) add_row_products(kernel, sum, window_);
}

void GramOfUses::add_by_sides(at::Tensor& kernel, const at::Tensor& gradient) const {
  const auto& use = *uses_.front();
  const auto a = moving_side(use, gradient);
  if (fixed_products_.defined()) return add_sides(kernel, a, fixed_products_, window_);
  const auto x = autodiff::side_of_input(use);
  for (auto i = window_.begin; i < window_.end; ++i) {  // a row of samples at a time
    const Window row{window_.n, i, i + 1};
    auto out = kernel.slice(0, i - window_.begin, i - window_.begin + 1);
    add_sides(out, a, all_products(x, row, gradient.scalar_type()), row);
  }
}

/// Σ over ordered pairs of uses (u, v): ⟨gradient of u at i, gradient of v at j⟩.
void GramOfUses::add_pairs(at::Tensor& kernel, const std::vector<at::Tensor>& gradients) const {
  std::vector<Factors> all;
  for (const auto* use : uses_) {
    if (gradients[use->output].defined()) all.push_back(autodiff::factors(*use, gradients[use->output]));
  }
  for (const auto& u : all) {
    for (const auto& v : all) {
      window_.each_piece([&](std::int64_t i, std::int64_t end, std::int64_t j) {
        const auto type = kernel.scalar_type();
        const auto both = products(rows_of(u.left, i, end), rows_of(v.left, j, window_.n), type) *
                          products(rows_of(u.right, i, end), rows_of(v.right, j, window_.n), type);
        kernel.slice(0, i - window_.begin, end - window_.begin)
            .slice(1, j)
            .add_(over_tokens(both, tokens_of(u.left), tokens_of(v.left)));
      });
    }
  }
}

}  // namespace taugrid::tangent::detail
