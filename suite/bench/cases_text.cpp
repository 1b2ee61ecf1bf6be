// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Models of texts: one of MiniLM's shape, 22.6 M parameters, on sequences of 8 to 32 tokens, padded to 32,
// and on full ones of 32; and six decoder layers of SmolLM2-135M's shape, 22.4 M parameters with a small
// vocabulary, on full prompts of 64 tokens. Training steps of all of θ, evaluation, λ_max and the NTK, and a
// linear sweep of the decoder. Its thirty layers, 107 M parameters, are evaluated whole, and behind 24 that
// have run already. Flops are counted as in cases_model.cpp, of the tokens in use.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/autodiff/products.hpp"
#include "kernels/metrics/metrics.hpp"
#include "kernels/spectral/spectral.hpp"
#include "kernels/tangent/ntk.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/bench/model_work.hpp"
#include "suite/bench/training_step.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/models/registry.hpp"
#include "suite/training/loss.hpp"

namespace taugrid::bench {
namespace {

constexpr const char* minilm = R"({"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 384,
  "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 12, "hidden_act": "gelu",
  "max_position_embeddings": 32, "type_vocab_size": 2, "vocab_size": 30522, "layer_norm_eps": 1e-12})";
constexpr const char* smollm2 = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
  "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 9,
  "num_key_value_heads": 3, "head_dim": 64, "max_position_embeddings": 64, "vocab_size": 2000,
  "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
  "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0}})";
constexpr std::int64_t text_logits = 2, sweep_steps = 21;

/// A model and its texts: token ids from `first_id` to before `end_id`, of equal lengths or not.
struct TextShape {
  const char *cases, *folder, *config;
  std::int64_t texts, tokens, first_id, end_id;
  bool full;
  std::int64_t step_texts, hessian_texts, ntk_texts;  ///< the first ones of `texts`
  int layers = 0;                                     ///< in place of the configuration's, where above 0

  std::string config_json() const {
    if (layers == 0) return config;
    auto json = nlohmann::json::parse(config);
    json["num_hidden_layers"] = layers;
    return json.dump();
  }
};
constexpr TextShape shapes[] = {{"text/", "minilm", minilm, 64, 32, 1000, 30000, false, 16, 16, 8},
                                {"text/full_", "minilm_full", minilm, 64, 32, 1000, 30000, true, 16, 16, 8},
                                {"decoder/", "smollm2", smollm2, 16, 64, 0, 2000, true, 8, 2, 4}};
constexpr TextShape whole_decoder = {
    "decoder/whole_", "smollm2_whole", smollm2, 16, 64, 0, 2000, true, 0, 0, 0, 30};
constexpr int frozen_layers = 24;  // of the whole decoder, where the upper six are trained

/// The model, texts, a frozen cosine head, and what a run of a case leaves behind.
struct TextState {
  TextState(const Fixture& x, const TextShape& of)
      : encoder(models::make_encoder(of.config_json(), "the bench's model of texts")), tokens(of.tokens) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
    const auto start_on_host = encoder->random_state(8);
    auto ids = at::randint(of.first_id, of.end_id, {of.texts, tokens}, generator, at::kLong);
    const auto lengths = at::randint(8, tokens + 1, {of.texts}, generator, at::kLong);
    (of.full ? lengths : lengths.select(0, 0)).fill_(tokens);
    ids.masked_fill_(at::arange(tokens).unsqueeze(0) >= lengths.unsqueeze(1), 0);
    auto weight = at::randn({classes, encoder->width()}, generator);
    weight /= weight.norm(2, 1, true);
    labels = at::randint(0, classes, {of.texts}, generator, at::kLong);
    store::TensorFile file;  // for the peers
    file.tensors = {{"ids", ids}, {"lengths", lengths}, {"labels", labels}, {"head", weight}};
    const auto folder = x.folder() / of.folder;
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
  std::int64_t tokens;
  models::State start;
  models::Batch batch;
  models::Readout head;
  at::Tensor labels, theta, computed;
};

