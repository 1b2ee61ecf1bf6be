// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/metrics/metrics.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/require.hpp"

namespace taugrid::metrics {
namespace {

void check_logits(const at::Tensor& logits) {
  require(logits.defined() && logits.is_floating_point(), "logits are not floating point");
  require(logits.dim() == 2 && logits.size(1) > 0, "logits are ", logits.sizes(),
          ", expected [N, C] with C > 0");
}

void check_labels(const at::Tensor& labels, const char* name) {
  require(labels.defined() && at::isIntegralType(labels.scalar_type(), /*includeBool=*/false), name,
          " are not integers");
  require(labels.dim() == 1, name, " are ", labels.sizes(), ", expected [N]");
}

void check_same(const at::Tensor& a, const at::Tensor& b, const char* name) {
  require(a.sizes() == b.sizes(), name, " differ in shape: ", a.sizes(), " and ", b.sizes());
}

void check_labelled(const at::Tensor& logits, const at::Tensor& labels) {
  check_logits(logits);
  check_labels(labels, "labels");
  require(labels.size(0) == logits.size(0), labels.size(0), " labels for ", logits.size(0), " examples");
}

at::Tensor log_probabilities(const at::Tensor& logits) { return at::log_softmax(logits, 1, at::kDouble); }

}  // namespace

at::Tensor predictions(const at::Tensor& logits) {
  const at::NoGradGuard no_grad;
  check_logits(logits);
  return logits.argmax(1);
}

at::Tensor correctness(const at::Tensor& logits, const at::Tensor& labels) {
  const at::NoGradGuard no_grad;
  check_labelled(logits, labels);
  return predictions(logits).eq(labels);
}

at::Tensor packed_bits(const at::Tensor& truths) {
  require(truths.defined() && truths.scalar_type() == at::kBool && truths.dim() > 0,
          "truths are no bool [..., N]");
  const auto n = truths.size(-1), bytes = (n + 7) / 8;
  auto shape = truths.sizes().vec();
  shape.back() = 8 * bytes;
  auto filled = at::zeros(shape, truths.options().dtype(at::kByte));
  filled.narrow(-1, 0, n).copy_(truths);
  shape.back() = bytes;
  shape.push_back(8);
  auto packed = at::zeros(at::IntArrayRef(shape).slice(0, shape.size() - 1), filled.options());
  const auto eights = filled.view(shape);
  for (std::int64_t bit = 0; bit < 8; ++bit) packed.mul_(2).add_(eights.select(-1, bit));
  return packed;
}

at::Tensor correct(const at::Tensor& logits, const at::Tensor& labels) {
  return correctness(logits, labels).sum();
}

at::Tensor accuracy(const at::Tensor& logits, const at::Tensor& labels) {
  return correct(logits, labels).to(at::kDouble).div_(labels.size(0));
}

at::Tensor largest_share(const at::Tensor& labels) {
  require(labels.dim() == 1 && labels.size(0) > 0, "labels are ", labels.sizes(), ", not [N]");
  return at::bincount(labels.to(at::kCPU, at::kLong)).max().to(at::kDouble).div_(labels.size(0));
}

at::Tensor mean_accuracy(const at::Tensor& accuracy) {
  // nanmean() may add up in another order
  return accuracy.isnan().any().item<bool>() ? accuracy.nanmean(-1) : accuracy.mean(-1);
}

at::Tensor normalised_accuracy(const at::Tensor& accuracy, const at::Tensor& reference) {
  require(reference.dim() == 1 && accuracy.dim() >= 1 && accuracy.size(-1) == reference.size(0),
          "accuracies are ", accuracy.sizes(), ", those of the own models ", reference.sizes());
  return mean_accuracy(at::where((reference > 0).logical_or(accuracy.isnan()), accuracy / reference, 0.0));
}

std::int64_t chosen_row(const at::Tensor& accuracy, const at::Tensor& reference) {
  require(accuracy.dim() == 2 && accuracy.size(0) > 0, "accuracies are ", accuracy.sizes(),
          ", not rows of tasks");
  return normalised_accuracy(accuracy, reference).argmax().item<std::int64_t>();
}

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels) {
  const at::NoGradGuard no_grad;
  check_labelled(logits, labels);
  const at::Tensor index = labels.to(at::kLong);
  // A look at numbers on a GPU would make the host wait for it.
  require(!index.is_cpu() || !index.lt(0).logical_or(index.ge(logits.size(1))).any().item<bool>(),
          "labels outside 0 ... ", logits.size(1) - 1);
  return -log_probabilities(logits).gather(1, index.unsqueeze(1)).sum();
}

at::Tensor disagreements(const at::Tensor& predictions_a, const at::Tensor& predictions_b) {
  const at::NoGradGuard no_grad;
  check_labels(predictions_a, "predictions");
  check_labels(predictions_b, "predictions");
  check_same(predictions_a, predictions_b, "predictions");
  return predictions_a.ne(predictions_b).sum();
}

at::Tensor kl_sums(const at::Tensor& logits_p, const at::Tensor& logits_q) {
  const at::NoGradGuard no_grad;
  check_logits(logits_p);
  check_logits(logits_q);
  check_same(logits_p, logits_q, "logits");
  const at::Tensor log_p = log_probabilities(logits_p), log_q = log_probabilities(logits_q);
  const auto divergence = [](const at::Tensor& log_of, const at::Tensor& log_to) {
    const at::Tensor of = log_of.exp();
    // 0·log 0 = 0; written so that NaN stays NaN.
    return at::where(of.eq(0), 0.0, of * (log_of - log_to)).sum();
  };
  return at::stack({divergence(log_p, log_q), divergence(log_q, log_p)});
}

}  // namespace taugrid::metrics
