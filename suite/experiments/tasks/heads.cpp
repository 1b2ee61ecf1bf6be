// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Closed vocabulary (paper 1, appendix D.6): each task, and the control, gets a classifier of its own, a
// linear map of θ0's features, trained before all else and frozen from then on: every other unit of the run
// reads logits by it, in place of the data's /head. The paper's classifiers are trained together with its
// first models; these see θ0 alone, so that all regimes have the same ones. The features of the training
// split are computed once and kept.
//
// RUN/checkpoints/heads/TASK.safetensors: weight [C, width], bias [C]
#include <ATen/ATen.h>

#include "kernels/autodiff/products.hpp"
#include "suite/error.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/input_file.hpp"
#include "suite/training/adamw.hpp"
#include "suite/training/batches.hpp"
#include "suite/training/loop.hpp"

namespace taugrid::experiments {
namespace {

std::vector<OutputGroup> heads_outputs() {
  return {{"/heads/START",
           "the classifiers that tasks are read by, trained on θ0's features before all else",
           {{"loss", "task head_step", "nat", "cross-entropy before each step",
             With{.element = Element::float32}},
            {"control_loss", "head_step", "nat", "the same of the control's classifier",
             With{.element = Element::float32, .when = "a control task"}},
            {"@learning_rate", "", "", "that of all classifiers"},
            {"@weight_decay", "", "", "that of all classifiers"}},
           "[heads]",
           2}};
}

struct HeadTraining {
  std::int64_t steps, batch, warmup;
  double learning_rate, weight_decay, checkpoint_seconds;
};

class Heads final : public Experiment {
 public:
  Heads(const Study& study, const HeadTraining& how) : Experiment(study), how_(how) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    if (!study_.settings.variants.empty())
      throw InputError(
          "sections [heads] and [variants]: fine-tunings of one task have one head; take one of them");
    for (std::size_t t = 0; t < study_.tasks.with_control(); ++t) {
      units.push_back(unit(key::head(study_.model.name(), study_.tasks.name(t)), tally(t), {},
                           [this, t](schedule::UnitContext& context) { return compute(t, context); }));
      units.back().verify = [this, t](const auto& header) { return verify(t, header); };
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/heads", {study_.model.name()}, {{"head_step", how_.steps}},
                     study_.tasks.has_control() ? Names{} : Names{"control_loss"});
  }

  void write(Results& out, const Finished& done) const override {
    const auto group = key::of("heads", study_.model.name());
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    std::vector<Box> boxes;
    for (std::int64_t t = 0; t < tasks; ++t)
      boxes.push_back({key::head(study_.model.name(), study_.tasks.name(static_cast<std::size_t>(t))), {t}});
    out.place(done, "/" + group + "/loss", boxes, "loss");
    out.attribute("/" + group, "learning_rate", how_.learning_rate);
    out.attribute("/" + group, "weight_decay", how_.weight_decay);
    if (!study_.tasks.has_control()) return;
    const auto file =
        done.folder.read_unit(done.world, key::head(study_.model.name(), study_.settings.control));
    out.put("/" + group + "/control_loss", file.tensors.at("loss"));
  }

 private:
  std::int64_t points(std::size_t t) const { return study_.tasks.data(t).train.labels.size(0); }
  autodiff::Layout layout(std::size_t t) const {
    const auto classes = study_.readouts.of(t).classes();
    autodiff::Layout made;
    made.add(autodiff::Kind::projection, {"weight"}, {classes, study_.model.encoder().width()});
    made.add(autodiff::Kind::projection, {"bias"}, {classes});
    return made;
  }

  Tally tally(std::size_t t) const {
    const auto numbers = layout(t).size();
    const auto features = points(t) * study_.model.encoder().width();
    Tally tally(study_);
    tally.forward(t, points(t)).holds(4.0 * static_cast<double>(features + 5 * numbers));
    // Each rank of a group takes every step, whole: the features are shared out, the head is not.
    tally.passes("head", how_.batch * study_.settings.ranks_per_unit, how_.batch, how_.steps,
                 4.0 * static_cast<double>(numbers), static_cast<double>(study_.model.encoder().width()),
                 [this, t, numbers](const comm::Communicator&, std::int64_t n, std::int64_t) {
                   const auto z = at::randn({n, study_.model.encoder().width()}).to(study_.device);
                   const auto labels = at::zeros({n}, at::kLong).to(study_.device);
                   const auto head = at::zeros({numbers}, z.options());
                   return schedule::Rehearsal{[this, t, z, labels, head] { gradient(t, head, z, labels); },
                                              4.0 * static_cast<double>(n * numbers)};
                 });
    return tally.stores(numbers + how_.steps, 4);
  }

