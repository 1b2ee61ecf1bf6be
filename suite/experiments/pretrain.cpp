// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Pre-training of CLIP's image tower against frozen text embeddings: the symmetric softmax loss over a
// batch's image-caption cosines (Radford et al. 2021), rows with the same caption counting as positives
// together. The result lies in RUN/checkpoints/pretrained.
//
// /pretraining/loss [steps]; attributes; /single_task/pretrained/accuracy [T] zero-shot on the test samples,
// validation_accuracy [T]
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <cmath>
#include <stdexcept>

#include "kernels/autodiff/products.hpp"
#include "kernels/metrics/metrics.hpp"
#include "suite/error.hpp"
#include "suite/experiments/adamw.hpp"
#include "suite/experiments/placement.hpp"
#include "suite/experiments/tally.hpp"
#include "suite/experiments/trainer.hpp"

namespace taugrid::experiments {
namespace {

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

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    // A step's scores against the batch's captions cost next to nothing.
    Training training{};
    training.batch = settings_.batch;
    auto tally = Tally(study_).train("standard", training, 0, settings_.steps).checkpoint();
    for (std::size_t t = 0; t < study_.tasks(); ++t) {
      for (const auto split : {Split::validation, Split::test}) {
        const auto n = study_.sample_size(t, split, study_.settings().evaluation_points);
        tally.sample(t, split, n).forward(n).logits(t, n);
      }
    }
    tally.stores(2 * settings_.steps, sizeof(float)).publishes(2 * settings_.steps, sizeof(float));
    std::error_code absent;
    const auto bytes = std::filesystem::file_size(settings_.pairs, absent);
    if (!absent) tally.reads(static_cast<double>(bytes));
    units.push_back(
        unit("pretrain", tally, {}, [this](schedule::UnitContext& context) { return compute(context); }));
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks());
    place(out, done, "/pretraining/loss", store::Element::float32, {settings_.steps}, {"pretraining_step"},
          {{"pretrain", {0}}}, "loss", "nat");
    place(out, done, "/pretraining/logit_scale", store::Element::float32, {settings_.steps},
          {"pretraining_step"}, {{"pretrain", {0}}}, "logit_scale", "1");
    for (const auto* what : {"accuracy", "validation_accuracy"}) {
      place(out, done, std::string("/single_task/pretrained/") + what, store::Element::float64, {tasks},
            {"task"}, {{"pretrain", {0}}}, what, "1");
    }
    out.attribute("/pretraining", "class_pictures_a_task", settings_.class_pictures);
    out.attribute("/pretraining", "steps", settings_.steps);
    out.attribute("/pretraining", "batch", settings_.batch);
  }

 private:
  store::TensorFile compute(schedule::UnitContext& context) const {
    if (context.group.size() != 1)
      throw InputError("[pretrain] runs on one rank: set run.ranks_per_unit = 1");
    const auto pairs = data::read_pairs(settings_.pairs);
    const auto& task = study_.task(0);
    const auto seed = study_.settings().seed;
    // Class pictures are images of the tasks' train splits: as many a task as the configuration says.
    const auto used = ((pairs.is_class_picture == 0) | (pairs.class_picture_rank < settings_.class_pictures))
                          .nonzero()
                          .squeeze(1);
    const auto n = used.size(0);
    if (n < settings_.batch) throw InputError(settings_.pairs.string() + ": has fewer pairs than a batch");
    if (pairs.text_embedding.size(1) != study_.encoder().features()) {
      throw InputError(settings_.pairs.string() + ": text embeddings are not as wide as the model's output");
    }

    const auto& layout = study_.layout();
    auto theta = study_.theta0().clone();
    auto log_scale = at::full({1}, std::log(settings_.scale_start), theta.options());
    AdamWSettings adamw{0.9, 0.98, 1e-8, settings_.weight_decay};
    AdamW optimiser(theta, layout, {}, adamw);
    autodiff::Layout scalar;
    scalar.add(autodiff::Kind::projection, {"logit_scale"}, {1});
    AdamW scale_optimiser(log_scale, scalar, {}, {0.9, 0.98, 1e-8, 0});

    auto losses = at::zeros({settings_.steps}, theta.options()), scales = losses.clone();
    std::int64_t step = 0;
    const auto state_path = context.scratch / "state.safetensors";
    if (std::filesystem::exists(state_path)) {
      const auto state = store::read_safetensors(state_path);
      theta.copy_(state.tensors.at("theta"));
      log_scale.copy_(state.tensors.at("log_scale"));
      losses.copy_(state.tensors.at("loss"));
      scales.copy_(state.tensors.at("scales"));
      optimiser.load(state);
      scale_optimiser.load(state, "scale");
      step = std::stoll(state.metadata.at("step"));
    }
    const auto save = [&] {
      store::TensorFile state;  // one file: both optimisers' steps agree
      state.tensors = {{"theta", theta}, {"log_scale", log_scale}, {"loss", losses}, {"scales", scales}};
      scale_optimiser.save(state, "scale");
      state.metadata["step"] = std::to_string(step);
      optimiser.save(state);
      store::write_safetensors(state_path, state);
    };
    auto saved = std::chrono::steady_clock::now();
    LossWatch watch(study_.device(), step);
    const auto look = [&] { watch.look({losses}, step); };
    const auto mean = at::tensor(task.mean, theta.options()),
               deviation = at::tensor(task.std, theta.options());
    while (step < settings_.steps) {
      if (context.stop.requested()) {
        look();
        save();
        throw Interrupted("pretrain: stopped by " + context.stop.reason());
      }
      const auto now = std::chrono::steady_clock::now();
      if (std::chrono::duration<double>(now - saved).count() > settings_.checkpoint_seconds) {
        look();
        save();
        saved = now;
      }
      // Batch and shifts from the step's own generator, so that a resumed run draws the same.
      auto generator =
          at::make_generator<at::CPUGeneratorImpl>(seed_for(seed, "step" + std::to_string(step)));
      const auto rows =
          used.index_select(0, at::randperm(n, generator, at::kLong).narrow(0, 0, settings_.batch));
      const auto images = shifted(pairs.images.index_select(0, rows), generator);
      const auto pixels = data::normalised_images(data::send(study_.device(), images), mean, deviation);
      const auto on_host = pairs.caption.index_select(0, rows).to(at::kLong);
      const auto caption = data::send(study_.device(), on_host);
      const auto text = data::rows_on(study_.device(), pairs.text_embedding, on_host);
      const auto positives = (caption.unsqueeze(0) == caption.unsqueeze(1)).to(at::kFloat);

      const auto blocks = autodiff::leaves(layout, theta);
      const auto scale = log_scale.detach().requires_grad_(true);
      const auto z = autodiff::normalise_rows(study_.encoder().encode(blocks, pixels));
      const auto scores = at::mm(z, text.t()) * scale.exp();
      const auto loss = (contrastive(scores, positives) + contrastive(scores.t(), positives)) / 2;
      std::vector<at::Tensor> inputs = blocks;
      inputs.push_back(scale);
      auto found = torch::autograd::grad({loss}, inputs);
      auto scale_gradient = found.back();
      found.pop_back();
      std::vector<at::Tensor> flat;
      for (auto& part : found) flat.push_back(part.reshape({-1}));
      auto gradient = at::cat(flat);

      losses[step] = loss.detach();
      scales[step] = log_scale.to(at::kDouble).exp()[0];
      clip_norm(gradient, settings_.clip);
      const double rate = settings_.learning_rate * cosine_schedule(step, settings_.warmup, settings_.steps);
      optimiser.step(gradient, rate);
      scale_optimiser.step(scale_gradient, rate * settings_.scale_factor);
      log_scale.clamp_max_(std::log(settings_.scale_limit));
      ++step;
      if (!watch.due() && step < settings_.steps) continue;
      look();
      context.progress(static_cast<double>(step) / static_cast<double>(settings_.steps),
                       "loss " + std::to_string(loss.item<double>()).substr(0, 5));
    }

    models::write_checkpoint(study_.folder() / "checkpoints" / "pretrained", study_.encoder(), theta);
    store::TensorFile result;
    result.tensors = {{"loss", losses}, {"logit_scale", scales}};
    for (const auto split : {Split::validation, Split::test}) {
      auto accuracy = study_.sums({static_cast<std::int64_t>(study_.tasks())});
      for (std::size_t t = 0; t < study_.tasks(); ++t) {
        const auto& sample = study_.sample(t, split, study_.settings().evaluation_points);
        const auto logits = study_.head(t).logits(study_.encode(context.group, theta, sample.pixels));
        accuracy[static_cast<std::int64_t>(t)] = metrics::accuracy(logits, sample.labels);
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

}  // namespace

std::unique_ptr<Experiment> make_pretrain(config::Config& config, const Study& study) {
  if (!config.has("pretrain")) return nullptr;
  auto section = config.section("pretrain");
  Pretraining p;
  p.pairs = section.required_path("pairs");
  p.steps = section.required_integer("steps", {1, 1e9});
  p.batch = section.integer("batch", 128, {2, 1e6});
  p.warmup = section.integer("warmup_steps", 200, {0, 1e9});
  p.class_pictures = section.required_integer("class_pictures", {0, 1e9});
  p.shift = section.integer("shift", 2, {0, 64});
  p.learning_rate = section.real("learning_rate", 1e-3, {0, 1e3});
  p.scale_factor = section.real("scale_learning_rate_factor", 10, {0, 1e6});
  p.weight_decay = section.real("weight_decay", 0.05, {0, 1e3});
  p.clip = section.real("clip_norm", 1.0, {1e-12, 1e12});
  p.scale_start = section.real("scale_start", 30, {1e-3, 1e6});
  p.scale_limit = section.real("scale_limit", 100, {1e-3, 1e6});
  p.checkpoint_seconds = section.real("checkpoint_seconds", 60, {0, 1e9});
  return std::make_unique<Pretrain>(study, p);
}

}  // namespace taugrid::experiments