/// A step over every block; a linear regime's is at θ0 + τ.
Work text_step(const Fixture& x, const char* regime_name, const TextShape& shape) {
  struct State : TextState {
    State(const Fixture& fixture, const study::Regime& of, const TextShape& texts)
        : TextState(fixture, texts),
          regime(of),
          in({{batch.narrow(0, texts.step_texts), labels.narrow(0, 0, texts.step_texts), &head,
               1.0 / static_cast<double>(texts.step_texts)}}),
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
  const auto s = std::make_shared<State>(x, study::regime(regime_name), shape);
  Work work;
  work.run = [s] { s->step.run(); };
  work.flops = static_cast<double>(shape.step_texts) * s->in_use(shape.step_texts) *
               training::step_flops_an_input(s->regime, {}, models::Cost(*s->encoder));
  work.bytes = 9 * s->bytes();
  work.items = static_cast<double>(shape.step_texts);
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

/// Logits of all texts, behind the first `done` stages, which have run before.
Work text_forward(const Fixture& x, const TextShape& shape, int done = 0) {
  const auto s = std::make_shared<TextState>(x, shape);
  const auto blocks = s->encoder->layout().views(s->start.theta);
  auto batch = s->batch;
  if (done > 0) {
    const at::NoGradGuard no_grad;
    batch.hidden = s->encoder->run_to(done, blocks, models::Given{s->batch});
    batch.inputs.reset();
    batch.from = done + 1;
  }
  Work work;
  work.run = [s, blocks, batch] {
    const at::NoGradGuard no_grad;
    s->computed = s->head.logits(s->encoder->encode(blocks, batch));
  };
  const int stages = s->encoder->stages();
  work.flops =
      s->flops(shape.texts) * (stages - done) / stages;  // all of a size, and the embedding adds none
  work.items = static_cast<double>(shape.texts);
  work.unit = "texts";
  work.tolerance = 1e-4;
  work.error = [s] {
    const at::NoGradGuard no_grad;
    const auto exact = s->encoder->layout().views(s->start.theta.to(at::kDouble));
    const auto logits = s->head.to(at::kDouble).logits(s->encoder->encode(exact, s->batch));
    return ((s->computed.to(at::kDouble) - logits).norm() / logits.norm()).item<double>();
  };
  work.results = [s] {
    store::TensorFile file;
    file.tensors["logits"] = s->computed;
    return file;
  };
  return work;
}

/// λ_max of the training loss at θ0, as cases_hessian.cpp takes that of images.
Work text_lambda_max(const Fixture& x, const TextShape& shape) {
  const auto s = std::make_shared<TextState>(x, shape);
  const auto eigenpair = std::make_shared<spectral::EigenResult>();
  spectral::EigenOptions options;
  options.tolerance = 1e-2;
  options.max_products = 100;
  options.seed = 5;
  const auto loss = s->loss(shape.hessian_texts, s->head);
  Work work;
  work.run = [s, eigenpair, loss, options] {
    const autodiff::HessianVectorProduct hessian(s->encoder->layout(), loss, s->start.theta);
    *eigenpair = spectral::lanczos([&](const at::Tensor& v) { return hessian(v); }, s->start.theta, options,
                                   hessian.gradient());
  };
  work.run();  // the flops depend on how many products it takes, the same in every run
  work.has_run = true;
  const auto products = static_cast<double>(eigenpair->products);
  work.flops = (3 + 6 * products) * s->flops(shape.hessian_texts);
  work.bytes = 3 * products * s->bytes();
  work.items = products;
  work.unit = "products";
  work.tolerance = 2e-2;
  work.error = [s, eigenpair, loss] {  // ‖Hv − λv‖/|λ| anew
    const autodiff::HessianVectorProduct hessian(s->encoder->layout(), loss, s->start.theta);
    return weights::norm(hessian(eigenpair->vector) - eigenpair->value * eigenpair->vector) /
           std::abs(eigenpair->value);
  };
  work.results = [eigenpair] {
    store::TensorFile file;
    file.tensors["lambda_max"] = at::full({1}, eigenpair->value, at::kDouble);
    return file;
  };
  return work;
}

/// K of the first logits.
Work text_ntk(const Fixture& x, const TextShape& shape) {
  const auto s = std::make_shared<TextState>(x, shape);
  const auto of = s->batch.narrow(0, shape.ntk_texts);
  const auto logits = [s, of](const std::vector<autodiff::Recorded>& p) {
    return s->head.logits(s->encoder->encode(p, of));
  };
  std::vector<std::int64_t> which(text_logits);
  std::iota(which.begin(), which.end(), 0);
  Work work;
  work.run = [s, logits, which, points = shape.ntk_texts] {
    s->computed = tangent::ntk_gram(s->encoder->layout(), logits, s->start.theta, which, {0, points});
  };
  const auto n = static_cast<double>(shape.ntk_texts);
  const double forward = s->flops(shape.ntk_texts);
  work.flops = forward + text_logits * (forward + gram_flops(s->encoder->layout(), logits, s->start.theta));
  work.bytes = s->bytes();
  work.items = n * n * text_logits;
  work.unit = "entries";
  work.tolerance = 1e-4;
  work.error = [s, other = shape.ntk_texts - 3] {  // two entries from two whole gradients in float64
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
    const auto a = gradient(0), b = gradient(other);
    const double scale = a.dot(a).item<double>();
    return std::max(std::abs(s->computed[1][0][0].item<double>() - scale),
                    std::abs(s->computed[1][0][other].item<double>() - a.dot(b).item<double>())) /
           scale;
  };
  work.results = [s] {
    store::TensorFile file;
    file.tensors["gram"] = s->computed;
    return file;
  };
  return work;
}

/// Accuracies along 21 coefficients of a task vector of the linearised model: one pass with its tangent.
Work text_sweep(const Fixture& x, const TextShape& shape) {
  struct State : TextState {
    State(const Fixture& fixture, const TextShape& of) : TextState(fixture, of) {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(13);
      tau = at::randn(start.theta.sizes(), generator).mul_(2e-3);
      models::write_checkpoint(fixture.folder() / of.folder / "tuned", *encoder,
                               {start.theta.to(at::kCPU) + tau, {}});
      tau = tau.to(start.theta.device());
    }
    autodiff::Dual features(const at::Tensor& point, const at::Tensor& direction) const {
      return autodiff::jvp(
          encoder->layout(),
          [this](const std::vector<autodiff::Dual>& p) { return encoder->encode(p, batch); }, point,
          direction);
    }
    at::Tensor accuracy(const models::Readout& read, const at::Tensor& z) const {
      return metrics::accuracy(read.logits(z), labels).to(at::kCPU);
    }
    at::Tensor tau;
  };
  const auto s = std::make_shared<State>(x, shape);
  Work work;
  work.run = [s] {
    const at::NoGradGuard no_grad;
    const auto z = s->features(s->start.theta, s->tau);
    std::vector<at::Tensor> accuracies;
    for (std::int64_t k = 0; k < sweep_steps; ++k)
      accuracies.push_back(s->accuracy(s->head, z.value + 0.05 * static_cast<double>(k) * z.tangent));
    s->computed = at::stack(accuracies);
  };
  const auto texts = static_cast<double>(shape.texts), width = static_cast<double>(s->encoder->width());
  work.flops = 3 * s->flops(shape.texts) + sweep_steps * texts * width * (2 + 2 * classes);
  work.bytes = 2 * s->bytes();
  work.items = sweep_steps;
  work.unit = "coefficients";
  work.tolerance = 1.5 / texts;  // one prediction may flip where two logits are equal up to rounding
  work.error = [s] {             // at one coefficient a tangent pass of its own, in float64
    const at::NoGradGuard no_grad;
    const std::int64_t k = sweep_steps / 2;
    const auto z =
        s->features(s->start.theta.to(at::kDouble), s->tau.to(at::kDouble) * (0.05 * static_cast<double>(k)));
    const auto expected = s->accuracy(s->head.to(at::kDouble), z.value + z.tangent);
    return (s->computed[k] - expected).abs().item<double>();
  };
  work.results = [s] {
    store::TensorFile file;
    file.tensors["accuracy"] = s->computed;
    return file;
  };
  return work;
}

}  // namespace

std::vector<Case> text_cases(const Fixture& x) {
  std::vector<Case> cases;
  for (const auto& shape : shapes) {
    const std::string name = shape.cases;
    cases.push_back({name + "forward", [&x, &shape] { return text_forward(x, shape); }});
    cases.push_back({name + "step", [&x, &shape] { return text_step(x, "standard", shape); }});
    if (name != "text/full_")
      cases.push_back({name + "step_linear", [&x, &shape] { return text_step(x, "linear", shape); }});
    cases.push_back({name + "lambda_max", [&x, &shape] { return text_lambda_max(x, shape); }});
    cases.push_back({name + "ntk", [&x, &shape] { return text_ntk(x, shape); }});
    if (name == "decoder/")
      cases.push_back({name + "sweep_linear_21", [&x, &shape] { return text_sweep(x, shape); }});
  }
  cases.push_back({"decoder/whole_forward", [&x] { return text_forward(x, whole_decoder); }, true});
  cases.push_back(
      {"decoder/cached_forward", [&x] { return text_forward(x, whole_decoder, frozen_layers); }, true});
  return cases;
}

}  // namespace taugrid::bench
