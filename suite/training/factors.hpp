// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a regime of low rank trains: the factors B and A of each adapted matrix W = W0 + s·B·A (Hu et al.
// 2021, "LoRA", eq. 3). W's gradient G is all that they need of the model: ∇A = s·Bᵀ·G and ∇B = s·G·Aᵀ.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/autodiff/layout.hpp"
#include "suite/store/safetensors.hpp"
#include "suite/study/low_rank.hpp"

namespace taugrid::training {

class Factors {
 public:
  /// The factors of θ0 [P] = `start`: A drawn uniformly from ±1/√in by `seed`, and B = 0, as PEFT begins.
  /// `trained`: a flag a block (empty: all).
  Factors(const study::LowRank& low_rank, const autodiff::Layout& layout, const std::vector<bool>& trained,
          const at::Tensor& start, std::uint64_t seed);

  /// A and B of each matrix in turn, end to end, and how they lie there.
  const at::Tensor& values() const { return values_; }
  const autodiff::Layout& layout() const { return factors_; }
  /// Their gradient, end to end, given that of the trained blocks.
  at::Tensor gradient(const at::Tensor& of_trained_blocks) const;
  /// Writes W0 + s·B·A to θ [P].
  void move(at::Tensor& theta) const;

  void save(store::TensorFile& file) const;
  /// Writes the folder of an adapter, which PEFT loads beside the model at `base`.
  void write_adapter(const std::filesystem::path& folder, const std::string& base) const;

 private:
  study::LowRank low_rank_;
  std::vector<study::AdaptedMatrix> matrices_;
  at::Tensor start_;
  autodiff::Layout factors_;
  at::Tensor values_;
  std::vector<at::Tensor> views_;  // A and B of each matrix in turn
};

}  // namespace taugrid::training
