// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/bases/partition_bases.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "suite/merging/table.hpp"
#include "suite/study/task_sets.hpp"

namespace taugrid::experiments {
namespace {

/// A cluster's basis, by a method that is trained.
std::string cluster_basis_key(const std::string& method, const std::string& regime,
                              const std::string& cluster) {
  return key::of("cluster_basis", method, regime) + "/" + cluster;
}

std::vector<std::vector<std::int64_t>> partitions_of(std::size_t n) {
  std::vector<std::vector<std::int64_t>> all = {{}};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::vector<std::int64_t>> longer;
    for (const auto& labels : all) {
      const auto used = labels.empty() ? 0 : *std::max_element(labels.begin(), labels.end()) + 1;
      for (std::int64_t label = 0; label <= used; ++label) {
        longer.push_back(labels);
        longer.back().push_back(label);
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

PartitionBases::PartitionBases(const Study& study, PartitionChoice choice)
    : study_(study), choice_(std::move(choice)), partitions_(partitions_of(choice_.tasks.size())) {}

std::vector<std::size_t> PartitionBases::cluster(std::size_t c) const {
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < tasks().size(); ++i)
    if (((c + 1) >> i & 1U) != 0) members.push_back(tasks()[i]);
  return members;
}

std::vector<std::size_t> PartitionBases::clusters_of(std::size_t p) const {
  const auto& labels = partitions_[p];
  std::vector<std::size_t> indices;
  const auto last = *std::max_element(labels.begin(), labels.end());
  for (std::int64_t label = 0; label <= last; ++label) {
    std::size_t bits_of = 0;
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (labels[i] == label) bits_of |= std::size_t{1} << i;
    indices.push_back(bits_of - 1);
  }
  return indices;
}

bool PartitionBases::takes(const ChosenMethod& method, const std::string& name) const {
  if (method.method_name == joint) return !merging::JointModels::regime_of(name).empty();
  return std::find(choice_.regimes.begin(), choice_.regimes.end(), name) != choice_.regimes.end();
}

std::string PartitionBases::unit_key(const ChosenMethod& method, const std::string& name,
                                     const std::vector<std::size_t>& members) const {
  return method.method_name == joint
             ? choice_.joint.unit_key(name, members)
             : cluster_basis_key(method.method_name, name, study::joined_names(study_, members));
}

void PartitionBases::count(Tally& tally, const ChosenMethod& method, const std::string& name,
                           std::size_t vectors) const {
  if (vectors < 2) return;
  if (!has_units(method)) return count_cluster(tally, method, name, vectors);
  const auto bytes = 4.0 * static_cast<double>(study_.model.layout().size());
  tally.reads(bytes).holds(bytes);
}

void PartitionBases::add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder,
                               const ChosenMethod& method, const std::string& name) const {
  if (method.method_name != joint) method.add_units(units, study_, name, tasks(), folder);
  if (!has_units(method)) return;
  for (std::size_t c = 0; c < clusters(); ++c) {
    const auto members = cluster(c);
    if (members.size() > 1) add_unit(units, folder, method, name, members);
  }
}

void PartitionBases::add_unit(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder,
                              const ChosenMethod& method, const std::string& name,
                              const std::vector<std::size_t>& members) const {
  if (method.method_name == joint) return choice_.joint.add_unit(units, name, members);
  auto tally = Tally(study_).visit(name, members).stores(study_.model.layout().size(), sizeof(float));
  count_cluster(tally, method, name, members.size());
  auto needs = study_.vectors.needs(name, members);
  add_missing(needs, method.needs(study_, name, members));
  units.push_back(unit(unit_key(method, name, members), tally, needs,
                       [this, &folder, &method, name, members](schedule::UnitContext& context) {
                         store::TensorFile file;
                         file.tensors["tau"] =
                             bases_of(study_, name, {members}, method, folder, context).front();
                         return file;
                       }));
}

std::vector<std::string> PartitionBases::needs(const ChosenMethod& method, const std::string& name) const {
  auto keys = study_.vectors.needs(name, tasks());
  if (!has_units(method)) {
    add_missing(keys, method.needs(study_, name, tasks()));
    return keys;
  }
  for (std::size_t c = 0; c < clusters(); ++c) {
    const auto members = cluster(c);
    if (members.size() > 1) keys.push_back(unit_key(method, name, members));
  }
  return keys;
}

at::Tensor PartitionBases::basis(const ChosenMethod& method, const std::string& name,
                                 const std::vector<std::size_t>& members, const schedule::RunFolder& folder,
                                 schedule::UnitContext& context) const {
  if (members.size() > 1 && method.method_name == joint) return choice_.joint.vector(name, members);
  if (members.size() > 1 && has_units(method))
    return folder.read_tensor(unit_key(method, name, members), "tau");
  return bases_of(study_, name, {members}, method, folder, context).front();
}

std::vector<std::size_t> tasks_named(const config::Section& section, const std::string& key,
                                     const std::vector<std::string>& names, const Study& study) {
  std::vector<std::size_t> places;
  for (const auto& name : names) {
    const auto all = study.tasks.all();
    const auto place =
        std::find_if(all.begin(), all.end(), [&](auto t) { return study.tasks.name(t) == name; });
    if (place == all.end()) section.refuse(key, fmt::format("has {}, which is none of data.tasks", name));
    if (std::find(places.begin(), places.end(), *place) != places.end())
      section.refuse(key, fmt::format("has {} twice", name));
    places.push_back(*place);
  }
  return places;
}

PartitionChoice read_partitions(config::Config& config, config::Section& section, const Study& study) {
  const auto known = basis_methods();
  const auto names = section.required_words("tasks", "The tasks, by name; of four there are 15 partitions");
  const auto methods = section.words("methods",
                                     {"What makes a cluster's basis, by turns; each but joint, which trains "
                                      "on the cluster's tasks together, has a "
                                      "section of its own"},
                                     {"linear", "ties", "top_k"}, known);
  const auto& trained = study.settings.vector_regimes;
  const auto regimes =
      section.words("regimes",
                    {"Of whose vectors every method makes bases; of the run's others joint alone does",
                     {.fallback = "all of the run that have task vectors"}},
                    trained, trained);
  PartitionChoice choice{{}, {}, regimes, merging::JointModels(study, config)};
  for (const auto& name : methods)
    choice.methods.push_back(name == PartitionBases::joint
                                 ? ChosenMethod{name, {}, {}}
                                 : read_basis_method(config, "bases.partitions." + name,
                                                     merging::entry(name).meaning, name, study));
  if (!config.root().has("bases")) return choice;  // the reference is written
  if (std::find(methods.begin(), methods.end(), PartitionBases::joint) != methods.end())
    choice.joint.check(section, "methods", PartitionBases::joint, names.size());
  choice.tasks = tasks_named(section, "tasks", names, study);
  if (choice.tasks.empty() || choice.tasks.size() > 5)
    section.refuse("tasks",
                   fmt::format("has {}; expected 1 to 5, which have up to 52 partitions", names.size()));
  for (const auto& method : choice.methods)
    if (method.method)
      check_clusters("bases.partitions.methods, " + method.method_name, method, {2, choice.tasks.size()});
  return choice;
}

}  // namespace taugrid::experiments
