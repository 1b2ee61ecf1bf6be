// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The loss barrier of a pair and its cause (paper 5, theorem 5.1): for L the mean of both tasks' losses, each
// on its own training points with its own head, and v = θᵢ − θⱼ,
//   δ(α) = αL(θᵢ) + (1−α)L(θⱼ) − L(αθᵢ + (1−α)θⱼ),   to second order ½α(1−α) vᵀHv,
// H being L's Hessian: one product with v, no eigenvalue. The theorem takes H at θ0; at the middle of the
// pair the third order falls away. A linearised model's H is Jᵀ(∇²L)J, of which Jv is all that is asked.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "kernels/full_products.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/experiments/pairs/pair_units.hpp"
#include "suite/study/refusals.hpp"
#include "suite/training/curvature.hpp"
#include "suite/training/rehearsal.hpp"

namespace taugrid::experiments {
namespace {

std::string barrier_key(const std::string& regime) { return key::of("barrier", regime); }

std::vector<OutputGroup> barrier_outputs() {
  return {{"/barrier/R",
           "the loss barrier of pairs, on the train points of both tasks",
           {{"alpha", "alpha", "1", "α of the first model, 1 − α of the second",
             With{.scale = "alpha_barrier_R"}},
            {"delta", "pair alpha", "nat", "αL(θᵢ) + (1−α)L(θⱼ) − L(αθᵢ + (1−α)θⱼ)"},
            {"curvature", "pair", "", "vᵀHv at θ0, v = θᵢ − θⱼ"},
            {"middle_curvature", "pair", "", "the same at ½(θᵢ + θⱼ)"},
            {"distance", "pair", "", "‖v‖"},
            {"loss", "pair side", "nat", "L(θᵢ) and L(θⱼ)"},
            sample_rows("train", "barrier_point")},
           "[barrier]",
           2}};
}

class Barrier final : public Experiment {
 public:
  Barrier(const Study& study, std::vector<double> alpha, std::int64_t points, std::int64_t chunk)
      : Experiment(study), alpha_(std::move(alpha)), points_(points), chunk_(chunk) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      pairs(name).add(
          units, [&](std::size_t p) { return tally(name, p); },
          [this, name](std::size_t p) {
            const auto [i, j] = study_.tasks.pairs()[p];
            return study_.vectors.needs(name, {i, j});
          },
          [this, name](std::size_t p, schedule::UnitContext& context) { return compute(name, p, context); });
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/barrier", study_.settings.vector_regimes,
                     {{"alpha", length_of(alpha_)}, {"barrier_point", points_}});
  }

