// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Batch norm by stored statistics, an affine map of each channel; and, in training, by those of the batch,
// which may be spread over several ranks.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <stdexcept>

#include "kernels/autodiff/detail/convolution.hpp"
#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using Variables = torch::autograd::variable_list;

/// [channels] as a factor of pictures.
at::Tensor by_channel(const at::Tensor& of) { return of.view({1, -1, 1, 1}); }

/// Σ over samples and places: [channels], float64.
at::Tensor channel_sums(const at::Tensor& x) { return x.to(at::kDouble).sum(at::IntArrayRef{0, 2, 3}); }

double per_channel(const at::Tensor& x) { return static_cast<double>(x.size(0) * x.size(2) * x.size(3)); }

struct Moments {
  at::Tensor mean, variance;  // [channels] float64, the variance of the batch as a population
  at::Tensor count;           // float64 []: samples times places, of all ranks
};

Moments moments_of(const at::Tensor& x, const BatchStatistics& batch) {
  const auto channels = x.size(1);
  // Two rounds, so that the variance is no difference of large numbers: sums and count, then squares.
  auto sums = at::cat({channel_sums(x), at::full({1}, per_channel(x), x.options().dtype(at::kDouble))});
  if (batch.sum_over_ranks) batch.sum_over_ranks(sums);
  const auto count = sums[channels];
  const auto mean = sums.narrow(0, 0, channels) / count;
  auto squares = x.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true)
                     .sub_(by_channel(mean))
                     .square_()
                     .sum(at::IntArrayRef{0, 2, 3});
  if (batch.sum_over_ranks) batch.sum_over_ranks(squares);
  return {mean, squares / count, count};
}

/// y = w x̂ + b with x̂ = (x − μ)/√(σ² + ε), μ and σ² those of x over all ranks.
struct NormaliseByBatch : Function<NormaliseByBatch> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, double eps, BatchStatistics* batch) {
    const auto m = moments_of(x, *batch);
    const auto rstd = (m.variance + eps).rsqrt();
    const auto x_hat =
        x.sub(by_channel(m.mean.to(x.scalar_type()))).mul_(by_channel(rstd.to(x.scalar_type())));
    batch->moments.push_back(m.mean);
    batch->moments.push_back(m.variance * (m.count / (m.count - 1).clamp_min(1)));
    context->save_for_backward({x_hat, weight});
    context->saved_data["rstd"] = rstd;
    context->saved_data["count"] = m.count;
    context->saved_data["batch"] = reinterpret_cast<std::int64_t>(batch);  // which outlives the step
    return x_hat.mul(by_channel(weight)).add_(by_channel(bias));
  }
  /// dx = w/√(σ² + ε) ⊙ (dy − mean(dy) − x̂ ⊙ mean(dy ⊙ x̂)), the means over all ranks.
  static Variables backward(AutogradContext* context, const Variables& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "batch norm in training has no second derivative here");
    const auto saved = context->get_saved_variables();
    const auto &dy = gradients[0], &x_hat = saved[0], &weight = saved[1];
    const auto db = channel_sums(dy), dw = channel_sums(dy * x_hat);
    const auto* batch = reinterpret_cast<const BatchStatistics*>(context->saved_data["batch"].toInt());
    auto sums = at::stack({db, dw});
    if (batch->sum_over_ranks) batch->sum_over_ranks(sums);
    sums.div_(context->saved_data["count"].toTensor());
    const auto type = dy.scalar_type();
    const auto factor = context->saved_data["rstd"].toTensor().to(type) * weight;
    auto dx = dy.sub(by_channel(sums[0].to(type)))
                  .sub_(x_hat * by_channel(sums[1].to(type)))
                  .mul_(by_channel(factor));
    return {dx, dw.to(type), db.to(type), {}, {}};
  }
};

/// The same where one rank has the whole batch: ATen's fused kernel, which leaves what it found in the place
/// of stored statistics that follow it all the way.
at::Tensor normalised_by_batch(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               double eps, BatchStatistics& batch) {
  const auto mean = at::zeros({x.size(1)}, x.options().requires_grad(false)), variance = at::zeros_like(mean);
  auto y = at::batch_norm(x, weight, bias, mean, variance, /*training=*/true, /*momentum=*/1, eps, false);
  batch.moments.push_back(mean);
  batch.moments.push_back(variance);
  return y;
}

void only_stored(const BatchStatistics* batch) {
  if (batch != nullptr)
    throw std::logic_error("batch norm by the batch's own statistics is for plain values: samples mix");
}

at::Tensor normalised(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd) {
  return (x - by_channel(mean)) * by_channel(rstd);
}

}  // namespace

