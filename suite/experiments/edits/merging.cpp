// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Model merging (paper 2 and the methods that it compares): all tasks' vectors become one, τ, by methods that
// need no data (suite/merging) or need them (data_merging); θ0 + ατ is evaluated on every task, α chosen as
// for task addition: the largest mean normalised accuracy on validation points. Of a linear regime it is f(x;
// θ0) + α J(x)τ.
//
// With `save`, RUN/merged/METHOD/R is the chosen model, a Hugging Face folder, and its merge.toml the recipe
// by which `taugrid merge` makes it again, where the method needs no data.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/metrics/metrics.hpp"
#include "suite/experiments/edits/merging_choice.hpp"
#include "suite/experiments/edits/task_curves.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/merging/table.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/study/merged_tasks.hpp"

namespace taugrid::experiments {
namespace {

std::string merged_key(const std::string& method, const std::string& regime, const std::string& task) {
  return key::of("merged", method, regime) + "/" + task;
}
std::string saved_merge_key(const std::string& method, const std::string& regime) {
  return key::of("saved_merge", method, regime);
}

std::vector<OutputGroup> merging_outputs() {
  const auto outputs = together(
      {curve_outputs("alpha_merging_METHOD_R"),
       {{"accuracy", "task", "1", "on test points at the chosen α"},
        {"@method", "", "", "what makes τ, METHOD being a name for it"},
        {"coefficient", "", "1", "the chosen α"},
        {"density", "", "1", "the share of τ's numbers that are not 0"},
        {"passes", "", "1",
         "over all vectors, by all units that make τ; a Fisher information and what else such a unit leaves "
         "counts by "
         "its size"},
        {"bytes", "", "B", "read in these passes"},
        {"seconds", "", "s", "what these units took, masks that another method shares among them"},
        {"forward_passes", "", "1", "inputs that went through a model before anything was evaluated"},
        {"backward_passes", "", "1", "the same backwards"}},
       merging::method_outputs()});
  return {{"/merging/METHOD/R",
           "θ0 + ατ, τ being all tasks' vectors as one; of tasks that [data] beat_majority leaves out of τ "
           "accuracies are "
           "NaN",
           outputs, "[merging]", 2}};
}

class Merging final : public Experiment {
 public:
  Merging(const Study& study, MergingChoice choice)
      : Experiment(study),
        methods_(std::move(choice.methods)),
        regimes_(std::move(choice.regimes)),
        save_(choice.save) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : regimes_) {
      for (const auto& chosen : methods_) {
        if (!chosen.method->takes(name)) continue;
        add_merge(units, chosen, name, folder);
        const auto edit = Edit::along(name, study_.tasks.all(), chosen.alpha);
        for (const auto t : study_.tasks.all()) {
          auto needs = edit.needs(study_, t);
          needs.push_back(key::single_task(name, study_.tasks.name(t)));
          needs.push_back(key::merging(chosen.name, name));
          auto tally = task_curve_tally(study_, edit, t);
          tally.reads(4.0 * static_cast<double>(study_.model.layout().size()));
          units.push_back(unit(merged_key(chosen.name, name, study_.tasks.name(t)), tally, needs,
                               [this, &chosen, name, t, &folder](schedule::UnitContext& context) {
                                 return curve(chosen, name, t, folder, context);
                               }));
        }
        if (!save_) continue;
        std::vector<std::string> needs = {key::merging(chosen.name, name)};
        for (const auto t : study_.tasks.all()) {
          needs.push_back(key::single_task(name, study_.tasks.name(t)));
          needs.push_back(merged_key(chosen.name, name, study_.tasks.name(t)));
        }
        units.push_back(unit(saved_merge_key(chosen.name, name), Tally(study_).checkpoint().stores(1), needs,
                             [this, &chosen, name, &folder](schedule::UnitContext& context) {
                               return saved(chosen, name, folder, context);
                             }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    std::vector<WrittenGroup> groups;
    for (const auto& name : regimes_) {
      for (const auto& chosen : methods_) {
        if (!chosen.method->takes(name)) continue;
        WrittenGroup group = {"/merging/" + chosen.name + "/" + name, {{"alpha", length_of(chosen.alpha)}}};
        group.lengths.merge(chosen.method->lengths(name));
        for (const auto& each : merging::method_outputs()) group.without.push_back(each.name);
        for (const auto& each : merging::entry(chosen.method_name).own_outputs())
          std::erase(group.without, each.name);
        groups.push_back(std::move(group));
      }
    }
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    for (const auto& name : regimes_) {
      for (const auto& chosen : methods_)
        if (chosen.method->takes(name)) write(out, done, chosen, name);
    }
  }

 private:
  /// The units that make τ.
  void add_merge(std::vector<schedule::WorkUnit>& units, const ChosenMerge& chosen, const std::string& name,
                 const schedule::RunFolder& folder) const {
    const auto all = study_.tasks.all();
    const auto length = static_cast<double>(study_.model.layout().size());
    auto needs = study_.vectors.needs(name, all);
    add_missing(needs, study::merged_needs(study_, name));
    add_missing(needs, chosen.needs(study_, name, all));
    auto merge = Tally(study_).stores(study_.model.layout().size() + 8, 4).holds(4 * length);
    if (chosen.method->reads_vectors()) merge.visit(name, all);
    merging::count_merge(merge, *chosen.method, name, all);
    chosen.add_units(units, study_, name, all, folder);
    units.push_back(unit(key::merging(chosen.name, name), merge, needs,
                         [this, &chosen, name, &folder](schedule::UnitContext& context) {
                           return merged(chosen, name, folder, context);
                         }));
  }

  void write(Results& out, const Finished& done, const ChosenMerge& chosen, const std::string& name) const {
    const auto group = "/merging/" + chosen.name + "/" + name;
    const auto curves =
        put_task_curves(out, done, study_, group, name, chosen.alpha,
                        [&](const std::string& task) { return merged_key(chosen.name, name, task); });
    out.put(group + "/accuracy", curves.test[curves.chosen].contiguous());
    out.attribute(group, "method", chosen.method_name);
    out.put(group + "/coefficient", chosen.alpha[static_cast<std::size_t>(curves.chosen)]);
    const auto stats = done.folder.read_tensor(key::merging(chosen.name, name), "made");
    const double passes = stats[1].item<double>();
    const auto merged = study::merged_tasks(study_, done.folder, name).size();
    const auto numbers = static_cast<double>(merged) * static_cast<double>(study_.model.layout().size());
    out.put(group + "/density", stats[0].item<double>());
    out.put(group + "/passes", passes);
    out.put(group + "/bytes", passes * 4 * numbers);
    out.put(group + "/seconds", seconds(done, chosen, name));
    out.put(group + "/forward_passes", stats[2].item<double>());
    out.put(group + "/backward_passes", stats[3].item<double>());
    chosen.method->write(out, done, group, name, key::merging(chosen.name, name));
  }

  /// The seconds of the units that make τ.
  double seconds(const Finished& done, const ChosenMerge& chosen, const std::string& name) const {
    std::string text;
    schedule::on_first_rank(done.world, "seconds of a merge", [&] {
      auto keys = chosen.needs(study_, name, study_.tasks.all());
      keys.push_back(key::merging(chosen.name, name));
      double all = 0;
      for (const auto& each : keys) all += std::stod(done.folder.read_metadata(each).at("seconds"));
      text = fmt::format("{}", all);
    });
    done.world.broadcast(text, 0, "seconds of a merge");
    return std::stod(text);
  }

  /// τ [P]; its density, the passes that it took over the vectors, and of inputs forwards and backwards [4].
  store::TensorFile merged(const ChosenMerge& chosen, const std::string& name,
                           const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    const auto kept = study::merged_tasks(study_, folder, name);
    const auto part = [&](std::size_t i, const std::string& tensor) {
      return folder.read_tensor(chosen.part_key(study_, name, kept[i]), tensor);
    };
    auto result = chosen.method->merge(merging::ModelsToMerge(study_, name, kept), part, context);
    store::TensorFile file{std::move(result.more), {}};
    file.tensors["tau"] = result.merged.tau;
    const auto& stats = result.merged.stats;
    file.tensors["made"] =
        at::tensor({stats.density, stats.passes, result.inputs.forward, result.inputs.backward}, at::kDouble);
    return file;
  }

  /// Outcomes [A] of task t under every α.
  store::TensorFile curve(const ChosenMerge& chosen, const std::string& name, std::size_t t,
                          const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    const EditedOutputs models(study_, folder, context.group);
    const auto kept = study::merged_tasks(study_, folder, name);
    if (std::find(kept.begin(), kept.end(), t) == kept.end())
      return task_curve(context, [&](Split, const auto&) { return unmeasured(chosen); });
    const auto tau = folder.read_tensor(key::merging(chosen.name, name), "tau").to(study_.device);
    const auto edit = Edit::along(name, kept, chosen.alpha, tau);
    return task_curve(context, [&](Split split, const auto& done) {
      return models.outcomes(edit, t, split, points(), done);
    });
  }

  /// The outcome of a task that is left out.
  study::Outcome unmeasured(const ChosenMerge& chosen) const {
    const auto a = static_cast<std::int64_t>(chosen.alpha.size());
    return {at::full({a}, std::nan(""), at::kDouble),
            at::zeros({a, study::bytes_of_bits(points())}, at::kByte)};
  }

  /// Writes the model at the α that validation points choose; α, for the unit's file.
  store::TensorFile saved(const ChosenMerge& chosen, const std::string& name,
                          const schedule::RunFolder& folder, const schedule::UnitContext& context) const {
    const auto kept = study::merged_tasks(study_, folder, name);
    std::vector<at::Tensor> curves, single;
    for (const auto t : kept) {
      const auto& task = study_.tasks.name(t);
      curves.push_back(folder.read_tensor(merged_key(chosen.name, name, task), "validation"));
      single.push_back(folder.read_tensor(key::single_task(name, task), "validation_accuracy"));
    }
    const double alpha =
        chosen.alpha[static_cast<std::size_t>(metrics::chosen_row(at::stack(curves, 1), at::stack(single)))];
    if (context.group.rank() == 0) {
      const auto to = study_.vectors.folder() / "merged" / chosen.name / name;
      const auto tau = folder.read_tensor(key::merging(chosen.name, name), "tau").to(study_.device);
      store::create_folders(to);
      store::write_atomically(to / "merge.toml", merge_recipe(study_, chosen, name, kept, alpha, to));
      models::write_checkpoint(to, study_.model.encoder(),
                               study_.edits.state(Edit::along(name, kept, {alpha}, tau)),
                               study_.model.fingerprint());
    }
    store::TensorFile file;
    file.tensors["alpha"] = at::full({}, alpha, at::kDouble);
    return file;
  }

  std::vector<ChosenMerge> methods_;
  std::vector<std::string> regimes_;
  bool save_;
};

std::unique_ptr<Experiment> make_merging(config::Config& config, const Study& study) {
  auto choice = read_merging(config, study);
  if (!choice) return nullptr;
  return std::make_unique<Merging>(study, std::move(*choice));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(merging, 95, make_merging, merging_outputs)
