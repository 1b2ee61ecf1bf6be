// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// All partitions of a few tasks (paper 2, section 6.3; tables 4, 7, 10, 13, 14; 15 of four): each cluster's
// vectors become one basis by several methods in turn, the bases one model θ0 + ατ by [bases.merge_out],
// which is evaluated on these tasks; α has their largest mean normalised accuracy on validation points.
// Beside the methods of [bases.merge_in] there is
//   joint  one model trained on a cluster's tasks together, for as many steps as each of them alone has taken
//          together (the paper's MTL; of a linear regime its Tangent).
// Pairs of methods, as the paper's tables 5, 11 and 12 have them, merge a method's bases by another one. Of
// methods with data a basis B is the model θ0 + B with its tasks' data.
// To each of the run's other tasks every cluster's basis is added (support/partition_outside.hpp), and all
// bases of a partition at once, merged by [bases.merge_out] (appendix C.4).
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernels/metrics/metrics.hpp"
#include "suite/experiments/bases/partition_outside.hpp"
#include "suite/experiments/edits/chosen_edit.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/ledger/results.hpp"
#include "suite/merging/table.hpp"
#include "suite/study/clusters.hpp"
#include "suite/study/merged_tasks.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

/// The model merged of the p-th partition of a few tasks.
std::string partition_merge_key(const std::string& method, const std::string& regime, std::size_t p) {
  return key::of("partition_merge", method, regime) + "/" + std::to_string(p);
}

/// The model merged of the p-th partition, on the tasks outside.
std::string partition_together_key(const std::string& method, const std::string& regime, std::size_t p) {
  return key::of("partition_together", method, regime) + "/" + std::to_string(p);
}

/// What tasks outside get from all bases of a partition at once.
std::vector<Output> together_outputs() {
  const std::string when = "other tasks, and no pair of methods";
  const With details = {.when = when};
  return {{"together_validation", "every_partition held_out held_alpha", "1",
           "accuracy of θ0 + αB on validation points, B all bases of the partition, merged", details},
          {"together_test", "every_partition held_out held_alpha", "1", "the same on test points", details},
          {"together_one_shot", "every_partition held_out", "1", "test accuracy with all of them at α = 1",
           details},
          {"together_tuned", "every_partition held_out", "1",
           "test accuracy with all of them at together_alpha", details},
          {"together_alpha", "every_partition held_out", "1", "their α by validation points", details}};
}

std::vector<OutputGroup> every_partition_outputs() {
  return {
      {"/every_partition/METHOD/R",
       "θ0 + ατ of the bases of every partition of a few tasks; METHOD makes the bases, or is IN+OUT",
       together({{{"alpha", "alpha", "1", "α of the merged bases", With{.scale = "alpha_partition_METHOD_R"}},
                  {"member", "member", "", "the tasks, as places in /tasks", With{.element = Element::int64}},
                  {"labels", "every_partition member", "1", "the cluster of each of them",
                   With{.element = Element::int64}},
                  {"cluster", "cluster member", "1", "all sets of the tasks, 1 where one is of the set",
                   With{.element = Element::uint8}},
                  {"validation_accuracy", "every_partition alpha member", "1", "on validation points"},
                  {"accuracy", "every_partition member", "1", "on test points at the chosen α"},
                  {"coefficient", "every_partition", "1", "the chosen α"},
                  {"absolute", "every_partition", "1", "mean accuracy at the chosen α"},
                  {"normalized", "every_partition", "1", "mean normalised accuracy at the chosen α"},
                  {"@merge_out", "", "", "how the bases became one"},
                  {"@threshold", "", "", "the cosine from which on a basis is found"}},
                 PartitionOutside::outputs(),
                 together_outputs(),
                 both_sample_rows()}),
       "[bases.partitions]", 2}};
}

/// What merges clusters and their bases.
struct Merges {
  std::string name;  ///< of the group: the method, or IN+OUT
  std::size_t in;    ///< a place among the methods
  ChosenMethod out;
  std::vector<double> alpha;
};

