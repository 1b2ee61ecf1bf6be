// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Closed vocabulary (paper 1, appendix D.6): each task, and the control, gets a classifier of its own, a
// linear map of the features, trained before all else and frozen from then on: every other unit of the run
// reads logits by it, in place of the data's /head, and all regimes have the same ones. It is trained on θ0's
// features, which are computed once and kept; or, as the paper's, from a start at random together with a copy
// of θ0, which is dropped at the end.
//
// RUN/checkpoints/heads/TASK.safetensors: weight [C, width], bias [C]
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "kernels/autodiff/products.hpp"
#include "kernels/metrics/metrics.hpp"
#include "suite/error.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/frozen_below.hpp"
#include "suite/ledger/results.hpp"
#include "suite/models/start.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/input_file.hpp"
#include "suite/study/batches.hpp"
#include "suite/training/adamw.hpp"
#include "suite/training/loop.hpp"

namespace taugrid::experiments {
namespace {

std::vector<OutputGroup> heads_outputs() {
  return {{"/heads/START",
           "the classifiers that tasks are read by, trained before all else",
           {{"loss", "task head_step", "nat", "cross-entropy before each step",
             With{.element = Element::float32}},
            {"control_loss", "head_step", "nat", "the same of the control's classifier",
             With{.element = Element::float32, .when = "a control task"}},
            {"drawn_accuracy", "task", "", "of θ0 on test points, read by the classifiers before any step",
             With{.when = "heads.body = \"trained\""}},
            frozen_below(),
            {"@learning_rate", "", "", "that of all classifiers"},
            {"@weight_decay", "", "", "that of all classifiers"}},
           "[heads]",
           2}};
}

struct HeadTraining {
  std::int64_t steps, batch, warmup;
  double learning_rate, weight_decay, clip, checkpoint_seconds;
  bool with_body;  // a copy of θ0 is trained along
};

/// Numbers that are trained, the classifier's last, and their gradient on rows of the training split.
struct Trained {
  autodiff::Layout layout;
  std::vector<bool> blocks;  // empty: all
  at::Tensor values;
  std::function<autodiff::ValueAndGradient(const at::Tensor& rows)> gradient;
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
    Names absent;
    if (!study_.tasks.has_control()) absent.push_back("control_loss");
    if (!how_.with_body) absent.push_back("drawn_accuracy");
    return groups_of("/heads", {study_.model.name()}, {{"head_step", how_.steps}}, absent);
  }

  void write(Results& out, const Finished& done) const override {
    const auto group = key::of("heads", study_.model.name());
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    std::vector<Box> boxes;
    for (std::int64_t t = 0; t < tasks; ++t)
      boxes.push_back({key::head(study_.model.name(), study_.tasks.name(static_cast<std::size_t>(t))), {t}});
    out.place(done, "/" + group + "/loss", boxes, "loss");
    if (how_.with_body) {
      out.place(done, "/" + group + "/drawn_accuracy", boxes, "drawn_accuracy");
      write_frozen_below(out, "/" + group, study_);
    }
    out.attribute("/" + group, "learning_rate", how_.learning_rate);
    out.attribute("/" + group, "weight_decay", how_.weight_decay);
    if (!study_.tasks.has_control()) return;
    const auto file =
        done.folder.read_unit(done.world, key::head(study_.model.name(), study_.settings.control));
    out.put("/" + group + "/control_loss", file.tensors.at("loss"));
  }

 private:
  std::int64_t points(std::size_t t) const { return study_.tasks.data(t).train.labels.size(0); }
  /// `layout`, and behind it task t's classifier.
  autodiff::Layout with_head(autodiff::Layout layout, std::size_t t) const {
    const auto classes = study_.readouts.of(t).classes();
    layout.add(autodiff::Kind::projection, {"head.weight"}, {classes, study_.model.encoder().width()});
    layout.add(autodiff::Kind::projection, {"head.bias"}, {classes});
    return layout;
  }
  std::int64_t head_numbers(std::size_t t) const { return with_head({}, t).size(); }

