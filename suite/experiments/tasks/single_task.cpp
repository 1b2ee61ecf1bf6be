// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Accuracy and mean cross-entropy of each task's own model on its test and validation points; of θ0 besides,
// and of θ0 on the control task.
#include <ATen/ATen.h>

#include <cmath>

#include "kernels/metrics/metrics.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::experiments {
namespace {

std::string multitask_key(const std::string& regime, const std::string& task) {
  return key::of("multitask", regime, task);
}

std::vector<OutputGroup> single_task_outputs() {
  const auto models =
      together({{{"accuracy", "task", "1", "on test points", With{.correct = true}},
                 {"validation_accuracy", "task", "1", "on validation points", With{.correct = true}},
                 {"beats_majority", "task", "",
                  "1 where more validation points are right than the most frequent class has",
                  With{.element = Element::uint8}},
                 {"loss", "task", "nat", "mean cross-entropy on test points"}},
                both_sample_rows()});
  const With of_control = {.correct = true, .when = "R the name of θ0, and a control task"};
  const With of_regime = {.when = "R a regime"};
  const Output linear = {"@linear", "", "",
                         "1 where the regime's function is f(x; θ0) + J(x)(θ − θ0), 0 where it is f(x; θ)",
                         of_regime};
  return {{"/single_task/R", "each task's own model, θ0 + τ; or, R being its name, θ0 itself",
           together({models,
                     {linear,
                      {"@vectors_of", "", "", "the regime that made the task vectors: R itself, or another",
                       of_regime},
                      {"control_accuracy", "", "1", "of θ0 on test points of the control", of_control},
                      {"control_validation_accuracy", "", "1", "of θ0 on validation points of the control",
                       of_control}}})},
          {"/multitask/R", "the one model of a joint regime (paper 3, table 5)",
           together({models,
                     {linear,
                      {"@single", "", "", "the regime that trains the same on each task alone", of_regime}}}),
           "a joint regime"},
          {"/tasks",
           "the tasks, and what is known of them before any model",
           {{"majority", "task", "1", "the share of the most frequent class among the test points"},
            {"validation_majority", "task", "1", "the same among the validation points"}}}};
}

class SingleTask final : public Experiment {
 public:
  using Experiment::Experiment;

  bool runs_by_stages() const override { return true; }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto& tasks = study_.tasks;
    const auto add = [&](const std::string& key, const Edit& edit, std::size_t t) {
      units.push_back(unit(key, tally(edit, t), edit.needs(study_, t),
                           [this, edit, t, &folder](schedule::UnitContext& context) {
                             return measure(edit, t, folder, context);
                           }));
    };
    for (std::size_t t = 0; t < tasks.with_control(); ++t)
      add(key::single_task(study_.model.name(), tasks.name(t)), Edit::start(), t);
    for (const auto t : tasks.all()) {
      for (const auto& name : study_.settings.vector_regimes)
        add(key::single_task(name, tasks.name(t)), Edit::fine_tuned(name, t), t);
      for (const auto& name : study_.settings.joint_regimes)
        add(multitask_key(name, tasks.name(t)), Edit::joint(name), t);
    }
  }

  std::vector<WrittenGroup> written() const override {
    const Names control = {"control_accuracy", "control_validation_accuracy"};
    Names not_of_start = {"@linear", "@vectors_of"};
    if (!study_.tasks.has_control()) not_of_start.insert(not_of_start.end(), control.begin(), control.end());
    auto groups = groups_of("/single_task", {study_.model.name()}, {}, not_of_start);
    const auto& settings = study_.settings;
    for (auto& group : groups_of("/single_task", settings.vector_regimes, {}, control))
      groups.push_back(group);
    for (auto& group : groups_of("/multitask", settings.joint_regimes)) groups.push_back(group);
    groups.push_back({"/tasks"});
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    std::vector<std::string> prefixes = {key::of("single_task", study_.model.name())};
    for (const auto& name : study_.settings.vector_regimes) prefixes.push_back(key::of("single_task", name));
    for (const auto& name : study_.settings.joint_regimes) prefixes.push_back(key::of("multitask", name));
    for (const auto& prefix : prefixes) {
      std::vector<Box> boxes;
      for (std::int64_t t = 0; t < tasks; ++t) {
        boxes.push_back({prefix + "/" + study_.tasks.name(static_cast<std::size_t>(t)), {t}});
      }
      const auto group = "/" + prefix;
      for (const auto* what : {"accuracy", "validation_accuracy"}) {
        out.place(done, group + "/" + what, boxes, what);
      }
      for (const auto split : {Split::test, Split::validation}) {
        const auto path = group + "/" + prefix_of(split) + "accuracy";
        out.place(done, "/correct" + path, boxes, prefix_of(split) + "correct");
        out.put_points(path, sample_sizes(study_, split, points()));
      }
      out.place(done, group + "/beats_majority", boxes, "beats_majority");
      out.place(done, group + "/loss", boxes, "loss");
      out.put(group + "/sample_index", study_.samples.index(Split::test, points()));
      out.put(group + "/validation_sample_index", study_.samples.index(Split::validation, points()));
    }
    put_regimes(out);
    put_majority(out, done);
    if (!study_.tasks.has_control()) return;
    const auto group = "/single_task/" + study_.model.name();
    const auto file = done.folder.read_unit(done.world, group.substr(1) + "/" + study_.settings.control);
    for (const auto split : {Split::test, Split::validation}) {
      const auto path = group + "/control_" + prefix_of(split) + "accuracy";
      out.put(path, file.tensors.at(prefix_of(split) + "accuracy"));
      out.put("/correct" + path, file.tensors.at(prefix_of(split) + "correct"));
      out.put_points(
          path, at::tensor(study_.samples.size(study_.tasks.control(), split, control_points()), at::kLong));
    }
  }

