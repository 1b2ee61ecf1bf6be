// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Names under which others have stored the same tensors, and what may stand beside them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "kernels/autodiff/layout.hpp"
#include "suite/store/tensor_folder.hpp"

namespace taugrid::models {

/// The name that transformers has today for a tensor of an old checkpoint: LayerNorm.gamma and .beta, as
/// bert-base-uncased has them, are LayerNorm.weight and .bias.
std::string current_name(const std::string& name);

/// The tensor that this one doubles where a model's words and head are tied: a parameter of the layout, where
/// one of the architectures that have this name has it there; empty where there is none. Some programs store
/// both, some one, and some the other.
std::string_view doubled_name(const std::string& name, const autodiff::Layout& layout);

/// Whether the numbers are 0, 1, 2, …, as position ids are.
bool counts_up(const at::Tensor& tensor);

/// Gives the tensors the names of the layout: old names become today's, a prefix of the encoder is added or
/// left out where the layout has it otherwise, and a tied tensor stands for the one that it doubles, where
/// that is not there.
void rename_as_in(store::TensorFolder& weights, const autodiff::Layout& layout);

}  // namespace taugrid::models
