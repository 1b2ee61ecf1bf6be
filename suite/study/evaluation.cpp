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
  const auto order = points.by_length(share.begin, share.count);
  for (std::int64_t i = 0; i < share.count; i += settings_.evaluation_batch) {
    const auto m = std::min(settings_.evaluation_batch, share.count - i);
    if (!order.defined()) {
      mine.narrow(0, i, m).copy_(f(points.part(share.begin + i, m).to(compute_type())));
      continue;
    }
    const auto which = order.narrow(0, i, m);
    const auto found = f(points.some(which).to(compute_type())).to(at::kFloat);
    mine.index_copy_(0, (which - share.begin).to(mine.device()), found);
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
