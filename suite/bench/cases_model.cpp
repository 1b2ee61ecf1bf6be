// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The model and its derivative products. Model flops: F is one forward pass over one input
// (models::Cost); every product of the pass appears again
//   in J(x)τ             twice more: x dWᵀ and dx Wᵀ                   3 F with the value
//   in a backward pass   twice: for the weight and for the input       3 F with the forward pass
//   in a linear step     value, tangent, backward                      5 F
// Bytes: θ and what comes and goes with it, once; activations are taken to stay in cache.
//
// Results are checked against the same model in float64: by differences where a derivative is tested.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <numeric>

#include "kernels/autodiff/products.hpp"
#include "kernels/autodiff/tape.hpp"
#include "kernels/full_products.hpp"
#include "kernels/tangent/ntk.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/bench/model_work.hpp"
#include "suite/bench/subject.hpp"
#include "suite/bench/training_step.hpp"
#include "suite/comm/host_products.hpp"
#include "suite/machine/peak_memory.hpp"
#include "suite/training/adamw.hpp"
#include "suite/training/loss.hpp"

namespace taugrid::bench {
namespace {

using autodiff::Dual;

using Of = std::shared_ptr<const Subject>;

double forward_flops(const Subject& x) { return models::Cost(*x.encoder).forward(); }  ///< of one image

Work forward(const Of& x) {
  const auto z = shared<at::Tensor>();
  const auto blocks = x->encoder->layout().views(x->start.theta);
  Work work;
  work.run = [x, z, blocks] {
    const at::NoGradGuard no_grad;
    *z = x->encoder->encode(blocks, models::pictures(x->pixels));
  };
  work.items = static_cast<double>(x->images());
  work.flops = work.items * forward_flops(*x);
  work.bytes = 4 * parameters(*x->encoder);
  work.unit = "images";
  work.last = [z] { return *z; };
  work.tolerance = 1e-5;
  work.error = [x, z] {
    const at::NoGradGuard no_grad;
    const auto exact = x->encoder->layout().views(x->start.theta.to(at::kDouble));
    return relative(*z, x->encoder->encode(exact, models::pictures(x->pixels.to(at::kDouble))));
  };
  return work;
}

Work jvp(const Of& x) {
  const auto dual = shared<Dual>();
  Work work;
  work.run = [x, dual] {
    *dual = autodiff::jvp(
        x->encoder->layout(),
        [&](const std::vector<Dual>& p) { return x->encoder->encode(p, models::pictures(x->pixels)); },
        x->start.theta, x->tau);
  };
  work.items = static_cast<double>(x->images());
  work.flops = 3 * work.items * forward_flops(*x);
  work.bytes = 8 * parameters(*x->encoder);
  work.unit = "images";
  work.last = [dual] { return dual->tangent; };
  work.tolerance = 1e-4;
  work.error = [x, dual] {
    const at::NoGradGuard no_grad;
    const double h = 1e-5;
    const auto theta = x->start.theta.to(at::kDouble), tau = x->tau.to(at::kDouble),
               pixels = x->pixels.to(at::kDouble);
    const auto f = [&](double a) {
      return x->encoder->encode(x->encoder->layout().views(theta + a * tau), models::pictures(pixels));
    };
    return relative(dual->tangent, (f(h) - f(-h)) / (2 * h));
  };
  return work;
}

/// The batch; for a τJp penalty also an eighth of it of one other task (cyclic), or of each of eight
/// (strict).
std::vector<training::Term> terms(const Subject& x, const study::Regime& regime, const models::Readout& head,
                                  at::ScalarType type) {
  const auto eighth = x.images() / 8;
  const auto share = [](std::int64_t images) { return 1.0 / static_cast<double>(images); };
  std::vector<training::Term> all = {
      {models::pictures(x.pixels.to(type)), x.labels, &head, share(x.images())}};
  const std::int64_t others = regime.penalty == study::Penalty::none     ? 0
                              : regime.penalty == study::Penalty::strict ? 8
                                                                         : 1;
  for (std::int64_t i = 0; i < others; ++i)
    all.push_back(
        {models::pictures(x.pixels.narrow(0, i * eighth, eighth).to(type)), {}, &head, 0.01 * share(eighth)});
  return all;
}

/// One step of update.cpp's on one batch. The results hold the most bytes of tensors alive in a step, with θ,
/// θ0 and the moments.
Work step(const Of& x, const char* regime_name) {
  struct State {
    std::unique_ptr<training::TrainingLoss> loss;
    std::unique_ptr<TrainingStep> step;
    std::int64_t held = 0;
  };
  const auto s = shared<State>();
  const auto& regime = study::regime(regime_name);
  const auto trained = study::trained_blocks(regime, x->encoder->layout());
  const auto in = terms(*x, regime, x->head, at::kFloat);
  {
    const machine::PeakMemory memory;
    // τ = 0 would be no test of a linear regime.
    const auto theta = regime.linear ? x->start.theta + 0.1 * x->tau : x->start.theta.clone();
    s->loss = std::make_unique<training::TrainingLoss>(*x->encoder, regime, x->start, trained);
    s->step = std::make_unique<TrainingStep>(
        theta, x->encoder->layout(), trained,
        [loss = s->loss.get(), in](const at::Tensor& point, at::Tensor& gradient) {
          return (*loss)(point, in, gradient).sum();
        });
    s->held = memory.bytes() + (regime.linear ? static_cast<std::int64_t>(x->start.theta.nbytes()) : 0);
  }
  double images = 0;
  for (const auto& term : in) images += static_cast<double>(term.batch.size());
  Work work;
  work.run = [x, s] { s->step->run(); };
  work.flops = images * training::step_flops_an_input(regime, trained, models::Cost(*x->encoder));
  work.bytes =
      4 * 9 * parameters(*x->encoder);  // θ twice, ∇L written and read twice, both moments, θ written
  work.items = static_cast<double>(x->images());
  work.unit = "images";
  work.tolerance = 1e-3;
  work.error = [x, &regime, s, trained] {
    const models::State start{x->start.theta.to(at::kDouble), {}};
    const training::TrainingLoss exact(*x->encoder, regime, start, trained);
    const auto head = in_double(x->head);
    const auto exactly = terms(*x, regime, head, at::kDouble);
    at::Tensor unused;
    return s->step->error([&](const at::Tensor& theta) { return exact(theta, exactly, unused).sum(); });
  };
  work.last = [s] { return at::tensor(s->step->losses(), at::kDouble); };
  work.results = [s, run = work.run, last = work.last] {
    store::TensorFile file;
    file.tensors["losses"] = last();
    s->step->forget_gradient();
    const machine::PeakMemory memory;
    run();
    file.tensors["peak_memory"] = at::full({1}, memory.bytes() + s->held, at::kLong);
    return file;
  };
  return work;
}

/// K of some logits. Flops: forward F a point; a logit: F back to the layers' outputs, and for each pair of
/// points and layer the inner products of its outputs' gradients, token by token.
Work ntk(const Of& x, std::int64_t logits_taken) {
  const auto gram = shared<at::Tensor>();
  const auto logits = [x](const std::vector<autodiff::Recorded>& p) {
    return x->head.logits(x->encoder->encode(p, models::pictures(x->pixels)));
  };
  std::vector<std::int64_t> which(static_cast<std::size_t>(logits_taken));
  std::iota(which.begin(), which.end(), 0);
  Work work;
  work.run = [x, gram, logits, which] {
    *gram = tangent::ntk_gram(x->encoder->layout(), logits, x->start.theta, which, {0, x->images()});
  };
  const double f = forward_flops(*x), n = static_cast<double>(x->images());
  const auto taken = static_cast<double>(logits_taken);
  work.flops = n * f + taken * (n * f + gram_flops(x->encoder->layout(), logits, x->start.theta));
  work.bytes = 4 * parameters(*x->encoder);
  work.items = n * n * taken;
  work.unit = "entries";
  work.tolerance = 1e-4;
  work.error = [x, gram, c = logits_taken / 3] {  // two entries from two whole gradients in float64
    const auto theta = x->start.theta.to(at::kDouble);
    const auto head = in_double(x->head);
    const auto gradient = [&](std::int64_t i) {
      const auto picture = x->pixels.narrow(0, i, 1).to(at::kDouble);
      return autodiff::gradient(
                 x->encoder->layout(),
                 [&](const Blocks& p) {
                   return head.logits(x->encoder->encode(p, models::pictures(picture)))[0][c];
                 },
                 theta)
          .gradient;
    };
    const auto other = x->images() / 2 + 1;
    const auto a = gradient(0), b = gradient(other);
    const double scale = a.dot(a).item<double>();
    return std::max(relative((*gram)[c][0][0].item<double>(), scale),
                    std::abs((*gram)[c][0][other].item<double>() - a.dot(b).item<double>()) / scale);
  };
  work.results = [gram] {
    store::TensorFile file;
    file.tensors["gram"] = *gram;
    return file;
  };
  return work;
}

/// The same with the factors of products rounded to bfloat16, which costs two to three digits.
Work with_rounded_factors(Work work) {
  work.run = [run = std::move(work.run)] {
    const WithHostProducts rounded(HostProducts::rounded);
    run();
  };
  work.results = {};
  work.bf16 = true;
  work.tolerance = 0.05;
  return work;
}

std::vector<Case> cases_of_bfloat16(const Fixture& x) {
  if (!comm::multiplies_bfloat16()) return {};
  const auto on_host = [](std::string name, std::function<Work()> prepare) {
    return Case{.name = std::move(name), .prepare = std::move(prepare), .on_host = true};
  };
  return {
      on_host("forward/bf16_products", [&x] { return with_rounded_factors(forward(subject_of(x))); }),
      on_host("step/bf16_products", [&x] { return with_rounded_factors(step(subject_of(x), "standard")); })};
}

}  // namespace

std::vector<Case> model_cases(const Fixture& x) {
  const auto step_of = [&x](const char* regime) {
    return [&x, regime] { return step(subject_of(x), regime); };
  };
  std::vector<Case> cases = {{"forward", [&x] { return forward(subject_of(x)); }},
                             {"jvp", [&x] { return jvp(subject_of(x)); }},
                             {"step/standard", step_of("standard")},
                             {"step/linear", step_of("linear")},
                             {"step/attention", step_of("attention")},
                             {"step/tau_jp", step_of("tau_jp")},
                             {"step/tau_jp_strict", step_of("tau_jp_strict")},
                             {"ntk", [&x] { return ntk(ntk_subject_of(x), classes); }}};
  for (auto& test : cases_of_bfloat16(x)) cases.push_back(std::move(test));
  // What a rank does in the papers' setting, where threads share the products of one model.
  cases.push_back({"clip_b32/forward", [&x] { return forward(clip_b32(x, 32)); }, true});
  cases.push_back({"clip_b32/step", [&x] { return step(clip_b32(x, 8), "standard"); }, true});
  cases.push_back({"clip_b32/ntk", [&x] { return ntk(clip_b32(x, 8), 2); }, true});
  return cases;
}

}  // namespace taugrid::bench
