// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What decoder-only models see: each token itself and those before it, and places of answers
// (Batch::decoder) that stand before the text in memory, [n, places + tokens, d], and behind it by their
// positions: the first place is the text's last token once more, the others go on from it, each along its own
// beginning of an answer. Masks hold 0 where a query sees a key and −∞ where it does not.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/autodiff/ops.hpp"
#include "suite/models/batch.hpp"

namespace taugrid::models {

/// The place of each text's last token, int64 [n], where the batch is.
at::Tensor last_places(const Batch& batch);

/// [n, tokens, d] → of each text the token at its place, [n, 1, d]
template <class T>
T one_token(const T& h, const at::Tensor& places) {
  return autodiff::as_tokens(autodiff::token_at(h, places));
}

/// What is read of a line [n, places + tokens, d]: the answers' places [n, places, d], or without answers the
/// text's last token [n, d].
template <class T>
T read_of_line(const T& h, const Batch& batch) {
  const auto places = batch.in_line();
  return places > 0 ? autodiff::some_tokens(h, 0, places) : autodiff::token_at(h, last_places(batch));
}

/// Answers' tokens and the text's, int64 [n, places + tokens].
at::Tensor line_of(const Batch& batch);

/// How the line lies without its padding, from how the texts do.
autodiff::Packing with_places(autodiff::Packing packing, std::int64_t places);

/// Where each token of the line stands in the text and the answer behind it, int64 [n, places + tokens].
at::Tensor positions_of(const Batch& batch);

/// The positions of all rows, or of those that packing leaves; undefined of undefined ones.
at::Tensor by_rows(const at::Tensor& positions, const autodiff::Packing& packing);

/// [n, places + tokens, places + tokens], or of the places alone as queries, [n, places, places + tokens].
/// A place sees those on the way to it, and the text before its last token. `window`: how many tokens one
/// sees, itself among them; 0: all before.
at::Tensor mask_of_answers(const Batch& batch, const at::Tensor& positions, std::int64_t window,
                           bool of_places, const at::TensorOptions& options);

/// [tokens, tokens], without answers.
at::Tensor mask_of_all(std::int64_t tokens, std::int64_t window, const at::TensorOptions& options);

/// [n, 1, tokens], the query being each text's last token.
at::Tensor mask_of_last(const Batch& batch, std::int64_t window, const at::TensorOptions& options);

}  // namespace taugrid::models
