// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/layers/layer_products.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "suite/error.hpp"
#include "suite/experiments/layers/layer_statistics.hpp"
#include "suite/experiments/layers/point_rows.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::experiments {

struct LayerProducts::Seen {
  Features start;                          // f0
  std::map<std::size_t, Features> single;  // f − f0, by task
  std::int64_t passes = 0;
};

LayerProducts::LayerProducts(const Study& study, const study::Layers& layers, std::string regime,
                             std::vector<double> alpha, std::vector<double> lambda, std::int64_t points,
                             std::int64_t batch)
    : study_(study),
      layers_(layers),
      regime_(std::move(regime)),
      alpha_(std::move(alpha)),
      lambda_(std::move(lambda)),
      points_(points),
      batch_(batch),
      linear_(study::regime(regime_).linear) {}

std::vector<std::size_t> LayerProducts::models_of(std::size_t t) const {
  std::vector<std::size_t> models = {t};
  for (const auto p : study_.tasks.pairs_of(t)) models.push_back(study_.tasks.partner(p, t));
  return models;
}

double LayerProducts::flops(double part) const {
  return (linear_ ? 3 : 1) * part * study_.model.cost().forward() + 8 * layers_.numbers();
}

void LayerProducts::pass(const models::State& state, const at::Tensor& tau, const models::Batch& batch,
                         Seen& seen, const study::Layers::See& see) const {
  ++seen.passes;
  if (linear_) return layers_.tangents(tau, batch, see);
  layers_.outputs(state, batch, [&](std::size_t l, const at::Tensor& f) { see(l, f - seen.start[l]); });
}

at::Tensor LayerProducts::mixed_products(std::size_t l, const at::Tensor& c, const at::Tensor& a,
                                         const at::Tensor& b, const at::Tensor& start) const {
  const auto rows = at::stack({a, b, start, c}, 1);
  return products_of_layer(layers_, l, rows.narrow(1, 3, 1), rows).squeeze(2);
}

at::Tensor LayerProducts::frame_products(std::size_t l, const at::Tensor& a, const at::Tensor& b,
                                         const at::Tensor& start) const {
  const auto rows = at::stack({a, b, start}, 1);
  return products_of_layer(layers_, l, rows, rows);
}

LayerProducts::Features LayerProducts::single(std::size_t k, double c, const models::Batch& batch,
                                              Seen& seen) const {
  Features features;
  const auto see = [&](std::size_t, const at::Tensor& f) { features.push_back(f); };
  if (linear_) {
    const auto tau = study_.vectors.vector(regime_, k);
    pass({}, c == 1 ? tau : c * tau, batch, seen, see);
  } else {
    pass(study_.edits.state(Edit::single(regime_, k, {c})), {}, batch, seen, see);
  }
  return features;
}

void LayerProducts::frame_of(const Features& a, const Features& b, const Seen& seen, at::Tensor frame) const {
  for (std::size_t l = 0; l < a.size(); ++l)
    frame.select(2, static_cast<std::int64_t>(l)).copy_(frame_products(l, a[l], b[l], seen.start[l]));
}

void LayerProducts::mix(std::size_t p, const at::Tensor& mixing, const models::Batch& batch, Seen& seen,
                        at::Tensor frame, at::Tensor mixed) const {
  const auto i = study_.tasks.pairs()[p].first, j = study_.tasks.pairs()[p].second;
  const auto &a = seen.single.at(i), &b = seen.single.at(j);
  frame_of(a, b, seen, std::move(frame));
  const auto see = [&](std::int64_t k) {
    return [&, k](std::size_t l, const at::Tensor& c) {
      mixed.select(2, static_cast<std::int64_t>(l))
          .select(2, k)
          .copy_(mixed_products(l, c, a[l], b[l], seen.start[l]));
    };
  };
  if (linear_) {
    const auto first = study_.vectors.vector(regime_, i), second = study_.vectors.vector(regime_, j);
    for (std::int64_t k = 0; k < mixing.size(0); ++k) {
      const auto tau = (mixing[k][0].item<double>() * first).add_(second, mixing[k][1].item<double>());
      pass({}, tau, batch, seen, see(k));
    }
    return;
  }
  study_.edits.each(Edit::terms(regime_, {i, j}, mixing), [&](std::int64_t k, const models::State& state) {
    pass(state, {}, batch, seen, see(k));
  });
}

/// Numbers of models, as StageWeights counts them.
struct LayerProducts::Models {
  study::StageWeights weights;
  std::int64_t start = 0;
  struct Mixture {
    std::int64_t first, second;  ///< what is mixed
    Range mixed;
  };
  std::vector<Mixture> pairs = {};              // in the order of the task's pairs
  std::vector<std::vector<Mixture>> sums = {};  // by λ, likewise
  std::vector<Mixture> negations = {};          // by λ; θ0 is what is mixed
  std::int64_t passes = 0, edit_passes = 0;
};

