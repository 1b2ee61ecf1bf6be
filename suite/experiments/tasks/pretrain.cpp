// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Pre-training of CLIP's image tower against frozen text embeddings: the symmetric softmax loss over a
// batch's image-caption cosines (Radford et al. 2021), rows with the same caption counting as positives
// together. The result lies in RUN/checkpoints/pretrained.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <stdexcept>

#include "kernels/autodiff/products.hpp"
#include "kernels/metrics/metrics.hpp"
#include "suite/error.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"
#include "suite/training/adamw.hpp"
#include "suite/training/loop.hpp"
#include "suite/training/training.hpp"

namespace taugrid::experiments {
namespace {

std::string pretrain_key() { return "pretrain"; }

std::vector<OutputGroup> pretrain_outputs() {
  return {{"/pretraining",
           "contrastive training of the image tower",
           {{"loss", "pretraining_step", "nat", "before each step", With{.element = Element::float32}},
            {"logit_scale", "pretraining_step", "1", "the learnt factor of cosines",
             With{.element = Element::float32}},
            {"@class_pictures_a_task", "", "", "how many class pictures of each task were used"},
            {"@steps", "", "", "how many"},
            {"@batch", "", "", "pairs a step"}},
           "[pretrain], of which a run has nothing else but /single_task/pretrained"}};
}

struct Pretraining {
  std::filesystem::path pairs;
  std::int64_t steps, batch, warmup, class_pictures, shift;
  double learning_rate, scale_factor, weight_decay, clip, scale_start, scale_limit, checkpoint_seconds;
};

/// Cross-entropy of scores [n, n] against the rows' positives [n, n] (0/1, evenly weighted).
at::Tensor contrastive(const at::Tensor& scores, const at::Tensor& positives) {
  const auto target = positives / positives.sum(1, true);
  return -(target * at::log_softmax(scores, 1)).sum(1).mean();
}

class Pretrain final : public Experiment {
 public:
  Pretrain(const Study& study, Pretraining settings) : Experiment(study), settings_(std::move(settings)) {}

  bool alone() const override { return true; }  // a run either makes a model or measures one

  std::vector<std::filesystem::path> inputs() const override { return {settings_.pairs}; }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    // A step's scores against the batch's captions cost next to nothing.
    training::Training how{};
    how.batch = settings_.batch;
    auto tally = Tally(study_).train("standard", how, 0, settings_.steps).checkpoint();
    for (const auto t : study_.tasks.all()) {
      for (const auto split : {Split::validation, Split::test}) {
        const auto n = study_.samples.size(t, split, points());
        tally.sample(t, split, n).forward(t, n).logits(t, n);
      }
    }
    tally.stores(2 * settings_.steps, sizeof(float));
    std::error_code absent;
    const auto bytes = std::filesystem::file_size(settings_.pairs, absent);
    if (!absent) tally.reads(static_cast<double>(bytes));
    units.push_back(
        unit(pretrain_key(), tally, {}, [this](schedule::UnitContext& context) { return compute(context); }));
  }

  std::vector<WrittenGroup> written() const override {
    return {{"/pretraining", {{"pretraining_step", settings_.steps}}},
            {"/single_task/pretrained", {{"evaluation_point", 0}, {ledger::bits_role, 0}}}};
  }

  void write(Results& out, const Finished& done) const override {
    out.place(done, "/pretraining/loss", {{pretrain_key(), {0}}}, "loss");
    out.place(done, "/pretraining/logit_scale", {{pretrain_key(), {0}}}, "logit_scale");
    for (const auto* what : {"accuracy", "validation_accuracy"}) {
      out.place(done, std::string("/single_task/pretrained/") + what, {{pretrain_key(), {0}}}, what);
    }
    out.attribute("/pretraining", "class_pictures_a_task", settings_.class_pictures);
    out.attribute("/pretraining", "steps", settings_.steps);
    out.attribute("/pretraining", "batch", settings_.batch);
  }

