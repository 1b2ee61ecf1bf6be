// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What training in each regime costs (paper 4, table 4; paper 3, table 4; paper 1, appendix on the cost of
// linearisation): a few real steps on the last task, their time, and the most bytes of tensors alive at
// once.
#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "suite/comm/device.hpp"
#include "suite/error.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"
#include "suite/machine/peak_memory.hpp"
#include "suite/training/trainer.hpp"

namespace taugrid::experiments {
namespace {

std::string cost_key(const std::string& regime) { return key::of("cost", regime); }

std::vector<OutputGroup> cost_outputs() {
  return {
      {"/cost/R",
       "what training costs, in a few steps on the last task",
       {{"parameters", "", "1", "of the model", With{.element = Element::int64}},
        {"trainable_parameters", "", "1", "those that the regime changes", With{.element = Element::int64}},
        {"optimiser_memory", "", "B", "what the optimiser keeps of them", With{.element = Element::int64}},
        {"peak_memory", "", "B", "the most tensors alive at once", With{.element = Element::int64}},
        {"seconds_per_step", "", "s", "the median"},
        {"step_flops", "", "1", "of a step"},
        {"forward_flops", "", "1", "of a forward pass over its batch"},
        {"jvp_flops", "", "1", "of f and J(x)τ over its batch"},
        {"@batch", "", "", "inputs a step"},
        {"@steps", "", "", "how many were timed"},
        {"@ranks", "", "", "how many were at work meanwhile"}},
       "[cost]"}};
}

class Cost final : public Experiment {
 public:
  Cost(const Study& study, std::map<std::string, training::Training> training, std::int64_t steps)
      : Experiment(study), training_(std::move(training)), steps_(steps) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    for (const auto& name : trained()) {
      auto tally = Tally(study_).train(name, training_.at(name), last(), steps_).stores(8);
      if (!regime(name).start.empty()) tally.vectors(regime(name).start, {last()});
      units.push_back(unit(cost_key(name), tally, study_.vectors.start_needs(name, last()),
                           [this, name](schedule::UnitContext& context) { return compute(name, context); }));
    }
  }

  std::vector<WrittenGroup> written() const override { return groups_of("/cost", trained()); }

  void write(Results& out, const Finished& done) const override {
    for (const auto& name : trained()) {
      const auto group = "/cost/" + name;
      const auto file = done.folder.read_unit(done.world, cost_key(name));
      for (const auto& [what, unit] :
           std::vector<std::pair<std::string, std::string>>{{"parameters", "1"},
                                                            {"trainable_parameters", "1"},
                                                            {"optimiser_memory", "B"},
                                                            {"peak_memory", "B"},
                                                            {"seconds_per_step", "s"},
                                                            {"step_flops", "1"},
                                                            {"forward_flops", "1"},
                                                            {"jvp_flops", "1"}}) {
        out.put(group + "/" + what, file.tensors.at(what));
      }
      out.attribute(group, "batch", training_.at(name).batch);
      out.attribute(group, "steps", steps_);
      out.attribute(group, "ranks", static_cast<std::int64_t>(done.world.size()));
    }
  }

 private:
  // The last task of an incremental regime has the most others.
  std::size_t last() const { return study_.tasks.size() - 1; }

  std::vector<std::string> trained() const {
    std::vector<std::string> names;
    for (const auto& name : study_.settings.regimes) {
      if (study_.settings.trains(name)) names.push_back(name);
    }
    return names;
  }

  store::TensorFile compute(const std::string& name, schedule::UnitContext& context) const {
    const auto& how = training_.at(name);
    const auto& r = regime(name);
    const auto trainable = study_.trained_parameters(name);
    if (!r.start.empty()) study_.vectors.vector(r.start, last());  // read once, before memory is counted

    machine::PeakMemory memory;
    std::vector<double> seconds;
    {
      training::Trainer trainer(study_, name, how, last(), context.group);
      comm::wait_for_device(study_.device);
      for (std::int64_t step = 0; step < steps_; ++step) {
        context.stop_if_requested();
        const auto began = std::chrono::steady_clock::now();
        trainer.step(step);
        comm::wait_for_device(study_.device);
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
      }
    }
    std::sort(seconds.begin(), seconds.end());

    const double forward = study_.model.cost().forward();
    const auto scalar = [](double value) { return at::full({}, value, at::kDouble); };
    const auto whole = [](std::int64_t value) { return at::full({}, value, at::kLong); };
    // A linear step keeps θ0 beside θ.
    const auto base = r.linear ? static_cast<std::int64_t>(study_.model.theta0().nbytes()) : 0;
    store::TensorFile file;
    file.tensors = {
        {"parameters", whole(study_.model.layout().size())},
        {"trainable_parameters", whole(trainable)},
        {"optimiser_memory", whole((how.sgd ? 0 : 2) * trainable * study_.model.theta0().element_size())},
        {"peak_memory", whole(memory.bytes() + base)},
        {"seconds_per_step", scalar(seconds[seconds.size() / 2])},
        {"step_flops", scalar(training::step_flops(study_, name, how, last()))},
        {"forward_flops", scalar(static_cast<double>(how.batch) * forward)},
        {"jvp_flops", scalar(3 * static_cast<double>(how.batch) * forward)}};
    return file;
  }

  std::map<std::string, training::Training> training_;
  std::int64_t steps_;
};

std::unique_ptr<Experiment> make_cost(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "cost", "Parameters, memory, seconds and flops of a training step, for every regime");
  if (!section) return nullptr;
  const auto steps =
      section->integer("steps", "Steps that are timed, of which the median counts", 5, {1, 1000});
  if (!study::finetune_section(config))
    throw InputError("section [cost] needs regimes; add a section [finetune]");
  return std::make_unique<Cost>(study, training::read_trainings(config), steps);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(cost, 130, make_cost, cost_outputs)
