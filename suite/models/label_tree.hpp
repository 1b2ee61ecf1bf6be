// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a decoder is given so that one pass scores every label's whole sequence of tokens: a tree, whose
// places are the beginnings that labels have, each once; or each row's own choices.
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

/// What a decoder is given to score each row's own choices: every choice has places of its own, one for each
/// of its tokens, and none sees another's.
struct ChoiceLine {
  at::Tensor decoder;  ///< int64 [n, places]: before the first token of a choice `start`, else the one before
  at::Tensor sees;     ///< bool [n, places, places]
  at::Tensor scored;   ///< as of Batch::scored
};

/// The line of rows of choices, tokens [n, choices, longest], of which the first lengths [n, choices] are
/// used and all but the first given [n, choices] of these are scored; start [n]. All int64.
ChoiceLine choice_line(const at::Tensor& tokens, const at::Tensor& lengths, const at::Tensor& given,
                       const at::Tensor& start);

/// What the decoder is given to say each of the targets int64 [n, longest], −100 behind each one's end: [n,
/// longest].
at::Tensor shifted_right(const at::Tensor& targets, std::int64_t start);

/// Which places of one sequence each sees: those before it, and itself; bool [places, places].
at::Tensor sees_before(std::int64_t places);

}  // namespace taugrid::models