  /// The gradient of the mean cross-entropy of a head, end to end.
  autodiff::ValueAndGradient gradient(std::size_t t, const at::Tensor& head, const at::Tensor& z,
                                      const at::Tensor& labels) const {
    return autodiff::gradient(
        layout(t),
        [&](const std::vector<at::Tensor>& p) {
          return at::cross_entropy_loss(at::addmm(p[1], z, p[0].t()), labels);
        },
        head);
  }

  /// θ0's features of task t's training split, in its order.
  at::Tensor features(std::size_t t, const comm::Communicator& group) const {
    const study::Points all(
        points(t), [&](const at::Tensor& which) { return study_.samples.batch(t, Split::train, which); },
        study_.tasks.data(t).split(Split::train).lengths);
    return study_.evaluation.output(group, study_.model.start(), t, all);
  }

  store::TensorFile compute(std::size_t t, schedule::UnitContext& context) const {
    const auto& name = study_.tasks.name(t);
    const auto z = features(t, context.group);
    const auto parts = layout(t);
    auto head = at::zeros({parts.size()}, z.options());
    training::AdamWSettings settings;
    settings.weight_decay = how_.weight_decay;
    training::AdamW optimiser(head, parts, {}, settings);
    training::Batches batches(points(t), how_.batch, study::seed_for(study_.settings.seed, "head/" + name));
    auto losses = study_.sums({how_.steps});

    training::Steps steps;
    steps.what = key::head(study_.model.name(), name);
    steps.steps = how_.steps;
    steps.checkpoint_seconds = how_.checkpoint_seconds;
    steps.device = study_.device;
    steps.losses = {losses};
    steps.step = [&](std::int64_t number) {
      const auto rows = batches.rows(number);
      const auto x = z.index_select(0, rows.to(z.device()));
      const auto labels = study_.samples.labels(t, Split::train, rows);
      const auto found = gradient(t, head, x, labels);
      losses[number] = found.value;
      optimiser.step(found.gradient,
                     how_.learning_rate * training::cosine_schedule(number, how_.warmup, how_.steps));
      return losses[number];
    };
    steps.state = [&] {
      store::TensorFile state;
      state.tensors["head"] = head;
      state.tensors["loss"] = losses;
      optimiser.save(state);
      return state;
    };
    training::run(steps, context);

    store::TensorFile made;
    const auto views = parts.parameter_views(head.to(at::kCPU));
    made.tensors["weight"] = views[0];
    made.tensors["bias"] = views[1];
    const auto path = study_.readouts.head_file(study_.vectors.folder(), t);
    if (context.group.rank() == 0) {
      store::create_folders(path.parent_path());
      store::write_safetensors(path, made);
    }
    store::TensorFile result;
    result.tensors["loss"] = losses.to(at::kFloat);
    result.metadata["fingerprint"] = models::fingerprint({head, {}});
    return result;
  }

  std::string verify(std::size_t t, const std::map<std::string, std::string>& header) const {
    const auto expected = header.find("fingerprint");
    if (expected == header.end()) return "";
    const auto path = study_.readouts.head_file(study_.vectors.folder(), t);
    if (!store::wait_if_listed(path)) return "its head " + path.string() + " is gone";
    const auto file = store::read_safetensors(path);
    const auto all = at::cat({file.tensors.at("weight").flatten(), file.tensors.at("bias")});
    return models::fingerprint({all, {}}) == expected->second
               ? ""
               : "its head " + path.string() + " is another one";
  }

  HeadTraining how_;
};

std::unique_ptr<Experiment> make_heads(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "heads",
      "Trains a linear classifier a task on θ0's features, before all else, which is frozen then and read in "
      "place of the data's heads: closed vocabulary");
  if (!section) return nullptr;
  HeadTraining how{};
  how.steps = section->integer("steps", "Steps of AdamW for each classifier, from zeros", 2000, {1, 1e7});
  how.batch = section->integer("batch", "Training points a step", 128, {1, 1e6});
  how.warmup = training::warmup_steps(*section, 200, how.steps);
  how.learning_rate = section->real(
      "learning_rate", "The highest rate, reached after warm-up; from there it falls by a cosine to 0", 0.001,
      {0, 1e3});
  how.weight_decay = section->real("weight_decay", "AdamW's decoupled decay of weights", 0.1, {0, 1e3});
  how.checkpoint_seconds = section->real(
      "checkpoint_seconds",
      "Seconds between savings of a training under way; 0: only where it is told to stop", 60, {0, 1e9});
  return std::make_unique<Heads>(study, how);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(heads, 15, make_heads, heads_outputs)