class EveryPartition final : public Experiment {
 public:
  struct Settings {
    std::vector<Merges> merges;  ///< the methods in their order, then pairs
    std::vector<std::size_t> others;
    std::vector<double> held_alpha;
    double threshold = 0;
  };
  EveryPartition(const Study& study, PartitionChoice choice, Settings settings)
      : Experiment(study),
        settings_(std::move(settings)),
        bases_(study, std::move(choice)),
        outside_(study, bases_, settings_.others, settings_.held_alpha, settings_.threshold) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      for (const auto& method : bases_.methods())
        if (bases_.takes(method, name)) bases_.add_units(units, folder, method, name);
    }
    std::set<std::string> added;  // of each task alone there is one sum, whatever makes a basis
    each([&](const std::string& name, const Merges& merges) {
      for (std::size_t p = 0; p < bases_.partitions().size(); ++p)
        if (added.insert(unit_key(merges, name, p)).second) {
          add_merge(units, folder, name, merges, p);
          if (is_outside(merges)) add_together(units, folder, name, merges, p);
        }
    });
    outside_.add_units(units, folder);
  }

  std::vector<WrittenGroup> written() const override {
    const auto sets = length_of(bases_.partitions());
    const auto members = length_of(bases_.tasks());
    std::vector<WrittenGroup> groups;
    each([&](const std::string& name, const Merges& merges) {
      groups.push_back(
          {"/every_partition/" + merges.name + "/" + name,
           {{"alpha", length_of(merges.alpha)},
            {"every_partition", sets},
            {"member", members},
            {"cluster", static_cast<std::int64_t>(bases_.clusters())},
            {"held_out", merges.name == in(merges).method_name ? length_of(settings_.others) : 0},
            {"held_alpha", length_of(settings_.held_alpha)}}});
    });
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    each([&](const std::string& name, const Merges& merges) { write(out, done, name, merges); });
  }

 private:
  using Places = std::vector<std::int64_t>;

  const ChosenMethod& in(const Merges& merges) const { return bases_.methods()[merges.in]; }
  void each(const std::function<void(const std::string& name, const Merges& merges)>& see) const {
    for (const auto& name : study_.settings.vector_regimes)
      for (const auto& merges : settings_.merges)
        if (bases_.takes(in(merges), name)) see(name, merges);
  }
  /// Whether tasks outside see the merges: those of [bases.merge_out], not those of pairs.
  bool is_outside(const Merges& merges) const {
    return !settings_.others.empty() && merges.name == in(merges).method_name;
  }
  /// Each task alone has one merge, whatever makes a basis.
  std::string name_of(const Merges& merges, std::size_t p) const {
    if (bases_.clusters_of(p).size() < bases_.tasks().size()) return merges.name;
    const auto plus = merges.name.find('+');
    return "alone" + (plus == std::string::npos ? "" : merges.name.substr(plus));
  }
  std::string unit_key(const Merges& merges, const std::string& name, std::size_t p) const {
    return partition_merge_key(name_of(merges, p), name, p);
  }
  /// c of Σ c_t τ_t, where a linear regime's outputs are therefore sums of tangents that were computed once.
  std::optional<at::Tensor> factors(const Merges& merges, const std::string& name, std::size_t p) const {
    if (!regime(name).linear) return std::nullopt;
    return factors_of(bases_.partitions()[p], in(merges), merges.out);
  }

  void add_merge(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder,
                 const std::string& name, const Merges& merges, std::size_t p) const {
    const auto a = static_cast<std::int64_t>(merges.alpha.size()),
               n = static_cast<std::int64_t>(bases_.tasks().size());
    const auto sum = factors(merges, name, p);
    auto tally = Tally(study_).stores(n * (a + 1) + 3);
    auto needs = count_merge(tally, name, merges, p);
    const auto edit = merged_edit(name, bases_.tasks(), sum);
    for (const auto t : bases_.tasks()) {
      count_chosen(tally, edit, merges.alpha, t);
      needs.push_back(key::single_task(name, study_.tasks.name(t)));
      add_missing(needs, edit({1}).needs(study_, t));
    }
    units.push_back(unit(unit_key(merges, name, p), tally, needs,
                         [this, name, &merges, p, &folder](schedule::UnitContext& context) {
                           return merged(name, merges, p, folder, context);
                         }));
  }

  /// Adds what the merge of the partition's bases takes; the units that it needs.
  std::vector<std::string> count_merge(Tally& tally, const std::string& name, const Merges& merges,
                                       std::size_t p) const {
    if (factors(merges, name, p)) return {};
    for (const auto c : bases_.clusters_of(p))
      bases_.count(tally, in(merges), name, bases_.cluster(c).size());
    count_bases(tally, merges.out, name, bases_.tasks(), bases_.clusters_of(p).size());
    tally.visit(name, bases_.tasks());
    return bases_.needs(in(merges), name);
  }

  void add_together(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder,
                    const std::string& name, const Merges& merges, std::size_t p) const {
    const auto a = length_of(settings_.held_alpha), h = length_of(settings_.others);
    auto tally = Tally(study_).stores(2 * h * a);
    auto needs = count_merge(tally, name, merges, p);
    const auto edit = merged_edit(name, bases_.tasks(), factors(merges, name, p))(settings_.held_alpha);
    for (const auto t : settings_.others) {
      for (const auto split : {Split::validation, Split::test})
        tally.edited(edit, t, split, study_.settings.evaluation_points);
      add_missing(needs, edit.needs(study_, t));
    }
    units.push_back(unit(partition_together_key(name_of(merges, p), name, p), tally, needs,
                         [this, name, &merges, p, &folder](schedule::UnitContext& context) {
                           return together_outside(name, merges, p, folder, context);
                         }));
  }

  /// together_validation, together_test [H,A].
  store::TensorFile together_outside(const std::string& name, const Merges& merges, std::size_t p,
                                     const schedule::RunFolder& folder,
                                     schedule::UnitContext& context) const {
    const auto sum = factors(merges, name, p);
    const auto edit =
        merged_edit(name, bases_.tasks(), sum,
                    sum ? at::Tensor{} : direction(name, merges, p, folder, context))(settings_.held_alpha);
    const EditedOutputs models(study_, folder, context.group);
    std::vector<at::Tensor> validation, test;
    for (const auto t : settings_.others)
      for (const auto split : {Split::validation, Split::test}) {
        auto curve = models.outcomes(edit, t, split, study_.settings.evaluation_points,
                                     [&](double) { context.stop_if_requested(); });
        (split == Split::test ? test : validation).push_back(std::move(curve.accuracy));
      }
    store::TensorFile file;
    file.tensors = {{"together_validation", at::stack(validation)}, {"together_test", at::stack(test)}};
    return file;
  }

  /// The bases of partition p merged, τ [P].
  at::Tensor direction(const std::string& name, const Merges& merges, std::size_t p,
                       const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    study::Clusters clusters;
    std::vector<at::Tensor> bases;
    for (const auto c : bases_.clusters_of(p)) {
      clusters.push_back(bases_.cluster(c));
      bases.push_back(bases_.basis(in(merges), name, clusters.back(), folder, context));
    }
    return merged_bases(study_, name, clusters, bases, merges.out, context);
  }

  store::TensorFile merged(const std::string& name, const Merges& merges, std::size_t p,
                           const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    const auto sum = factors(merges, name, p);
    at::Tensor tau;
    if (!sum) tau = direction(name, merges, p, folder, context);
    const EditedOutputs models(study_, folder, context.group);
    const auto edit = merged_edit(name, bases_.tasks(), sum, tau);
    auto file =
        at_chosen_alpha(bases_.tasks(), merges.alpha, own_accuracies(study_, folder, name, bases_.tasks()),
                        outcomes_of(study_, models, edit, context));
    file.tensors.erase("correct");
    return file;
  }

  void write(Results& out, const Finished& done, const std::string& name, const Merges& merges) const {
    const auto group = "/every_partition/" + merges.name + "/" + name;
    const auto& tasks = bases_.tasks();
    out.put(group + "/alpha", merges.alpha);
    out.put(group + "/member", at::tensor(Places(tasks.begin(), tasks.end()), at::kLong));
    std::vector<at::Tensor> labels;
    for (const auto& partition : bases_.partitions()) labels.push_back(at::tensor(partition, at::kLong));
    out.put(group + "/labels", at::stack(labels));
    auto sets = at::zeros(
        {static_cast<std::int64_t>(bases_.clusters()), static_cast<std::int64_t>(tasks.size())}, at::kByte);
    for (std::int64_t c = 0; c < sets.size(0); ++c)
      for (std::int64_t i = 0; i < sets.size(1); ++i) sets[c][i].fill_((c + 1) >> i & 1);
    out.put(group + "/cluster", sets);
    std::map<std::string, std::vector<at::Tensor>> rows;
    for (std::size_t p = 0; p < bases_.partitions().size(); ++p) {
      const auto tensors = done.folder.read_unit(done.world, unit_key(merges, name, p)).tensors;
      for (const auto& [what, values] : tensors) rows[what].push_back(values);
      if (is_outside(merges)) add_chosen(rows, done, name, merges, p);
    }
    for (const auto split : {Split::test, Split::validation})
      out.put(group + "/" + prefix_of(split) + "sample_index", study_.samples.index(split, points()));
    out.attribute(group, "merge_out", merges.out.method_name);
    out.attribute(group, "threshold", settings_.threshold);
    if (is_outside(merges)) outside_.write(out, done, in(merges), name, group);  // with the scale held_alpha
    for (const auto& [what, values] : rows) out.put(group + "/" + what, at::stack(values));
  }

  /// What the tasks outside have with all bases of partition p, α of each by its validation points.
  void add_chosen(std::map<std::string, std::vector<at::Tensor>>& rows, const Finished& done,
                  const std::string& name, const Merges& merges, std::size_t p) const {
    const auto tensors =
        done.folder.read_unit(done.world, partition_together_key(name_of(merges, p), name, p)).tensors;
    const auto& alpha = settings_.held_alpha;
    const auto one_shot = std::find(alpha.begin(), alpha.end(), 1.0) - alpha.begin();
    const auto &validation = tensors.at("together_validation"), &test = tensors.at("together_test");
    std::vector<double> shot, tuned, chosen;
    for (std::int64_t h = 0; h < test.size(0); ++h) {
      const auto best = metrics::chosen_row(validation[h].unsqueeze(1), at::ones({1}, at::kDouble));
      shot.push_back(test[h][one_shot].item<double>());
      tuned.push_back(test[h][best].item<double>());
      chosen.push_back(alpha[static_cast<std::size_t>(best)]);
    }
    rows["together_validation"].push_back(validation);
    rows["together_test"].push_back(test);
    rows["together_one_shot"].push_back(at::tensor(shot, at::kDouble));
    rows["together_tuned"].push_back(at::tensor(tuned, at::kDouble));
    rows["together_alpha"].push_back(at::tensor(chosen, at::kDouble));
  }

  Settings settings_;
  PartitionBases bases_;
  PartitionOutside outside_;
};

