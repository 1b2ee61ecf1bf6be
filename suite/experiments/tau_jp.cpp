// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The linearised model in function space: f(x; θ0) and J(x)τ_a for every task's evaluation points. All that
// is measured of a linear regime follows from these by linearity, at any α. And τJp (paper 3, eq. 9): the
// mean over x in task b of ‖J(x)τ_a‖², J of the encoder's output.
//
// Units features/base and features/R/TASK: tensors "test/TASK", "validation/TASK" [n, features], also of the
// control.
// /tau_jp/R/value [T, T], control [T]: b the control task; attribute space; /tau_jp/R/sample_index
#include <ATen/ATen.h>

#include "suite/experiments/placement.hpp"
#include "suite/experiments/regime.hpp"
#include "suite/experiments/tally.hpp"

namespace taugrid::experiments {
namespace {

class TauJp final : public Experiment {
 public:
  using Experiment::Experiment;

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    const auto linear = study_.linear_regimes();
    if (linear.empty()) return;
    units.push_back(unit("features/base", tally(false), {}, [this](schedule::UnitContext& context) {
      return each_sample(
          context, [&](const at::Tensor& x) { return study_.encode(context.group, study_.theta0(), x); });
    }));
    for (const auto& name : linear) {
      for (std::size_t t = 0; t < study_.tasks(); ++t) {
        const auto task = study_.task_name(t);
        const auto values = static_cast<std::int64_t>(study_.tasks_and_control());
        auto own = tally(true).vectors(name, {t}).stores(values);
        units.push_back(unit(
            "features/" + name + "/" + task, own.publishes(values + study_.settings().evaluation_points),
            study_.vector_needs(name, t), [this, name, t](schedule::UnitContext& context) {
              const auto tau = study_.task_vector(name, t);
              auto file = each_sample(
                  context, [&](const at::Tensor& x) { return study_.tangent(context.group, tau, x); });
              const auto tasks = static_cast<std::int64_t>(study_.tasks());
              auto value = study_.sums({tasks + study_.has_control()});
              for (std::size_t b = 0; b < study_.tasks_and_control(); ++b) {
                value[static_cast<std::int64_t>(b)] =
                    file.tensors.at("test/" + study_.task_name(b)).to(at::kDouble).square().sum(1).mean();
              }
              file.tensors["tau_jp"] = value.narrow(0, 0, tasks);
              if (study_.has_control()) file.tensors["tau_jp_control"] = value[tasks];
              return file;
            }));
      }
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks());
    for (const auto& name : study_.linear_regimes()) {
      std::vector<Box> boxes;
      for (std::int64_t t = 0; t < tasks; ++t) {
        boxes.push_back({"features/" + name + "/" + study_.task_name(static_cast<std::size_t>(t)), {t}});
      }
      const auto group = "/tau_jp/" + name;
      place(out, done, group + "/value", store::Element::float64, {tasks, tasks}, {"task", "task"}, boxes,
            "tau_jp");
      if (study_.has_control()) {
        place(out, done, group + "/control", store::Element::float64, {tasks}, {"task"}, boxes,
              "tau_jp_control");
      }
      out.attribute(group, "space", std::string("encoder output"));
      out.put(group + "/sample_index", study_.sample_index(Split::test, study_.settings().evaluation_points),
              {"task", "evaluation_point"});
    }
  }

 private:
  /// Outputs, or tangents, on all samples.
  Tally tally(bool tangents) const {
    Tally tally(study_);
    for (std::size_t b = 0; b < study_.tasks_and_control(); ++b) {
      for (const auto split : {Split::test, Split::validation}) {
        const auto n = study_.sample_size(b, split, study_.settings().evaluation_points);
        tally.sample(b, split, n);
        tangents ? tally.tangent(n) : tally.forward(n);
      }
    }
    const auto bytes = features_bytes(study_);
    return tally.stores(static_cast<std::int64_t>(bytes), 1).holds(bytes);
  }

  template <class F>
  store::TensorFile each_sample(schedule::UnitContext& context, F&& f) const {
    store::TensorFile file;
    const auto n = study_.settings().evaluation_points;
    for (std::size_t b = 0; b < study_.tasks_and_control(); ++b) {
      context.stop_if_requested();
      file.tensors["test/" + study_.task_name(b)] = f(study_.sample(b, Split::test, n).pixels);
      file.tensors["validation/" + study_.task_name(b)] = f(study_.sample(b, Split::validation, n).pixels);
      context.progress(static_cast<double>(b + 1) / static_cast<double>(study_.tasks_and_control()),
                       study_.task_name(b));
    }
    return file;
  }
};

}  // namespace

std::unique_ptr<Experiment> make_tau_jp(config::Config&, const Study& study) {
  return std::make_unique<TauJp>(study);
}

}  // namespace taugrid::experiments
