// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The model and its derivative products. Model flops: F is one forward pass over one input
// (models::Cost); every product of the pass appears again
//   in J(x)τ             twice more: x dWᵀ and dx Wᵀ                   3 F with the value
//   in a backward pass   twice: for the weight and for the input       3 F with the forward pass
//   in a linear step     value, tangent, backward                      5 F
//   in H v               for each of three products both factors       6 F once the graph of ∇L (3 F) is
//   there
// Bytes: θ and what comes and goes with it, once; activations are taken to stay in cache.
//
// Results are checked against the same model in float64: by differences where a derivative is tested.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include "kernels/autodiff/products.hpp"
#include "kernels/autodiff/tape.hpp"
#include "kernels/spectral/spectral.hpp"
#include "kernels/tangent/ntk.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/study/memory.hpp"
#include "suite/training/adamw.hpp"
#include "suite/training/loss.hpp"

namespace taugrid::bench {
namespace {

using autodiff::Dual;
using Blocks = std::vector<at::Tensor>;

double relative(const at::Tensor& found, const at::Tensor& expected) {
  const auto e = expected.to(at::kDouble);
  return ((found.to(at::kDouble) - e).norm() / e.norm()).item<double>();
}
double relative(double found, double expected) { return std::abs(found - expected) / std::abs(expected); }

at::Tensor random_direction(const at::Tensor& theta, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  auto v = at::randn(theta.sizes(), generator, at::TensorOptions(at::kDouble));
  return v.div_(v.norm()).to(theta.device());
}

/// Lets a case's closures share what a run leaves behind.
template <class T>
std::shared_ptr<T> shared(T value = {}) {
  return std::make_shared<T>(std::move(value));
}

double parameters(const models::Encoder& encoder) { return static_cast<double>(encoder.layout().size()); }

models::Readout in_double(const models::Readout& head) { return head.to(at::kDouble); }

/// The training loss of the standard regime, as smoothness.cpp binds it for its Hessian.
autodiff::Function<at::Tensor> mean_loss(const models::Encoder& encoder, const models::Readout& head,
                                         const at::Tensor& pixels, const at::Tensor& labels) {
  return [&encoder, head, pixels, labels](const Blocks& p) {
    return at::cross_entropy_loss(head.logits(encoder.encode(p, models::pictures(pixels))), labels);
  };
}

Work forward(const Fixture& x) {
  const auto z = shared<at::Tensor>();
  const auto blocks = x.encoder().layout().views(x.theta0());
  Work work;
  work.run = [&x, z, blocks] {
    const at::NoGradGuard no_grad;
    *z = x.encoder().encode(blocks, models::pictures(x.pixels()));
  };
  work.flops = batch * x.forward_flops();
  work.bytes = 4 * parameters(x.encoder());
  work.items = batch;
  work.unit = "images";
  work.tolerance = 1e-5;
  work.error = [&x, z] {
    const at::NoGradGuard no_grad;
    const auto exact = x.encoder().layout().views(x.theta0().to(at::kDouble));
    return relative(*z, x.encoder().encode(exact, models::pictures(x.pixels().to(at::kDouble))));
  };
  return work;
}

Work jvp(const Fixture& x) {
  const auto found = shared<Dual>();
  Work work;
  work.run = [&x, found] {
    *found = autodiff::jvp(
        x.encoder().layout(),
        [&](const std::vector<Dual>& p) { return x.encoder().encode(p, models::pictures(x.pixels())); },
        x.theta0(), x.tau(0));
  };
  work.flops = 3 * batch * x.forward_flops();
  work.bytes = 8 * parameters(x.encoder());
  work.items = batch;
  work.unit = "images";
  work.tolerance = 1e-4;
  work.error = [&x, found] {
    const at::NoGradGuard no_grad;
    const double h = 1e-5;
    const auto theta = x.theta0().to(at::kDouble), tau = x.tau(0).to(at::kDouble),
               pixels = x.pixels().to(at::kDouble);
    const auto f = [&](double a) {
      return x.encoder().encode(x.encoder().layout().views(theta + a * tau), models::pictures(pixels));
    };
    return relative(found->tangent, (f(h) - f(-h)) / (2 * h));
  };
  return work;
}

/// The batch; for a τJp penalty also an eighth of it of one other task (cyclic), or of each of eight
/// (strict).
std::vector<training::Term> terms(const Fixture& x, const study::Regime& regime, const models::Readout& head,
                                  at::ScalarType type) {
  constexpr std::int64_t eighth = batch / 8;
  std::vector<training::Term> all = {{models::pictures(x.pixels().to(type)), x.labels(), &head, 1.0 / batch}};
  const std::int64_t others = regime.penalty == study::Penalty::none     ? 0
                              : regime.penalty == study::Penalty::strict ? 8
                                                                         : 1;
  for (std::int64_t i = 0; i < others; ++i)
    all.push_back(
        {models::pictures(x.pixels().narrow(0, i * eighth, eighth).to(type)), {}, &head, 0.01 / eighth});
  return all;
}

/// One step of update.cpp's on one batch: loss and gradient, clipping, AdamW. The results hold the most
/// bytes of tensors alive in a step, with θ, θ0 and the moments.
Work step(const Fixture& x, const char* regime_name) {
  struct State {
    at::Tensor theta, gradient;
    std::vector<double> losses;
    std::unique_ptr<training::TrainingLoss> loss;
    std::unique_ptr<training::AdamW> adamw;
    std::int64_t held = 0;
  };
  const auto s = shared<State>();
  const auto& regime = study::regime(regime_name);
  {
    const study::PeakMemory memory;
    s->theta = regime.linear ? x.theta0() + 0.1 * x.tau(0) : x.theta0().clone();  // τ = 0 would be no test
    s->loss = std::make_unique<training::TrainingLoss>(x.encoder(), regime, x.start(),
                                                       study::trained_blocks(regime, x.encoder().layout()));
    training::AdamWSettings settings;
    settings.weight_decay = weight_decay;
    const auto trained = study::trained_blocks(regime, x.encoder().layout());
    s->adamw = std::make_unique<training::AdamW>(s->theta, x.encoder().layout(), trained, settings);
    s->held = memory.bytes() + (regime.linear ? static_cast<std::int64_t>(x.theta0().nbytes()) : 0);
  }
  const auto in = terms(x, regime, x.head(), at::kFloat);
  double images = 0;
  for (const auto& term : in) images += static_cast<double>(term.batch.size());
  Work work;
  work.run = [s, in] {
    const auto value = (*s->loss)(s->theta, in, s->gradient);
    s->losses.push_back(value.sum());
    training::clip_norm(s->gradient, clip);
    s->adamw->step(s->gradient, learning_rate);
  };
  work.flops =
      images * training::step_flops_an_input(regime, study::trained_blocks(regime, x.encoder().layout()),
                                             models::Cost(x.encoder()));
  work.bytes =
      4 * 9 * parameters(x.encoder());  // θ twice, ∇L written and read twice, both moments, θ written
  work.items = batch;
  work.unit = "images";
  work.tolerance = 1e-3;
  work.error = [&x, &regime, s, in] {  // the directional derivative along the gradient is its length
    const auto& layout = x.encoder().layout();
    const auto theta = s->theta.to(at::kDouble);
    const models::State start{x.theta0().to(at::kDouble), {}};
    const training::TrainingLoss exact(x.encoder(), regime, start, study::trained_blocks(regime, layout));
    const auto head = in_double(x.head());
    const auto exactly = terms(x, regime, head, at::kDouble);
    at::Tensor gradient, unused;
    (*s->loss)(s->theta, in, gradient);
    // From the trained blocks to the whole of θ.
    const auto trained = study::trained_blocks(regime, layout);
    auto u = at::zeros_like(theta);
    std::int64_t from = 0;
    for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
      if (!trained.empty() && !trained[i]) continue;
      const auto& b = layout.blocks()[i];
      u.narrow(0, b.offset, b.count).copy_(gradient.narrow(0, from, b.count));
      from += b.count;
    }
    u /= u.norm();
    const double h = 1e-4;
    const auto at = [&](double a) { return exact(theta + a * u, exactly, unused).sum(); };
    const double slope = (at(h) - at(-h)) / (2 * h);
    const bool falls = s->losses.back() < s->losses.front();
    return falls ? relative(gradient.to(at::kDouble).norm().item<double>(), slope) : 1.0;
  };
  work.results = [s, run = work.run] {
    store::TensorFile file;
    file.tensors["losses"] = at::tensor(s->losses, at::kDouble);
    s->gradient = at::Tensor();
    const study::PeakMemory memory;
    run();
    file.tensors["peak_memory"] = at::full({1}, memory.bytes() + s->held, at::kLong);
    return file;
  };
  return work;
}

double hvp_error(const Fixture& x, const at::Tensor& v, const at::Tensor& product) {
  const auto pixels = x.pixels().narrow(0, 0, hessian_points).to(at::kDouble);
  const auto loss =
      mean_loss(x.encoder(), in_double(x.head()), pixels, x.labels().narrow(0, 0, hessian_points));
  const auto theta = x.theta0().to(at::kDouble);
  const double h = 1e-5;
  const auto slope = [&](double a) {
    return autodiff::gradient(x.encoder().layout(), loss, theta + a * v.to(at::kDouble)).gradient;
  };
  return relative(product, (slope(h) - slope(-h)) / (2 * h));
}

Work hvp(const Fixture& x, bool first) {
  struct State {
    at::Tensor v, product;
    std::unique_ptr<autodiff::HessianVectorProduct> hessian;
  };
  const auto s = shared<State>();
  s->v = random_direction(x.theta0(), 21).to(at::kFloat);
  Work work;
  work.run = [&x, s, first] {
    if (first || !s->hessian) {
      const auto pixels = x.pixels().narrow(0, 0, hessian_points);
      s->hessian = std::make_unique<autodiff::HessianVectorProduct>(
          x.encoder().layout(),
          mean_loss(x.encoder(), x.head(), pixels, x.labels().narrow(0, 0, hessian_points)), x.theta0());
    }
    s->product = (*s->hessian)(s->v);
  };
  work.flops = (first ? 9.0 : 6.0) * hessian_points * x.forward_flops();
  work.bytes = 4 * 3 * parameters(x.encoder());
  work.items = 1;
  work.unit = "products";
  work.tolerance = 1e-3;
  work.error = [&x, s] { return hvp_error(x, s->v, s->product); };
  work.results = [&x, s] {
    const auto& layout = x.encoder().layout();
    const auto v = layout.parameter_views(s->v), product = layout.parameter_views(s->product);
    store::TensorFile file;
    for (std::size_t i = 0; i < v.size(); ++i) {
      file.tensors["v/" + layout.parameters()[i].name] = v[i];
      file.tensors["product/" + layout.parameters()[i].name] = product[i];
    }
    return file;
  };
  return work;
}

/// λ_max of the training loss at θ0, with all that it takes from nothing: graph, products, vectors. A Ritz
/// value's error goes with the square of its residual: 1e-2 leaves λ right to 1e-3 and better.
Work lambda_max(const Fixture& x, bool lanczos) {
  const auto found = shared<spectral::EigenResult>();
  Work work;
  const auto pixels = x.pixels().narrow(0, 0, hessian_points);
  const auto labels = x.labels().narrow(0, 0, hessian_points);
  const auto loss = mean_loss(x.encoder(), x.head(), pixels, labels);
  spectral::EigenOptions options;
  options.tolerance = lanczos ? 1e-2 : 1e-3;
  options.max_products = 100;
  options.seed = 5;
  work.run = [&x, found, loss, options, lanczos] {
    const autodiff::HessianVectorProduct hessian(x.encoder().layout(), loss, x.theta0());
    const spectral::LinearOperator apply = [&](const at::Tensor& v) { return hessian(v); };
    *found = lanczos ? spectral::lanczos(apply, x.theta0(), options)
                     : spectral::power_iteration(apply, x.theta0(), options);
  };
  work.run();  // the flops depend on how many products it takes, the same in every run
  const auto products = static_cast<double>(found->products);
  work.flops = (3 + 6 * products) * hessian_points * x.forward_flops();
  work.bytes = 4 * 3 * products * parameters(x.encoder());
  work.items = products;
  work.unit = "products";
  work.tolerance = lanczos ? 2e-2 : 0.2;  // power iteration may end at its limit of products
  work.error = [&x, found, loss] {        // ‖Hv − λv‖/|λ| anew
    const autodiff::HessianVectorProduct hessian(x.encoder().layout(), loss, x.theta0());
    return weights::norm(hessian(found->vector) - found->value * found->vector) / std::abs(found->value);
  };
  work.results = [found] {
    store::TensorFile file;
    file.tensors["lambda_max"] = at::full({1}, found->value, at::kDouble);
    file.tensors["residual"] = at::full({1}, found->residual, at::kDouble);
    file.tensors["products"] = at::full({1}, found->products, at::kLong);
    return file;
  };
  return work;
}

/// K of every logit. Flops: forward F a point; a logit: F back to the layers' outputs, and for each pair of
/// points and layer the inner products of its outputs' gradients, token by token.
Work ntk(const Fixture& x) {
  const auto gram = shared<at::Tensor>();
  const auto pixels = x.pixels().narrow(0, 0, ntk_points);
  const auto logits = [&x, pixels](const std::vector<autodiff::Recorded>& p) {
    return x.head().logits(x.ntk_encoder().encode(p, models::pictures(pixels)));
  };
  std::vector<std::int64_t> which(classes);
  for (std::int64_t c = 0; c < classes; ++c) which[static_cast<std::size_t>(c)] = c;
  Work work;
  work.run = [&x, gram, logits, which] {
    *gram = tangent::ntk_gram(x.ntk_encoder().layout(), logits, x.ntk_theta(), which, {0, ntk_points});
  };
  const double f = x.ntk_forward_flops(), n = ntk_points;
  autodiff::Recording recording;
  autodiff::record(x.ntk_encoder().layout(), logits, x.ntk_theta(), recording);
  double products = 0;
  for (const auto& use : recording.tape.uses) {
    if (use.form != autodiff::Use::Form::product) continue;
    const auto& y = recording.tape.outputs[use.output];  // [n, tokens, out] or [n, out]
    const auto tokens = y.dim() == 3 ? y.size(1) : 1;
    products += static_cast<double>(tokens * tokens * y.size(-1));
  }
  work.flops = n * f + classes * (n * f + n * (n + 1) * products);
  work.bytes = 4 * parameters(x.ntk_encoder());
  work.items = n * n * classes;
  work.unit = "entries";
  work.tolerance = 1e-4;
  work.error = [&x, gram, pixels] {  // two entries from two whole gradients in float64
    const auto theta = x.ntk_theta().to(at::kDouble);
    const auto head = in_double(x.head());
    const auto gradient = [&](std::int64_t i, std::int64_t c) {
      const auto one = pixels.narrow(0, i, 1).to(at::kDouble);
      return autodiff::gradient(
                 x.ntk_encoder().layout(),
                 [&](const Blocks& p) {
                   return head.logits(x.ntk_encoder().encode(p, models::pictures(one)))[0][c];
                 },
                 theta)
          .gradient;
    };
    const auto a = gradient(0, 3), b = gradient(17, 3);
    const double scale = a.dot(a).item<double>();
    return std::max(relative((*gram)[3][0][0].item<double>(), scale),
                    std::abs((*gram)[3][0][17].item<double>() - a.dot(b).item<double>()) / scale);
  };
  work.results = [gram] {
    store::TensorFile file;
    file.tensors["gram"] = *gram;
    return file;
  };
  return work;
}

}  // namespace

std::vector<Case> model_cases(const Fixture& x) {
  return {{"forward", [&x] { return forward(x); }},
          {"jvp", [&x] { return jvp(x); }},
          {"step/standard", [&x] { return step(x, "standard"); }},
          {"step/linear", [&x] { return step(x, "linear"); }},
          {"step/attention", [&x] { return step(x, "attention"); }},
          {"step/tau_jp", [&x] { return step(x, "tau_jp"); }},
          {"step/tau_jp_strict", [&x] { return step(x, "tau_jp_strict"); }},
          {"hvp/first", [&x] { return hvp(x, true); }},
          {"hvp/further", [&x] { return hvp(x, false); }},
          {"lambda_max/lanczos", [&x] { return lambda_max(x, true); }},
          {"lambda_max/power", [&x] { return lambda_max(x, false); }},
          {"ntk", [&x] { return ntk(x); }}};
}

}  // namespace taugrid::bench
