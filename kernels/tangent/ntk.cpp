// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/tangent/ntk.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace taugrid::tangent {
namespace {

using autodiff::Use;

constexpr std::int64_t block =
    8;  // samples a block of the kernel's rows: by tokens, rows enough for a product

at::Tensor tokens(const at::Tensor& x) { return x.contiguous().view({x.size(0), -1, x.size(-1)}); }

/// The part of a kernel that is computed: rows begin…end, all columns; if those are all rows, the blocks on
/// and right of the diagonal alone, K being symmetric.
struct Part {
  std::int64_t n, begin, end;
  bool symmetric() const { return begin == 0 && end == n; }
  std::int64_t rows() const { return end - begin; }
  double fraction() const {
    const auto blocks = (rows() + block - 1) / block;
    return symmetric() ? static_cast<double>(blocks + 1) / static_cast<double>(2 * blocks) : 1;
  }
  /// f(first row, end of rows, first column), block by block.
  template <class F>
  void each_block(const F& f) const {
    for (auto i = begin; i < end; i += block) f(i, std::min(end, i + block), symmetric() ? i : 0);
  }
};

at::Tensor samples(const at::Tensor& x, std::int64_t from, std::int64_t to) {
  return x.slice(0, from, to).flatten(0, 1);  // [samples·tokens, d]
}

/// ⟨x_it, x_js⟩ [rows·t, n·t]: the same for all logits.
at::Tensor token_products(const at::Tensor& x, const Part& part) {
  const auto t = x.size(1);
  auto products = at::empty({part.rows() * t, part.n * t}, x.options());
  part.each_block([&](std::int64_t i, std::int64_t end, std::int64_t j) {
    auto out = products.slice(0, (i - part.begin) * t, (end - part.begin) * t).slice(1, j * t);
    at::mm_out(out, samples(x, i, end), samples(x, j, part.n).t());
  });
  return products;
}

/// K += Σ_{t,s} ⟨dy_it, dy_js⟩⟨x_it, x_js⟩: the gradients' inner products without the gradients themselves.
void add_by_factors(at::Tensor& kernel, const at::Tensor& dy, const at::Tensor& products, const Part& part) {
  const auto t = dy.size(1);
  part.each_block([&](std::int64_t i, std::int64_t end, std::int64_t j) {
    const auto row = i - part.begin, r = end - i;
    auto both = at::mm(samples(dy, i, end), samples(dy, j, part.n).t());
    both.mul_(products.slice(0, row * t, (row + r) * t).slice(1, j * t));
    kernel.slice(0, row, row + r).slice(1, j).add_(both.view({r, t, part.n - j, t}).sum({1, 3}));
  });
}

void add_direct(at::Tensor& kernel, const at::Tensor& gradients, const Part& part) {  // [n, size]
  part.each_block([&](std::int64_t i, std::int64_t end, std::int64_t j) {
    kernel.slice(0, i - part.begin, end - part.begin)
        .slice(1, j)
        .addmm_(gradients.slice(0, i, end), gradients.slice(0, j).t());
  });
}

/// One layer's share of the kernels of all logits.
class Layer {
 public:
  Layer(const Use& use, const Part& part, std::int64_t logits, const at::Tensor& output,
        std::int64_t& workspace)
      : use_(use), part_(part) {
    if (use.form != Use::Form::weight) return;
    const auto x = tokens(use.input);
    const double n = static_cast<double>(part.n), t = static_cast<double>(x.size(1)),
                 in = static_cast<double>(x.size(2)), out = static_cast<double>(output.size(-1)),
                 pairs = part.fraction() * n * static_cast<double>(part.rows());
    const double direct = (n * t + pairs) * out * in;  // multiplications a logit
    const double by_factors = pairs * t * t * (out + in / static_cast<double>(logits));
    const auto needed = part.rows() * part.n * x.size(1) * x.size(1);
    // Work space bounds both: where neither fits, the factors are found again for each logit.
    const bool too_large = n * out * in > static_cast<double>(workspace);
    by_factors_ = by_factors < direct || too_large;
    if (by_factors_ && needed <= workspace) {
      workspace -= needed;
      products_ = token_products(x, part);
    }
  }

  void add(at::Tensor& kernel, const at::Tensor& gradient) const {
    if (!by_factors_) return add_direct(kernel, autodiff::per_sample_gradient(use_, gradient), part_);
    const auto dy = tokens(gradient);
    if (products_.defined()) return add_by_factors(kernel, dy, products_, part_);
    const auto x = tokens(use_.input);
    for (auto i = part_.begin; i < part_.end; ++i) {  // a row of samples at a time
      const Part row{part_.n, i, i + 1};
      auto out = kernel.slice(0, i - part_.begin, i - part_.begin + 1);
      add_by_factors(out, dy, token_products(x, row), row);
    }
  }

 private:
  const Use& use_;
  Part part_;
  bool by_factors_ = false;
  at::Tensor products_;
};

void mirror(at::Tensor& kernels) {  // [C, n, n], right of the diagonal → left
  const auto upper = kernels.triu(1);
  kernels.triu_().add_(upper.transpose(1, 2));
}

}  // namespace

at::Tensor ntk_gram(const autodiff::Layout& layout, const autodiff::Function<autodiff::Recorded>& logits,
                    const at::Tensor& theta, const std::vector<std::int64_t>& which, Rows rows,
                    std::int64_t workspace) {
  autodiff::Recording recording;
  autodiff::record(layout, logits, theta, recording);
  const auto& output = recording.output;  // [N, classes]
  const auto n = output.size(0);
  auto gram = at::zeros({static_cast<std::int64_t>(which.size()), rows.end - rows.begin, n},
                        output.options().requires_grad(false));
  const Part part{n, rows.begin, rows.end};
  std::vector<Layer> layers;
  for (const auto& use : recording.tape.uses) {
    const at::NoGradGuard no_grad;
    layers.emplace_back(use, part, static_cast<std::int64_t>(which.size()),
                        recording.tape.outputs[use.output], workspace);
  }
  for (std::size_t c = 0; c < which.size(); ++c) {
    auto cotangent = at::zeros_like(output).detach();
    cotangent.select(1, which[c]).fill_(1);
    const auto gradients = autodiff::output_gradients(recording, cotangent, c + 1 < which.size());
    const at::NoGradGuard no_grad;
    auto kernel = gram.select(0, static_cast<std::int64_t>(c));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto& dy = gradients[recording.tape.uses[i].output];
      if (dy.defined()) layers[i].add(kernel, dy);
    }
  }
  if (part.symmetric()) mirror(gram);
  return gram;
}

at::Tensor local_energy(const at::Tensor& kernel) {
  const auto [u, s, vh] = at::linalg_svd(kernel.to(at::kDouble), /*full_matrices=*/false);
  const auto kept = s > s.max() * 1e-6;
  return (vh.square() * kept.unsqueeze(1)).sum(0);
}

}  // namespace taugrid::tangent
