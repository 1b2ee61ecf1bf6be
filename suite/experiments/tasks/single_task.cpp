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
  return {{"/single_task/R", "each task's own model, θ0 + τ; or, R being its name, θ0 itself",
           together({models,
                     {{"control_accuracy", "", "1", "of θ0 on test points of the control", of_control},
                      {"control_validation_accuracy", "", "1", "of θ0 on validation points of the control",
                       of_control}}})},
          {"/multitask/R", "the one model of a joint regime (paper 3, table 5)", models, "a joint regime"},
          {"/tasks",
           "the tasks, and what is known of them before any model",
           {{"majority", "task", "1", "the share of the most frequent class among the test points"},
            {"validation_majority", "task", "1", "the same among the validation points"}}}};
}

class SingleTask final : public Experiment {
 public:
  using Experiment::Experiment;

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto& tasks = study_.tasks;
    for (std::size_t t = 0; t < tasks.with_control(); ++t) {
      units.push_back(unit(key::single_task(study_.model.name(), tasks.name(t)), whole_model(t, false), {},
                           [this, t](schedule::UnitContext& context) {
                             return measure(t, context, [&](Split split) {
                               const auto x = study_.tasks.sample(t, split, study_.points(t)).points;
                               return study_.evaluation.output(context.group, study_.model.start(), t, x);
                             });
                           }));
    }
    for (const auto t : tasks.all()) {
      for (const auto& name : study_.settings.vector_regimes) {
        units.push_back(unit(key::single_task(name, tasks.name(t)), edited_model(name, t),
                             EditedOutputs::needs(study_, name, {t}, t),
                             [this, t, name, &folder](schedule::UnitContext& context) {
                               const EditedOutputs model(study_, folder, name, context.group);
                               return measure(t, context, [&](Split split) {
                                 at::Tensor output;
                                 model.each({t}, at::ones({1, 1}, at::kDouble), t, split, points(),
                                            [&](std::int64_t, const at::Tensor& z) { output = z; });
                                 return output;
                               });
                             }));
      }
      for (const auto& name : study_.settings.joint_regimes) {
        const double theta = 4.0 * static_cast<double>(study_.model.layout().size());
        units.push_back(
            unit(multitask_key(name, tasks.name(t)), whole_model(t, regime(name).linear).reads(theta),
                 {key::joint(name)},
                 [this, t, name](schedule::UnitContext& context) { return joint(name, t, context); }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    const Names control = {"control_accuracy", "control_validation_accuracy"};
    auto groups =
        groups_of("/single_task", {study_.model.name()}, {}, study_.tasks.has_control() ? Names{} : control);
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
      out.put(group + "/sample_index", study_.tasks.sample_index(Split::test, points()));
      out.put(group + "/validation_sample_index", study_.tasks.sample_index(Split::validation, points()));
    }
    put_majority(out, done);
    if (!study_.tasks.has_control()) return;
    const auto group = "/single_task/" + study_.model.name();
    const auto file = done.folder.read_unit(done.world, group.substr(1) + "/" + study_.settings.control);
    for (const auto split : {Split::test, Split::validation}) {
      const auto path = group + "/control_" + prefix_of(split) + "accuracy";
      out.put(path, file.tensors.at(prefix_of(split) + "accuracy"));
      out.put("/correct" + path, file.tensors.at(prefix_of(split) + "correct"));
      out.put_points(
          path,
          at::tensor(study_.tasks.sample_size(study_.tasks.control(), split, control_points()), at::kLong));
    }
  }

 private:
  /// Of the samples' labels: the same in each unit of the task.
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

  /// Five numbers, the rows of both samples, and bits.
  Tally measured(std::size_t t) const {
    const auto bytes = 2 * study::bytes_of_bits(study_.points(t));
    return Tally(study_).stores(5).stores(bytes + 1, 1);
  }
  Tally whole_model(std::size_t t, bool linear) const {
    auto tally = measured(t);
    for (const auto split : {Split::test, Split::validation}) {
      const auto n = study_.tasks.sample_size(t, split, study_.points(t));
      tally.sample(t, split, n).forward(t, n).logits(t, n);
      if (linear) tally.tangent(t, n);
    }
    return tally;
  }
  Tally edited_model(const std::string& name, std::size_t t) const {
    auto tally = measured(t);
    for (const auto split : {Split::test, Split::validation}) tally.edited(name, {t}, t, split, points(), 1);
    return tally;
  }

  store::TensorFile joint(const std::string& name, std::size_t t, schedule::UnitContext& context) const {
    const auto folder = study_.vectors.joint_folder(name);
    for (const auto* part : {"config.json", "model.safetensors"}) store::wait_for(folder / part);
    const auto state = models::read_checkpoint(folder).state.to(study_.device);
    return measure(t, context, [&](Split split) {
      const auto x = study_.sample(name, t, split, points()).points;
      if (!regime(name).linear) return study_.evaluation.output(context.group, state, t, x);
      return study_.evaluation.output(context.group, study_.model.start(), t, x) +
             study_.evaluation.tangent(context.group, state.theta - study_.model.theta0(), t, x);
    });
  }

  template <class F>
  store::TensorFile measure(std::size_t t, schedule::UnitContext& context, F&& encoded) const {
    store::TensorFile file;
    for (const auto split : {Split::test, Split::validation}) {
      context.stop_if_requested();
      const auto& readout = study_.tasks.readout(t);
      const auto logits = readout.logits(encoded(split));
      const auto labels = study_.tasks.sample(t, split, study_.points(t)).labels;
      auto found = study::outcome(readout, logits, labels, study_.points(t));
      file.tensors[prefix_of(split) + "accuracy"] = std::move(found.accuracy);
      file.tensors[prefix_of(split) + "correct"] = std::move(found.correct);
      const bool classes = readout.kind != models::Readout::Kind::text;  // texts have no majority
      file.tensors[prefix_of(split) + "majority"] =
          classes ? metrics::largest_share(labels) : at::full({}, std::nan(""), at::kDouble);
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
