// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Hessian products and the largest eigenvalue. Model flops, F being one forward pass over one input: for each
// of three products both factors, 6 F a product once the graph of ∇L (3 F) is there. Bytes as in
// cases_model.cpp.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "kernels/autodiff/products.hpp"
#include "kernels/spectral/spectral.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/bench/model_work.hpp"

namespace taugrid::bench {
namespace {

at::Tensor random_direction(const at::Tensor& theta, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  auto v = at::randn(theta.sizes(), generator, at::TensorOptions(at::kDouble));
  return v.div_(v.norm()).to(theta.device());
}

/// The training loss of the standard regime, as smoothness.cpp binds it for its Hessian.
autodiff::Function<at::Tensor> mean_loss(const models::Encoder& encoder, const models::Readout& head,
                                         const at::Tensor& pixels, const at::Tensor& labels) {
  return [&encoder, head, pixels, labels](const Blocks& p) {
    return at::cross_entropy_loss(head.logits(encoder.encode(p, models::pictures(pixels))), labels);
  };
}

double hvp_error(const Fixture& x, const at::Tensor& v, const at::Tensor& product) {
  const auto pixels = x.pixels().narrow(0, 0, hessian_points).to(at::kDouble);
  const auto loss =
      mean_loss(x.encoder(), in_double(x.head()), pixels, x.labels().narrow(0, 0, hessian_points));
  const auto theta = x.theta0().to(at::kDouble);
  const double h = 1e-5;
  const auto slope = [&](double a) {
    return autodiff::gradient(x.encoder().layout(), loss, theta + a * v.to(at::kDouble)).gradient;
  };
  return relative(product, (slope(h) - slope(-h)) / (2 * h));
}

Work hvp(const Fixture& x, bool first) {
  struct State {
    at::Tensor v, product;
    std::unique_ptr<autodiff::HessianVectorProduct> hessian;
  };
  const auto s = shared<State>();
  s->v = random_direction(x.theta0(), 21).to(at::kFloat);
  Work work;
  work.run = [&x, s, first] {
    if (first || !s->hessian) {
      const auto pixels = x.pixels().narrow(0, 0, hessian_points);
      s->hessian = std::make_unique<autodiff::HessianVectorProduct>(
          x.encoder().layout(),
          mean_loss(x.encoder(), x.head(), pixels, x.labels().narrow(0, 0, hessian_points)), x.theta0());
    }
    s->product = (*s->hessian)(s->v);
  };
  work.flops = (first ? 9.0 : 6.0) * hessian_points * x.forward_flops();
  work.bytes = 4 * 3 * parameters(x.encoder());
  work.items = 1;
  work.unit = "products";
  work.tolerance = 1e-3;
  work.error = [&x, s] { return hvp_error(x, s->v, s->product); };
  work.results = [&x, s] {
    const auto& layout = x.encoder().layout();
    const auto v = layout.parameter_views(s->v), product = layout.parameter_views(s->product);
    store::TensorFile file;
    for (std::size_t i = 0; i < v.size(); ++i) {
      file.tensors["v/" + layout.parameters()[i].name] = v[i];
      file.tensors["product/" + layout.parameters()[i].name] = product[i];
    }
    return file;
  };
  return work;
}

/// λ_max of the training loss at θ0, with all that it takes from nothing: graph, products, vectors. A Ritz
/// value's error goes with the square of its residual: 1e-2 leaves λ right to 1e-3 and better.
Work lambda_max(const Fixture& x, bool lanczos) {
  const auto eigenpair = shared<spectral::EigenResult>();
  Work work;
  const auto pixels = x.pixels().narrow(0, 0, hessian_points);
  const auto labels = x.labels().narrow(0, 0, hessian_points);
  const auto loss = mean_loss(x.encoder(), x.head(), pixels, labels);
  spectral::EigenOptions options;
  options.tolerance = lanczos ? 1e-2 : 1e-3;
  options.max_products = 100;
  options.seed = 5;
  work.run = [&x, eigenpair, loss, options, lanczos] {
    const autodiff::HessianVectorProduct hessian(x.encoder().layout(), loss, x.theta0());
    const spectral::LinearOperator apply = [&](const at::Tensor& v) { return hessian(v); };
    *eigenpair = lanczos ? spectral::lanczos(apply, x.theta0(), options, hessian.gradient())
                         : spectral::power_iteration(apply, x.theta0(), options);
  };
  work.run();  // the flops depend on how many products it takes, the same in every run
  work.has_run = true;
  const auto products = static_cast<double>(eigenpair->products);
  work.flops = (3 + 6 * products) * hessian_points * x.forward_flops();
  work.bytes = 4 * 3 * products * parameters(x.encoder());
  work.items = products;
  work.unit = "products";
  work.tolerance = lanczos ? 2e-2 : 0.2;  // power iteration may end at its limit of products
  work.error = [&x, eigenpair, loss] {    // ‖Hv − λv‖/|λ| anew
    const autodiff::HessianVectorProduct hessian(x.encoder().layout(), loss, x.theta0());
    return weights::norm(hessian(eigenpair->vector) - eigenpair->value * eigenpair->vector) /
           std::abs(eigenpair->value);
  };
  work.results = [eigenpair] {
    store::TensorFile file;
    file.tensors["lambda_max"] = at::full({1}, eigenpair->value, at::kDouble);
    file.tensors["residual"] = at::full({1}, eigenpair->residual, at::kDouble);
    file.tensors["products"] = at::full({1}, eigenpair->products, at::kLong);
    return file;
  };
  return work;
}

}  // namespace

std::vector<Case> hessian_cases(const Fixture& x) {
  return {{"hvp/first", [&x] { return hvp(x, true); }},
          {"hvp/further", [&x] { return hvp(x, false); }},
          {"lambda_max/lanczos", [&x] { return lambda_max(x, true); }},
          {"lambda_max/power", [&x] { return lambda_max(x, false); }}};
}

}  // namespace taugrid::bench
