// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Model merging (paper 2 and the methods that it compares): all tasks' vectors become one, τ, by methods that
// need no data (suite/merging) or need them (data_merging); θ0 + ατ is evaluated on every task, α chosen as
// for task addition: the largest mean normalised accuracy on validation points. Of a linear regime it is f(x;
// θ0) + α J(x)τ.
//
// /merging/METHOD/R/alpha [A], validation_accuracy, test_accuracy [A,T]; accuracy [T] at the chosen α;
// coefficient, absolute, normalized, density (of τ), passes (over all vectors), bytes (read of them), seconds
// (of its units that make τ, masks that another method shares among them), forward_passes, backward_passes
// (of inputs through a model, before anything is evaluated) scalars /correct/merging/METHOD/R/… [A,T,⌈N/8⌉]
// beside both curves; of tasks that [data] beat_majority leaves out of τ accuracies are NaN
//
// With `save`, RUN/merged/METHOD/R is the chosen model, a Hugging Face folder, and its merge.toml the recipe
// by which `taugrid merge` makes it again, where the method needs no data.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/metrics/metrics.hpp"
#include "suite/config/canonical.hpp"
#include "suite/error.hpp"
#include "suite/experiments/data_merging/data_method.hpp"
#include "suite/experiments/support/grids.hpp"
#include "suite/experiments/support/task_curves.hpp"
#include "suite/experiments/support/task_filter.hpp"
#include "suite/merging/method.hpp"
#include "suite/merging/study_vectors.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/store/atomic_file.hpp"

namespace taugrid::experiments {
namespace {

struct Chosen {
  std::string name;  ///< in [merging] methods: the method's, or one for it with other parameters
  std::string of;    ///< the method
  std::unique_ptr<const merging::Method> method;  ///< or with_data
  std::unique_ptr<const DataMethod> with_data;
  std::vector<double> alpha;
  std::map<std::string, std::string> parameters;  ///< as a recipe has them
};

class Merging final : public Experiment {
 public:
  Merging(const Study& study, std::vector<Chosen> methods, bool save)
      : Experiment(study), methods_(std::move(methods)), save_(save) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      std::set<std::string> parts;  // the same masks may be several methods'
      for (const auto& chosen : methods_) {
        add_merge(units, chosen, name, folder, parts);
        for (std::size_t t = 0; t < study_.tasks.size(); ++t) {
          auto needs = EditedOutputs::sum_needs(study_, name, study_.tasks.all(), t);
          needs.push_back(key::single_task(name, study_.tasks.name(t)));
          needs.push_back(key::merging(chosen.name, name));
          const auto a = static_cast<std::int64_t>(chosen.alpha.size());
          auto tally = task_curve_tally(study_, a);
          tally.reads(4.0 * static_cast<double>(study_.model.layout().size()));
          for (const auto split : {Split::validation, Split::test})
            tally.edited_sum(name, t, split, points(), a);
          units.push_back(unit(key::merged(chosen.name, name, study_.tasks.name(t)), tally, needs,
                               [this, &chosen, name, t, &folder](schedule::UnitContext& context) {
                                 return curve(chosen, name, t, folder, context);
                               }));
        }
        if (!save_) continue;
        std::vector<std::string> needs = {key::merging(chosen.name, name)};
        for (const auto t : study_.tasks.all()) {
          needs.push_back(key::single_task(name, study_.tasks.name(t)));
          needs.push_back(key::merged(chosen.name, name, study_.tasks.name(t)));
        }
        units.push_back(unit(key::saved_merge(chosen.name, name), Tally(study_).checkpoint().stores(1), needs,
                             [this, &chosen, name, &folder](schedule::UnitContext& context) {
                               return saved(chosen, name, folder, context);
                             }));
      }
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      for (const auto& chosen : methods_) write(out, done, chosen, name);
    }
  }

