// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Second derivatives of a task's loss: of a fine-tuned model H itself, of a linearised one, whose output z is
// linear in θ, H = Jᵀ (∇²_z L) J exactly.
#pragma once

#include "kernels/autodiff/products.hpp"
#include "suite/study/study.hpp"

namespace taugrid::training {

/// Some points' part of task t's mean loss: the sum of their losses over `whole`, Readout::loss_items() of
/// all points.
struct PointsLoss {
  const models::Readout& readout;
  at::Tensor labels;  ///< as of Readout::loss()
  double whole;

  /// The loss of outputs z [n, width].
  at::Tensor operator()(const at::Tensor& z) const;
  /// ∇²_z L · dz, [n, width]; z is a leaf that requires a gradient.
  at::Tensor curved(const at::Tensor& z, const at::Tensor& dz) const;
};

/// v ↦ Hv of the loss over a batch at a state, in Study::free_blocks(), end to end. Its buffers are the
/// stored ones: samples do not mix. The study and the readout outlive it.
autodiff::HessianVectorProduct hessian(const study::Study& study, const models::State& state,
                                       const models::Batch& batch, const PointsLoss& loss);

}  // namespace taugrid::training
