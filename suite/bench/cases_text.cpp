// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A model of texts, of MiniLM's shape, 22.6 M parameters, on sequences of 8 to 32 tokens, padded to 32, and
// on full ones of 32: training steps of all of θ, evaluation, λ_max and the NTK. Flops are counted as in
// cases_model.cpp, of the tokens in use.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <numeric>

#include "kernels/autodiff/products.hpp"
#include "kernels/spectral/spectral.hpp"
#include "kernels/tangent/ntk.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/bench/training_step.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/models/registry.hpp"
#include "suite/training/loss.hpp"

namespace taugrid::bench {
namespace {

constexpr const char* minilm = R"({"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 384,
  "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 12, "hidden_act": "gelu",
  "max_position_embeddings": 32, "type_vocab_size": 2, "vocab_size": 30522, "layer_norm_eps": 1e-12})";
constexpr std::int64_t texts = 64, tokens = 32, step_texts = 16, text_ntk_points = 8, text_logits = 2;

/// The model, texts, a frozen cosine head, and what a run of a case leaves behind.
struct TextState {
  TextState(const Fixture& x, bool full) : encoder(models::make_encoder(minilm, "the bench's MiniLM")) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
    const auto start_on_host = encoder->random_state(8);
    auto ids = at::randint(1000, 30000, {texts, tokens}, generator, at::kLong);
    const auto lengths = at::randint(8, tokens + 1, {texts}, generator, at::kLong);
    (full ? lengths : lengths.select(0, 0)).fill_(tokens);
    ids.masked_fill_(at::arange(tokens).unsqueeze(0) >= lengths.unsqueeze(1), 0);
    auto weight = at::randn({classes, encoder->width()}, generator);
    weight /= weight.norm(2, 1, true);
    labels = at::randint(0, classes, {texts}, generator, at::kLong);
    store::TensorFile file;  // for the peers
    file.tensors = {{"ids", ids}, {"lengths", lengths}, {"labels", labels}, {"head", weight}};
    const auto folder = x.folder() / (full ? "minilm_full" : "minilm");
    models::write_checkpoint(folder, *encoder, start_on_host);
    store::write_safetensors(folder / "inputs.safetensors", file);
    const auto device = x.runtime().device();
    batch.inputs = ids.to(device);
    batch.lengths = lengths;
    labels = labels.to(device);
    start = start_on_host.to(device);
    head = models::Readout{.weight = weight, .scale = 30.0}.to(device);
    theta = start.theta.clone();
  }

  autodiff::Function<at::Tensor> loss(std::int64_t n, const models::Readout& read) const {
    return
        [this, read, of = batch.narrow(0, n), y = labels.narrow(0, 0, n)](const std::vector<at::Tensor>& p) {
          return at::cross_entropy_loss(read.logits(encoder->encode(p, of)), y);
        };
  }
  /// The part of the first n texts' places that holds tokens.
  double in_use(std::int64_t n) const {
    return batch.lengths.narrow(0, 0, n).sum().item<double>() / static_cast<double>(n * tokens);
  }
  /// A forward pass over the first n texts.
  double flops(std::int64_t n) const {
    return static_cast<double>(n) * in_use(n) * models::Cost(*encoder).forward();
  }
  double bytes() const { return 4 * static_cast<double>(encoder->layout().size()); }

  std::unique_ptr<models::Encoder> encoder;
  models::State start;
  models::Batch batch;
  models::Readout head;
  at::Tensor labels, theta, found;
};

/// A step over every block; a linear regime's is at θ0 + τ.
Work text_step(const Fixture& x, const char* regime_name, bool full) {
  struct State : TextState {
    State(const Fixture& fixture, const study::Regime& of, bool all_full)
        : TextState(fixture, all_full),
          regime(of),
          in({{batch.narrow(0, step_texts), labels.narrow(0, 0, step_texts), &head, 1.0 / step_texts}}),
          loss(*encoder, of, start, {}),
          step(theta, encoder->layout(), {}, [this](const at::Tensor& point, at::Tensor& gradient) {
            return loss(point, in, gradient).sum();
          }) {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(12);
      if (of.linear) theta.add_(at::randn(theta.sizes(), generator).to(theta.device()), 1e-3);
    }
    const study::Regime& regime;
    std::vector<training::Term> in;
    training::TrainingLoss loss;
    TrainingStep step;
  };
  const auto s = std::make_shared<State>(x, study::regime(regime_name), full);
  Work work;
  work.run = [s] { s->step.run(); };
  work.flops = step_texts * s->in_use(step_texts) *
               training::step_flops_an_input(s->regime, {}, models::Cost(*s->encoder));
  work.bytes = 9 * s->bytes();
  work.items = step_texts;
  work.unit = "texts";
  work.tolerance = 1e-2;
  work.error = [s] {
    const models::State start{s->start.theta.to(at::kDouble), {}};
    const training::TrainingLoss exact(*s->encoder, s->regime, start, {});
    const auto head = s->head.to(at::kDouble);
    auto exactly = s->in;
    exactly[0].readout = &head;
    at::Tensor unused;
    return s->step.error([&](const at::Tensor& theta) { return exact(theta, exactly, unused).sum(); });
  };
  work.results = [s] {
    store::TensorFile file;
    file.tensors["losses"] = at::tensor(s->step.losses(), at::kDouble);
    return file;
  };
  return work;
}