LayerProducts::Models LayerProducts::models_by_stages(std::size_t t, const comm::Communicator& group) const {
  Models models = {study::StageWeights(study_, group)};
  auto& weights = models.weights;
  models.start = weights.add(Edit::start());
  const auto pairs = study_.tasks.pairs_of(t);
  const auto of_pairs = [&](double c, const at::Tensor& mixing) {
    std::map<std::size_t, std::int64_t> single;
    if (!pairs.empty())
      for (const auto k : models_of(t)) single[k] = weights.add(Edit::single(regime_, k, {c}));
    std::vector<Models::Mixture> all;
    for (const auto p : pairs) {
      const auto i = study_.tasks.pairs()[p].first, j = study_.tasks.pairs()[p].second;
      const auto first = weights.add(Edit::terms(regime_, {i, j}, mixing));
      all.push_back({single.at(i), single.at(j), {first, mixing.size(0)}});
    }
    return all;
  };
  const auto weight = at::tensor(alpha_, at::kDouble);
  models.pairs = of_pairs(1, at::stack({weight, 1 - weight}, 1));
  models.passes = weights.size() - 1;
  for (const double lambda : lambda_) {
    models.sums.push_back(of_pairs(2 * lambda, at::full({1, 2}, lambda, at::kDouble)));
    const auto more = weights.add(Edit::single(regime_, t, {lambda}));
    models.negations.push_back({more, weights.add(Edit::single(regime_, t, {-lambda})), {}});
  }
  models.edit_passes = weights.size() - 1 - models.passes;
  return models;
}

void LayerProducts::compare_by_stages(std::size_t t, const Models& models, const models::Batch& batch,
                                      const std::function<at::Tensor(const std::string&)>& part,
                                      const std::function<void(int)>& before) const {
  const auto pairs = study_.tasks.pairs_of(t);
  layers_.outputs_by_stages(models.weights, batch, before, [&](std::size_t l, const Features& features) {
    const auto layer = static_cast<std::int64_t>(l);
    const auto of = [&](std::int64_t model) { return features[static_cast<std::size_t>(model)]; };
    const auto start = of(models.start);
    const auto moved = [&](std::int64_t model) { return of(model) - start; };
    const auto compare = [&](const Models::Mixture& mixture, const at::Tensor& frame,
                             const at::Tensor& mixed) {
      const auto a = moved(mixture.first), b = moved(mixture.second);
      frame.copy_(frame_products(l, a, b, start));
      for (std::int64_t k = 0; k < mixture.mixed.count; ++k)
        mixed.select(2, k).copy_(mixed_products(l, moved(mixture.mixed.begin + k), a, b, start));
    };
    const auto of_layer = [&](const std::string& name) { return part(name).select(2, layer); };
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const auto name = study_.tasks.pair_name(pairs[p]);
      compare(models.pairs[p], of_layer("frame/" + name), of_layer("mixed/" + name));
      for (std::size_t k = 0; k < models.sums.size(); ++k) {
        const auto lambda = static_cast<std::int64_t>(k);
        compare(models.sums[k][p], of_layer("sum_frame/" + name).select(2, lambda),
                of_layer("sum/" + name).narrow(2, lambda, 1));
      }
    }
    for (std::size_t k = 0; k < models.negations.size(); ++k)
      compare(models.negations[k], of_layer("negation_frame").select(2, static_cast<std::int64_t>(k)), {});
  });
  if (!models.weights.line().is_first()) return;  // rows of a line's ranks are added
  part("passes").fill_(models.passes);
  part("edit_passes").fill_(models.edit_passes);
}

