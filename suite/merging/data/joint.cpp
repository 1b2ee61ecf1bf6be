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
//
// /merging/joint/standard, /merging/tangent/linear: loss [steps], before each; attribute `checkpoint`: where
// the model lies in RUN/checkpoints
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "suite/error.hpp"
#include "suite/merging/data/data_method.hpp"
#include "suite/merging/data/joint_models.hpp"
#include "suite/training/trained_model.hpp"

namespace taugrid::merging {
namespace {

class Joint final : public DataMethod {
 public:
  Joint(const Study& study, JointModels models, std::string of)
      : DataMethod(study), models_(std::move(models)), of_(std::move(of)) {}

  bool takes(const std::string& name) const override { return name == of_; }
  bool of_vectors() const override { return false; }
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

  Made merge(const ModelsToMerge& models, const Part&, schedule::UnitContext&) const override {
    const auto& name = models.regime();
    const auto of = models.tasks();
    const auto how = models_.how(name, of);
    Made made;
    made.merged.tau = models_.vector(name, of);
    const auto nonzero = at::count_nonzero(made.merged.tau).item<std::int64_t>();
    made.merged.made.density = static_cast<double>(nonzero) / static_cast<double>(made.merged.tau.numel());
    const auto each = training::step_inputs(study_, JointModels::regime_of(name), how, of.front());
    made.inputs.forward = made.inputs.backward = static_cast<double>(how.steps * each);
    return made;
  }

  void write(store::ResultsWriter& out, const Finished& done, const std::string& group,
             const std::string& name, const std::string&) const override {
    const auto all = study_.tasks.all();
    out.put(group + "/loss", done.folder.read_tensor(models_.unit_key(name, all), "loss"), {"merging_step"},
            "nat");
    out.attribute(group, "checkpoint",
                  JointModels::regime_of(name) + "/" + checkpoint(name).filename().string());
  }

 private:
  JointModels models_;
  std::string of_;  // the regime of the vectors
};

/// Of a cluster, which a unit finds itself: so it is trained there.
class JointOfCluster final : public DataMethod {
 public:
  JointOfCluster(const Study& study, JointModels models) : DataMethod(study), models_(std::move(models)) {}

  bool of_vectors() const override { return false; }
  bool trains() const override { return true; }
  void count(Tally& tally, const std::string& name, std::size_t, std::size_t tasks) const override {
    auto some = study_.tasks.all();
    some.resize(std::min(tasks, some.size()));
    const auto how = models_.how(name, some);
    tally.train(JointModels::regime_of(name), how, some.front(), how.steps);
  }

  Made merge(const ModelsToMerge& models, const Part&, schedule::UnitContext& context) const override {
    const auto& name = models.regime();
    const auto of = models.tasks();
    const auto how = models_.how(name, of);
    training::Trainer trainer(study_, JointModels::regime_of(name), how, of.front(), context.group,
                              std::nullopt, of);
    auto steps = training::steps_with_losses(study_, trainer, how, "joint/" + name, study_.sums({how.steps}));
    steps.save_last = true;  // one of several clusters, of one unit
    training::run(steps, context);
    Made made;
    made.merged.tau = (trainer.theta() - study_.model.theta0()).cpu();
    return made;
  }
  void write(store::ResultsWriter&, const Finished&, const std::string&, const std::string&,
             const std::string&) const override {}

 private:
  JointModels models_;
};

}  // namespace

std::unique_ptr<const DataMethod> make_joint_of_cluster(config::Config& config,
                                                        const config::Section& parameters,
                                                        const Study& study) {
  JointModels models(study, config);
  for (const auto& name : study.settings.vector_regimes)
    if (JointModels::regime_of(name).empty())
      parameters.refuse("method",
                        "is joint, which stands beside the vectors of standard and linear; "
                        "finetune.regimes has " +
                            name);
  models.check(parameters, "method", "joint", study.tasks.size());
  return std::make_unique<JointOfCluster>(study, std::move(models));
}

std::unique_ptr<const DataMethod> make_joint(config::Config& config, const std::string& method,
                                             const std::string& of, const Study& study) {
  JointModels models(study, config);
  if (!config.root().has("merging")) return std::make_unique<Joint>(study, std::move(models), of);
  const auto section = config.section("merging", of_merging);
  const auto& regimes = study.settings.vector_regimes;
  if (std::find(regimes.begin(), regimes.end(), of) == regimes.end())
    section.refuse("methods", fmt::format("has {}, which stands beside the vectors of {}; finetune.regimes "
                                          "does not name it",
                                          method, of));
  models.check(section, "methods", method, study.tasks.size());
  return std::make_unique<Joint>(study, std::move(models), of);
}

}  // namespace taugrid::merging