  void write(Results& out, const Finished& done) const override {
    if (study_.tasks.pairs().empty()) return;
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/barrier/" + name;
      const auto boxes = pairs(name).boxes();
      out.put(group + "/alpha", alpha_);
      out.place(done, group + "/delta", boxes, "delta");
      for (const std::string what : {"curvature", "middle_curvature", "distance"})
        out.place(done, group + "/" + what, boxes, what);
      out.place(done, group + "/loss", boxes, "loss");
      out.put(group + "/sample_index", study_.samples.index(Split::train, points_));
    }
  }

 private:
  PairUnits pairs(const std::string& name) const { return {study_, barrier_key(name)}; }

  /// The tasks on whose points pair p is measured: one, where both are fine-tunings of one task.
  std::vector<std::size_t> data(std::size_t p) const {
    const auto [i, j] = study_.tasks.pairs()[p];
    if (study_.tasks.first_alike(i) == study_.tasks.first_alike(j)) return {i};
    return {i, j};
  }

  Tally tally(const std::string& name, std::size_t p) const {
    const auto [i, j] = study_.tasks.pairs()[p];
    const auto a = static_cast<std::int64_t>(alpha_.size());
    const bool linear = regime(name).linear;
    Tally tally(study_);
    tally.vectors(name, {i, j});
    for (const auto t : data(p)) {
      const auto n = study_.samples.size(t, Split::train, points_);
      tally.sample(t, Split::train, n, std::max(chunk_, study_.settings.evaluation_batch))
          .logits(t, n, 2 + a);
      if (linear) {
        tally.forward(t, n).tangent(t, n, 2);
        continue;
      }
      tally.forward(t, n, 2 + a).statistics(name, {i, j}, a + 1);
      for (int state = 0; state < 2; ++state)  // θ0, and the middle: a graph each
        tally.hessian(false, n, chunk_, 1, false, 3,
                      [this, t](const comm::Communicator&, std::int64_t inputs, std::int64_t) {
                        return rehearse(t, inputs);
                      });
    }
    const auto held = linear ? 0 : std::min(2 + a, study_.edits.at_once());
    tally.holds(4 * static_cast<double>(held * study_.model.layout().size()));
    return tally.stores(a + 5);
  }

  /// Losses [2 + A] of θᵢ, θⱼ, θ_α: mean over task t's points; of a linear regime also vᵀHv at θ0 and in the
  /// middle.
  struct Side {
    at::Tensor loss, curvature;
  };

  Side side(const std::string& name, std::size_t p, std::size_t t, const comm::Communicator& group) const {
    const auto i = study_.tasks.pairs()[p].first, j = study_.tasks.pairs()[p].second;
    const auto sample = study_.samples.of(t, Split::train, points_);
    const auto& readout = study_.readouts.of(t);
    std::vector<double> rows = {1, 0, 0, 1};
    for (const auto a : alpha_) rows.insert(rows.end(), {a, 1 - a});
    const auto grid = at::tensor(rows, at::kDouble).view({-1, 2});
    Side result{study_.sums({grid.size(0)}), study_.sums({2})};
    const auto put = [&](std::int64_t k, const at::Tensor& z) {
      result.loss[k] = study::mean_loss(readout, readout.logits(z), sample.labels);
    };
    if (!regime(name).linear) {
      study_.edits.each(Edit::terms(name, {i, j}, grid), [&](std::int64_t k, const models::State& state) {
        put(k, study_.evaluation.output(group, state, t, sample.points));
      });
      return result;
    }
    const auto base = study_.evaluation.output(group, study_.model.start(), t, sample.points);
    const auto first = study_.evaluation.tangent(group, study_.vectors.vector(name, i), t, sample.points);
    const auto second = study_.evaluation.tangent(group, study_.vectors.vector(name, j), t, sample.points);
    for (std::int64_t k = 0; k < grid.size(0); ++k)
      put(k, at::add(base, first, grid[k][0].item<double>()).add_(second, grid[k][1].item<double>()));
    const auto jv = (first - second).to(at::kDouble);
    const auto exact = readout.to(at::kDouble);
    const training::PointsLoss loss{exact, sample.labels, readout.loss_items(sample.labels)};
    const at::AutoGradMode recorded(true);
    for (const int middle : {0, 1}) {
      const auto z = (base.to(at::kDouble) + 0.5 * middle * (first + second)).requires_grad_(true);
      result.curvature[middle] = (loss.curved(z, jv) * jv).sum().detach();
    }
    return result;
  }

  /// vᵀHv of task t's loss at a state, over this rank's points by chunks; v of Study::free_blocks().
  at::Tensor curvature(const models::State& state, const at::Tensor& v, std::size_t t, const Range& share,
                       schedule::UnitContext& context) const {
    const FullProducts full;
    const auto sample = study_.free_sample(t, points_);
    auto sum = study_.sums({});
    const auto& readout = study_.readouts.of(t);
    const auto items = readout.loss_items(sample.labels);
    for (auto k = share.begin; k < share.end(); k += chunk_) {
      if (context.group.size() == 1) context.stop_if_requested();
      const auto m = std::min(chunk_, share.end() - k);
      const training::PointsLoss loss{readout, sample.labels.narrow(0, k, m), items};
      const auto product = training::hessian(study_, state, sample.points.part(k, m), loss)(v);
      sum.add_(weights::inner_product(v, product));
    }
    return sum;
  }

  store::TensorFile compute(const std::string& name, std::size_t p, schedule::UnitContext& context) const {
    const auto i = study_.tasks.pairs()[p].first, j = study_.tasks.pairs()[p].second;
    const auto v = study_.vectors.vector(name, i) - study_.vectors.vector(name, j);
    // It is 0 in all other blocks.
    const auto free = autodiff::trained_part(study_.model.layout(), study_.free_blocks(), v);
    auto loss = study_.sums({2 + static_cast<std::int64_t>(alpha_.size())}), curved = study_.sums({2});
    const auto tasks = data(p);
    const double part = 1 / static_cast<double>(tasks.size());
    for (const auto t : tasks) {
      context.stop_if_requested();
      const auto term = side(name, p, t, context.group);
      loss.add_(term.loss, part);
      curved.add_(term.curvature, part);
      if (regime(name).linear) continue;
      const auto share = context.group.share_of(study_.samples.size(t, Split::train, points_));
      auto mine = study_.sums({2});
      mine[0] = curvature(study_.model.start(), free, t, share, context);
      study_.edits.each(Edit::together(name, {i, j}, {0.5}), [&](std::int64_t, const models::State& middle) {
        mine[1] = curvature(middle, free, t, share, context);
      });
      if (context.group.size() > 1) context.group.all_reduce_sum(mine, "curvature of a pair");
      curved.add_(mine, part);
    }
    const auto weight = at::tensor(alpha_, at::kDouble).to(loss.device());
    store::TensorFile file;
    file.tensors["loss"] = loss.narrow(0, 0, 2).clone();
    file.tensors["delta"] = weight * loss[0] + (1 - weight) * loss[1] - loss.slice(0, 2);
    file.tensors["curvature"] = curved[0].clone();
    file.tensors["middle_curvature"] = curved[1].clone();
    file.tensors["distance"] = at::full({}, weights::norm(v), at::kDouble);
    return file;
  }

  /// The graph and a product.
  schedule::Rehearsal rehearse(std::size_t t, std::int64_t n) const {
    const auto term = training::random_term(study_, n);
    const auto direction =
        autodiff::trained_part(study_.model.layout(), study_.free_blocks(), study_.model.theta0());
    return {[this, t, term, n, direction] {
              const FullProducts full;
              training::hessian(study_, study_.model.start(), term.batch,
                                {study_.readouts.of(t), term.labels, static_cast<double>(n)})(direction);
            },
            9 * static_cast<double>(n) * study_.model.cost().forward()};
  }

  std::vector<double> alpha_;
  std::int64_t points_, chunk_;
};

std::unique_ptr<Experiment> make_barrier(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "barrier", "The loss barrier of every pair, and the curvature along it that explains it");
  if (!section) return nullptr;
  study::require_vectors(study, "barrier");
  auto alpha = section->alpha_grid("alpha", {"Weights α of a pair's first model in the mixed one"}, {0.5},
                                   coefficients);
  const auto points =
      section->integer("points", "Training points a task that the losses are taken over", 256, {1, 1e7});
  const auto chunk = section->integer(
      "chunk", "Points that a Hessian product takes at once: fewer take less memory", 256, {1, 1e6});
  return std::make_unique<Barrier>(study, std::move(alpha), points, chunk);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(barrier, 75, make_barrier, barrier_outputs)