 private:
  /// The units that make τ.
  void add_merge(std::vector<schedule::WorkUnit>& units, const Chosen& chosen, const std::string& name,
                 const schedule::RunFolder& folder, std::set<std::string>& parts) const {
    const auto all = study_.tasks.all();
    const auto length = static_cast<double>(study_.model.layout().size());
    auto needs = study_.vectors.needs(name, all);
    add_missing(needs, merged_needs(study_, name));
    auto merge = Tally(study_).visit(name, all).stores(study_.model.layout().size() + 8, 4);
    merge.holds(4 * length);
    if (chosen.method) {
      const merging::StudyVectors vectors(study_, name, all);
      const auto work = chosen.method->work(vectors.tensors(), vectors.count());
      merge.computes(work.flops).holds(4 * length + work.bytes);
      if (vectors.count() > study_.vectors.kept())  // each pass reads again
        merge.reads((work.passes - 1) * 4 * length * static_cast<double>(vectors.count()));
    } else {
      chosen.with_data->count(merge, name);
      for (const auto t : all) {
        if (!chosen.with_data->has_parts()) break;
        const auto data = part_key(chosen, name, t);
        needs.push_back(data);
        if (!parts.insert(data).second) continue;
        units.push_back(unit(data, chosen.with_data->part_work(name, t), study_.vectors.needs(name, {t}),
                             [&chosen, name, t](schedule::UnitContext& context) {
                               return chosen.with_data->part(name, t, context);
                             }));
      }
    }
    units.push_back(unit(key::merging(chosen.name, name), merge, needs,
                         [this, &chosen, name, &folder](schedule::UnitContext& context) {
                           return merged(chosen, name, folder, context);
                         }));
  }

  void write(store::ResultsWriter& out, const Finished& done, const Chosen& chosen,
             const std::string& name) const {
    const auto group = "/merging/" + chosen.name + "/" + name;
    const auto curves = put_task_curves(
        out, done, study_, group, "alpha_merging_" + chosen.name + "_" + name, name, chosen.alpha,
        [&](const std::string& task) { return key::merged(chosen.name, name, task); });
    out.put(group + "/accuracy", curves.test[curves.chosen].contiguous(), {"task"}, "1");
    out.attribute(group, "method", chosen.of);
    put_scalar(out, group + "/coefficient", chosen.alpha[static_cast<std::size_t>(curves.chosen)]);
    const auto made = done.folder.read_tensor(key::merging(chosen.name, name), "made");
    const double passes = made[1].item<double>();
    const auto merged = merged_tasks(study_, done.folder, name).size();
    const auto numbers = static_cast<double>(merged) * static_cast<double>(study_.model.layout().size());
    put_scalar(out, group + "/density", made[0].item<double>());
    put_scalar(out, group + "/passes", passes);
    put_scalar(out, group + "/bytes", passes * 4 * numbers, "B");
    put_scalar(out, group + "/seconds", seconds(done, chosen, name), "s");
    put_scalar(out, group + "/forward_passes", made[2].item<double>());
    put_scalar(out, group + "/backward_passes", made[3].item<double>());
    if (chosen.with_data) chosen.with_data->write(out, done, group, name, key::merging(chosen.name, name));
  }

  /// Of the units that make τ.
  double seconds(const Finished& done, const Chosen& chosen, const std::string& name) const {
    std::string text;
    schedule::on_first_rank(done.world, "seconds of a merge", [&] {
      double all = 0;
      const auto add = [&](const std::string& key) {
        all += std::stod(done.folder.read_metadata(key).at("seconds"));
      };
      add(key::merging(chosen.name, name));
      for (const auto t : study_.tasks.all()) {
        if (chosen.with_data && chosen.with_data->has_parts()) add(part_key(chosen, name, t));
      }
      text = fmt::format("{}", all);
    });
    done.world.broadcast(text, 0, "seconds of a merge");
    return std::stod(text);
  }

  std::string part_key(const Chosen& chosen, const std::string& name, std::size_t t) const {
    return key::merging_data(chosen.with_data->parts_of(chosen.name), name, study_.tasks.name(t));
  }

  /// τ [P]; its density, the passes that it took over the vectors, and of inputs forwards and backwards [4].
  store::TensorFile merged(const Chosen& chosen, const std::string& name, const schedule::RunFolder& folder,
                           schedule::UnitContext& context) const {
    auto found = chosen.with_data ? merged_with_data(chosen, name, folder, context)
                                  : DataMethod::Made{merged_of_vectors(chosen, name, folder, context), {}};
    store::TensorFile file{std::move(found.more), {}};
    file.tensors["tau"] = found.merged.tau;
    const auto& made = found.merged.made;
    file.tensors["made"] =
        at::tensor({made.density, made.passes, found.inputs.forward, found.inputs.backward}, at::kDouble);
    return file;
  }

