// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/evaluation.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/autodiff/products.hpp"
#include "suite/models/label_tree.hpp"

namespace taugrid::study {

namespace {

/// A pass of models, or along a direction.
template <class F>
void run(const StageWeights& weights, const StageWeights::Pass& pass, std::span<const models::Given> batches,
         const F& see) {
  const auto before = [](int) {};
  if (weights.goes_along())
    weights.run<autodiff::Dual>(pass, batches, before, see);
  else
    weights.run<at::Tensor>(pass, batches, before, see);
}

/// f(x; θ), and of a dual number J(x)τ.
at::Tensor changing(const at::Tensor& z) { return z; }
at::Tensor changing(const autodiff::Dual& z) { return z.tangent; }

}  // namespace

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
  void put(const at::Tensor& computed, std::int64_t i, at::Tensor& rows) const {
    if (order.defined())
      rows.index_copy_(0, (which(i) - share.begin).to(rows.device()), computed.to(at::kFloat));
    else
      rows.narrow(0, i * batch, computed.size(0)).copy_(computed);
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
      run(weights, pass, some, [&](int part, std::int64_t k, std::size_t b, const auto& h, const auto& p) {
        if (part < weights.last_part()) return;
        shard.put(changing(readout.output(encoder, p, h, some[b].batch)), i + static_cast<std::int64_t>(b),
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

at::Tensor Evaluation::output_by_stages(const comm::Communicator& group, const StageWeights& weights,
                                        std::size_t t, const Points& points) const {
  at::Tensor only;
  outputs_by_stages(group, weights, t, points, [&](std::int64_t, const at::Tensor& z) { only = z; });
  return only;
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

/// Texts that are decoded greedily, token by token.
class Evaluation::Decoding {
 public:
  /// `labels` [n, …]: the right texts; `most`: tokens that are decoded at most. The readout and the encoder
  /// outlive this object.
  Decoding(models::Given x, const models::Readout& readout, const models::Encoder& encoder, at::Tensor labels,
           std::int64_t most)
      : x_(std::move(x)),
        readout_(readout),
        encoder_(encoder),
        labels_(std::move(labels)),
        tokens_(at::full({x_.batch.size(), most}, -1, labels_.options())),
        ended_(at::zeros({x_.batch.size()}, labels_.options().dtype(at::kBool))),
        given_(at::full({x_.batch.size(), 1}, encoder.decoder_start(), labels_.options())) {}

  /// What is asked first: the texts with all of the right ones behind them.
  const models::Given& whole() const { return x_; }
  /// How many of each right text's tokens [n] are ranked first, by the features of whole().
  template <class T>
  at::Tensor right(const models::Blocks<T>& p, const T& features) const {
    const auto logits = readout_.logits(value_of(readout_.output(encoder_, p, features, x_.batch)));
    return logits.view({x_.batch.size(), readout_.paths.nodes, readout_.vocabulary})
        .argmax(2)
        .eq(labels_)
        .sum(1);
  }
  /// The token [n] that is ranked first behind each text, by the features of next().
  template <class T>
  at::Tensor first_ranked(const models::Blocks<T>& p, const T& features) const {
    auto last = readout_;  // of one place
    last.paths.nodes = 1;
    const auto at_last = autodiff::some_tokens(features, said_, 1);
    return last.logits(value_of(last.output(encoder_, p, at_last, x_.batch))).argmax(1);
  }

  bool goes_on() const { return said_ < tokens_.size(1) && !ended_.all().item<bool>(); }
  /// The texts with what was said behind them.
  models::Given next() const {
    auto next = x_;
    const auto k = said_ + 1;
    next.batch.decoder = given_;
    next.batch.sees = models::sees_before(k).to(given_.device()).expand({x_.batch.size(), k, k});
    return next;
  }
  /// Says these tokens [n], int64, but where a text has ended.
  void say(const at::Tensor& chosen) {
    tokens_.select(1, said_++).copy_(at::where(ended_, -1, chosen));
    for (const auto end : encoder_.decoder_ends()) ended_ = ended_.logical_or(chosen.eq(end));
    given_ = at::cat({given_, chosen.unsqueeze(1)}, 1);
  }

  /// Float32 [n, most + 1], which ranks exchange as they do outputs: tokens, exact below 2²⁴, then how many
  /// are right.
  at::Tensor row(const at::Tensor& right) const {
    return at::cat({tokens_, right.unsqueeze(1)}, 1).to(at::kFloat);
  }

 private:
  models::Given x_;
  const models::Readout& readout_;
  const models::Encoder& encoder_;
  at::Tensor labels_, tokens_, ended_, given_;
  std::int64_t said_ = 0;
};

template <class T>
at::Tensor Evaluation::say(const models::Blocks<T>& p, Decoding texts) const {
  const auto& encoder = model_.encoder();
  const auto& x = texts.whole();
  const auto right = texts.right(p, encoder.encode(p, x));
  int decoding = 1;
  T memory;  // of an encoder: what it made of the text; else a text is run again with each token behind it
  if (!encoder.answers_in_line()) {
    while (!encoder.decodes(decoding)) ++decoding;
    memory = encoder.run_to(decoding - 1, p, x);
  }
  while (texts.goes_on()) {
    const auto next = texts.next();
    texts.say(texts.first_ranked(
        p, encoder.answers_in_line() ? encoder.encode(p, next) : encoder.go_on(decoding, p, memory, next)));
  }
  return texts.row(right);
}

Said Evaluation::said_in(const at::Tensor& rows) {
  const auto numbers = rows.to(at::kLong).cpu();
  const auto most = numbers.size(1) - 1;
  return {numbers.narrow(1, 0, most).contiguous(), numbers.select(1, most).contiguous()};
}

Said Evaluation::said(const comm::Communicator& group, const models::State& state, const at::Tensor& tau,
                      std::size_t t, const Points& points, const at::Tensor& labels,
                      std::int64_t most) const {
  const auto values = model_.layout().views(state.theta.to(compute_type()));
  const auto buffers = model_.buffers(state, compute_type());
  return said_in(by_shards(group, most + 1, points, "gathering texts",
                           [&](const models::Batch& x, const at::Tensor& which) {
                             const Decoding texts({x, buffers}, readouts_.of(t), model_.encoder(),
                                                  labels.index_select(0, which.to(labels.device())), most);
                             if (!tau.defined()) return say(values, texts);
                             const auto along = model_.layout().views(tau.to(compute_type()));
                             return say(autodiff::duals(values, along), texts);
                           }));
}

Said Evaluation::said_by_stages(const comm::Communicator& group, const StageWeights& weights, std::size_t t,
                                const Points& points, const at::Tensor& labels, std::int64_t most,
                                const std::function<void(double)>& before) const {
  const at::NoGradGuard no_grad;
  const auto& readout = readouts_.of(t);
  const auto& line = weights.line();
  const auto shard = shard_of(group, most + 1, points, line.is_shared());
  const auto batches = line.least(std::max<std::int64_t>(1, weights.inputs_at_once(most) / shard.batch));
  // For each of these texts, on every rank: how many tokens of the right one are ranked first, or else which
  // token is.
  const auto asked = [&](bool right, const std::vector<Decoding*>& texts,
                         const std::vector<models::Given>& given) {
    std::vector<at::Tensor> all;
    for (const auto* each : texts) all.push_back(at::zeros({each->whole().batch.size(), 1}, shard.options));
    const StageWeights::Pass pass = {{0, 1}, models::Reach::read, readout.reads_vocabulary(), compute_type()};
    run(weights, pass, given, [&](int part, std::int64_t, std::size_t b, const auto& h, const auto& p) {
      if (part < weights.last_part()) return;
      const auto answers = right ? texts[b]->right(p, h) : texts[b]->first_ranked(p, h);
      all[b].copy_(answers.unsqueeze(1));
    });
    for (auto& each : all) {
      if (line.is_shared()) line.share_last(each);
      each = each.squeeze(1).to(at::kLong);
    }
    return all;
  };
  // All ranks come to every safe point, also those whose texts have ended, or that have fewer.
  const auto mine = (shard.batches() + batches - 1) / batches;
  const auto rounds =
      group.all_gather(at::full({1}, mine, at::kLong), "rounds of texts").max().item<std::int64_t>();
  auto rows = shard.rows();
  for (std::int64_t round = 0; round < rounds; ++round) {
    const auto begin = round * batches, end = std::min(begin + batches, shard.batches());
    std::vector<Decoding> some;
    for (auto i = begin; i < end; ++i)
      some.emplace_back(models::Given{shard.inputs(i).to(compute_type())}, readout, model_.encoder(),
                        labels.index_select(0, shard.which(i).to(labels.device())), most);
    std::vector<at::Tensor> right;
    for (std::int64_t step = 0; step <= most; ++step) {  // the first one asks for the right texts
      before(static_cast<double>(round * (most + 1) + step) / static_cast<double>(rounds * (most + 1)));
      std::vector<Decoding*> going;
      std::vector<models::Given> given;
      for (auto& each : some) {
        if (!each.goes_on()) continue;
        going.push_back(&each);
        given.push_back(step == 0 ? each.whole() : each.next());
      }
      if (going.empty()) continue;
      auto answers = asked(step == 0, going, given);
      if (step == 0)
        right = std::move(answers);
      else
        for (std::size_t k = 0; k < going.size(); ++k) going[k]->say(answers[k]);
    }
    for (std::size_t b = 0; b < some.size(); ++b)
      shard.put(some[b].row(right[b]), begin + static_cast<std::int64_t>(b), rows);
  }
  return said_in(line.is_shared() ? rows : shard.gathered(rows, "gathering texts"));
}

}  // namespace taugrid::study