store::TensorFile LayerProducts::compute(std::size_t t, schedule::UnitContext& context) const {
  const at::NoGradGuard no_grad;
  const auto sample = study_.samples.of(t, Split::test, points_, first_stage());
  const bool by_stages = study_.model.by_stages();
  const auto models_of_parts = by_stages ? std::optional(models_by_stages(t, context.group)) : std::nullopt;
  const bool in_line = by_stages && models_of_parts->weights.line().is_shared();
  const auto n = sample.labels.size(0), most = in_line ? n : comm::rows_a_rank(n, context.group.size());
  const auto share = in_line ? Range{0, n} : context.group.share_of(n);
  const auto v = variants(), l = static_cast<std::int64_t>(layers_.chosen().size()),
             a = static_cast<std::int64_t>(alpha_.size()), edits = static_cast<std::int64_t>(lambda_.size());
  const auto pairs = study_.tasks.pairs_of(t);
  std::map<std::string, at::Tensor> tensors = {{"passes", at::zeros({most}, at::kLong)},
                                               {"edit_passes", at::zeros({most}, at::kLong)}};
  const auto models = models_of(t);
  for (const auto p : pairs) {
    const auto name = study_.tasks.pair_name(p);
    tensors["mixed/" + name] = study_.sums({most, v, l, a, 4});
    tensors["frame/" + name] = study_.sums({most, v, l, 3, 3});
    if (edits == 0) continue;
    tensors["sum/" + name] = study_.sums({most, v, l, edits, 4});
    tensors["sum_frame/" + name] = study_.sums({most, v, l, edits, 3, 3});
  }
  if (edits > 0) tensors["negation_frame"] = study_.sums({most, v, l, edits, 3, 3});
  PointRows rows(context, std::move(tensors));
  const auto rounds = (most + batch_ - 1) / batch_;
  const auto weight = at::tensor(alpha_, at::kDouble);
  const auto steps = static_cast<double>(pairs.size() * (1 + lambda_.size()) + lambda_.size());
  const auto last = study::Layers::last(study_.model);
  try {
    while (rows.rounds() < rounds) {
      // Every rank comes to every safe point, also one that has no point left.
      const auto begin = rows.rounds() * batch_, m = std::clamp<std::int64_t>(share.count - begin, 0, batch_);
      const auto batch = m > 0 ? sample.points.part(share.begin + begin, m) : models::Batch{};
      const auto part = [&](const std::string& name) { return rows.of(name, begin, m); };
      if (by_stages) {
        // In a line no rank waits for those behind it: all learn at the same batch what the first one knows.
        if (in_line && models_of_parts->weights.line().word_of_first(context.stop.requested()))
          context.stop_if_requested();
        const auto before = [&](int number) {
          if (!in_line) context.stop_if_requested();
          context.progress((static_cast<double>(rows.rounds()) + number / static_cast<double>(last + 1)) /
                               static_cast<double>(rounds),
                           "part " + std::to_string(number) + " of " + std::to_string(last));
        };
        if (m > 0)
          compare_by_stages(t, *models_of_parts, batch, part, before);
        else
          for (int number = 0; number <= last; ++number) before(number);
        rows.done();
        continue;
      }
      Seen seen;
      double step = 0;
      const auto next = [&](const std::string& name) {
        context.progress((static_cast<double>(rows.rounds()) + ++step / steps) / static_cast<double>(rounds),
                         name);
      };
      const auto singles = [&](double c) {
        seen.single.clear();
        for (const auto k : models) seen.single[k] = single(k, c, batch, seen);
      };
      context.stop_if_requested();
      if (m > 0) {
        layers_.outputs(study_.model.start(), batch,
                        [&](std::size_t, const at::Tensor& f) { seen.start.push_back(f); });
        if (!pairs.empty()) singles(1);
      }
      for (const auto p : pairs) {
        context.stop_if_requested();
        const auto name = study_.tasks.pair_name(p);
        if (m > 0)
          mix(p, at::stack({weight, 1 - weight}, 1), batch, seen, part("frame/" + name),
              part("mixed/" + name));
        next(name);
      }
      if (m > 0) part("passes").fill_(std::exchange(seen.passes, 0));
      for (std::int64_t k = 0; k < edits; ++k) {
        const double lambda = lambda_[static_cast<std::size_t>(k)];
        const auto at_lambda = [&](const std::string& name) { return part(name).select(3, k); };
        context.stop_if_requested();
        if (m > 0 && !pairs.empty()) singles(2 * lambda);
        for (const auto p : pairs) {
          context.stop_if_requested();
          const auto name = study_.tasks.pair_name(p);
          if (m > 0)
            mix(p, at::full({1, 2}, lambda, at::kDouble), batch, seen, at_lambda("sum_frame/" + name),
                part("sum/" + name).narrow(3, k, 1));
          next(name);
        }
        context.stop_if_requested();
        seen.single.clear();
        if (m > 0) {
          const auto more = single(t, lambda, batch, seen), less = single(t, -lambda, batch, seen);
          frame_of(more, less, seen, at_lambda("negation_frame"));
        }
        next("negation");
      }
      if (m > 0) part("edit_passes").fill_(seen.passes);
      rows.done();
    }
  } catch (const Interrupted&) {
    rows.save();
    throw;
  }
  store::TensorFile file;
  file.tensors = in_line ? rows.summed() : rows.gathered(n);
  for (const auto* name : {"passes", "edit_passes"}) file.tensors[name] = file.tensors.at(name).max();
  return file;
}

