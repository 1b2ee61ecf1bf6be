// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/evaluation.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/autodiff/products.hpp"

namespace taugrid::study {

template <class F>
at::Tensor Evaluation::by_shards(const comm::Communicator& group, std::int64_t width, const Points& points,
                                 const char* what, F&& f) const {
  const at::NoGradGuard no_grad;
  const auto n = points.size();
  const auto share = group.share_of(n);
  // As many rows on each rank.
  auto mine = at::zeros({comm::rows_a_rank(n, group.size()), width}, at::TensorOptions(at::kFloat).device(model_.device()));
  for (auto i = share.begin; i < share.end(); i += settings_.evaluation_batch) {
    const auto m = std::min(settings_.evaluation_batch, share.end() - i);
    mine.narrow(0, i - share.begin, m).copy_(f(points.part(i, m).to(compute_type())));
  }
  if (group.size() == 1) return mine;
  return group.all_gather(mine, what).narrow(0, 0, n).clone();
}

at::Tensor Evaluation::output(const comm::Communicator& group, const models::State& state, std::size_t t,
                              const Points& points) const {
  const auto& encoder = model_.encoder();
  const auto& readout = tasks_.readout(t);
  const auto blocks = model_.layout().views(state.theta.to(compute_type()));
  const auto buffers = model_.buffers(state, compute_type());
  return by_shards(group, readout.width(encoder), points, "gathering outputs", [&](const models::Batch& x) {
    return readout.output(encoder, blocks, encoder.encode(blocks, {x, buffers}));
  });
}

at::Tensor Evaluation::tangent(const comm::Communicator& group, const at::Tensor& tau, std::size_t t,
                               const Points& points) const {
  const auto& encoder = model_.encoder();
  const auto& readout = tasks_.readout(t);
  const auto start = model_.theta0().to(compute_type()), direction = tau.to(compute_type());
  const auto buffers = model_.buffers(model_.start(), compute_type());
  return by_shards(group, readout.width(encoder), points, "gathering tangents", [&](const models::Batch& x) {
    return autodiff::jvp(
               model_.layout(),
               [&](const models::Blocks<autodiff::Dual>& p) {
                 return readout.output(encoder, p, encoder.encode(p, {x, buffers}));
               },
               start, direction)
        .tangent;
  });
}

}  // namespace taugrid::study