  merging::MergedVector merged_of_vectors(const Chosen& chosen, const std::string& name,
                                          const schedule::RunFolder& folder,
                                          schedule::UnitContext& context) const {
    const auto kept = merged_tasks(study_, folder, name);
    chosen.method->check("merging." + chosen.name, std::vector<double>(kept.size(), 1.0));
    const merging::StudyVectors vectors(study_, name, kept);
    return merging::merged_vector(*chosen.method, vectors, [&](double share) {
      context.stop_if_requested();  // each rank of a group merges all, stretch by stretch
      context.progress(share, chosen.name);
    });
  }

  DataMethod::Made merged_with_data(const Chosen& chosen, const std::string& name,
                                    const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    const auto part = [&](std::size_t t, const std::string& tensor) {
      return folder.read_tensor(part_key(chosen, name, t), tensor);
    };
    return chosen.with_data->merge(name, study_.tasks.all(), part, context);
  }

  /// Outcomes [A] of task t under every α.
  store::TensorFile curve(const Chosen& chosen, const std::string& name, std::size_t t,
                          const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    const EditedOutputs model(study_, folder, name, context.group);
    const auto kept = merged_tasks(study_, folder, name);
    if (std::find(kept.begin(), kept.end(), t) == kept.end())
      return task_curve(context, [&](Split, const auto&) { return unmeasured(chosen); });
    const auto tau = folder.read_tensor(key::merging(chosen.name, name), "tau").to(study_.device);
    return task_curve(context, [&](Split split, const auto& done) {
      return model.merged_outcomes(kept, tau, chosen.alpha, t, split, points(), done);
    });
  }

  /// Of a task that is left out.
  study::Outcome unmeasured(const Chosen& chosen) const {
    const auto a = static_cast<std::int64_t>(chosen.alpha.size());
    return {at::full({a}, std::nan(""), at::kDouble),
            at::zeros({a, study::bytes_of_bits(points())}, at::kByte)};
  }

  /// Writes the model at the α that validation points choose; α, for the unit's file.
  store::TensorFile saved(const Chosen& chosen, const std::string& name, const schedule::RunFolder& folder,
                          const schedule::UnitContext& context) const {
    const auto kept = merged_tasks(study_, folder, name);
    std::vector<at::Tensor> curves, own;
    for (const auto t : kept) {
      const auto& task = study_.tasks.name(t);
      curves.push_back(folder.read_tensor(key::merged(chosen.name, name, task), "validation"));
      own.push_back(folder.read_tensor(key::single_task(name, task), "validation_accuracy"));
    }
    const double alpha =
        chosen.alpha[static_cast<std::size_t>(metrics::chosen_row(at::stack(curves, 1), at::stack(own)))];
    if (context.group.rank() == 0) {
      const auto to = study_.vectors.folder() / "merged" / chosen.name / name;
      const auto tau = folder.read_tensor(key::merging(chosen.name, name), "tau").to(study_.device);
      store::create_folders(to);
      store::write_atomically(to / "merge.toml", recipe(chosen, name, kept, alpha, to));
      models::write_checkpoint(to, study_.model.encoder(),
                               study_.edits.along(name, kept, tau, alpha),
                               study_.model.fingerprint());
    }
    store::TensorFile file;
    file.tensors["alpha"] = at::full({}, alpha, at::kDouble);
    return file;
  }