at::Tensor batch_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& mean, const at::Tensor& variance, double eps,
                      BatchStatistics* batch) {
  if (batch != nullptr) {
    // The variance of one number is no number; statistics in bfloat16 would be too coarse; and devices whose
    // operations fall back on the host's leave them where they were.
    const bool alone =
        x.is_cpu() && !batch->sum_over_ranks && per_channel(x) > 1 && x.scalar_type() != at::kBFloat16;
    return alone ? normalised_by_batch(x, weight, bias, eps, *batch)
                 : NormaliseByBatch::apply(x, weight, bias, eps, batch);
  }
  return at::batch_norm(x, weight, bias, mean, variance, /*training=*/false, 0, eps, false);
}

Dual batch_norm(const Dual& x, const Dual& weight, const Dual& bias, const at::Tensor& mean,
                const at::Tensor& variance, double eps, BatchStatistics* batch) {
  only_stored(batch);
  Dual y{batch_norm(x.value, weight.value, bias.value, mean, variance, eps, nullptr), {}};
  y.tangent = detail::tangent_of([&] {  // dw ⊙ x̂ + db + w/√(σ² + ε) ⊙ dx
    const auto rstd = (variance + eps).rsqrt();
    at::Tensor t;
    if (weight.tangent.defined())
      t = normalised(x.value, mean, rstd).mul_(by_channel(weight.tangent)).add_(by_channel(bias.tangent));
    if (x.tangent.defined()) t = detail::sum_of(t, x.tangent * by_channel(rstd * weight.value));
    return t;
  });
  return y;
}

namespace {

/// y = x ⊙ factor + shift by channels.
struct Affine {
  explicit Affine(const BatchNorm<Recorded>& norm)
      : rstd((norm.variance + norm.eps).rsqrt()),
        factor(norm.weight.value * rstd),
        shift(norm.bias.value - norm.mean * factor) {}
  at::Tensor rstd, factor, shift;
};

/// The uses of w and b, for what x was and the number of the output on its tape.
void use(Tape& tape, std::size_t output, const BatchNorm<Recorded>& norm, const Affine& affine,
         const at::Tensor& x) {
  tape.uses.push_back({Use::Form::channel_scale,
                       norm.weight.block,
                       normalised(x.detach(), norm.mean, affine.rstd),
                       {},
                       output});
  tape.uses.push_back({Use::Form::channel_sum, norm.bias.block, {}, {}, output});
}

}  // namespace

Recorded batch_norm(const Recorded& x, const Recorded& weight, const Recorded& bias, const at::Tensor& mean,
                    const at::Tensor& variance, double eps, BatchStatistics* batch) {
  only_stored(batch);
  const BatchNorm<Recorded> norm{weight, bias, mean, variance, eps, batch};
  // As a product and a sum: ATen's own derivative would also add up what its parameters need, for each logit.
  const Affine affine(norm);
  Recorded y{x.value * by_channel(affine.factor) + by_channel(affine.shift), x.tape, -1};
  const auto output = detail::keep(*y.tape, y.value);
  use(*y.tape, output, norm, affine, x.value);
  return y;
}

template <>
Recorded convolve_normed(const Recorded& x, bool rectified, const Recorded& filters, std::int64_t side,
                         std::int64_t stride, std::int64_t padding, const BatchNorm<Recorded>& norm) {
  only_stored(norm.batch);
  const Affine affine(norm);
  const auto convolution =
      detail::record_convolution(x, rectified, filters, affine.factor, affine.shift, {side, stride, padding});
  use(*x.tape, x.tape->outputs.size() - 1, norm, affine, convolution.plain);
  return convolution.y;
}

Counted batch_norm(const Counted& x, const Counted&, const Counted&, const at::Tensor&, const at::Tensor&,
                   double, BatchStatistics*) {
  auto y = detail::counted(x.meter, x.shape);
  detail::keep(x);
  y.meter->pass(0, detail::numbers(x));
  y.meter->record(y.storage);
  y.meter->record(detail::numbers(x));
  return y;
}

template <>
Counted convolve_normed(const Counted& x, bool rectified, const Counted& filters, std::int64_t side,
                        std::int64_t stride, std::int64_t padding, const BatchNorm<Counted>& norm) {
  const auto given = rectified ? activate(x, Activation::relu) : x;
  if (!x.meter->recording())
    return batch_norm(convolve(given, filters, side, stride, padding), norm.weight, norm.bias, norm.mean,
                      norm.variance, norm.eps, norm.batch);
  auto y = detail::count_convolution(given, filters, {side, stride, padding});
  y.meter->pass(detail::numbers(y));  // W ∗ x alone, for a moment
  y.meter->record(y.storage);
  y.meter->record(detail::numbers(y));  // x̂
  return y;
}

}  // namespace taugrid::autodiff
