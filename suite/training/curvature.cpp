// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/training/curvature.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace taugrid::training {

at::Tensor PointsLoss::operator()(const at::Tensor& z) const {
  return readout.loss(readout.logits(z), labels) / whole;
}

at::Tensor PointsLoss::curved(const at::Tensor& z, const at::Tensor& dz) const {
  const auto slope = torch::autograd::grad({(*this)(z)}, {z}, {}, true, true)[0];
  return torch::autograd::grad({slope}, {z}, {dz})[0];
}

autodiff::HessianVectorProduct hessian(const study::Study& study, const models::State& state,
                                       const models::Batch& batch, const PointsLoss& loss) {
  const auto& encoder = study.model.encoder();
  const models::Given x{batch, study.model.buffers(state, at::kFloat)};
  return {study.model.layout(),
          [&](const models::Blocks<at::Tensor>& blocks) {
            return loss(loss.readout.output(encoder, blocks, encoder.encode(blocks, x), batch));
          },
          state.theta, study.free_blocks()};
}

}  // namespace taugrid::training
