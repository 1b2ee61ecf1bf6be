// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What decoders do to heads of queries and keys before they meet: rotary positions, and norms of each head.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using Variables = torch::autograd::variable_list;

/// Which places' angles the rows of x have. Without packing they count up to `period` again and again: tokens
/// of each sample, or samples of one token each.
struct RowPlaces {
  std::vector<std::int64_t> packed;  // of each row; empty without packing
  std::int64_t rows, period;

  std::int64_t of(std::int64_t row) const {
    return packed.empty() ? row % period : packed[static_cast<std::size_t>(row)];
  }
  at::Tensor on(at::Device device) const {  // a device waits for packed ones alone, which it never has
    if (!packed.empty()) return at::tensor(packed, at::kLong).to(device);
    return at::arange(rows, at::TensorOptions(device).dtype(at::kLong)).remainder(period);
  }
};

RowPlaces places_of_rows(const at::Tensor& x, const Rotation& rotation, const Packing& packing) {
  RowPlaces row_places{{}, x.numel() / x.size(-1), 1};
  const auto places = rotation.cos.size(0);
  if (rotation.by_row) {
    TORCH_CHECK(places == row_places.rows, "rotate_heads: ", places, " places for ", row_places.rows,
                " rows");
    row_places.period = places;
  } else if (packing && x.dim() == 2) {
    row_places.packed.reserve(static_cast<std::size_t>(row_places.rows));
    for (const auto length : packing.lengths)
      for (std::int64_t t = 0; t < length; ++t) row_places.packed.push_back(t);
  } else {
    row_places.period = x.size(1) == 1 ? places : x.size(1);
  }
  return row_places;
}

/// Pairs (a, b) of the first `heads` heads become (a cos − b sin, b cos + a sin); the rest is copied.
template <class Number>
void rotate_rows(const Number* from, Number* to, std::int64_t width, const Number* cos, const Number* sin,
                 std::int64_t half, std::int64_t heads, const RowPlaces& places) {
  at::parallel_for(0, places.rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = begin; row < end; ++row) {
      const auto place = places.of(row);
      const Number *c = cos + place * half, *s = sin + place * half;
      const Number* x = from + row * width;
      Number* y = to + row * width;
      for (std::int64_t h = 0; h < heads; ++h, x += 2 * half, y += 2 * half) {
        for (std::int64_t i = 0; i < half; ++i) {
          y[i] = x[i] * c[i] - x[half + i] * s[i];
          y[half + i] = x[half + i] * c[i] + x[i] * s[i];
        }
      }
      const auto rest = width - 2 * half * heads;
      std::copy(x, x + rest, y);
    }
  });
}

/// The same by operations of ATen, for devices and for numbers that are neither float32 nor float64.
at::Tensor rotated_by_parts(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                            std::int64_t heads, const RowPlaces& places) {
  const auto half = cos.size(1), turned = 2 * half * heads;
  const auto which = places.on(x.device());
  const auto rows = x.reshape({-1, x.size(-1)});
  const auto each = rows.narrow(1, 0, turned).unflatten(1, {heads, 2 * half});
  const auto a = each.narrow(2, 0, half), b = each.narrow(2, half, half);
  const auto c = cos.index_select(0, which).unsqueeze(1), s = sin.index_select(0, which).unsqueeze(1);
  const auto all = at::cat({a * c - b * s, b * c + a * s}, 2).flatten(1);
  return at::cat({all, rows.narrow(1, turned, rows.size(1) - turned)}, 1).view(x.sizes());
}

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, std::int64_t heads,
                   const RowPlaces& places) {
  const bool plain = x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
  if (!plain) return rotated_by_parts(x, cos, sin, heads, places);
  const auto from = x.contiguous(), c = cos.contiguous(), s = sin.contiguous();
  auto to = at::empty_like(from);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rotate_heads", [&] {
    rotate_rows(from.const_data_ptr<scalar_t>(), to.mutable_data_ptr<scalar_t>(), x.size(-1),
                c.const_data_ptr<scalar_t>(), s.const_data_ptr<scalar_t>(), cos.size(1), heads, places);
  });
  return to;
}

