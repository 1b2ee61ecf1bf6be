// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The linearised model in function space: f(x; θ0), and J(x)τ of every task vector, on every task's
// evaluation points. All that is measured of a linear regime follows from these by linearity, at any α.
//
// Units features/base/TASK: tensors "test/TASK", "validation/TASK" [n, width], also of the control; and
// features/R/TASK: one task vector's tangents on all tasks' points, a tensor a task and split, and of each
// the mean of ‖J(x)τ‖² over the points, which tau_jp.cpp writes.
#include <ATen/ATen.h>

#include <map>

#include "suite/experiments/experiment.hpp"
#include "suite/study/stage_weights.hpp"

namespace taugrid::experiments {
namespace {

/// None: others write what follows from the features.
std::vector<OutputGroup> linear_features_outputs() { return {}; }

class LinearFeatures final : public Experiment {
 public:
  using Experiment::Experiment;

  bool runs_by_stages() const override { return true; }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    const auto linear = study_.settings.linear_regimes();
    if (linear.empty()) return;
    const auto& tasks = study_.tasks;
    for (std::size_t b = 0; b < tasks.with_control(); ++b) {
      Tally tally(study_);
      count(tally, b, {}, false);
      units.push_back(
          unit(key::base_features(tasks.name(b)), tally, {}, [this, b](schedule::UnitContext& context) {
            store::TensorFile file;
            std::optional<study::StageWeights> weights;
            if (study_.model.by_stages()) weights.emplace(study_, context.group).add(Edit::start());
            each_split(b, context, file, study_.model.first_stage(), [&](const study::Points& x) {
              return weights ? study_.evaluation.output_by_stages(context.group, *weights, b, x)
                             : study_.evaluation.output(context.group, study_.model.start(), b, x);
            });
            return file;
          }));
    }
    for (const auto& name : linear) {
      for (const auto t : tasks.all()) {
        const auto values = 2 * static_cast<std::int64_t>(tasks.with_control());
        auto tally = Tally(study_).stores(values);
        if (!study_.model.by_stages()) tally.vectors(name, {t});
        for (std::size_t b = 0; b < tasks.with_control(); ++b) count(tally, b, {t}, b > 0);
        units.push_back(
            unit(key::features(name, tasks.name(t)), tally, study_.vectors.needs(name, {t}),
                 [this, name, t](schedule::UnitContext& context) { return tangents(name, t, context); }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override { return {}; }
  void write(Results&, const Finished&) const override {}

 private:
  /// Outputs of θ0, or tangents of these tasks' vectors, on task b's samples. `made_before`: the unit has
  /// made its weights for another task's.
  void count(Tally& tally, std::size_t b, const std::vector<std::size_t>& of, bool made_before) const {
    for (const auto split : {Split::test, Split::validation}) {
      const auto n = study_.samples.size(b, split, study_.points(b));
      tally.sample(b, split, n);
      const auto before = tally.mark();
      if (study_.model.by_stages())
        tally.outputs_by_stages(b, of, 1, n,
                                {.tangent = !of.empty(), .made_before = made_before || split != Split::test});
      else
        of.empty() ? tally.forward(b, n) : tally.tangent(b, n);
      tally.count_part_of_later(before, ledger::part_left(study_));
    }
    const auto bytes = ledger::features_bytes(study_, b);
    tally.stores(static_cast<std::int64_t>(bytes), 1).holds(bytes);
  }

  template <class F>
  void each_split(std::size_t b, schedule::UnitContext& context, store::TensorFile& file, int from,
                  F&& f) const {
    for (const auto split : {Split::test, Split::validation}) {
      context.stop_if_requested();
      file.tensors[study::features_of(split, study_.tasks.name(b))] =
          f(study_.samples.of(b, split, study_.points(b), from).points);
    }
  }

  store::TensorFile tangents(const std::string& name, std::size_t t, schedule::UnitContext& context) const {
    const auto& tasks = study_.tasks;
    std::optional<study::StageWeights> weights;
    if (study_.model.by_stages()) weights.emplace(study_, context.group).go_along(name, {t});
    const auto tau = weights ? at::Tensor() : study_.vectors.vector(name, t);
    store::TensorFile file;
    std::map<Split, at::Tensor> values;
    for (const auto split : {Split::test, Split::validation})
      values[split] = study_.sums({static_cast<std::int64_t>(tasks.with_control())});
    for (std::size_t b = 0; b < tasks.with_control(); ++b) {
      each_split(b, context, file, study_.first_changed_stage(name), [&](const study::Points& x) {
        return weights ? study_.evaluation.output_by_stages(context.group, *weights, b, x)
                       : study_.evaluation.tangent(context.group, tau, b, x);
      });
      for (auto& [split, value] : values) {
        const auto& tangent = file.tensors.at(study::features_of(split, tasks.name(b)));
        value[static_cast<std::int64_t>(b)] = tangent.to(at::kDouble).square().sum(1).mean();
      }
      context.progress(static_cast<double>(b + 1) / static_cast<double>(tasks.with_control()), tasks.name(b));
    }
    const auto count = static_cast<std::int64_t>(tasks.size());
    for (const auto& [split, value] : values) {
      file.tensors[prefix_of(split) + "tau_jp"] = value.narrow(0, 0, count);
      if (tasks.has_control()) file.tensors[prefix_of(split) + "tau_jp_control"] = value[count];
    }
    return file;
  }
};

std::unique_ptr<Experiment> make_linear_features(config::Config&, const Study& study) {
  return std::make_unique<LinearFeatures>(study);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(linear_features, 50, make_linear_features, linear_features_outputs)
