// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a model takes, whatever its kind.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace taugrid::models {

/// n samples: pictures; or token ids, each sequence padded to the longest of the batch; or what the model's
/// first stages made of either. A sample's result never depends on what it is padded with, and within
/// rounding alone on how much.
struct Batch {
  at::Tensor inputs;   ///< float32 [n, channels, h, w], normalised; or int64 [n, tokens]
  at::Tensor lengths;  ///< of sequences: tokens in use, int64 [n], on the host; undefined for pictures
  /// Output of the stages before `from`, [n, …], where those have run already (from > 0); `inputs` is
  /// undefined then.
  at::Tensor hidden;
  int from = 0;
  at::Tensor types = {};  ///< of `inputs` that hold pairs of texts: int64 [n, tokens], 0 first, 1 second text
  at::Tensor mask = {};   ///< of prompts: which token of each is the mask, int64 [n]
  /// What a decoder answers by: the tokens that it is given, int64 [n, places], and which places
  /// each of them sees, itself among them, bool [n, places, places]: of one sequence those before it, of
  /// several with shared beginnings those on the way to it. Undefined: the decoder's start alone.
  at::Tensor decoder = {}, sees = {};
  /// Where rows have choices of their own, for which token of which choice each place of the decoder is read,
  /// int64 [n, places, 2]; −1: for none.
  at::Tensor scored = {};
  /// How many of the decoder's places are each row's own, the first ones, int64 [n], on the host; undefined:
  /// all.
  at::Tensor places = {};
  std::int64_t before_text = 0;  ///< of `hidden`: how many tokens stand before each sequence's own

  /// The tensors that it may have beside held() and the lengths, on its device: undefined where it has none.
  std::array<at::Tensor*, 5> further() { return {&types, &mask, &decoder, &sees, &scored}; }

  std::int64_t size() const { return held().size(0); }
  bool text() const { return lengths.defined(); }
  /// inputs, or hidden: whatever the next stage reads.
  const at::Tensor& held() const { return from > 0 ? hidden : inputs; }

  std::int64_t decoded() const { return decoder.defined() ? decoder.size(1) : 1; }  ///< places of the decoder
  /// Places before each text's tokens, where the model answers in line.
  std::int64_t in_line() const { return decoder.defined() ? decoder.size(1) : 0; }

  /// How many tokens a sequence has room for, of a batch of texts.
  std::int64_t tokens() const { return held().size(1) - before_text; }

  /// Samples begin … begin + count, sequences and the decoder's places cut to the longest of these.
  Batch narrow(std::int64_t begin, std::int64_t count) const;
  /// Samples of these numbers, int64 on the host, cut likewise.
  Batch select(const at::Tensor& which) const;
  /// Floating-point inputs in numbers of `type`.
  Batch to(at::ScalarType type) const;
};

/// A batch of pictures, float32 [n, channels, h, w], normalised.
inline Batch pictures(at::Tensor pixels) { return {std::move(pixels), {}, {}}; }

/// All samples in one batch, sequences padded with token 0. One kind of batch, not none.
Batch joined(const std::vector<Batch>& batches);

/// Which tokens are in use, bool [n, tokens], on the host.
at::Tensor tokens_in_use(const Batch& batch);

/// What the attention of a padded batch needs: 0 for tokens in use and −∞ for the others, [n, tokens];
/// undefined where no sequence is padded.
at::Tensor attention_mask(const Batch& batch, const at::TensorOptions& options);

/// 1/length for tokens in use and 0 for the others, [n, tokens]: the mean over a sequence is a sum with
/// these.
at::Tensor mean_weights(const Batch& batch, const at::TensorOptions& options);

}  // namespace taugrid::models