 private:
  /// What the regimes are, so that nobody needs to know it by their names.
  void put_regimes(Results& out) const {
    for (const auto& name : study_.settings.vector_regimes) {
      const auto& source = regime(name).source;
      out.attribute("/single_task/" + name, "linear", std::int64_t{regime(name).linear});
      out.attribute("/single_task/" + name, "vectors_of", source.empty() ? name : source);
    }
    for (const auto& name : study_.settings.joint_regimes) {
      out.attribute("/multitask/" + name, "linear", std::int64_t{regime(name).linear});
      out.attribute("/multitask/" + name, "single", std::string(regime(name).linear ? "linear" : "standard"));
    }
  }

  /// Writes the largest shares of the samples' labels, which are the same in each unit of the task.
  void put_majority(Results& out, const Finished& done) const {
    for (const auto split : {Split::test, Split::validation}) {
      std::vector<at::Tensor> share;
      for (const auto t : study_.tasks.all()) {
        const auto unit = key::single_task(study_.model.name(), study_.tasks.name(t));
        share.push_back(done.folder.read_unit(done.world, unit).tensors.at(prefix_of(split) + "majority"));
      }
      out.put("/tasks/" + prefix_of(split) + "majority", at::stack(share));
    }
  }

  /// The edit's outputs on both splits, five numbers, and bits.
  Tally tally(const Edit& edit, std::size_t t) const {
    const auto bytes = 2 * study::bytes_of_bits(study_.points(t));
    auto tally = Tally(study_).stores(5).stores(bytes + 1, 1);
    for (const auto split : {Split::test, Split::validation}) tally.edited(edit, t, split, study_.points(t));
    return tally;
  }

  store::TensorFile measure(const Edit& edit, std::size_t t, const schedule::RunFolder& folder,
                            schedule::UnitContext& context) const {
    const EditedOutputs models(study_, folder, context.group);
    store::TensorFile file;
    for (const auto split : {Split::test, Split::validation}) {
      context.stop_if_requested();
      const auto& readout = study_.readouts.of(t);
      const auto logits = readout.logits(models.output(edit, t, split, study_.points(t)));
      const auto labels = study_.samples.of(t, split, study_.points(t)).labels;
      auto outcome = study::outcome(readout, logits, labels, study_.points(t));
      file.tensors[prefix_of(split) + "accuracy"] = std::move(outcome.accuracy);
      file.tensors[prefix_of(split) + "correct"] = std::move(outcome.correct);
      const bool classes = readout.kind != models::Readout::Kind::text;  // texts have no majority
      file.tensors[prefix_of(split) + "majority"] = classes
                                                        ? metrics::largest_share(readout.classes_of(labels))
                                                        : at::full({}, std::nan(""), at::kDouble);
      if (split == Split::test) file.tensors["loss"] = study::mean_loss(readout, logits, labels);
    }
    file.tensors["beats_majority"] =
        (file.tensors.at("validation_accuracy").cpu() <= file.tensors.at("validation_majority"))
            .logical_not()
            .to(at::kByte);
    return file;
  }
};

std::unique_ptr<Experiment> make_single_task(config::Config&, const Study& study) {
  return std::make_unique<SingleTask>(study);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(single_task, 30, make_single_task, single_task_outputs)
