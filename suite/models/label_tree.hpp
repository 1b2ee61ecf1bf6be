// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a decoder is given so that one pass scores every label's whole sequence of tokens: a tree, whose
// places are the beginnings that labels have, each once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/autodiff/ops.hpp"
#include "suite/models/readout.hpp"

namespace taugrid::models {

struct LabelTree {
  at::Tensor decoder;     ///< int64 [places]: the token that each beginning ends with, first `start`
  at::Tensor sees;        ///< bool [places, places]: a place sees those on the way to it, and itself
  autodiff::Paths paths;  ///< which logits at which place each label is scored by
  std::vector<std::int64_t> lengths;  ///< tokens of each label
};

/// The tree of labels [classes, longest], int64, of which the first lengths [classes], at least 1, are used.
LabelTree label_tree(const at::Tensor& labels, const at::Tensor& lengths, std::int64_t start);

/// What the decoder is given to say each of the targets int64 [n, longest], −100 behind each one's end: [n,
/// longest].
at::Tensor shifted_right(const at::Tensor& targets, std::int64_t start);

/// Which places of one sequence each sees: those before it, and itself; bool [places, places].
at::Tensor sees_before(std::int64_t places);

}  // namespace taugrid::models