/// [bases.partitions] pairs: "ties+top_k" merges bases by top_k, which ties made.
std::vector<Merges> read_pairs(config::Config& config, config::Section& section, const Study& study,
                               const PartitionChoice& choice, const std::vector<double>& usual) {
  const auto pairs = section.words(
      "pairs",
      {"Other methods between clusters, as IN+OUT: IN of `methods`, OUT one of [bases.merge_out]'s, with a "
       "section as these have; α of linear and of methods with data outside is 1 alone",
       {.fallback = "none", .values = "a list of texts such as \"ties+top_k\""}},
      {});
  std::vector<Merges> all;
  for (const auto& pair : pairs) {
    const auto plus = std::min(pair.find('+'), pair.size());
    const auto in = pair.substr(0, plus), out = pair.substr(std::min(plus + 1, pair.size()));
    const auto place = std::find_if(choice.methods.begin(), choice.methods.end(),
                                    [&](const ChosenMethod& method) { return method.method_name == in; });
    if (place == choice.methods.end())
      section.refuse("pairs", fmt::format("has {}; expected IN+OUT, IN one of methods", pair));
    const auto known = methods_of_bases();
    if (std::find(known.begin(), known.end(), out) == known.end())
      section.refuse("pairs",
                     fmt::format("has {}; expected IN+OUT, OUT one of {}", pair, fmt::join(known, ", ")));
    auto method =
        read_basis_method(config, "bases.partitions." + out, merging::entry(out).meaning, out, study);
    if (std::any_of(all.begin(), all.end(), [&](const Merges& merges) { return merges.name == pair; }))
      section.refuse("pairs", fmt::format("has {} twice", pair));
    const bool plain = out == "linear" || method.method->takes_data();
    all.push_back({pair, static_cast<std::size_t>(place - choice.methods.begin()), std::move(method),
                   plain ? std::vector<double>{1} : usual});
  }
  return all;
}

