// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What shows on a GPU alone: the non-linear grid of a model as large as the papers', in bfloat16 and float32,
// and the sum over ranks by NCCL.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include "kernels/metrics/metrics.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/bench/subject.hpp"
#include "suite/machine/peak_memory.hpp"

namespace taugrid::bench {
namespace {

constexpr std::int64_t cells = 4;

/// Cells of the disentanglement grid of one pair on CLIP ViT-B/32 (Hugging Face's default shape): combine,
/// cast, f(x;θ), compare predictions.
Work grid_b32(const Fixture& x, at::ScalarType type) {
  const auto device = x.runtime().device();
  const std::int64_t images = device.is_cuda() ? 256 : 2;  // 2: of a rehearsal
  struct State {
    std::shared_ptr<const Subject> subject;
    at::Tensor models, alpha, pixels, alone, features, errors;
    std::vector<at::Tensor> tau;
    std::int64_t bytes = 0;
  };
  const auto s = std::make_shared<State>();
  s->subject = clip_b32(x, images);
  const auto& theta0 = s->subject->start.theta;
  for (int t = 0; t < 2; ++t) s->tau.push_back(at::randn_like(theta0).mul_(0.002));
  s->alpha = at::linspace(0.2, 1, 2 * cells, at::kDouble).view({cells, 2});
  s->models = at::empty({cells, theta0.numel()}, theta0.options());
  s->pixels = s->subject->pixels.to(type);
  const auto encode = [s, type](const at::Tensor& theta) {
    const auto& encoder = *s->subject->encoder;
    return encoder.encode(encoder.layout().views(theta.to(type)), models::pictures(s->pixels)).to(at::kFloat);
  };
  {
    const at::NoGradGuard no_grad;
    s->alone = metrics::predictions(s->subject->head.logits(encode(theta0 + s->tau[0])));
  }
  Work work;
  work.run = [s, encode] {
    const at::NoGradGuard no_grad;
    const machine::PeakMemory memory;
    weights::combine(s->subject->start.theta, s->tau, s->alpha, s->models);
    std::vector<at::Tensor> errors;
    for (std::int64_t k = 0; k < cells; ++k) {
      s->features = encode(s->models[k]);
      errors.push_back(
          metrics::disagreements(s->alone, metrics::predictions(s->subject->head.logits(s->features))));
    }
    s->errors = at::stack(errors);
    s->bytes = memory.bytes();
  };
  work.flops = static_cast<double>(cells * images) * models::Cost(*s->subject->encoder).forward();
  work.bytes = 4.0 * static_cast<double>((3 + 2 * cells) * theta0.numel());
  work.items = cells;
  work.unit = "cells";
  work.bf16 = type == at::kBFloat16;
  work.tolerance = work.bf16 ? 0.05 : 1e-4;
  work.error = [s, images] {  // of the last cell's features, against double
    const at::NoGradGuard no_grad;
    fmt::print("# {} images a cell; {:.2f} GB alive at once in a run\n", images,
               static_cast<double>(s->bytes) / 1e9);
    const auto some = s->pixels.narrow(0, 0, 2).to(at::kDouble);
    const auto& encoder = *s->subject->encoder;
    const auto exact =
        encoder.encode(encoder.layout().views(s->models[cells - 1].to(at::kDouble)), models::pictures(some));
    return ((s->features.narrow(0, 0, 2) - exact).norm() / exact.norm()).item<double>();
  };
  return work;
}

/// Sum of a gradient of CLIP ViT-B/32 over one rank. NCCL moves nothing then: what a call costs at least.
Work all_reduce(const Fixture& x) {
  const auto tensor = std::make_shared<at::Tensor>(
      at::ones({87'456'000}, at::TensorOptions(at::kFloat).device(x.runtime().device())));
  Work work;
  work.run = [tensor, &x] { x.runtime().world().all_reduce_sum(*tensor, "the bench's all-reduce"); };
  work.items = 1;
  work.unit = "calls";
  work.tolerance = 0;
  work.error = [tensor] { return (*tensor - 1).abs().max().item<double>(); };
  return work;
}

}  // namespace

std::vector<Case> device_cases(const Fixture& x) {
  if (x.runtime().device().is_cpu()) return {};
  return {{"gpu/nonlinear_grid_b32_bf16", [&x] { return grid_b32(x, at::kBFloat16); }},
          {"gpu/nonlinear_grid_b32", [&x] { return grid_b32(x, at::kFloat); }},
          {"gpu/all_reduce", [&x] { return all_reduce(x); }}};
}

}  // namespace taugrid::bench
