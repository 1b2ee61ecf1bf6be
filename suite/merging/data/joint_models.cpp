// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/data/joint_models.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "suite/models/checkpoint.hpp"
#include "suite/store/input_file.hpp"
#include "suite/study/task_sets.hpp"
#include "suite/training/trained_model.hpp"
#include "suite/training/trainer.hpp"

namespace taugrid::merging {
namespace {

/// A model trained on a cluster of tasks together.
std::string cluster_model_key(const std::string& regime, const std::string& cluster) {
  return key::of("finetune_cluster", regime, cluster);
}

constexpr auto* of_regime = "joint";  // the name of the model that fine_tune trains

/// All tasks come in the study's order, so that whoever asks for their model gets the same one.
std::vector<std::size_t> in_order(const Study& study, const std::vector<std::size_t>& members) {
  return members.size() == study.tasks.size() ? study.tasks.all() : members;
}

}  // namespace

JointModels::JointModels(const Study& study, config::Config& config) : study_(study) {
  if (study::finetune_section(config)) training_ = training::read_trainings(config);
}

std::string JointModels::regime_of(const std::string& vectors) {
  return vectors == "standard" ? "multitask" : vectors == "linear" ? "multitask_linear" : "";
}

void JointModels::check(const config::Section& section, const std::string& key, const std::string& method,
                        std::size_t tasks) const {
  if (training_.empty())
    section.refuse(key, fmt::format("has {}, which [finetune] trains, and there is none", method));
  for (const auto& name : study_.settings.vector_regimes) {
    const auto joint = regime_of(name);
    if (joint.empty() || training_.at(joint).batch >= static_cast<std::int64_t>(tasks)) continue;
    section.refuse(key, fmt::format("has {}, which needs a point of each of the {} tasks in a step; the "
                                    "batch of {} in [finetune] is {}",
                                    method, tasks, joint, training_.at(joint).batch));
  }
}

training::Training JointModels::how(const std::string& vectors,
                                    const std::vector<std::size_t>& members) const {
  auto how = training_.at(regime_of(vectors));
  how.steps = 0;
  for (const auto t : members) how.steps += training::of_task(training_.at(vectors), study_, t).steps;
  return how;
}

std::string JointModels::name_of(const std::string& vectors, const std::vector<std::size_t>& members) const {
  if (members.size() < study_.tasks.size()) return study::joined_names(study_, members);
  const auto joint = regime_of(vectors);
  const auto& trained = study_.settings.joint_regimes;
  const bool another = std::find(trained.begin(), trained.end(), joint) != trained.end() &&
                       training::of_joint(training_.at(joint), study_).steps != how(vectors, members).steps;
  return another ? "all" : of_regime;
}

std::string JointModels::unit_key(const std::string& vectors, const std::vector<std::size_t>& members) const {
  const auto name = name_of(vectors, members);
  return name == of_regime ? key::joint(regime_of(vectors)) : cluster_model_key(vectors, name);
}

std::filesystem::path JointModels::folder(const std::string& vectors,
                                          const std::vector<std::size_t>& members) const {
  return study_.vectors.joint_folder(regime_of(vectors)).parent_path() / name_of(vectors, members);
}

void JointModels::add_unit(std::vector<schedule::WorkUnit>& units, const std::string& vectors,
                           const std::vector<std::size_t>& members) const {
  const auto key = unit_key(vectors, members);
  if (std::any_of(units.begin(), units.end(), [&](const auto& each) { return each.key == key; })) return;
  const auto joint = regime_of(vectors);
  const auto to = folder(vectors, members);
  const auto of = in_order(study_, members);
  const auto training = how(vectors, members);
  auto tally = Tally(study_).train(joint, training, of.front(), training.steps).checkpoint();
  tally.stores(training.steps, sizeof(float));
  units.push_back(unit(key, tally, {}, [this, key, joint, to, of, training](schedule::UnitContext& context) {
    training::Trainer trainer(study_, joint, training, of.front(), context.group, std::nullopt, of);
    return training::train_and_write(study_, trainer, training, key, to, study_.model.fingerprint(), context);
  }));
  units.back().verify = [to](const auto& header) {
    return training::verify_checkpoint(to, header, "fingerprint");
  };
}

at::Tensor JointModels::vector(const std::string& vectors, const std::vector<std::size_t>& members) const {
  const auto from = folder(vectors, members);
  for (const auto* part : {"config.json", "model.safetensors"}) store::wait_for(from / part);
  return models::read_checkpoint(from).state.theta - study_.model.theta0().cpu();
}

}  // namespace taugrid::merging
