// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// τJp (paper 3, eq. 9): the mean over x in task b of ‖J(x)τ_a‖², J of the task's output, which is the
// encoder's where readouts are frozen. The units features/R/TASK have it beside the tangents
// (tasks/linear_features.cpp).
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

  bool runs_by_stages() const override { return true; }

  void add_units(std::vector<schedule::WorkUnit>&, const schedule::RunFolder&) const override {}

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
        out.put(group + "/" + prefix + "sample_index", study_.samples.index(split, points()));
      }
      out.attribute(group, "space", study_.readouts.space());
    }
  }
};

std::unique_ptr<Experiment> make_tau_jp(config::Config&, const Study& study) {
  return std::make_unique<TauJp>(study);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(tau_jp, 51, make_tau_jp, tau_jp_outputs)