/// Logits of all texts.
Work text_forward(const Fixture& x, bool full) {
  const auto s = std::make_shared<TextState>(x, full);
  Work work;
  work.run = [s, blocks = s->encoder->layout().views(s->start.theta)] {
    const at::NoGradGuard no_grad;
    s->found = s->head.logits(s->encoder->encode(blocks, s->batch));
  };
  work.flops = s->flops(texts);
  work.bytes = s->bytes();
  work.items = texts;
  work.unit = "texts";
  work.tolerance = 1e-4;
  work.error = [s] {
    const at::NoGradGuard no_grad;
    const auto exact = s->encoder->layout().views(s->start.theta.to(at::kDouble));
    const auto logits = s->head.to(at::kDouble).logits(s->encoder->encode(exact, s->batch));
    return ((s->found.to(at::kDouble) - logits).norm() / logits.norm()).item<double>();
  };
  work.results = [s] {
    store::TensorFile file;
    file.tensors["logits"] = s->found;
    return file;
  };
  return work;
}

/// λ_max of the training loss at θ0, as cases_hessian.cpp takes that of images.
Work text_lambda_max(const Fixture& x, bool full) {
  const auto s = std::make_shared<TextState>(x, full);
  const auto found = std::make_shared<spectral::EigenResult>();
  spectral::EigenOptions options;
  options.tolerance = 1e-2;
  options.max_products = 100;
  options.seed = 5;
  const auto loss = s->loss(step_texts, s->head);
  Work work;
  work.run = [s, found, loss, options] {
    const autodiff::HessianVectorProduct hessian(s->encoder->layout(), loss, s->start.theta);
    *found = spectral::lanczos([&](const at::Tensor& v) { return hessian(v); }, s->start.theta, options);
  };
  work.run();  // the flops depend on how many products it takes, the same in every run
  const auto products = static_cast<double>(found->products);
  work.flops = (3 + 6 * products) * s->flops(step_texts);
  work.bytes = 3 * products * s->bytes();
  work.items = products;
  work.unit = "products";
  work.tolerance = 2e-2;
  work.error = [s, found, loss] {  // ‖Hv − λv‖/|λ| anew
    const autodiff::HessianVectorProduct hessian(s->encoder->layout(), loss, s->start.theta);
    return weights::norm(hessian(found->vector) - found->value * found->vector) / std::abs(found->value);
  };
  work.results = [found] {
    store::TensorFile file;
    file.tensors["lambda_max"] = at::full({1}, found->value, at::kDouble);
    return file;
  };
  return work;
}

/// K of the first logits.
Work text_ntk(const Fixture& x, bool full) {
  const auto s = std::make_shared<TextState>(x, full);
  const auto of = s->batch.narrow(0, text_ntk_points);
  const auto logits = [s, of](const std::vector<autodiff::Recorded>& p) {
    return s->head.logits(s->encoder->encode(p, of));
  };
  std::vector<std::int64_t> which(text_logits);
  std::iota(which.begin(), which.end(), 0);
  Work work;
  work.run = [s, logits, which] {
    s->found = tangent::ntk_gram(s->encoder->layout(), logits, s->start.theta, which, {0, text_ntk_points});
  };
  const double n = text_ntk_points;
  work.flops = s->flops(text_ntk_points) * (1 + text_logits);
  work.bytes = s->bytes();
  work.items = n * n * text_logits;
  work.unit = "entries";
  work.tolerance = 1e-4;
  work.error = [s] {  // two entries from two whole gradients in float64
    const auto head = s->head.to(at::kDouble);
    const auto gradient = [&](std::int64_t i) {
      return autodiff::gradient(
                 s->encoder->layout(),
                 [&](const std::vector<at::Tensor>& p) {
                   return head.logits(s->encoder->encode(p, s->batch.narrow(i, 1)))[0][1];
                 },
                 s->start.theta.to(at::kDouble))
          .gradient;
    };
    const auto a = gradient(0), b = gradient(5);
    const double scale = a.dot(a).item<double>();
    return std::max(std::abs(s->found[1][0][0].item<double>() - scale),
                    std::abs(s->found[1][0][5].item<double>() - a.dot(b).item<double>())) /
           scale;
  };
  work.results = [s] {
    store::TensorFile file;
    file.tensors["gram"] = s->found;
    return file;
  };
  return work;
}

}  // namespace

std::vector<Case> text_cases(const Fixture& x) {
  std::vector<Case> cases;
  for (const bool full : {false, true}) {
    const std::string name = full ? "text/full_" : "text/";
    cases.push_back({name + "forward", [&x, full] { return text_forward(x, full); }});
    cases.push_back({name + "step", [&x, full] { return text_step(x, "standard", full); }});
    if (!full) cases.push_back({name + "step_linear", [&x, full] { return text_step(x, "linear", full); }});
    cases.push_back({name + "lambda_max", [&x, full] { return text_lambda_max(x, full); }});
    cases.push_back({name + "ntk", [&x, full] { return text_ntk(x, full); }});
  }
  return cases;
}

}  // namespace taugrid::bench