 private:
  /// Rows of the pairs that this run uses: all but surplus class pictures, which are images of the tasks'
  /// train splits, as many a task as the configuration says.
  at::Tensor used_rows(const data::Pairs& pairs) const {
    const auto used = ((pairs.is_class_picture == 0) | (pairs.class_picture_rank < settings_.class_pictures))
                          .nonzero()
                          .squeeze(1);
    if (used.size(0) < settings_.batch)
      throw InputError(settings_.pairs.string() + ": has fewer pairs than a batch");
    if (pairs.text_embedding.size(1) != study_.model.encoder().width())
      throw InputError(settings_.pairs.string() + ": text embeddings are not as wide as the model's output");
    return used;
  }

  store::TensorFile compute(schedule::UnitContext& context) const {
    if (context.group.size() != 1)
      throw InputError("[pretrain] runs on one rank: set run.ranks_per_unit = 1");
    const auto pairs = data::read_pairs(settings_.pairs);
    const auto used = used_rows(pairs);
    const auto& task = study_.tasks.data(0);
    const auto& layout = study_.model.layout();
    const auto device = study_.device;
    auto theta = study_.model.theta0().clone();
    auto log_scale = at::full({1}, std::log(settings_.scale_start), theta.options());
    training::AdamW optimiser(theta, layout, {}, {0.9, 0.98, 1e-8, settings_.weight_decay});
    autodiff::Layout scalar;
    scalar.add(autodiff::Kind::projection, {"logit_scale"}, {1});
    training::AdamW scale_optimiser(log_scale, scalar, {}, {0.9, 0.98, 1e-8, 0});
    auto losses = at::zeros({settings_.steps}, theta.options()), scales = losses.clone();
    const auto mean = at::tensor(task.mean, theta.options()),
               deviation = at::tensor(task.std, theta.options());

    const auto step = [&](std::int64_t number) {
      // Batch and shifts from the step's own generator, so that a resumed run draws the same.
      auto generator = at::make_generator<at::CPUGeneratorImpl>(
          study::seed_for(study_.settings.seed, "step" + std::to_string(number)));
      const auto rows = used.index_select(
          0, at::randperm(used.size(0), generator, at::kLong).narrow(0, 0, settings_.batch));
      const auto images = shifted(pairs.images.index_select(0, rows), generator);
      const auto pixels = data::normalised_images(data::send(device, images), mean, deviation);
      const auto on_host = pairs.caption.index_select(0, rows).to(at::kLong);
      const auto caption = data::send(device, on_host);
      const auto text = data::rows_on(device, pairs.text_embedding, on_host);
      const auto positives = (caption.unsqueeze(0) == caption.unsqueeze(1)).to(at::kFloat);

      const auto blocks = autodiff::leaves(layout, theta);
      const auto scale = log_scale.detach().requires_grad_(true);
      const auto z =
          autodiff::normalise_rows(study_.model.encoder().encode(blocks, models::pictures(pixels)));
      const auto scores = at::mm(z, text.t()) * scale.exp();
      const auto loss = (contrastive(scores, positives) + contrastive(scores.t(), positives)) / 2;
      std::vector<at::Tensor> inputs = blocks;
      inputs.push_back(scale);
      auto gradients = torch::autograd::grad({loss}, inputs);
      auto scale_gradient = gradients.back();
      gradients.pop_back();
      std::vector<at::Tensor> flat;
      for (auto& part : gradients) flat.push_back(part.reshape({-1}));
      auto gradient = at::cat(flat);

      losses[number] = loss.detach();
      scales[number] = log_scale.to(at::kDouble).exp()[0];
      training::clip_norm(gradient, settings_.clip);
      const double rate =
          settings_.learning_rate * training::cosine_schedule(number, settings_.warmup, settings_.steps);
      optimiser.step(gradient, rate);
      scale_optimiser.step(scale_gradient, rate * settings_.scale_factor);
      log_scale.clamp_max_(std::log(settings_.scale_limit));
      return loss.detach();
    };
    training::Steps steps;
    steps.what = pretrain_key();
    steps.steps = settings_.steps;
    steps.checkpoint_seconds = settings_.checkpoint_seconds;
    steps.device = device;
    steps.losses = {losses};
    steps.step = step;
    steps.state = [&] {
      store::TensorFile state;  // one file: both optimisers' steps agree
      state.tensors = {{"theta", theta}, {"log_scale", log_scale}, {"loss", losses}, {"scales", scales}};
      optimiser.save(state);
      scale_optimiser.save(state, "scale");
      return state;
    };
    training::run(steps, context);

    models::write_checkpoint(study_.vectors.folder() / "checkpoints" / "pretrained", study_.model.encoder(),
                             {theta, study_.model.start().buffers});
    store::TensorFile result;
    result.tensors = {{"loss", losses}, {"logit_scale", scales}};
    for (const auto split : {Split::validation, Split::test}) {
      auto accuracy = study_.sums({static_cast<std::int64_t>(study_.tasks.size())});
      for (const auto t : study_.tasks.all()) {
        const auto sample = study_.samples.of(t, split, points());
        const auto z =
            study_.evaluation.output(context.group, {theta, study_.model.start().buffers}, t, sample.points);
        accuracy[static_cast<std::int64_t>(t)] =
            metrics::accuracy(study_.readouts.of(t).logits(z), sample.labels);
      }
      result.tensors[split == Split::test ? "accuracy" : "validation_accuracy"] = accuracy;
    }
    return result;
  }