int LayerProducts::first_stage() const {
  const int first = study_.first_changed_stage(regime_);
  return layers_.chosen().front().number >= first - 1 ? first : 0;
}

double LayerProducts::pair_bytes(std::size_t t) const {
  return row_bytes(t) * static_cast<double>(4 * alpha_.size() + 9 + 13 * lambda_.size());
}

double LayerProducts::negation_bytes(std::size_t t) const {
  return row_bytes(t) * 9 * static_cast<double>(lambda_.size());
}

double LayerProducts::row_bytes(std::size_t t) const {
  const auto n = study_.samples.size(t, Split::test, points_);
  return 8.0 * static_cast<double>(n * variants() * static_cast<std::int64_t>(layers_.chosen().size()));
}

Tally LayerProducts::tally(std::size_t t) const {
  const auto& cost = study_.model.cost();
  const auto pairs = study_.tasks.pairs_of(t);
  const auto n = study_.samples.size(t, Split::test, points_);
  const auto at_once = std::min(n, batch_);
  const auto models = models_of(t);
  const auto single = static_cast<std::int64_t>(models.size()), a = static_cast<std::int64_t>(alpha_.size()),
             p = static_cast<std::int64_t>(pairs.size()), edits = static_cast<std::int64_t>(lambda_.size());
  std::int64_t largest = 0;
  for (const auto& layer : layers_.chosen()) largest = std::max(largest, layer.numbers);
  Tally tally(study_);
  const bool behind_frozen = first_stage() > 0;
  tally.sample(t, Split::test, n, behind_frozen ? n : batch_);
  const auto seen = p > 0 ? single : 0;
  const auto passes = 1 + seen + p * a + edits * (seen + p + 2);  // θ0's, too
  const auto stored = static_cast<double>(p) * pair_bytes(t) + negation_bytes(t);
  const auto finished = [&] {
    tally.gathers(static_cast<std::int64_t>(stored / 4), 1);  // about: the rows of points, in double
    return tally.stores(static_cast<std::int64_t>(stored), 1);
  };
  if (study_.model.by_stages()) {
    // All models go through a part together, a batch at a time; beside a layer's features lie its rows.
    tally
        .by_stages(models,
                   {.models = passes, .inputs = n, .batch = batch_, .at_once = batch_, .flops = flops()})
        .holds_beside(4 * static_cast<double>((passes + 14) * at_once * largest) + stored);
    return finished();
  }
  tally.vectors(regime_, models);
  // Between two stages: the layer, its difference, rows of four features, and five of them in double.
  const double compared = (2 + 4 + 2 * 5) * static_cast<double>(largest);
  const auto before = tally.mark();
  tally.passes(
      linear_ ? "layers/linear" : "layers/standard", n, batch_, passes, flops(),
      std::max(linear_ ? cost.passing_tangent() : cost.passing(), compared),
      [this](const comm::Communicator&, std::int64_t inputs, std::int64_t) { return rehearse(inputs); });
  if (behind_frozen) tally.count_part_of_later(before, flops(ledger::part_left(study_)) / flops());
  for (const auto k : pairs)
    tally.statistics(regime_, {study_.tasks.pairs()[k].first, study_.tasks.pairs()[k].second}, a + edits);
  if (edits > 0) {
    if (p > 0)
      for (const auto k : models) tally.statistics(regime_, {k}, edits);
    tally.statistics(regime_, {t}, 2 * edits);
  }
  const auto held = std::min(std::max<std::int64_t>(a, 1), study_.edits.at_once());
  tally.holds(4 * (static_cast<double>(single + 1) * static_cast<double>(at_once) * layers_.numbers() +
                   static_cast<double>(held * study_.model.layout().size())) +
              stored);
  return finished();
}

schedule::Rehearsal LayerProducts::rehearse(std::int64_t n) const {
  const auto batch = study_.model.random_batch(n);
  const auto seen = std::make_shared<Seen>();
  layers_.outputs(study_.model.start(), batch,
                  [&](std::size_t, const at::Tensor& f) { seen->start.push_back(f); });
  for (const std::size_t k : {0, 1})
    for (const auto& f : seen->start) seen->single[k].push_back(1e-3 * f);
  const auto tau = linear_ ? 1e-3 * study_.model.theta0() : at::Tensor();
  return {[this, batch, seen, tau] {
            const at::NoGradGuard no_grad;
            const auto &a = seen->single.at(0), &b = seen->single.at(1);
            pass(study_.model.start(), tau, batch, *seen, [&](std::size_t l, const at::Tensor& c) {
              mixed_products(l, c, a[l], b[l], seen->start[l]);
            });
          },
          static_cast<double>(n) * flops()};
}

}  // namespace taugrid::experiments
