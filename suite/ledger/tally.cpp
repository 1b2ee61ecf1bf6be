// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/ledger/tally.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "kernels/autodiff/products.hpp"
#include "kernels/metrics/metrics.hpp"
#include "kernels/tangent/ntk.hpp"
#include "suite/study/regime.hpp"
#include "suite/training/loss.hpp"
#include "suite/training/rehearsal.hpp"

namespace taugrid::ledger {
namespace {

using schedule::Rehearsal;
using study::regime;

// The graph of the gradient, as a multiple of what one backward pass finds again: counted by LibTorch's
// allocators (tests/suite/plan checks it).
constexpr double kept_hessian = 3.5;

constexpr double header_bytes = 300;  // of a unit's file

double number(std::int64_t n) { return static_cast<double>(n); }

double logits_flops(const Study& study, std::size_t t, std::int64_t n) {
  const auto& readout = study.readouts.of(t);
  return number(n * readout.width(study.model.encoder())) * (4 + 2 * number(readout.classes()));
}

double divergence_flops(const Study& study, std::size_t t, std::int64_t n) {
  return 14 * number(n * study.readouts.of(t).width(study.model.encoder()));
}

at::Tensor random_outputs(const Study& study, std::size_t t, std::int64_t n) {
  return at::randn({n, study.readouts.of(t).width(study.model.encoder())}).to(study.device);
}

Rehearsal add_numbers(std::int64_t n) {
  const auto mine = at::zeros({n}), theirs = at::ones({n});
  return {[mine, theirs] { mine.add_(theirs); }, number(n)};
}

}  // namespace

Tally::Tally(const Study& study, int ranks) : study_(&study), ranks_(ranks) {
  load_.bytes_stored = header_bytes;
}

void Tally::add(schedule::Work work, double all_flops, double bytes) {
  load_.flops += all_flops;
  load_.working = std::max(load_.working, bytes);
  if (work.calls > 0 && work.inputs > 0) load_.work.push_back(std::move(work));
}

Tally& Tally::exchange(const char* kind, std::int64_t numbers, std::int64_t times) {
  if (ranks_ == 1) return *this;
  add({kind, number(times), numbers, 0, number(numbers),
       [](const comm::Communicator&, std::int64_t n, std::int64_t) { return add_numbers(n); }},
      0, 0);
  return *this;
}

Tally& Tally::passes(const std::string& kind, std::int64_t inputs, std::int64_t batch, std::int64_t times,
                     double flops, double passing, Rehearse rehearse) {
  const auto n = share(inputs), at_once = std::min(n, batch);
  // The last batch may be smaller: calls need not be whole.
  add({kind, number(times) * number(n) / number(std::max<std::int64_t>(1, at_once)), at_once, 0,
       number(at_once) * flops, std::move(rehearse)},
      number(inputs * times) * flops, 4 * number(at_once) * passing);
  return *this;
}

// Each rank has as many rows as any other, the last ones' empty ones among them.
Tally& Tally::gathers_outputs(std::size_t t, std::int64_t inputs, std::int64_t times) {
  return gathers(share(inputs) * ranks_ * study_->readouts.of(t).width(study_->model.encoder()), times);
}

Tally& Tally::forward(std::size_t t, std::int64_t inputs, std::int64_t times) {
  return forward_apart(t, inputs, times).gathers_outputs(t, inputs, times);
}

Tally& Tally::by_stages(const std::vector<std::size_t>& tasks, const Stages& of) {
  using study::StageWeights;
  const auto& cost = study_->model.cost();
  const bool tangent = of.how.tangent;
  passes(tangent ? "tangent" : "forward", of.inputs, of.batch, of.models * of.times,
         (tangent ? 3 : 1) * of.flops, tangent ? cost.passing_tangent() : cost.passing(),
         [study = study_, tangent](const comm::Communicator&, std::int64_t n, std::int64_t) {
           return rehearse_stage(*study, n, tangent);
         });
  // θ0's weights and the direction's, and as many states.
  const std::int64_t together = tangent ? 2 : 1, weights = of.models * together;
  // In a line each rank has all inputs and a part of the model; else it has a part of the inputs.
  const int line = study_->settings.by_stretches() ? ranks_ : 1;
  const auto mine = line > 1 ? of.inputs : share(of.inputs);
  const auto at_once = std::clamp<std::int64_t>(of.at_once / together, 1, std::max<std::int64_t>(1, mine));
  const bool kept = StageWeights::keeps(*study_, weights, line);
  const auto rounds = kept ? (of.how.made_before ? 0 : 1) : of.times * ((mine + at_once - 1) / at_once);
  goes_through(number(rounds * (1 + std::ssize(tasks))) * study_->model.file_bytes() / line);
  const auto between = StageWeights::bytes_between(*study_);
  if (line > 1)
    gathers(static_cast<std::int64_t>(number(at_once) * between / sizeof(float)),
            of.times * weights * mine / at_once);
  return holds(StageWeights::most_bytes(*study_, weights, line, together) +
               number(weights * at_once) * between);
}

schedule::Rehearsal rehearse_stage(const Study& study, std::int64_t inputs, bool tangent) {
  const auto& encoder = study.model.encoder();
  const models::Given given{study.model.random_batch(inputs)};
  const auto h = at::randn(study::StageWeights::shape_between(encoder, given.batch)).to(study.device);
  models::Blocks<at::Tensor> blocks;
  for (const auto& block : encoder.layout().blocks())
    blocks.push_back(block.stage == 1 ? at::randn(block.shape).mul_(1e-2).to(study.device) : at::Tensor());
  const auto both = autodiff::duals(blocks, blocks);
  return {[&encoder, given, h, blocks, both, tangent] {
            const at::NoGradGuard no_grad;
            if (tangent)
              encoder.part(1, both, autodiff::Dual{h, h}, given, models::Reach::whole);
            else
              encoder.part(1, blocks, h, given, models::Reach::whole);
          },
          (tangent ? 3 : 1) * number(inputs) * study.model.cost().forward() / encoder.stages()};
}

Tally& Tally::forward_apart(std::size_t t, std::int64_t inputs, std::int64_t times) {
  const auto& cost = study_->model.cost();
  return passes("forward", inputs, study_->settings.evaluation_batch, times, cost.forward(), cost.passing(),
                [study = study_, t](const comm::Communicator& alone, std::int64_t n, std::int64_t) {
                  const auto batch = study->model.random_batch(n);
                  return Rehearsal{[study, t, batch, &alone] {
                                     study->evaluation.output(alone, study->model.start(), t, batch);
                                   },
                                   number(n) * study->model.cost().forward()};
                });
}

Tally& Tally::tangent(std::size_t t, std::int64_t inputs, std::int64_t times) {
  const auto& cost = study_->model.cost();
  passes(
      "tangent", inputs, study_->settings.evaluation_batch, times, 3 * cost.forward(), cost.passing_tangent(),
      [study = study_, t](const comm::Communicator& alone, std::int64_t n, std::int64_t) {
        const auto batch = study->model.random_batch(n);
        const auto tau = 1e-3 * study->model.theta0();
        return Rehearsal{[study, t, batch, tau, &alone] { study->evaluation.tangent(alone, tau, t, batch); },
                         3 * number(n) * study->model.cost().forward()};
      });
  return gathers_outputs(t, inputs, times);
}

Tally& Tally::logits(std::size_t t, std::int64_t inputs, std::int64_t times) {
  const double f = logits_flops(*study_, t, inputs);
  add({"logits", number(times), inputs, study_->readouts.of(t).classes(), f,
       [study = study_, t](const comm::Communicator&, std::int64_t n, std::int64_t) {
         const auto z = random_outputs(*study, t, n), other = random_outputs(*study, t, n);
         return Rehearsal{[study, t, z, other] {
                            const at::NoGradGuard no_grad;
                            metrics::predictions(
                                study->readouts.of(t).logits(z.clone().add_(other, 0.5).add_(other, 0.25)));
                          },
                          logits_flops(*study, t, n)};
       }},
      number(times) * f, 0);
  return *this;
}

Tally& Tally::divergence(std::size_t t, std::int64_t inputs, std::int64_t times) {
  const double f = divergence_flops(*study_, t, inputs);
  add({"divergence", number(times), inputs, 0, f,
       [study = study_, t](const comm::Communicator&, std::int64_t n, std::int64_t) {
         const auto p = random_outputs(*study, t, n), q = random_outputs(*study, t, n);
         return Rehearsal{[p, q] { metrics::kl_sums(p, q); }, divergence_flops(*study, t, n)};
       }},
      number(times) * f, 0);
  return *this;
}

Tally& Tally::train(const std::string& name, const training::Training& training, std::size_t t,
                    std::int64_t steps) {
  const auto& r = regime(name);
  const auto& cost = study_->model.cost();
  const auto trained = study_->trained_blocks(name);
  const auto parameters = 4 * number(study::trained_parameters(trained, study_->model.layout()));
  const auto inputs = training::step_inputs(*study_, name, training, t);
  // A rehearsal takes its random inputs through all stages; those that are frozen run once an input here.
  const double f = cost.forward(), flops = training::step_flops_an_input(r, trained, cost);
  const double skipped = (1 - part_left(*study_)) * f;
  const auto once = std::min(steps * inputs, study_->tasks.data(t).train.labels.size(0));
  const double all_flops =
      number(steps * inputs) * (flops - (r.linear ? 4 : 2) * skipped) + number(once) * skipped;
  const auto optimised = 4 * number(study_->trained_parameters(name));
  // θ, two moments, this gradient and the last one; of a linear step also τ; of factors these and their
  // gradient.
  const double bytes =
      (r.linear ? 2 : 1) * theta_bytes() + 2 * parameters + (r.low_rank ? 4 : 2) * optimised +
      4 * number(share(inputs)) * (r.linear ? cost.alive_in_linear_step() : cost.alive_in_step());
  const double steps_like_it = all_flops / (number(inputs) * flops);
  add({"train/" + name, steps_like_it, share(inputs), 0, number(share(inputs)) * flops,
       [study = study_, name](const comm::Communicator& alone, std::int64_t n, std::int64_t) {
         return training::rehearse_update(*study, name, alone, n);
       }},
      all_flops, bytes);
  // The gradient goes in stretches (training/update.cpp), then the loss and the penalty, in double.
  const auto numbers = static_cast<std::int64_t>(parameters / 4);
  const auto stretches = std::max<std::int64_t>(1, numbers / training::stretch_of_sums(numbers));
  return sums(numbers / stretches, stretches * steps).sums(4, steps);
}

Tally& Tally::hessian(bool linear, std::int64_t points, std::int64_t chunk, std::int64_t products,
                      bool gradient, std::int64_t basis, Rehearse rehearse) {
  const auto& cost = study_->model.cost();
  const auto n = share(points), at_once = std::min(n, chunk);
  const double f = cost.forward(), chunks = number(n) / number(std::max<std::int64_t>(1, at_once));
  // A call is a product, and includes the graph: made once where one chunk holds all, else for each product.
  // A linear product has no graph to keep: value 1, tangent 2, backward 2. Before the first one its outputs
  // are made, of which the loss is taken. A graph that is kept has the gradient.
  const bool kept = n <= chunk;
  const double product = linear ? 5 : kept ? 6 : 9;
  const double once = linear || kept || gradient ? 3 : 0;
  const double passes = product + once / number(products);
  const double left = part_left(*study_);
  const auto free = study_->free_parameters();
  const double bytes =
      4 * number(basis + 6) * number(free) +
      4 * number(at_once) * (linear ? cost.alive_in_linear_step() : left * kept_hessian * cost.kept());
  add({linear ? "hessian/linear" : "hessian/standard", left * number(products) * chunks, at_once, 0,
       number(at_once) * f * passes, std::move(rehearse)},
      left * number(products) * number(points) * f * passes, bytes);
  return *this;
}

Tally& Tally::gram(std::int64_t rows, std::int64_t beside, std::int64_t chunk, std::int64_t logits,
                   Rehearse rehearse) {
  // The rows' points are recorded with each chunk. The last one may be smaller: calls need not be whole.
  const auto recorded = rows + std::min(beside, chunk);
  const auto passes = std::max<std::int64_t>(1, (beside + chunk - 1) / chunk);
  const double chunks = number(beside + passes * rows) / number(recorded);
  const double left = part_left(*study_);
  add({"gram", left * chunks, recorded, rows, gram_flops(*study_, recorded, rows, share(logits)),
       std::move(rehearse)},
      left * chunks * gram_flops(*study_, recorded, rows, logits),
      4 * (tangent::ntk_work_space(study_->model.layout(), study_->model.cost().matrix_uses(), rows, recorded,
                                   share(logits)) +
           number(recorded) * study_->model.cost().alive_on_tape()));
  return sums(logits * rows * (rows + beside), 1);
}

Tally& Tally::edited(const study::Edit& edit, std::size_t b, Split split, std::int64_t n,
                     std::int64_t times) {
  using Kind = study::Edit::Kind;
  n = study_->samples.size(b, split, n);
  const auto models = times * edit.models();
  const auto tasks = static_cast<std::int64_t>(edit.tasks.size());
  const bool linear = edit.is_linear();
  logits(b, n, models).sample(b, split, n);
  const auto before = mark();
  const auto passes_of_models = [&]() -> Tally& {
    const bool reads_features = linear && (edit.kind == Kind::start || edit.kind == Kind::terms);
    if (study_->model.by_stages() && !reads_features) {
      if (linear)
        return reads(features_bytes(*study_, b))
            .outputs_by_stages(b, edit.tasks, times, n, {.tangent = true});
      return outputs_by_stages(b, edit.tasks, models, n, {});
    }
    switch (edit.kind) {
      case Kind::start:
        return linear ? reads(features_bytes(*study_, b)) : forward(b, n, models);
      case Kind::joint:
        if (linear) tangent(b, n, models);
        return forward(b, n, models).reads(theta_bytes());
      case Kind::terms:
        if (linear) return reads(static_cast<double>(1 + tasks) * features_bytes(*study_, b));
        // A single task's vector is added once as it is: its own model.
        vectors(edit.regime, edit.tasks)
            .forward(b, n, models)
            .statistics(edit.regime, edit.tasks, models - (tasks == 1 ? 1 : 0));
        return holds(static_cast<double>(std::min(models, study_->edits.at_once())) * theta_bytes());
      case Kind::sum:
        visit(edit.regime, edit.tasks);
        break;
      case Kind::direction:
        break;
    }
    holds(2 * theta_bytes());
    if (linear) return reads(features_bytes(*study_, b)).tangent(b, n, times);
    return forward(b, n, models).statistics(edit.regime, edit.tasks, models);
  };
  passes_of_models();
  return count_part_of_later(before, part_left(*study_));
}

Tally& Tally::count_part_of_later(const Mark& mark, double part) {
  for (auto i = mark.work; i < load_.work.size(); ++i)
    if (load_.work[i].kind != schedule::gathers_of_ranks) load_.work[i].calls *= part;
  load_.flops = mark.flops + part * (load_.flops - mark.flops);
  return *this;
}

Tally& Tally::outputs_by_stages(std::size_t t, const std::vector<std::size_t>& tasks, std::int64_t models,
                                std::int64_t n, const How& how) {
  const auto at_once = how.tangent ? 1 : std::max<std::int64_t>(1, models);
  return by_stages(tasks, {.models = how.tangent ? 1 : models,
                           .inputs = n,
                           .batch = study_->settings.evaluation_batch,
                           .at_once = study::StageWeights::inputs_at_once(*study_) / at_once,
                           .flops = study_->model.cost().forward(),
                           .times = how.tangent ? models : 1,
                           .how = how})
      .gathers_outputs(t, n, models);
}

Tally& Tally::statistics(const std::string& name, const std::vector<std::size_t>& tasks,
                         std::int64_t models) {
  const auto& edits = study_->edits;
  if (!edits.recomputes(name)) return *this;
  std::int64_t inputs = 0;
  for (const auto t : tasks) {
    const auto n = study_->samples.size(t, Split::train, edits.points_a_task(tasks.size()));
    sample(t, Split::train, n);
    inputs += n;
  }
  const auto& cost = study_->model.cost();
  return passes("statistics", inputs * ranks_, study_->settings.evaluation_batch, models, cost.forward(),
                cost.passing_by_batch(),
                [study = study_](const comm::Communicator&, std::int64_t n, std::int64_t) {
                  const auto batch = study->model.random_batch(n);
                  return schedule::Rehearsal{
                      [study, batch] { study->edits.statistics_of(study->model.theta0(), batch); },
                      static_cast<double>(n) * study->model.cost().forward()};
                });
}

Tally& Tally::vectors(const std::string& name, const std::vector<std::size_t>& tasks) {
  const bool all_kept =
      study_->settings.vector_regimes.size() * study_->tasks.size() <= study_->vectors.kept();
  for (const auto t : tasks) {
    if (!all_kept) load_.bytes_read += theta_bytes();
    load_.keeps["vector/" + study_->vectors.checkpoint_folder(name, t).string()] = theta_bytes();
  }
  return *this;
}

Tally& Tally::visit(const std::string& name, const std::vector<std::size_t>& tasks) {
  const bool by_stages = study_->model.by_stages();
  if (!by_stages && tasks.size() <= study_->vectors.kept()) return vectors(name, tasks);
  goes_through(by_stages ? number(1 + std::ssize(tasks)) * study_->model.file_bytes()
                         : number(std::ssize(tasks)) * theta_bytes());
  return holds(4 * static_cast<double>(static_cast<std::int64_t>(tasks.size()) *
                                       study_->vectors.block_of(tasks.size(), 1)));
}

Tally& Tally::sample(std::size_t t, Split split, std::int64_t n, std::int64_t at_once) {
  const auto& settings = study_->settings;
  n = study_->samples.size(t, split, n);
  if (at_once == 0) at_once = study_->model.first_stage() > 0 ? n : settings.evaluation_batch;
  if (study_->samples.bytes(n) > study_->bound.samples) n = std::min(n, at_once);
  auto& bytes = load_.keeps["sample/" + study_->tasks.name(t) + "/" + study::split_name(split)];
  bytes = std::max(bytes, static_cast<double>(study_->samples.bytes(n)));
  return *this;
}

Tally& Tally::goes_through(double bytes) {
  load_.bytes_read += bytes;
  return *this;
}

Tally& Tally::reads(double bytes) { return goes_through(bytes).holds_beside(bytes); }

Tally& Tally::holds_beside(double bytes) {
  load_.held += bytes;
  return *this;
}

Tally& Tally::holds(double bytes) {
  held_ = std::max(held_, bytes);
  return *this;
}

Tally& Tally::computes(double flops) {
  load_.flops += flops;
  return *this;
}

Tally& Tally::checkpoint() {
  load_.files_stored += 2;
  load_.bytes_stored +=
      theta_bytes() + 120 * number(static_cast<std::int64_t>(study_->model.layout().parameters().size()));
  return *this;
}

Tally& Tally::stores(std::int64_t numbers, int bytes_each) {
  load_.bytes_stored += number(numbers) * bytes_each;
  return *this;
}

Tally& Tally::operator+=(const Tally& other) {
  const auto& more = other.load_;
  for (const auto& work : more.work) {
    const auto same = std::find_if(load_.work.begin(), load_.work.end(), [&](const schedule::Work& mine) {
      return mine.kind == work.kind && mine.inputs == work.inputs && mine.width == work.width;
    });
    if (same == load_.work.end()) {
      load_.work.push_back(work);
    } else {
      same->calls += work.calls;
    }
  }
  load_.flops += more.flops;
  load_.bytes_read += more.bytes_read;
  load_.bytes_stored += more.bytes_stored - header_bytes;
  load_.working = std::max(load_.working, more.working);
  load_.held = std::max(load_.held, more.held);
  held_ = std::max(held_, other.held_);
  for (const auto& [name, bytes] : more.keeps) load_.keeps[name] = std::max(load_.keeps[name], bytes);
  return *this;
}

schedule::Load Tally::load() const {
  auto all = load_;
  all.held += held_;
  return all;
}

double gram_flops(const Study& study, std::int64_t recorded, std::int64_t rows, std::int64_t logits) {
  const double n = number(recorded), f = study.model.cost().forward(),
               p = number(study.model.layout().size());
  return n * f + number(logits) * (2 * n * f + 2 * number(rows) * n * p);
}

double part_left(const Study& study) {
  const auto first = study.model.first_stage();
  if (first == 0) return 1;
  const auto& blocks = study.model.layout().blocks();
  std::vector<bool> behind;
  for (const auto& block : blocks) behind.push_back(block.stage >= first);
  const auto& cost = study.model.cost();
  const double without_blocks = cost.weight_gradient(std::vector<bool>(blocks.size(), false));
  return (cost.weight_gradient(behind) - without_blocks) / (cost.forward() - without_blocks);
}

double features_bytes(const Study& study, std::size_t b) {
  std::int64_t rows = 0;
  for (const auto split : {Split::test, Split::validation})
    rows += study.samples.size(b, split, study.points(b));
  return 4.0 * static_cast<double>(rows * study.readouts.of(b).width(study.model.encoder()));
}

void add_missing(std::vector<std::string>& needs, const std::vector<std::string>& more) {
  for (const auto& each : more)
    if (std::find(needs.begin(), needs.end(), each) == needs.end()) needs.push_back(each);
}

schedule::WorkUnit unit(std::string key, const Tally& tally, std::vector<std::string> needs,
                        std::function<store::TensorFile(schedule::UnitContext&)> compute) {
  auto load = tally.load();
  const double cost = load.flops + load.bytes_read + load.bytes_stored;
  return {std::move(key), cost, std::move(needs), std::move(compute), {}, std::move(load)};
}

}  // namespace taugrid::ledger