  std::string recipe(const Chosen& chosen, const std::string& name, const std::vector<std::size_t>& tasks,
                     double alpha, const std::filesystem::path& to) const {
    const auto from_here = [&](const std::filesystem::path& path) {
      return config::canonical(path.lexically_relative(to).string());
    };
    std::string text = fmt::format("# {} of {}, by taugrid run; α = {} has the best validation accuracy.\n",
                                   chosen.name, name, config::canonical(alpha));
    if (regime(name).linear)
      text += "# A linear regime's: f(x; θ0) + J(x)(θ − θ0) was evaluated, not f(x; θ) of these weights.\n";
    if (chosen.with_data)
      text += "# Its data are the run's: taugrid run makes it again, taugrid merge cannot.\n";
    if (chosen.of.starts_with("dare_"))  // draws depend on a number's place
      text +=
          "# Draws follow the order of the tensors, which is that of names in a folder: others are drawn "
          "here.\n";
    if (study_.model.name() == "pretrained") {
      text += fmt::format("base_model = {}\n", from_here(study_.vectors.folder() / "checkpoints/pretrained"));
    } else {
      text += "# base_model: drawn at random by the run's seed\n";
    }
    text += fmt::format("merge_method = {}\nout = \"again\"\n", config::canonical(chosen.of));
    for (const auto t : tasks)
      text += fmt::format("[[models]]\nmodel = {}\n", from_here(study_.vectors.checkpoint_folder(name, t)));
    text += fmt::format("[parameters]\nlambda = {}\n", config::canonical(alpha));
    for (const auto& [key, value] : chosen.parameters) text += fmt::format("{} = {}\n", key, value);
    return text;
  }

  std::vector<Chosen> methods_;
  bool save_;
};

constexpr config::Meaning of_alpha = {
    "Coefficients α of θ0 + ατ; the best on validation is chosen",
    {.fallback = "0.1, 0.2, … 2; of [merging.METHOD]: as [merging]'s, and 1 alone for linear, slerp and "
                 "methods with data, which have no coefficient"}};

constexpr config::Meaning stands_for = "The method that this name stands for";

/// The section of a name that stands for a method.
config::Section standing_in(config::Config& config, const config::Section& section, const std::string& name,
                            const std::vector<std::string>& known) {
  if (!config.has("merging." + name))
    section.refuse("methods", fmt::format("holds \"{}\"; expected each to be one of {}, or to have a section "
                                          "[merging.{}] with `method`, one of these",
                                          name, fmt::join(known, ", "), name));
  auto own =
      config.section("merging." + name, "A method again, under another name and with other parameters");
  own.required_word("method", stands_for, known);
  return own;
}

std::unique_ptr<Experiment> make_merging(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "merging", "Merges all task vectors, with data or without: accuracy of θ0 + ατ on every task");
  if (!section) return nullptr;
  require_vectors(study, "merging");
  const bool describing = !config.root().has("merging");
  const auto& with_data = merging::names_with_data();
  auto known = merging::names();
  known.insert(known.end(), with_data.begin(), with_data.end());
  constexpr config::Meaning meaning =
      "Which methods; each has a section of its own, and another name stands for one where its section says "
      "`method`";
  const auto names = describing ? section->required_words("methods", meaning, known)
                                : section->required_names("methods", meaning);
  std::vector<double> usual;
  for (int k = 1; k <= 20; ++k) usual.push_back(0.1 * k);
  usual = section->alpha_grid("alpha", of_alpha, usual, coefficients);
  std::vector<Chosen> methods;
  if (describing) standing_in(config, *section, "NAME", known);
  for (const auto& name : describing ? known : names) {
    const bool by_its_name = std::find(known.begin(), known.end(), name) != known.end();
    auto own = by_its_name ? config.section("merging." + name, merging::meaning_of(name))
                           : standing_in(config, *section, name, known);
    const auto of = by_its_name ? name : own.required_word("method", stands_for, known);
    const bool of_data = std::find(with_data.begin(), with_data.end(), of) != with_data.end();
    const bool plain = of_data || of == "linear" || of == "slerp";
    Chosen chosen;
    chosen.name = name;
    chosen.of = of;
    chosen.alpha = own.alpha_grid("alpha", of_alpha, plain ? std::vector<double>{1} : usual, coefficients);
    if (of_data) {
      if (!describing) refuse_filter(study, "merging." + name);
      chosen.with_data = make_data_method(config, own, name, of, study);
    } else {
      chosen.method = merging::make(of, own);
    }
    chosen.parameters = own.values();
    chosen.parameters.erase("alpha");
    chosen.parameters.erase("method");
    if (chosen.method && !describing)
      chosen.method->check("merging." + name, std::vector<double>(study.tasks.size(), 1.0));
    methods.push_back(std::move(chosen));
  }
  const bool save = section->flag(
      "save", "Whether the chosen models are written, as Hugging Face folders RUN/merged/METHOD/REGIME",
      false);
  return std::make_unique<Merging>(study, std::move(methods), save);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(merging, 95, make_merging)
