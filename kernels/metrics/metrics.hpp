// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What is measured on a model's outputs. Batches give sums, not means, so that batches and shards add up; the
// arithmetic is double whatever the outputs' dtype, since the grids compare nearly equal models.
//
// N examples, C classes. Logits: floating point, on any device; labels and predictions:
// integers, on the same. Results stay on that device, so that the host need not wait for each; counts are
// int64 [], sums and shares float64 []. All throw std::invalid_argument for shapes or dtypes other than those
// given. No gradient is recorded.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace taugrid::metrics {

/// argmax over classes: logits [N,C] → int64 [N], C ≥ 1. Among equal logits any one may be chosen.
at::Tensor predictions(const at::Tensor& logits);

/// Which of N examples are classified rightly: bool [N]. logits [N,C], labels [N].
at::Tensor correctness(const at::Tensor& logits, const at::Tensor& labels);

/// Eight truths a byte, as numpy.packbits does along the last axis: bool […,N] → uint8 […,⌈N/8⌉], the first
/// in the highest bit, the last byte filled up with zeros.
at::Tensor packed_bits(const at::Tensor& truths);

/// How many of N examples are classified rightly. logits [N,C], labels [N].
at::Tensor correct(const at::Tensor& logits, const at::Tensor& labels);

/// The share of N examples, N > 0, that are classified rightly. logits [N,C], labels [N].
at::Tensor accuracy(const at::Tensor& logits, const at::Tensor& labels);

/// The share of N labels, N > 0, that the most frequent of them is: the accuracy of the best constant answer.
at::Tensor largest_share(const at::Tensor& labels);

/// Mean over the last dimension of the tasks that count: NaN is the accuracy of one that does not.
at::Tensor mean_accuracy(const at::Tensor& accuracy);

/// Normalised accuracy (papers 1 and 3): mean_accuracy() of accuracy/reference over the last dimension, the
/// T tasks; reference [T] being that of each task's own model. A task that its own model never gets right
/// counts as 0.
at::Tensor normalised_accuracy(const at::Tensor& accuracy, const at::Tensor& reference);

/// The coefficient that validation chooses (papers 1 and 3): the row of accuracy [K,T] with the largest
/// normalised accuracy, the first of equals; reference [T] as there.
std::int64_t chosen_row(const at::Tensor& accuracy, const at::Tensor& reference);

/// −Σₙ log softmax(logits[n])[labels[n]], in nats. logits [N,C], labels [N] within 0 … C−1, which is
/// checked on the host alone.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels);

/// Σₙ 1(a[n] ≠ b[n]) of two prediction vectors [N]: the prediction distance of the disentanglement error ξ
/// (paper 1, section 4).
at::Tensor disagreements(const at::Tensor& predictions_a, const at::Tensor& predictions_b);

/// Σₙ KL(softmax p[n] ‖ softmax q[n]) and Σₙ KL(softmax q[n] ‖ softmax p[n]), in nats, as float64 [2]; logits
/// p, q [N,C]: the distance of the representation-level ξ (paper 4). +∞ where the second rules out what the
/// first allows. The mean of both is the symmetric divergence of that paper's authors' code.
at::Tensor kl_sums(const at::Tensor& logits_p, const at::Tensor& logits_q);

}  // namespace taugrid::metrics