  Tally tally(std::size_t t) const {
    const auto numbers = head_numbers(t);
    if (how_.with_body) {  // each rank of a group takes every step, whole
      training::Training how{};
      how.batch = how_.batch;
      Tally tally(study_, 1);
      tally.train("standard", how, t, how_.steps).forward(t, test_points(t));
      return tally.stores(numbers + how_.steps, 4);
    }
    Tally tally(study_);
    const auto features = points(t) * study_.model.encoder().width();
    tally.forward(t, points(t)).holds(4.0 * static_cast<double>(features + 5 * numbers));
    // Each rank of a group takes every step, whole: the features are shared out, the head is not.
    tally.passes("head", how_.batch * study_.settings.ranks_per_unit, how_.batch, how_.steps,
                 4.0 * static_cast<double>(numbers), static_cast<double>(study_.model.encoder().width()),
                 [this, t, numbers](const comm::Communicator&, std::int64_t n, std::int64_t) {
                   const auto z = at::randn({n, study_.model.encoder().width()}).to(study_.device);
                   const auto labels = at::zeros({n}, at::kLong).to(study_.device);
                   const auto head = at::zeros({numbers}, z.options());
                   return schedule::Rehearsal{
                       [this, t, z, labels, head] {
                         autodiff::gradient(
                             with_head({}, t),
                             [&](const std::vector<at::Tensor>& p) { return loss(p, z, labels); }, head);
                       },
                       4.0 * static_cast<double>(n * numbers)};
                 });
    return tally.stores(numbers + how_.steps, 4);
  }

  std::int64_t test_points(std::size_t t) const {
    return study_.samples.size(t, Split::test, Experiment::points());
  }

  /// The mean cross-entropy of features read by the classifier, the last two of the blocks.
  static at::Tensor loss(const std::vector<at::Tensor>& p, const at::Tensor& z, const at::Tensor& labels) {
    return at::cross_entropy_loss(at::addmm(p.back(), z, p[p.size() - 2].t()), labels);
  }

  /// A classifier on θ0's features of task t's training split, from zeros.
  Trained on_features(std::size_t t, const comm::Communicator& group) const {
    const study::Points all(
        points(t), [&](const at::Tensor& which) { return study_.samples.batch(t, Split::train, which); },
        study_.tasks.data(t).split(Split::train).lengths);
    const auto z = study_.evaluation.output(group, study_.model.start(), t, all);
    Trained trained{with_head({}, t), {}, at::zeros({head_numbers(t)}, z.options()), {}};
    trained.gradient = [this, t, z, layout = trained.layout, head = trained.values](const at::Tensor& rows) {
      const auto x = z.index_select(0, rows.to(z.device()));
      const auto labels = study_.samples.labels(t, Split::train, rows);
      return autodiff::gradient(
          layout, [&](const std::vector<at::Tensor>& p) { return loss(p, x, labels); }, head);
    };
    return trained;
  }

  /// Task t's classifier at random, as PyTorch starts a linear map.
  at::Tensor drawn(std::size_t t) const {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(
        study::seed_for(study_.settings.seed, "head/start/" + study_.tasks.name(t)));
    auto head = at::zeros({head_numbers(t)}, at::kFloat);
    for (const auto& part : with_head({}, t).parameter_views(head))
      models::start_linear(part, study_.model.encoder().width(), generator);
    return head.to(study_.device);
  }

  /// The same together with a copy of θ0: of a model whose samples mix, by the batches' statistics.
  Trained with_body(std::size_t t) const {
    Trained trained{with_head(study_.model.layout(), t), study_.free_blocks(), {}, {}};
    if (!trained.blocks.empty()) trained.blocks.insert(trained.blocks.end(), {true, true});
    trained.values = at::cat({study_.model.theta0(), drawn(t)});
    trained.gradient = [this, t, layout = trained.layout, blocks = trained.blocks,
                        values = trained.values](const at::Tensor& rows) {
      autodiff::BatchStatistics statistics;
      models::Given x{study_.samples.batch(t, Split::train, rows, study_.first_changed_stage("standard"))};
      x.buffers = study_.model.start_buffers();
      if (study_.model.encoder().mixes_in_training()) x.statistics = &statistics;
      const auto labels = study_.samples.labels(t, Split::train, rows);
      const auto read = [&](const std::vector<at::Tensor>& p) {
        return loss(p, study_.model.encoder().encode(models::Blocks<at::Tensor>(p.begin(), p.end() - 2), x),
                    labels);
      };
      return autodiff::gradient(layout, read, values, blocks);
    };
    return trained;
  }

  /// The accuracy of θ0 on test points, read by the classifier as it was drawn: float64 [].
  at::Tensor drawn_accuracy(std::size_t t, const comm::Communicator& group) const {
    const auto sample = study_.samples.of(t, Split::test, Experiment::points());
    const auto z = study_.evaluation.output(group, study_.model.start(), t, sample.points);
    const auto parts = with_head({}, t).parameter_views(drawn(t));
    return metrics::accuracy(at::addmm(parts[1], z, parts[0].t()), sample.labels);
  }