/// A rotation is linear and its transpose is the rotation back.
struct Rotate : Function<Rotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin, std::int64_t heads, const RowPlaces& places) {
    context->saved_data["cos"] = cos;
    context->saved_data["sin"] = sin;
    context->saved_data["heads"] = heads;
    context->saved_data["packed"] = places.packed;
    context->saved_data["rows"] = places.rows;
    context->saved_data["period"] = places.period;
    return rotated(x, cos, sin, heads, places);
  }
  static Variables backward(AutogradContext* context, const Variables& gradients) {
    auto& saved = context->saved_data;
    const RowPlaces places{saved["packed"].toIntVector(), saved["rows"].toInt(), saved["period"].toInt()};
    return {Rotate::apply(gradients[0], saved["cos"].toTensor(), -saved["sin"].toTensor(),
                          saved["heads"].toInt(), places),
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

at::Tensor rotate_heads(const at::Tensor& x, const Rotation& rotation, std::int64_t heads,
                        const Packing& packing) {
  return Rotate::apply(x, rotation.cos, rotation.sin, heads, places_of_rows(x, rotation, packing));
}

Dual rotate_heads(const Dual& x, const Rotation& rotation, std::int64_t heads, const Packing& packing) {
  return {rotate_heads(x.value, rotation, heads, packing), detail::tangent_of([&] {
            return x.tangent.defined() ? rotate_heads(x.tangent, rotation, heads, packing) : at::Tensor();
          })};
}

Recorded rotate_heads(const Recorded& x, const Rotation& rotation, std::int64_t heads, const Packing&) {
  return {rotate_heads(x.value, rotation, heads), x.tape, -1};
}

Counted rotate_heads(const Counted& x, const Rotation&, std::int64_t, const Packing&) {
  return detail::counted(x.meter, x.shape);
}

namespace {

/// The first `heads` heads of d numbers each, [n, tokens·heads, d] or of packed rows [rows·heads, d], and
/// what stands behind them.
template <class Norm>
at::Tensor with_normed(const at::Tensor& x, std::int64_t heads, std::int64_t d, const Norm& norm) {
  const auto first = heads * d, rest = x.size(-1) - first;
  const auto each = x.narrow(-1, 0, first).reshape({x.size(0), -1, d});
  auto shape = x.sizes().vec();
  shape.back() = first;
  const auto normed = norm(each).reshape(shape);
  return rest == 0 ? normed : at::cat({normed, x.narrow(-1, first, rest)}, -1);
}

}  // namespace

at::Tensor norm_heads(const at::Tensor& x, const at::Tensor& weight, std::int64_t heads, double eps) {
  return with_normed(x, heads, weight.size(0), [&](const auto& each) { return rms_norm(each, weight, eps); });
}

Dual norm_heads(const Dual& x, const Dual& weight, std::int64_t heads, double eps) {
  Dual y;
  at::Tensor tangent;  // of the heads alone
  const auto d = weight.value.size(0), first = heads * d;
  const auto part = [&](const at::Tensor& of) {
    return of.defined() ? of.narrow(-1, 0, first).reshape({of.size(0), -1, d}) : of;
  };
  y.value = with_normed(x.value, heads, d, [&](const auto& each) {
    const auto normed =
        rms_norm(Dual{each, detail::tangent_of([&] { return part(x.tangent); })}, weight, eps);
    tangent = normed.tangent;
    return normed.value;
  });
  y.tangent = detail::tangent_of([&] {
    if (!tangent.defined()) return tangent;
    const auto of_x = x.tangent.defined() ? x.tangent : at::zeros_like(x.value);
    return with_normed(of_x, heads, d, [&](const auto&) { return tangent; });
  });
  return y;
}

Recorded norm_heads(const Recorded& x, const Recorded& weight, std::int64_t heads, double eps) {
  const auto value = with_normed(x.value, heads, weight.value.size(0), [&](const auto& each) {
    return rms_norm(Recorded{each, x.tape, -1}, weight, eps).value;
  });
  return {value, x.tape, -1};
}

Counted norm_heads(const Counted& x, const Counted& weight, std::int64_t, double eps) {
  return rms_norm(x, weight, eps);
}

}  // namespace taugrid::autodiff
