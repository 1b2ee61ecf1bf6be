// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/autodiff/tape.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "kernels/autodiff/detail/channel_sums.hpp"
#include "kernels/autodiff/detail/convolution.hpp"
#include "kernels/autodiff/detail/depthwise.hpp"
#include "kernels/autodiff/detail/tiled_convolution.hpp"

namespace taugrid::autodiff {
namespace {

using Form = Use::Form;

/// [n, d] counts as one token.
at::Tensor tokens(const at::Tensor& x) { return x.contiguous().view({x.size(0), -1, x.size(-1)}); }

std::vector<Recorded> on_tape(const Layout& layout, const at::Tensor& theta, Tape& tape) {
  const auto blocks = layout.views(theta.detach());
  std::vector<Recorded> recorded;
  recorded.reserve(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) recorded.push_back({blocks[i], &tape, static_cast<int>(i)});
  return recorded;
}

/// Pictures [n, channels, h, w] → [n, places, channels].
at::Tensor places_of(const at::Tensor& x) { return x.flatten(2).transpose(1, 2); }

}  // namespace

bool is_factored(const Use& use) {
  return use.form == Form::product || use.form == Form::convolution || use.form == Form::tiled ||
         use.form == Form::lookup || use.form == Form::rows;
}

Side side_of_input(const Use& use) {
  switch (use.form) {
    case Form::product:
      return {tokens(use.input), {}};
    case Form::convolution:
      return {use.input.flatten(2), {}};
    case Form::tiled:
      return {detail::patches(use.input, {3, 1, 1}).flatten(2), {}};
    case Form::lookup:
      return {{}, use.places};
    default:
      throw std::logic_error("side_of_input: there is none");
  }
}

Factors factors(const Use& use, const at::Tensor& dy) {
  switch (use.form) {
    case Form::product:
      return {{tokens(dy), {}}, side_of_input(use)};
    case Form::convolution:
    case Form::tiled:
      return {{use.factor.defined() ? places_of(dy) * use.factor : places_of(dy), {}}, side_of_input(use)};
    case Form::lookup:
      return {side_of_input(use), {tokens(dy), {}}};
    case Form::rows:
      return {{{}, use.places.unsqueeze(0).expand({dy.size(0), -1})},
              {dy.unsqueeze(2) * use.input.unsqueeze(1), {}}};
    default:
      throw std::logic_error("factors: not of a matrix");
  }
}

std::vector<std::vector<const Use*>> uses_by_block(const Tape& tape) {
  std::vector<std::vector<const Use*>> all;
  std::map<int, std::size_t> index;
  for (const auto& use : tape.uses) {
    const auto [place, fresh] = index.emplace(use.block, all.size());
    if (fresh) all.emplace_back();
    all[place->second].push_back(&use);
  }
  return all;
}

at::Tensor per_sample_gradient(const Use& use, const Block& block, const at::Tensor& dy) {
  const auto gradient = unordered_gradient(use, block, dy);
  if (use.form != Form::convolution && use.form != Form::tiled) return gradient;
  const auto in = use.form == Form::tiled ? use.input.size(1) : use.input.size(3);
  return gradient.view({dy.size(0), dy.size(1), -1, in}).transpose(2, 3).reshape({dy.size(0), -1});
}

void GradientParts::each(const Block& block, const at::Tensor& dy,
                         const std::function<void(const at::Tensor&)>& see) const {
  if (use_.form != Form::tiled) return see(unordered_gradient(use_, block, dy));
  if (!prepared_.defined()) prepared_ = detail::tiles_of(use_.input);
  constexpr std::int64_t in_cache = std::int64_t{1} << 17;  // numbers
  const auto n = dy.size(0), out = dy.size(1), each = detail::tiled_filters();
  const auto some = std::max<std::int64_t>(1, in_cache / (n * (block.count / out) * each)) * each;
  for (std::int64_t begin = 0; begin < out; begin += some)
    see(detail::per_sample_tiled_filters(prepared_, dy, use_.factor, {begin, std::min(some, out - begin)}));
}

at::Tensor unordered_gradient(const Use& use, const Block& block, const at::Tensor& dy) {
  const auto n = dy.size(0);
  switch (use.form) {
    case Form::convolution:
      return detail::per_sample_filters(use.input, dy, use.factor);
    case Form::product: {
      const auto f = factors(use, dy);
      return at::bmm(f.left.vectors.transpose(1, 2), f.right.vectors).view({n, -1});
    }
    case Form::tiled:
      return detail::per_sample_tiled_filters(detail::tiles_of(use.input), dy, use.factor, {0, dy.size(1)});
    case Form::depthwise:
      return detail::per_sample_filters(use.input, dy, block.shape[1]);
    case Form::lookup:
    case Form::rows: {
      const auto f = factors(use, dy);
      auto gradient = at::zeros({n, block.shape[0], block.shape[1]}, dy.options());
      const auto index = f.left.places.unsqueeze(2).expand_as(f.right.vectors);
      return gradient.scatter_add_(1, index, f.right.vectors).view({n, -1});
    }
    case Form::sum:
      return tokens(dy).sum(1);
    case Form::scale:
      return tokens((dy * use.input).contiguous()).sum(1);
    case Form::channel_sum:
      return places_of(dy).sum(1);
    case Form::channel_scale:
      return detail::channel_sums(dy, use.input);
    case Form::whole: {
      const auto used = dy.reshape({n, -1});
      const auto before = use.first * dy.size(-1);
      return used.size(1) == block.count
                 ? used
                 : at::constant_pad_nd(used, {before, block.count - before - used.size(1)});
    }
    case Form::token:
      return dy.select(1, 0);
    case Form::relative: {  // dy [n, heads, queries, keys]
      const auto by_place = dy.flatten(2).transpose(1, 2);
      auto gradient = at::zeros({n, block.shape[0], block.shape[1]}, dy.options());
      if (use.places.dim() == 3)
        return gradient.scatter_add_(1, use.places.flatten(1).unsqueeze(2).expand_as(by_place), by_place)
            .view({n, -1});
      return gradient.index_add_(1, use.places.flatten(), by_place).view({n, -1});
    }
  }
  throw std::logic_error("unordered_gradient: unknown form");
}

void record(const Layout& layout, const Function<Recorded>& f, const at::Tensor& theta,
            Recording& recording) {
  const at::AutoGradMode grad(true);
  recording.output = f(on_tape(layout, theta, recording.tape)).value;
}

Tape record_uses(const Layout& layout, const Function<Recorded>& f, const at::Tensor& theta) {
  const at::NoGradGuard no_grad;
  Tape tape;
  f(on_tape(layout, theta, tape));
  return tape;
}

std::vector<at::Tensor> output_gradients(const Recording& recording, const at::Tensor& cotangent,
                                         bool keep_graph) {
  return torch::autograd::grad({recording.output}, recording.tape.outputs, {cotangent}, keep_graph, false,
                               true);
}

void each_output_gradient(const Recording& recording, const at::Tensor& cotangent, bool keep_graph,
                          const std::function<void(std::size_t, const at::Tensor&)>& see) {
  const auto& outputs = recording.tape.outputs;
  std::vector<at::Tensor> leaves;
  std::vector<unsigned> hooks;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_leaf()) leaves.push_back(outputs[i]);
    hooks.push_back(outputs[i].register_hook([&see, i](const at::Tensor& gradient) {
      if (!gradient.defined()) return;
      const at::NoGradGuard no_grad;
      see(i, gradient);
    }));
  }
  const auto remove = [&] {
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].remove_hook(hooks[i]);
  };
  try {
    torch::autograd::grad({recording.output}, leaves, {cotangent}, keep_graph, false, true);
  } catch (...) {
    remove();
    throw;
  }
  remove();
}

at::Tensor per_sample_gradients(const Layout& layout, const Recording& recording, const at::Tensor& cotangent,
                                bool keep_graph) {
  const auto gradients = output_gradients(recording, cotangent, keep_graph);
  auto all = at::zeros({cotangent.size(0), layout.size()}, cotangent.options());
  for (const auto& use : recording.tape.uses) {
    if (!gradients[use.output].defined()) continue;
    const auto& block = layout.blocks()[static_cast<std::size_t>(use.block)];
    all.narrow(1, block.offset, block.count).add_(per_sample_gradient(use, block, gradients[use.output]));
  }
  return all;
}

}  // namespace taugrid::autodiff
