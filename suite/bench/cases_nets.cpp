// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Training steps of models beside CLIP, behind them a classifier that was trained first and is frozen: the
// ResNet-20 of CIFAR, 0.27 M parameters with batch norm, a small ConvNeXt, 1.3 M, a small ViT, 1.2 M, and a
// multilayer perceptron, 1.7 M; and the NTK of the first. Flops are counted as in cases_model.cpp.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include "kernels/autodiff/products.hpp"
#include "kernels/autodiff/tape.hpp"
#include "kernels/tangent/ntk.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/bench/training_step.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/models/registry.hpp"
#include "suite/training/loss.hpp"

namespace taugrid::bench {
namespace {

struct Shape {
  const char *name, *config;
};
constexpr Shape resnet20 = {
    "resnet", R"({"model_type": "torchvision_resnet", "architectures": ["ResNet"], "image_size": 32,
  "layers": [3, 3, 3], "widths": [16, 32, 64], "stem": "cifar", "shortcut": "identity"})"};
constexpr Shape convnext = {
    "convnext",
    R"({"model_type": "convnext", "architectures": ["ConvNextModel"], "image_size": 32, "patch_size": 2,
  "num_stages": 3, "depths": [2, 2, 2], "hidden_sizes": [48, 96, 192], "layer_scale_init_value": 0.1})"};
constexpr Shape vit = {
    "vit", R"({"model_type": "vit", "architectures": ["ViTModel"], "image_size": 32, "patch_size": 4,
  "hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 4, "num_hidden_layers": 6})"};
constexpr Shape mlp = {
    "mlp", R"({"model_type": "mlp", "image_size": 32, "num_channels": 3, "hidden_sizes": [512, 256, 128]})"};
constexpr std::int64_t resnet_ntk_points = 16;

/// The model, a frozen affine head, and what a run of a case leaves behind.
struct Classified {
  Classified(const Fixture& x, const Shape& shape)
      : encoder(models::make_encoder(shape.config, std::string("the bench's ") + shape.name)) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
    auto start_on_host = encoder->random_state(6);
    head = {.kind = models::Readout::Kind::affine,
            .weight = at::randn({classes, encoder->width()}, generator) / 8,
            .bias = at::zeros({classes})};
    store::TensorFile file;  // for the peers
    file.tensors = {{"weight", head.weight}, {"bias", head.bias}};
    models::write_checkpoint(x.folder() / shape.name, *encoder, start_on_host);
    store::write_safetensors(x.folder() / shape.name / "head.safetensors", file);
    start = start_on_host.to(x.runtime().device());
    head = head.to(x.runtime().device());
    theta = start.theta.clone();
  }

  models::Given given(const at::Tensor& pixels, at::ScalarType type) const {
    models::Given x{models::pictures(pixels.to(type))};
    if (start.buffers.defined()) x.buffers = encoder->buffers().views(start.buffers.to(type));
    return x;
  }

  std::unique_ptr<models::Encoder> encoder;
  models::State start;
  models::Readout head;
  at::Tensor theta, gram;
};

/// A step, by the batch's own statistics where there are any.
Work step(const Fixture& x, const Shape& shape) {
  struct State : Classified {
    State(const Fixture& fixture, const Shape& of)
        : Classified(fixture, of),
          in({{models::pictures(fixture.pixels()), fixture.labels(), &head, 1.0 / batch}}),
          loss(*encoder, study::regime("standard"), start, {}),
          step(theta, encoder->layout(), {}, [this](const at::Tensor& point, at::Tensor& gradient) {
            autodiff::BatchStatistics statistics;
            return loss(point, in, gradient, nullptr, &statistics).sum();
          }) {}
    std::vector<training::Term> in;
    training::TrainingLoss loss;
    TrainingStep step;
  };
  const auto s = std::make_shared<State>(x, shape);
  Work work;
  work.run = [s] { s->step.run(); };
  work.flops = 3 * batch * models::Cost(*s->encoder).forward();
  work.bytes = 4 * 9 * static_cast<double>(s->encoder->layout().size());
  work.items = batch;
  work.unit = "images";
  work.tolerance = 1e-2;
  work.error = [&x, s] {
    const auto head = s->head.to(at::kDouble);
    return s->step.error([&](const at::Tensor& theta) {
      const at::NoGradGuard no_grad;
      auto given = s->given(x.pixels(), at::kDouble);
      autodiff::BatchStatistics of_the_batch;
      given.statistics = &of_the_batch;
      const auto z = s->encoder->encode(s->encoder->layout().views(theta), given);
      return at::cross_entropy_loss(head.logits(z), x.labels()).item<double>();
    });
  };
  work.results = [s] {
    store::TensorFile file;
    file.tensors["losses"] = at::tensor(s->step.losses(), at::kDouble);
    return file;
  };
  return work;
}

/// K of every logit, by stored statistics.
Work resnet_ntk(const Fixture& x) {
  const auto s = std::make_shared<Classified>(x, resnet20);
  const auto given = s->given(x.pixels().narrow(0, 0, resnet_ntk_points), at::kFloat);
  const auto logits = [s, given](const std::vector<autodiff::Recorded>& p) {
    return s->head.logits(s->encoder->encode(p, given));
  };
  std::vector<std::int64_t> which(classes);
  for (std::int64_t c = 0; c < classes; ++c) which[static_cast<std::size_t>(c)] = c;
  Work work;
  work.run = [s, logits, which] {
    s->gram = tangent::ntk_gram(s->encoder->layout(), logits, s->theta, which, {0, resnet_ntk_points});
  };
  // Forward; for each logit back to the outputs, the gradients of the weights, and their inner products.
  const double n = resnet_ntk_points, f = models::Cost(*s->encoder).forward();
  work.flops = n * f + classes * (2 * n * f + n * (n + 1) * static_cast<double>(s->encoder->layout().size()));
  work.bytes = 4 * static_cast<double>(s->encoder->layout().size());
  work.items = n * n * classes;
  work.unit = "entries";
  work.tolerance = 1e-4;
  work.error = [&x, s] {  // two entries from two whole gradients in float64
    const auto head = s->head.to(at::kDouble);
    const auto gradient = [&](std::int64_t i) {
      const auto picture = s->given(x.pixels().narrow(0, i, 1), at::kDouble);
      return autodiff::gradient(
                 s->encoder->layout(),
                 [&](const std::vector<at::Tensor>& p) {
                   return head.logits(s->encoder->encode(p, picture))[0][3];
                 },
                 s->theta.to(at::kDouble))
          .gradient;
    };
    const auto a = gradient(0), b = gradient(9);
    const double scale = a.dot(a).item<double>();
    return std::max(std::abs(s->gram[3][0][0].item<double>() - scale),
                    std::abs(s->gram[3][0][9].item<double>() - a.dot(b).item<double>())) /
           scale;
  };
  work.results = [s] {
    store::TensorFile file;
    file.tensors["gram"] = s->gram;
    return file;
  };
  return work;
}

}  // namespace

std::vector<Case> net_cases(const Fixture& x) {
  return {{"resnet/step", [&x] { return step(x, resnet20); }},
          {"resnet/ntk", [&x] { return resnet_ntk(x); }},
          {"convnext/step", [&x] { return step(x, convnext); }},
          {"vit/step", [&x] { return step(x, vit); }},
          {"mlp/step", [&x] { return step(x, mlp); }}};
}

}  // namespace taugrid::bench