std::unique_ptr<Experiment> make_every_partition(config::Config& config, const Study& study) {
  auto section = config.optional_section("bases.partitions", of_partitions);
  if (!section) return nullptr;
  study::require_vectors(study, "bases.partitions");
  study::refuse_filter(study, "bases.partitions");
  const bool describing = !config.root().has("bases");
  EveryPartition::Settings settings;
  auto choice = read_partitions(config, *section, study);
  const auto out = read_merge_out(config, study);
  std::vector<double> usual;
  for (int k = 1; k <= 12; ++k) usual.push_back(0.25 * k);
  usual = section->alpha_grid(
      "alpha",
      {"Coefficients α of θ0 + ατ; the best on validation is chosen", {.fallback = "0.25, 0.5, … 3"}}, usual,
      coefficients);
  for (std::size_t i = 0; i < choice.methods.size(); ++i)
    settings.merges.push_back({choice.methods[i].method_name, i, out, usual});
  for (auto& pair : read_pairs(config, *section, study, choice, usual))
    settings.merges.push_back(std::move(pair));
  std::vector<double> held;
  for (int k = 0; k <= 10; ++k) held.push_back(0.1 * k);
  settings.held_alpha =
      section->alpha_grid("held_alpha",
                          {"Coefficients of a basis that is added to a task outside; 1 is among them",
                           {.fallback = "0, 0.1, … 1"}},
                          held, coefficients);
  if (std::find(settings.held_alpha.begin(), settings.held_alpha.end(), 1.0) == settings.held_alpha.end())
    section->refuse("held_alpha", "has no 1, which the tables' α = 1 needs");
  const auto others =
      section->words("held_out", {"The tasks outside, by name", {.fallback = "the run's others"}}, {});
  settings.threshold = section->real("threshold", "Cosine from which on a basis is found", 0, {-1, 1});
  if (!describing) {
    for (const auto& merge : settings.merges) {
      const auto* key =
          merge.name.find('+') == std::string::npos ? "bases.merge_out.method" : "bases.partitions.pairs";
      for (std::size_t bases = 1; bases <= choice.tasks.size(); ++bases) check_bases(key, merge.out, bases);
    }
    settings.others = tasks_named(*section, "held_out", others, study);
    const auto inside = [&](std::size_t t) {
      return std::find(choice.tasks.begin(), choice.tasks.end(), t) != choice.tasks.end();
    };
    for (const auto t : settings.others)
      if (inside(t))
        section->refuse("held_out", fmt::format("has {}, which is in tasks", study.tasks.name(t)));
    if (!section->has("held_out")) {
      for (const auto t : study.tasks.all())
        if (!inside(t)) settings.others.push_back(t);
    }
  }
  return std::make_unique<EveryPartition>(study, std::move(choice), std::move(settings));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(every_partition, 101, make_every_partition, every_partition_outputs)
