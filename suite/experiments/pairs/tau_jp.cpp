// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The linearised model in function space: f(x; θ0) and J(x)τ_a for every task's evaluation points. All that
// is measured of a linear regime follows from these by linearity, at any α. And τJp (paper 3, eq. 9): the
// mean over x in task b of ‖J(x)τ_a‖², J of the task's output, which is the encoder's where readouts are
// frozen.
//
// Units features/base/TASK: tensors "test/TASK", "validation/TASK" [n, width], also of the control; and
// features/R/TASK: one task vector's tangents on all tasks' points, a tensor a task and split.
#include <ATen/ATen.h>

#include <map>

#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"

namespace taugrid::experiments {
namespace {

std::vector<OutputGroup> tau_jp_outputs() {
  const std::string control = "a control task";
  return {{"/tau_jp/R", "how far a task's vector moves the outputs on another task's points",
           together({{{"value", "task task", "", "[a,b]: mean over test points x of task b of ‖J(x)τ_a‖²"},
                      {"control", "task", "", "the same, b being the control", With{.when = control}},
                      {"validation_value", "task task", "",
                       "the same on validation points, as a predictor of what is "
                       "seen on test points",
                       With{.since = 2}},
                      {"validation_control", "task", "", "the same, b being the control",
                       With{.when = control, .since = 2}},
                      {"@space", "", "", "what J is the derivative of, where tasks agree: as /tasks/space"}},
                     both_sample_rows()}),
           "a linear regime"}};
}

class TauJp final : public Experiment {
 public:
  using Experiment::Experiment;

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    const auto linear = study_.settings.linear_regimes();
    if (linear.empty()) return;
    const auto& tasks = study_.tasks;
    for (std::size_t b = 0; b < tasks.with_control(); ++b) {
      Tally tally(study_);
      count(tally, b, false);
      units.push_back(
          unit(key::base_features(tasks.name(b)), tally, {}, [this, b](schedule::UnitContext& context) {
            store::TensorFile file;
            each_split(b, context, file, 0, [&](const study::Points& x) {
              return study_.evaluation.output(context.group, study_.model.start(), b, x);
            });
            return file;
          }));
    }
    for (const auto& name : linear) {
      for (const auto t : tasks.all()) {
        const auto values = 2 * static_cast<std::int64_t>(tasks.with_control());
        auto tally = Tally(study_).vectors(name, {t}).stores(values);
        for (std::size_t b = 0; b < tasks.with_control(); ++b) count(tally, b, true);
        units.push_back(
            unit(key::features(name, tasks.name(t)), tally, study_.vectors.needs(name, {t}),
                 [this, name, t](schedule::UnitContext& context) { return tangents(name, t, context); }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/tau_jp", study_.settings.linear_regimes(), {},
                     study_.tasks.has_control() ? Names{} : Names{"control", "validation_control"});
  }

  void write(Results& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    for (const auto& name : study_.settings.linear_regimes()) {
      std::vector<Box> boxes;
      for (std::int64_t t = 0; t < tasks; ++t) {
        boxes.push_back({key::features(name, study_.tasks.name(static_cast<std::size_t>(t))), {t}});
      }
      const auto group = "/tau_jp/" + name;
      for (const auto split : {Split::test, Split::validation}) {
        const auto prefix = prefix_of(split);
        out.place(done, group + "/" + prefix + "value", boxes, prefix + "tau_jp");
        if (study_.tasks.has_control()) {
          out.place(done, group + "/" + prefix + "control", boxes, prefix + "tau_jp_control");
        }
        out.put(group + "/" + prefix + "sample_index", study_.tasks.sample_index(split, points()));
      }
      out.attribute(group, "space", study_.tasks.space());
    }
  }

 private:
  /// Outputs, or tangents, on task b's samples.
  void count(Tally& tally, std::size_t b, bool tangents) const {
    for (const auto split : {Split::test, Split::validation}) {
      const auto n = study_.tasks.sample_size(b, split, study_.points(b));
      tally.sample(b, split, n);
      tangents ? tally.tangent(b, n) : tally.forward(b, n);
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
          f(study_.tasks.sample(b, split, study_.points(b), from).points);
    }
  }

  store::TensorFile tangents(const std::string& name, std::size_t t, schedule::UnitContext& context) const {
    const auto& tasks = study_.tasks;
    const auto tau = study_.vectors.vector(name, t);
    store::TensorFile file;
    std::map<Split, at::Tensor> values;
    for (const auto split : {Split::test, Split::validation})
      values[split] = study_.sums({static_cast<std::int64_t>(tasks.with_control())});
    for (std::size_t b = 0; b < tasks.with_control(); ++b) {
      each_split(b, context, file, study_.first_changed_stage(name),
                 [&](const study::Points& x) { return study_.evaluation.tangent(context.group, tau, b, x); });
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

std::unique_ptr<Experiment> make_tau_jp(config::Config&, const Study& study) {
  return std::make_unique<TauJp>(study);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(tau_jp, 50, make_tau_jp, tau_jp_outputs)