  /// Each image moved by up to `shift` pixels a direction, edges repeated.
  at::Tensor shifted(const at::Tensor& images, at::Generator& generator) const {
    const auto s = settings_.shift;
    if (s == 0) return images;
    const auto n = images.size(0), h = images.size(1), w = images.size(2);
    const auto by = at::randint(-s, s + 1, {n, 2}, generator, at::kLong);
    const auto y = (at::arange(h, at::kLong).unsqueeze(0) + by.select(1, 0).unsqueeze(1)).clamp(0, h - 1);
    const auto x = (at::arange(w, at::kLong).unsqueeze(0) + by.select(1, 1).unsqueeze(1)).clamp(0, w - 1);
    const auto row = at::arange(n, at::kLong).view({n, 1, 1});
    return images.index({row, y.unsqueeze(2), x.unsqueeze(1)}).contiguous();
  }

  Pretraining settings_;
};

std::unique_ptr<Experiment> make_pretrain(config::Config& config, const Study& study) {
  auto section = config.optional_section("pretrain",
                                         "Makes a model: trains θ0 to match pictures with the texts "
                                         "that name them; in a file of its own");
  if (!section) return nullptr;
  Pretraining p;
  p.pairs = section->required_path(
      "pairs", "The packed pictures and texts, as jobs/prepare pretrain-pairs makes them");
  p.steps = section->required_integer("steps", "Steps of AdamW", {1, 1e7});
  p.batch = section->integer("batch", "Pairs a step, each of them told from all others", 128, {2, 1e6});
  p.warmup = training::warmup_steps(*section, 200, p.steps);
  p.class_pictures = section->required_integer(
      "class_pictures", "Training pictures of each task that take part, with their class's name", {0, 1e9});
  p.shift = section->integer("shift", "Pixels by which a picture is moved at random, at most", 2, {0, 64});
  p.learning_rate = section->real("learning_rate", "The highest rate, reached after warm-up", 1e-3, {0, 1e3});
  p.scale_factor = section->real("scale_learning_rate_factor",
                                 "How many times faster the logits' scale is learnt", 10, {0, 1e6});
  p.weight_decay = section->real("weight_decay", "AdamW's decoupled decay of weights", 0.05, {0, 1e3});
  p.clip =
      section->real("clip_norm", "A gradient that is longer is shortened to this norm", 1.0, {1e-12, 1e12});
  p.scale_start = section->real("scale_start", "The logits' scale at the beginning", 30, {1e-3, 1e6});
  p.scale_limit = section->real("scale_limit", "The largest scale of the logits", 100, {1e-3, 1e6});
  p.checkpoint_seconds = section->real(
      "checkpoint_seconds",
      "Seconds between savings of the training under way; 0: only where it is told to stop", 60, {0, 1e9});
  return std::make_unique<Pretrain>(study, p);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(pretrain, 10, make_pretrain, pretrain_outputs)
