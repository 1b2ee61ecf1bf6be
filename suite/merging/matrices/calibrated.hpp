// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Singular value calibration (SVC) of what any method on vectors makes (Li et al. 2026, "When shared
// knowledge hurts: spectral over-accumulation in model merging", equations 4 to 8, and FusionBench): of each
// tensor with two dimensions
//
//   Δ = Σ_r σ_r u_r v_rᵀ becomes Σ_r γ_r σ_r u_r v_rᵀ,   γ_r = T / Σ_t max(c, s_rt),
//
//   s_rt = ⟨σ_r v_r, a_rt⟩ / ‖a_rt‖²,   a_rt = τ_tᵀ u_r: how many times Δ has what task t does along u_r.
//
// A direction in which tasks agree counts several times in a sum, and once after it. A task that does nothing
// along u_r has s = c. The τ_t are without weights, and λ comes afterwards; to calibrate λΔ and let it be is
// to calibrate Δ with c/λ, so that published values of c, which are of 0.3 Σ τ_t, say, are that much larger
// here.
#pragma once

#include <memory>

#include "suite/merging/vector_method.hpp"

namespace taugrid::merging {

/// Reads c, at least 0; 0: none.
double read_calibration(config::Section& parameters);

/// The method, whose merged vector is calibrated with c; itself where that is 0.
std::shared_ptr<const VectorMethod> calibrated(double least, std::shared_ptr<const VectorMethod> method);

/// Puts what a method has made of the vectors, τ [P], calibrated with c. Returns how many numbers are not
/// zero. A team's ranks make other tensors.
std::int64_t put_calibrated(const at::Tensor& tau, const TaskVectors& vectors, double least, const Sink& sink,
                            const Team& team);
/// What that takes: passes over the vectors, flops, and memory beside the vectors and τ.
MergeWork work_of_calibration(const std::vector<NamedTensor>& tensors, std::size_t count);

}  // namespace taugrid::merging
