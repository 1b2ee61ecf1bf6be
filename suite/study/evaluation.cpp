// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/evaluation.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/autodiff/products.hpp"
#include "suite/models/label_tree.hpp"

namespace taugrid::study {

template <class F>
at::Tensor Evaluation::by_shards(const comm::Communicator& group, std::int64_t width, const Points& points,
                                 const char* what, F&& f) const {
  const at::NoGradGuard no_grad;
  const auto n = points.size();
  const auto share = group.share_of(n);
  // As many rows on each rank.
  auto mine = at::zeros({comm::rows_a_rank(n, group.size()), width},
                        at::TensorOptions(at::kFloat).device(model_.device()));
  const auto order = points.by_length(share.begin, share.count);
  for (std::int64_t i = 0; i < share.count; i += settings_.evaluation_batch) {
    const auto m = std::min(settings_.evaluation_batch, share.count - i);
    if (!order.defined()) {
      mine.narrow(0, i, m).copy_(f(points.part(share.begin + i, m).to(compute_type()),
                                   at::arange(share.begin + i, share.begin + i + m, at::kLong)));
      continue;
    }
    const auto which = order.narrow(0, i, m);
    const auto rows = f(points.some(which).to(compute_type()), which).to(at::kFloat);
    mine.index_copy_(0, (which - share.begin).to(mine.device()), rows);
  }
  if (group.size() == 1) return mine;
  return group.all_gather(mine, what).narrow(0, 0, n).clone();
}

at::Tensor Evaluation::output(const comm::Communicator& group, const models::State& state, std::size_t t,
                              const Points& points) const {
  const auto& encoder = model_.encoder();
  const auto& readout = readouts_.of(t);
  const auto blocks = model_.layout().views(state.theta.to(compute_type()));
  const auto buffers = model_.buffers(state, compute_type());
  return by_shards(group, readout.width(encoder), points, "gathering outputs",
                   [&](const models::Batch& x, const at::Tensor&) {
                     return readout.output(encoder, blocks, encoder.encode(blocks, {x, buffers}), x);
                   });
}

at::Tensor Evaluation::tangent(const comm::Communicator& group, const at::Tensor& tau, std::size_t t,
                               const Points& points) const {
  const auto& encoder = model_.encoder();
  const auto& readout = readouts_.of(t);
  const auto start = model_.theta0().to(compute_type()), direction = tau.to(compute_type());
  const auto buffers = model_.buffers(model_.start(), compute_type());
  return by_shards(group, readout.width(encoder), points, "gathering tangents",
                   [&](const models::Batch& x, const at::Tensor&) {
                     return autodiff::jvp(
                                model_.layout(),
                                [&](const models::Blocks<autodiff::Dual>& p) {
                                  return readout.output(encoder, p, encoder.encode(p, {x, buffers}), x);
                                },
                                start, direction)
                         .tangent;
                   });
}

namespace {

at::Tensor value_of(const at::Tensor& x) { return x.to(at::kFloat); }
at::Tensor value_of(const autodiff::Dual& x) {
  return (x.value + autodiff::tangent_or_zeros(x)).to(at::kFloat);
}

}  // namespace

// Float32 [n, most + 1], which ranks exchange as they do outputs: tokens, exact below 2²⁴, then how many are
// right.
template <class T>
at::Tensor Evaluation::say(const models::Blocks<T>& p, const models::Given& x, std::size_t t,
                           const at::Tensor& labels, std::int64_t most) const {
  const auto& encoder = model_.encoder();
  const auto& readout = readouts_.of(t);
  auto last = readout;  // of one place
  last.paths.nodes = 1;
  const auto n = x.batch.size();
  const auto whole = readout.logits(value_of(readout.output(encoder, p, encoder.encode(p, x), x.batch)));
  const auto first_ranked = whole.view({n, readout.paths.nodes, readout.vocabulary}).argmax(2).eq(labels);
  int decoding = 1;
  T memory;  // of an encoder: what it made of the text; else a text is run again with each token behind it
  if (!encoder.answers_in_line()) {
    while (!encoder.decodes(decoding)) ++decoding;
    memory = encoder.run_to(decoding - 1, p, x);
  }
  auto tokens = at::full({n, most}, -1, labels.options());
  auto ended = at::zeros({n}, labels.options().dtype(at::kBool));
  auto given = at::full({n, 1}, encoder.decoder_start(), labels.options());
  for (std::int64_t k = 0; k < most && !ended.all().item<bool>(); ++k) {
    auto next = x;
    next.batch.decoder = given;
    next.batch.sees = models::sees_before(k + 1).to(labels.device()).expand({n, k + 1, k + 1});
    const T z =
        encoder.answers_in_line() ? encoder.encode(p, next) : encoder.go_on(decoding, p, memory, next);
    const auto logits =
        last.logits(value_of(last.output(encoder, p, autodiff::some_tokens(z, k, 1), x.batch)));
    const auto chosen = logits.argmax(1);
    tokens.select(1, k).copy_(at::where(ended, -1, chosen));
    for (const auto end : encoder.decoder_ends()) ended = ended.logical_or(chosen.eq(end));
    given = at::cat({given, chosen.unsqueeze(1)}, 1);
  }
  return at::cat({tokens, first_ranked.sum(1, /*keepdim=*/true)}, 1).to(at::kFloat);
}

Said Evaluation::said(const comm::Communicator& group, const models::State& state, const at::Tensor& tau,
                      std::size_t t, const Points& points, const at::Tensor& labels,
                      std::int64_t most) const {
  const auto values = model_.layout().views(state.theta.to(compute_type()));
  const auto buffers = model_.buffers(state, compute_type());
  const auto rows = by_shards(group, most + 1, points, "gathering texts",
                              [&](const models::Batch& x, const at::Tensor& which) {
                                const auto mine = labels.index_select(0, which.to(labels.device()));
                                if (!tau.defined()) return say(values, {x, buffers}, t, mine, most);
                                const auto along = model_.layout().views(tau.to(compute_type()));
                                return say(autodiff::duals(values, along), {x, buffers}, t, mine, most);
                              })
                        .to(at::kLong)
                        .cpu();
  return {rows.narrow(1, 0, most).contiguous(), rows.select(1, most).contiguous()};
}

}  // namespace taugrid::study
