// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Two pre-trained models and what mixing their vectors does (paper 2, section 6.2.1; table 2, figures 4 and
// 5): every task is fine-tuned from a second model θ0' too, by the same batches, and to either start are
// added, θ0 + α Σ_t v_t, α by validation points as for task addition,
//   own     v_t = τ_t = θ_t − θ0, the vectors of the start itself;
//   half    ½ (τ_t + τ'_t), of either half ("50/50");
//   other   τ'_t = θ'_t − θ0', those of the other start;
//   across  θ'_t − θ0, the other start's models seen from this one, which the paper's table has off its
//           diagonal: they hold the way from θ0 to θ0', T times.
// Regimes on f(x; θ) alone: that of a linear one belongs to one θ0.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/weights/weights.hpp"
#include "suite/experiments/bases/task_bases.hpp"
#include "suite/experiments/edits/chosen_edit.hpp"
#include "suite/experiments/edits/second_start.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/ledger/results.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/study/merged_tasks.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

std::string mixed_vectors_key(const std::string& regime) { return key::of("mixed_vectors", regime); }
std::string mixed_single_key(const std::string& regime, const std::string& task) {
  return key::of("mixed_single", regime, task);
}
std::string mixed_key(const std::string& regime, std::size_t start, const std::string& vectors) {
  return key::of("mixed", regime, std::to_string(start + 1) + "-" + vectors);
}

std::vector<OutputGroup> mixed_starts_outputs() {
  return {
      {"/mixed_starts/R", "vectors of two pre-trained models, θ0 and θ0', added to either, θ0 + α Σ v",
       together(
           {{{"alpha", "alpha", "1", "α of the sum", With{.scale = "alpha_mixed_R"}},
             {"start", "start", "", "the first model or the second", With{.text = true, .scale = "start_R"}},
             {"vectors", "vectors", "", "what is added: own, half, other, across",
              With{.text = true, .scale = "vectors_R"}},
             {"cosine", "vector_of_either_R vector_of_either_R", "1",
              "of the first model's vectors, then the second's"},
             {"norm", "vector_of_either_R", "", "‖θ − θ0‖ of the first model's vectors, then ‖θ' − θ0'‖"},
             {"across_norm", "vector_of_either_R", "", "‖θ − θ0'‖, then ‖θ' − θ0‖"},
             {"distance", "", "", "‖θ0' − θ0‖"},
             {"start_norm", "start", "", "‖θ0‖ and ‖θ0'‖"},
             {"start_accuracy", "start task", "1", "of either model itself, on test points"},
             {"own_accuracy", "start task", "1", "of the models fine-tuned from it"},
             {"validation_accuracy", "start vectors alpha task", "1", "on validation points"},
             {"accuracy", "start vectors task", "1", "on test points at the chosen α", With{.correct = true}},
             {"coefficient", "start vectors", "1", "the chosen α"},
             {"absolute", "start vectors", "1", "mean accuracy at the chosen α"},
             {"normalized", "start vectors", "1",
              "mean accuracy, normalised by own_accuracy, at the chosen α"},
             {"@other", "", "", "the second model's folder"}},
            both_sample_rows()}),
       "[bases.mixed]", 2}};
}

const std::vector<std::string> vector_kinds = {"own", "half", "other", "across"};
constexpr std::size_t both_starts = 2;

class MixedStarts final : public Experiment {
 public:
  MixedStarts(const Study& study, SecondStart second, std::vector<std::string> regimes,
              std::vector<double> alpha)
      : Experiment(study),
        second_(std::move(second)),
        regimes_(std::move(regimes)),
        alpha_(std::move(alpha)) {}

