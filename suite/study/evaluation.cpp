// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/evaluation.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/autodiff/products.hpp"
#include "suite/models/label_tree.hpp"

namespace taugrid::study {

/// A rank's part of some points, and where what is found of them goes.
struct Evaluation::Shard {
  const comm::Communicator& group;
  const Points& points;
  Range share;
  at::Tensor order;                 // undefined for pictures, which come as they are
  std::int64_t width, batch, most;  // most: points of any rank
  at::TensorOptions options;

  std::int64_t batches() const { return (share.count + batch - 1) / batch; }
  /// The numbers of the points of a batch.
  at::Tensor which(std::int64_t i) const {
    const auto begin = i * batch, m = std::min(batch, share.count - begin);
    if (order.defined()) return order.narrow(0, begin, m);
    return at::arange(share.begin + begin, share.begin + begin + m, at::kLong);
  }
  models::Batch inputs(std::int64_t i) const {
    const auto begin = i * batch;
    return order.defined() ? points.some(which(i))
                           : points.part(share.begin + begin, std::min(batch, share.count - begin));
  }
  /// As many rows on each rank.
  at::Tensor rows() const { return at::zeros({most, width}, options); }
  void put(const at::Tensor& found, std::int64_t i, at::Tensor& rows) const {
    if (order.defined())
      rows.index_copy_(0, (which(i) - share.begin).to(rows.device()), found.to(at::kFloat));
    else
      rows.narrow(0, i * batch, found.size(0)).copy_(found);
  }
  at::Tensor gathered(const at::Tensor& rows, const char* what) const {
    if (group.size() == 1) return rows;
    return group.all_gather(rows, what).narrow(0, 0, points.size()).clone();
  }
};

Evaluation::Shard Evaluation::shard_of(const comm::Communicator& group, std::int64_t width,
                                       const Points& points, bool all) const {
  const auto share = all ? Range{0, points.size()} : group.share_of(points.size());
  return {group,
          points,
          share,
          points.by_length(share.begin, share.count),
          width,
          settings_.evaluation_batch,
          all ? points.size() : comm::rows_a_rank(points.size(), group.size()),
          at::TensorOptions(at::kFloat).device(model_.device())};
}

template <class F>
at::Tensor Evaluation::by_shards(const comm::Communicator& group, std::int64_t width, const Points& points,
                                 const char* what, F&& f) const {
  const at::NoGradGuard no_grad;
  const auto shard = shard_of(group, width, points);
  auto rows = shard.rows();
  for (std::int64_t i = 0; i < shard.batches(); ++i)
    shard.put(f(shard.inputs(i).to(compute_type()), shard.which(i)), i, rows);
  return shard.gathered(rows, what);
}

void Evaluation::outputs_by_stages(const comm::Communicator& group, const StageWeights& weights,
                                   std::size_t t, const Points& points, const Visit& visit) const {
  const at::NoGradGuard no_grad;
  const auto& encoder = model_.encoder();
  const auto& readout = readouts_.of(t);
  const auto& line = weights.line();
  const auto shard = shard_of(group, readout.width(encoder), points, line.is_shared());
  const auto together = line.least(weights.models_at_once(shard.share.count));
  // Where all ranks keep their weights, none is made again for the next batch, which begins before the ranks
  // behind in the line have finished this one.
  const bool kept = line.least(weights.keeps(together) ? 1 : 0) > 0;
  const auto batches =
      kept ? 1 : line.least(std::max<std::int64_t>(1, weights.inputs_at_once() / shard.batch));
  for (std::int64_t first = 0; first < weights.size(); first += together) {
    const Range models = {first, std::min(together, weights.size() - first)};
    std::vector<at::Tensor> rows;
    for (std::int64_t k = 0; k < models.count; ++k) rows.push_back(shard.rows());
    for (std::int64_t i = 0; i < shard.batches(); i += batches) {
      std::vector<models::Given> some;
      for (auto j = i; j < std::min(i + batches, shard.batches()); ++j)
        some.push_back({shard.inputs(j).to(compute_type())});
      const StageWeights::Pass pass = {models, models::Reach::read, readout.reads_vocabulary(),
                                       compute_type()};
      weights.run(
          pass, some, [](int) {},
          [&](int part, std::int64_t k, std::size_t b, const at::Tensor& h,
              const models::Blocks<at::Tensor>& p) {
            if (part < weights.last_part()) return;
            shard.put(readout.output(encoder, p, h, some[b].batch), i + static_cast<std::int64_t>(b),
                      rows[static_cast<std::size_t>(k - first)]);
          });
    }
    for (std::int64_t k = 0; k < models.count; ++k) {
      auto& mine = rows[static_cast<std::size_t>(k)];
      if (line.is_shared())
        line.share_last(mine);
      else
        mine = shard.gathered(mine, "gathering outputs");
      visit(first + k, mine);
    }
  }
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
