// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Matrix products with a parameter, and rows of a table that is one.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {

using detail::numbers;
using detail::rows_of;
using detail::tangent_of;

// y = x Wᵀ + b

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto rows = rows_of(x);
  auto y = bias.defined() ? at::addmm(bias, rows, weight.t()) : at::mm(rows, weight.t());
  if (x.dim() == 2) return y;
  auto shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return y.view(shape);
}

Dual linear(const Dual& x, const Dual& weight, const Dual& bias) {
  Dual y{linear(x.value, weight.value, bias.value), {}};
  y.tangent = tangent_of([&] {  // dy = x dWᵀ + dx Wᵀ + db
    at::Tensor t;
    if (weight.tangent.defined())
      t = linear(x.value, weight.tangent, bias.tangent).view({-1, weight.value.size(0)});
    if (x.tangent.defined()) {
      t = t.defined() ? t.addmm_(rows_of(x.tangent), weight.value.t())
                      : linear(x.tangent, weight.value, bias.tangent).view({-1, weight.value.size(0)});
    }
    return t.defined() ? t.view(y.value.sizes()) : t;
  });
  return y;
}

Recorded linear(const Recorded& x, const Recorded& weight, const Recorded& bias) {
  Recorded y{linear(x.value, weight.value, bias.value), x.tape, -1};
  const auto output = detail::keep(*y.tape, y.value);
  y.tape->uses.push_back({Use::Form::product, weight.block, x.value.detach(), {}, output});
  if (bias.value.defined()) y.tape->uses.push_back({Use::Form::sum, bias.block, {}, {}, output});
  return y;
}

Counted linear(const Counted& x, const Counted& weight, const Counted& bias) {
  auto shape = x.shape;
  shape.back() = weight.shape[0];
  auto y = detail::counted(x.meter, shape);
  y.meter->multiply(2 * detail::rows(x) * numbers(weight), weight.block);
  y.meter->use_matrix({weight.block, detail::rows(x) / static_cast<double>(x.shape[0]),
                       static_cast<double>(weight.shape[0]), static_cast<double>(weight.shape[1])});
  detail::keep(x);
  y.meter->record(y.storage);
  static_cast<void>(bias);
  return y;
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) { return linear(x, weight, at::Tensor()); }
Dual linear(const Dual& x, const Dual& weight) { return linear(x, weight, Dual{}); }
Recorded linear(const Recorded& x, const Recorded& weight) { return linear(x, weight, Recorded{}); }
Counted linear(const Counted& x, const Counted& weight) { return linear(x, weight, Counted{}); }

// y = W[i]

namespace {

/// A step reads few of a vocabulary's rows. Where no graph of the gradient is made, it names these rows
/// alone.
struct Lookup : torch::autograd::Function<Lookup> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& table,
                            const at::Tensor& places) {
    context->save_for_backward({places});
    context->saved_data["rows"] = table.size(0);
    return at::embedding(table, places);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto places = context->get_saved_variables()[0];
    const auto rows = context->saved_data["rows"].toInt();
    const auto& dy = gradients[0];
    if (at::GradMode::is_enabled() || !dy.is_cpu())
      return {at::embedding_dense_backward(dy, places, rows, -1, false), {}};
    return {at::_sparse_coo_tensor_unsafe(places.reshape({1, -1}), rows_of(dy), {rows, dy.size(-1)}), {}};
  }
};

}  // namespace

at::Tensor lookup(const at::Tensor& table, const at::Tensor& places) { return Lookup::apply(table, places); }

Dual lookup(const Dual& table, const at::Tensor& places) {
  return {lookup(table.value, places), tangent_of([&] {
            return table.tangent.defined() ? lookup(table.tangent, places) : at::Tensor();
          })};
}

Recorded lookup(const Recorded& table, const at::Tensor& places) {
  Recorded y{lookup(table.value, places), table.tape, -1};
  y.tape->uses.push_back({Use::Form::lookup, table.block, {}, places, detail::keep(*y.tape, y.value)});
  return y;
}

Counted lookup(const Counted& table, const at::Tensor& places) {
  auto y = detail::counted(table.meter, {places.size(0), places.size(1), table.shape[1]});
  y.meter->use_matrix(
      {table.block, static_cast<double>(places.size(1)), static_cast<double>(table.shape[1]), 1});
  y.meter->record(y.storage);
  return y;
}

// y_c = ⟨z, E[i_c]⟩ + b[i_c]

at::Tensor word_logits(const at::Tensor& z, const at::Tensor& table, const at::Tensor& words) {
  return at::mm(z, table.index_select(0, words).t());
}

at::Tensor word_logits(const at::Tensor& z, const at::Tensor& table, const at::Tensor& bias,
                       const at::Tensor& words) {
  return word_logits(z, table, words) + bias.index_select(0, words).t();
}

namespace {

/// ⟨dz, E[i_c]⟩ + ⟨z, dE[i_c]⟩; undefined where neither varies.
at::Tensor product_tangent(const Dual& z, const Dual& table, const at::Tensor& words) {
  at::Tensor t;
  if (z.tangent.defined()) t = word_logits(z.tangent, table.value, words);
  if (table.tangent.defined()) t = detail::sum_of(t, word_logits(z.value, table.tangent, words));
  return t;
}

}  // namespace

Dual word_logits(const Dual& z, const Dual& table, const at::Tensor& words) {
  return {word_logits(z.value, table.value, words),
          tangent_of([&] { return product_tangent(z, table, words); })};
}

Recorded word_logits(const Recorded& z, const Recorded& table, const at::Tensor& words) {
  Recorded y{word_logits(z.value, table.value, words), z.tape, -1};
  const auto output = detail::keep(*y.tape, y.value);
  y.tape->uses.push_back({Use::Form::rows, table.block, z.value.detach(), words, output});
  return y;
}

Dual word_logits(const Dual& z, const Dual& table, const Dual& bias, const at::Tensor& words) {
  Dual y{word_logits(z.value, table.value, bias.value, words), {}};
  y.tangent = tangent_of([&] {
    const auto t = product_tangent(z, table, words);
    if (!bias.tangent.defined()) return t;
    return detail::sum_of(t, bias.tangent.index_select(0, words).t().expand_as(y.value).contiguous());
  });
  return y;
}

Recorded word_logits(const Recorded& z, const Recorded& table, const Recorded& bias,
                     const at::Tensor& words) {
  Recorded y{word_logits(z.value, table.value, bias.value, words), z.tape, -1};
  const auto output = detail::keep(*y.tape, y.value);
  y.tape->uses.push_back({Use::Form::rows, table.block, z.value.detach(), words, output});
  const auto ones = at::ones({z.value.size(0), 1}, z.value.options());
  y.tape->uses.push_back({Use::Form::rows, bias.block, ones, words, output});
  return y;
}

Counted word_logits(const Counted& z, const Counted& table, const Counted& bias, const at::Tensor& words) {
  static_cast<void>(bias);
  return word_logits(z, table, words);
}

Counted word_logits(const Counted& z, const Counted& table, const at::Tensor& words) {
  auto y = detail::counted(z.meter, {z.shape[0], words.size(0)});
  y.meter->multiply(2 * numbers(z) * static_cast<double>(words.size(0)), table.block);
  detail::keep(z);
  y.meter->keep(static_cast<double>(words.size(0) * table.shape[1]));
  y.meter->record(y.storage);
  return y;
}

}  // namespace taugrid::autodiff