  store::TensorFile compute(std::size_t t, schedule::UnitContext& context) const {
    const auto& name = study_.tasks.name(t);
    const auto trained = how_.with_body ? with_body(t) : on_features(t, context.group);
    const auto head = trained.values.narrow(0, trained.values.size(0) - head_numbers(t), head_numbers(t));
    training::AdamWSettings settings;
    settings.weight_decay = how_.weight_decay;
    training::AdamW optimiser(trained.values, trained.layout, trained.blocks, settings);
    study::Batches batches(points(t), how_.batch, study::seed_for(study_.settings.seed, "head/" + name));
    auto losses = study_.sums({how_.steps});

    training::Steps steps;
    steps.what = key::head(study_.model.name(), name);
    steps.steps = how_.steps;
    steps.checkpoint_seconds = how_.checkpoint_seconds;
    steps.device = study_.device;
    steps.losses = {losses};
    steps.step = [&](std::int64_t number) {
      auto pass = trained.gradient(batches.rows(number));
      losses[number] = pass.value;
      if (how_.with_body) training::clip_norm(pass.gradient, how_.clip);
      optimiser.step(pass.gradient,
                     how_.learning_rate * training::cosine_schedule(number, how_.warmup, how_.steps));
      return losses[number];
    };
    steps.state = [&] {
      store::TensorFile state;
      state.tensors[how_.with_body ? "body and head" : "head"] = trained.values;
      state.tensors["loss"] = losses;
      optimiser.save(state);
      return state;
    };
    training::run(steps, context);

    store::TensorFile file;
    const auto views = with_head({}, t).parameter_views(head.to(at::kCPU).clone());
    file.tensors["weight"] = views[0];
    file.tensors["bias"] = views[1];
    const auto path = study_.readouts.head_file(study_.vectors.folder(), t);
    if (context.group.rank() == 0) {
      store::create_folders(path.parent_path());
      store::write_safetensors(path, file);
    }
    store::TensorFile result;
    result.tensors["loss"] = losses.to(at::kFloat);
    if (how_.with_body) result.tensors["drawn_accuracy"] = drawn_accuracy(t, context.group);
    result.metadata["fingerprint"] = models::fingerprint({head.clone(), {}});
    return result;
  }

  std::string verify(std::size_t t, const std::map<std::string, std::string>& header) const {
    const auto expected = header.find("fingerprint");
    if (expected == header.end()) return "";
    const auto path = study_.readouts.head_file(study_.vectors.folder(), t);
    if (!store::wait_if_listed(path)) return "its head " + path.string() + " is gone";
    const store::InputFile readable(path);
    try {
      const auto file = store::read_safetensors(path);
      const auto weight = file.tensors.find("weight"), bias = file.tensors.find("bias");
      if (weight != file.tensors.end() && bias != file.tensors.end()) {
        const auto all = at::cat({weight->second.flatten(), bias->second.flatten()});
        if (models::fingerprint({all, {}}) == expected->second) return "";
      }
    } catch (const InputError& error) {
      return std::string("its head is wrong (") + error.what() + ")";
    }
    return "its head " + path.string() + " is another one";
  }

  HeadTraining how_;
};

std::unique_ptr<Experiment> make_heads(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "heads",
      "Trains a linear classifier a task, before all else, which is frozen then and read in place of the "
      "data's heads: closed vocabulary");
  if (!section) return nullptr;
  HeadTraining how{};
  how.with_body =
      section->word(
          "body",
          "What classifiers are trained behind: θ0's features, from zeros; or, as the tangent-space "
          "paper's, from a start at random, a copy of θ0 that is trained along and dropped then",
          "frozen", {"frozen", "trained"}) == "trained";
  how.steps = section->integer("steps", "Steps of AdamW for each classifier", 2000, {1, 1e7});
  how.batch = section->integer("batch", "Training points a step", 128, {1, 1e6});
  how.warmup = training::warmup_steps(*section, 200, how.steps);
  how.learning_rate = section->real(
      "learning_rate", "The highest rate, reached after warm-up; from there it falls by a cosine to 0", 0.001,
      {0, 1e3});
  how.weight_decay = section->real("weight_decay", "AdamW's decoupled decay of weights", 0.1, {0, 1e3});
  how.clip = section->real(
      "body_clip_norm", "With heads.body = \"trained\": a gradient that is longer is shortened to this norm",
      1, {1e-12, 1e12});
  how.checkpoint_seconds = section->real(
      "checkpoint_seconds",
      "Seconds between savings of a training under way; 0: only where it is told to stop", 60, {0, 1e9});
  return std::make_unique<Heads>(study, how);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(heads, 15, make_heads, heads_outputs)