  std::vector<std::filesystem::path> inputs() const override {
    return {second_.path()};  // its functions are the model's
  }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : regimes_) {
      const auto all = study_.tasks.all();
      auto both = study_.vectors.needs(name, all);
      std::vector<std::string> singles;
      for (const auto t : all) {
        const auto& task = study_.tasks.name(t);
        second_.add_training(units, name, t);
        both.push_back(key::other_fine_tune(name, task));
        units.push_back(
            unit(mixed_single_key(name, task), single_tally(t), {both.back()},
                 [this, name, t](schedule::UnitContext& context) { return singles_of(name, t, context); }));
        for (const auto& each : {key::single_task(name, task), mixed_single_key(name, task)})
          singles.push_back(each);
      }
      const auto length = study_.model.layout().size(), tasks = static_cast<std::int64_t>(all.size());
      auto tally = Tally(study_).reads(8.0 * static_cast<double>(length * (3 * tasks + 1)));
      tally.stores(length, 4).stores(4 * tasks * (tasks + 1) + 3);
      units.push_back(
          unit(mixed_vectors_key(name), tally, both,
               [this, name](schedule::UnitContext& context) { return second_.vectors(name, context); }));
      singles.push_back(mixed_vectors_key(name));
      add_missing(singles, study_.vectors.needs(name, all));
      for (std::size_t start = 0; start < both_starts; ++start) {
        for (const auto& kind : vector_kinds)
          units.push_back(unit(mixed_key(name, start, kind), mixed_tally(name), singles,
                               [this, name, start, kind, &folder](schedule::UnitContext& context) {
                                 return mixed(name, start, kind, folder, context);
                               }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/mixed_starts", regimes_,
                     {{"alpha", length_of(alpha_)},
                      {"start", static_cast<std::int64_t>(both_starts)},
                      {"vectors", length_of(vector_kinds)},
                      {"vector_of_either_R", 2 * length_of(study_.tasks.all())}});
  }

  void write(Results& out, const Finished& done) const override {
    for (const auto& name : regimes_) {
      const auto group = "/mixed_starts/" + name;
      out.put(group + "/alpha", alpha_);
      out.put(group + "/start", std::vector<std::string>{"first", "second"});
      out.put(group + "/vectors", vector_kinds);
      const auto file = done.folder.read_unit(done.world, mixed_vectors_key(name)).tensors;
      out.put(group + "/cosine", file.at("cosine"));
      for (const auto* what : {"norm", "across_norm"}) out.put(group + "/" + what, file.at(what));
      out.put(group + "/distance", file.at("distance"));
      out.put(group + "/start_norm", file.at("start_norm"));
      put_singles(out, done, name, group);
      std::map<std::string, std::vector<at::Tensor>> rows;
      for (std::size_t s = 0; s < both_starts; ++s) {
        for (const auto& each : vector_kinds) {
          const auto tensors = done.folder.read_unit(done.world, mixed_key(name, s, each)).tensors;
          for (const auto& [what, values] : tensors) rows[what].push_back(values);
        }
      }
      for (const auto& [what, values] : rows) {
        auto shape = values.front().sizes().vec();
        shape.insert(shape.begin(), {static_cast<std::int64_t>(both_starts),
                                     static_cast<std::int64_t>(vector_kinds.size())});
        const auto all = at::stack(values).view(shape);
        if (what == "correct") {
          out.put("/correct" + group + "/accuracy", all);
          out.put_points(group + "/accuracy", sample_sizes(study_, Split::test, points()));
        } else {
          out.put(group + "/" + what, all);
        }
      }
      out.attribute(group, "other", second_.path().string());
      for (const auto split : {Split::test, Split::validation})
        out.put(group + "/" + prefix_of(split) + "sample_index", study_.samples.index(split, points()));
    }
  }

 private:
  Tally single_tally(std::size_t t) const {
    Tally tally(study_);
    for (const auto split : {Split::validation, Split::test}) {
      const auto n = study_.samples.size(t, split, points());
      tally.sample(t, split, n).forward(t, n, both_starts).logits(t, n, both_starts);
    }
    const auto length = static_cast<double>(study_.model.layout().size());
    return tally.reads(4 * length).stores(4);
  }

  Tally mixed_tally(const std::string& name) const {
    Tally tally(study_);
    const auto a = static_cast<std::int64_t>(alpha_.size()),
               tasks = static_cast<std::int64_t>(study_.tasks.size());
    const auto length = static_cast<double>(study_.model.layout().size());
    tally.visit(name, study_.tasks.all()).reads(4 * length).holds(12 * length);
    for (const auto t : study_.tasks.all()) {
      for (const auto& [split, models] :
           {std::pair{Split::validation, a}, std::pair{Split::test, std::int64_t{1}}}) {
        const auto n = study_.samples.size(t, split, points());
        tally.sample(t, split, n).forward(t, n, models).logits(t, n, models);
      }
    }
    const auto numbers = tasks * (a + 1) + 3, bytes = tasks * study::bytes_of_bits(points());
    return tally.stores(numbers).stores(bytes, 1);
  }

  study::Outcome outcome(const at::Tensor& theta, std::size_t t, Split split,
                         const schedule::UnitContext& context) const {
    context.stop_if_requested();
    const auto sample = study_.samples.of(t, split, points());
    const auto z = study_.evaluation.output(context.group, {theta, {}}, t, sample.points);
    const auto& readout = study_.readouts.of(t);
    return study::outcome(readout, readout.logits(z), sample.labels, points());
  }

  /// Accuracies [2] of θ0' and of what was fine-tuned from it.
  store::TensorFile singles_of(const std::string& name, std::size_t t,
                               const schedule::UnitContext& context) const {
    const auto tuned = models::read_checkpoint(second_.folder(name, t)).state.theta.to(study_.device);
    store::TensorFile file;
    for (const auto split : {Split::validation, Split::test}) {
      std::vector<at::Tensor> accuracies;
      for (const auto& theta : {second_.theta(), tuned})
        accuracies.push_back(outcome(theta, t, split, context).accuracy.cpu());
      file.tensors[prefix_of(split) + "accuracy"] = at::stack(accuracies);
    }
    return file;
  }

  /// Σ v_t of one kind, seen from this start.
  at::Tensor direction(const std::string& name, std::size_t start, const std::string& kind,
                       const schedule::RunFolder& folder) const {
    const std::array sums = {study_.vectors.sum(name, study_.tasks.all()),
                             folder.read_tensor(mixed_vectors_key(name), "sum").to(study_.device)};
    const auto other = 1 - start;
    if (kind == "own") return sums.at(start);
    if (kind == "half") return (sums[0] + sums[1]) / 2;
    if (kind == "other") return sums.at(other);
    const std::array thetas = {study_.model.theta0(), second_.theta()};
    return at::add(sums.at(other), thetas.at(other) - thetas.at(start),
                   static_cast<double>(study_.tasks.size()));
  }

  store::TensorFile mixed(const std::string& name, std::size_t start, const std::string& kind,
                          const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    const auto all = study_.tasks.all();
    const auto tau = direction(name, start, kind, folder);
    const auto& theta = start == 0 ? study_.model.theta0() : second_.theta();
    const auto single = [&](Split split) {
      std::vector<at::Tensor> accuracies;
      for (const auto t : all) accuracies.push_back(own_accuracy(folder, name, start, t, prefix_of(split)));
      return at::stack(accuracies);
    };
    return at_chosen_alpha(
        all, alpha_, {single(Split::validation), single(Split::test)},
        [&](std::size_t t, Split split, const std::vector<double>& alpha) {
          std::vector<at::Tensor> accuracy, correct;
          for (const double each : alpha) {
            const auto result = outcome(at::add(theta, tau, each), t, split, context);
            accuracy.push_back(result.accuracy.cpu());
            correct.push_back(result.correct.cpu());
          }
          return study::Outcome{at::stack(accuracy), at::stack(correct)};
        },
        [&](double share) { context.progress(share, "tasks"); });
  }

  /// The accuracy of a start's model of one task; `prefix` names the split.
  static at::Tensor own_of(const store::TensorFile& unit, std::size_t start, const std::string& prefix) {
    const auto accuracy = unit.tensors.at(prefix + "accuracy");
    return start == 0 ? accuracy : accuracy[1];
  }
  at::Tensor own_accuracy(const schedule::RunFolder& folder, const std::string& name, std::size_t start,
                          std::size_t t, const std::string& prefix) const {
    const auto& task = study_.tasks.name(t);
    return own_of(folder.read_unit(start == 0 ? key::single_task(name, task) : mixed_single_key(name, task)),
                  start, prefix);
  }

  void put_singles(Results& out, const Finished& done, const std::string& name,
                   const std::string& group) const {
    std::vector<at::Tensor> begun, tuned;
    const auto read = [&](const std::string& key) {
      return done.folder.read_unit(done.world, key).tensors.at("accuracy");
    };
    for (const auto t : study_.tasks.all()) {
      const auto& task = study_.tasks.name(t);
      const auto second = read(mixed_single_key(name, task));
      begun.push_back(at::stack({read(key::single_task(study_.model.name(), task)), second[0]}));
      tuned.push_back(at::stack({read(key::single_task(name, task)), second[1]}));
    }
    out.put(group + "/start_accuracy", at::stack(begun, 1));
    out.put(group + "/own_accuracy", at::stack(tuned, 1));
  }

  SecondStart second_;
  std::vector<std::string> regimes_;
  std::vector<double> alpha_;
};

std::unique_ptr<Experiment> make_mixed_starts(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "bases.mixed",
      "Fine-tunes every task from a second pre-trained model too, and adds one's vectors to the other");
  if (!section) return nullptr;
  study::refuse_filter(study, "bases.mixed");
  auto other =
      section->required_path("other", "The folder of θ0', a model of the same architecture as model.path's");
  auto alpha = addition_grid(*section);
  if (!study::finetune_section(config))
    section->refuse("other", "is fine-tuned by [finetune], which is missing");
  SecondStart second(study, std::move(other), training::read_trainings(config));
  std::vector<std::string> regimes;
  for (const auto& name : study.settings.vector_regimes) {
    const auto& entry = regime(name);
    if (!entry.linear && entry.source.empty() && entry.start.empty()) regimes.push_back(name);
  }
  const auto experiment = [&] {
    return std::make_unique<MixedStarts>(study, std::move(second), std::move(regimes), std::move(alpha));
  };
  if (study.model.is_stand_in()) return experiment();
  if (regimes.empty())
    section->refuse("other", "needs a regime on f(x; θ), such as standard, among finetune.regimes");
  second.read(*section);
  return experiment();
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(mixed_starts, 100, make_mixed_starts, mixed_starts_outputs)
