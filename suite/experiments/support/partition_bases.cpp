// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/support/partition_bases.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "suite/experiments/support/trained_model.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/training/trainer.hpp"

namespace taugrid::experiments {
namespace {

std::vector<std::vector<std::int64_t>> partitions_of(std::size_t n) {
  std::vector<std::vector<std::int64_t>> all = {{}};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::vector<std::int64_t>> longer;
    for (const auto& one : all) {
      const auto used = one.empty() ? 0 : *std::max_element(one.begin(), one.end()) + 1;
      for (std::int64_t label = 0; label <= used; ++label) {
        longer.push_back(one);
        longer.back().push_back(label);
      }
    }
    all = std::move(longer);
  }
  return all;
}

/// The regime that trains tasks together, in the same function; empty where there is none.
std::string joint_regime(const std::string& name) {
  return name == "standard" ? "multitask" : name == "linear" ? "multitask_linear" : "";
}

}  // namespace

PartitionBases::PartitionBases(const Study& study, std::vector<std::size_t> tasks,
                               std::map<std::string, training::Training> training)
    : study_(study),
      tasks_(std::move(tasks)),
      training_(std::move(training)),
      partitions_(partitions_of(tasks_.size())) {}

std::vector<std::size_t> PartitionBases::cluster(std::size_t c) const {
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < tasks_.size(); ++i)
    if (((c + 1) >> i & 1U) != 0) members.push_back(tasks_[i]);
  return members;
}

std::vector<std::size_t> PartitionBases::clusters_of(std::size_t p) const {
  const auto& labels = partitions_[p];
  std::vector<std::size_t> found;
  const auto last = *std::max_element(labels.begin(), labels.end());
  for (std::int64_t label = 0; label <= last; ++label) {
    std::size_t bits_of = 0;
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (labels[i] == label) bits_of |= std::size_t{1} << i;
    found.push_back(bits_of - 1);
  }
  return found;
}

bool PartitionBases::takes(const BasisMerge& method, const std::string& name) {
  return method.name != joint || !joint_regime(name).empty();
}

std::string PartitionBases::name_of(const std::vector<std::size_t>& members) const {
  std::vector<std::string> names;
  for (const auto t : members) names.push_back(study_.tasks.name(t));
  return fmt::format("{}", fmt::join(names, "+"));
}

training::Training PartitionBases::how_of(const std::string& name,
                                          const std::vector<std::size_t>& members) const {
  auto how = training_.at(joint_regime(name));
  how.steps *= static_cast<std::int64_t>(members.size());
  return how;
}

std::filesystem::path PartitionBases::folder_of(const std::string& name,
                                                const std::vector<std::size_t>& members) const {
  return study_.vectors.folder() / "checkpoints" / joint_regime(name) / name_of(members);
}

void PartitionBases::add_units(std::vector<schedule::WorkUnit>& units, const BasisMerge& method,
                               const std::string& name) const {
  if (method.name != joint) return method.add_parts(units, study_, name);
  for (std::size_t c = 0; c < clusters(); ++c) {
    const auto members = cluster(c);
    if (members.size() == 1) continue;
    const auto how = how_of(name, members);
    auto tally = Tally(study_).train(joint_regime(name), how, members.front(), how.steps).checkpoint();
    tally.stores(how.steps, 4);
    units.push_back(unit(
        key::cluster_model(name, name_of(members)), tally, {},
        [this, name, members](schedule::UnitContext& context) { return train(name, members, context); }));
    units.back().verify = [this, name, members](const auto& header) {
      return verify_checkpoint(folder_of(name, members), header, "fingerprint");
    };
  }
}

store::TensorFile PartitionBases::train(const std::string& name, const std::vector<std::size_t>& members,
                                        schedule::UnitContext& context) const {
  const auto how = how_of(name, members);
  training::Trainer trainer(study_, joint_regime(name), how, members.front(), context.group, std::nullopt,
                            members);
  return train_and_write(study_, trainer, how, key::cluster_model(name, name_of(members)),
                         folder_of(name, members), study_.model.fingerprint(), context);
}

std::vector<std::string> PartitionBases::needs(const BasisMerge& method, const std::string& name) const {
  auto found = study_.vectors.needs(name, tasks_);
  if (method.name != joint) {
    add_missing(found, method.needs(study_, name, tasks_));
    return found;
  }
  for (std::size_t c = 0; c < clusters(); ++c) {
    const auto members = cluster(c);
    if (members.size() > 1) found.push_back(key::cluster_model(name, name_of(members)));
  }
  return found;
}

at::Tensor PartitionBases::basis(const BasisMerge& method, const std::string& name,
                                 const std::vector<std::size_t>& members, const schedule::RunFolder& folder,
                                 schedule::UnitContext& context) const {
  if (method.name == joint && members.size() > 1)
    return models::read_checkpoint(folder_of(name, members)).state.theta - study_.model.theta0().cpu();
  return bases_of(study_, name, members, std::vector<std::int64_t>(members.size(), 0), method, folder,
                  context)
      .front();
}

std::vector<std::size_t> tasks_named(const config::Section& section, const std::string& key,
                                     const std::vector<std::string>& names, const Study& study) {
  std::vector<std::size_t> places;
  for (const auto& name : names) {
    const auto all = study.tasks.all();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](auto t) { return study.tasks.name(t) == name; });
    if (found == all.end()) section.refuse(key, fmt::format("has {}, which is none of data.tasks", name));
    if (std::find(places.begin(), places.end(), *found) != places.end())
      section.refuse(key, fmt::format("has {} twice", name));
    places.push_back(*found);
  }
  return places;
}

PartitionChoice read_partitions(config::Config& config, config::Section& section, const Study& study) {
  auto known = basis_methods();
  known.emplace_back(PartitionBases::joint);
  const auto names = section.required_words("tasks", "The tasks, by name; of four there are 15 partitions");
  const auto methods = section.words("methods",
                                     {"What makes a cluster's basis, by turns; each but joint, which trains "
                                      "on the cluster's tasks together, has a "
                                      "section of its own"},
                                     {"linear", "ties", "top_k"}, known);
  PartitionChoice choice;
  for (const auto& name : methods)
    choice.methods.push_back(
        name == PartitionBases::joint
            ? BasisMerge{name, {}}
            : read_basis_method(config, "bases.partitions." + name, merging::meaning_of(name), name, study));
  if (!config.root().has("bases")) return choice;  // the reference is written
  if (!study::finetune_section(config) &&
      std::find(methods.begin(), methods.end(), PartitionBases::joint) != methods.end())
    section.refuse("methods", "has joint, which [finetune] trains, and there is none");
  choice.tasks = tasks_named(section, "tasks", names, study);
  if (choice.tasks.empty() || choice.tasks.size() > 5)
    section.refuse("tasks",
                   fmt::format("has {}; expected 1 to 5, which have up to 52 partitions", names.size()));
  return choice;
}

}  // namespace taugrid::experiments
