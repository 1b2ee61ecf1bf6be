// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Joint multi-task training (paper 2, MTL and Tangent), which merges are compared with: one model trained on
// all tasks together, as many samples of each in a step, for as many steps as each task alone takes together;
// τ = θ − θ0.
//   joint    minimises the loss of f(x; θ), beside the vectors of `standard`
//   tangent  that of f(x; θ0) + J(x)(θ − θ0), beside those of `linear`
// [bases.merge_in] joint trains a cluster's tasks so, beside the vectors of either regime.
//
// It is the model of [bases.partitions] joint, and of the regimes multitask and multitask_linear where the
// run has them for as many steps: trained once.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "suite/error.hpp"
#include "suite/merging/data/data_method.hpp"
#include "suite/merging/data/joint_models.hpp"
#include "suite/training/trained_model.hpp"

namespace taugrid::merging {
namespace {

std::vector<ledger::Output> joint_outputs() {
  return {
      {"loss", "merging_step", "nat", "before each step",
       With{.element = Element::float32, .when = "joint or tangent"}},
      {"@checkpoint", "", "", "where the model lies in RUN/checkpoints", With{.when = "joint or tangent"}}};
}

class Joint final : public DataMethod {
 public:
  Joint(const Study& study, JointModels models, std::string of)
      : DataMethod(study), models_(std::move(models)), of_(std::move(of)) {}

  bool takes(const std::string& name) const override { return name == of_; }
  bool reads_vectors() const override { return false; }
  std::filesystem::path checkpoint(const std::string& name) const override {
    return models_.folder(name, study_.tasks.all());
  }
  void add_units(std::vector<schedule::WorkUnit>& units, const std::string& name,
                 const schedule::RunFolder&) const override {
    models_.add_unit(units, name, study_.tasks.all());
  }
  std::vector<std::string> needs(const std::string& name) const override {
    return {models_.unit_key(name, study_.tasks.all())};
  }
  void count(Tally& tally, const std::string&, std::size_t, std::size_t) const override {
    tally.reads(4.0 * static_cast<double>(study_.model.layout().size()));
  }

  MergeResult merge(const ModelsToMerge& models, const Part&, schedule::UnitContext&) const override {
    const auto& name = models.regime();
    const auto of = models.tasks();
    const auto how = models_.how(name, of);
    MergeResult result;
    result.merged.tau = models_.vector(name, of);
    const auto nonzero = at::count_nonzero(result.merged.tau).item<std::int64_t>();
    result.merged.stats.density =
        static_cast<double>(nonzero) / static_cast<double>(result.merged.tau.numel());
    const auto each = training::step_inputs(study_, JointModels::regime_of(name), how, of.front());
    result.inputs.forward = result.inputs.backward = static_cast<double>(how.steps * each);
    return result;
  }

  Lengths lengths(const std::string& name) const override {
    return {{"merging_step", models_.how(name, study_.tasks.all()).steps}};
  }
  void write(Results& out, const Finished& done, const std::string& group, const std::string& name,
             const std::string&) const override {
    const auto all = study_.tasks.all();
    out.put(group + "/loss", done.folder.read_tensor(models_.unit_key(name, all), "loss"));
    out.attribute(group, "checkpoint",
                  JointModels::regime_of(name) + "/" + checkpoint(name).filename().string());
  }

 private:
  JointModels models_;
  std::string of_;  // the regime of the vectors
};

/// Trains on a cluster, which a unit finds itself: so it is trained there.
class JointOfCluster final : public DataMethod {
 public:
  JointOfCluster(const Study& study, JointModels models) : DataMethod(study), models_(std::move(models)) {}

  bool reads_vectors() const override { return false; }
  bool trains() const override { return true; }
  void count(Tally& tally, const std::string& name, std::size_t, std::size_t tasks) const override {
    auto some = study_.tasks.all();
    some.resize(std::min(tasks, some.size()));
    const auto how = models_.how(name, some);
    tally.train(JointModels::regime_of(name), how, some.front(), how.steps);
  }

  MergeResult merge(const ModelsToMerge& models, const Part&, schedule::UnitContext& context) const override {
    const auto& name = models.regime();
    const auto of = models.tasks();
    const auto how = models_.how(name, of);
    training::Trainer trainer(study_, JointModels::regime_of(name), how, of.front(), context.group,
                              std::nullopt, of);
    auto steps = training::steps_with_losses(study_, trainer, how, "joint/" + name, study_.sums({how.steps}));
    steps.save_last = true;  // one of several clusters, of one unit
    training::run(steps, context);
    MergeResult result;
    result.merged.tau = (trainer.theta() - study_.model.theta0()).cpu();
    return result;
  }

 private:
  JointModels models_;
};

std::shared_ptr<const Method> joint_of_cluster(const Place& place, const config::Section& parameters) {
  JointModels models(place.study, place.config);
  for (const auto& name : place.study.settings.vector_regimes)
    if (JointModels::regime_of(name).empty())
      parameters.refuse("method",
                        "is joint, which stands beside the vectors of standard and linear; "
                        "finetune.regimes has " +
                            name);
  models.check(parameters, "method", "joint", place.study.tasks.size());
  return std::make_shared<JointOfCluster>(place.study, std::move(models));
}

/// `of` is the regime of the vectors in whose function it trains.
std::shared_ptr<const Method> joint_of_all(const Place& place, const char* method, const char* of) {
  JointModels models(place.study, place.config);
  const auto section = place.config.section("merging", of_merging);
  const auto& regimes = place.merged_regimes();
  if (std::find(regimes.begin(), regimes.end(), of) == regimes.end())
    section.refuse("methods",
                   fmt::format("has {}, which stands beside the vectors of {}; the regimes that are "
                               "merged are {}; expected {} in merging.regimes and finetune.regimes",
                               method, of, fmt::join(regimes, ", "), of));
  models.check(section, "methods", method, place.study.tasks.size());
  return std::make_shared<Joint>(place.study, std::move(models), of);
}

MakeInRun read_joint(config::Section parameters, Scope scope) {
  return [=](const Place& place) {
    return scope.of_cluster ? joint_of_cluster(place, parameters) : joint_of_all(place, "joint", "standard");
  };
}

MakeInRun read_tangent(config::Section, Scope) {
  return [](const Place& place) { return joint_of_all(place, "tangent", "linear"); };
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    joint, 270, nullptr, read_joint,
    "Multi-task training: no merge, but one model trained on all tasks as [finetune.multitask] "
    "says, for as many steps as each task's own takes together; beside the vectors of standard",
    false, joint_outputs, false)
TAUGRID_MERGING_METHOD(tangent, 280, nullptr, read_tangent,
                       "Multi-task training in the tangent space of θ0, as [finetune.multitask_linear] says; "
                       "otherwise as joint; beside the vectors of linear",
                       false, joint_outputs, false)
