// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/layers.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <numeric>

#include "kernels/autodiff/products.hpp"

namespace taugrid::study {
namespace {

using Shape = std::vector<std::int64_t>;

struct Shapes {
  std::vector<Shape> layers;  // 0 … L + 1, of one sample
  Shape read;                 // of the last stage, as much as features are read of
};

bool of_decoder(const models::Encoder& encoder) { return encoder.decodes(encoder.stages()); }

/// Texts have as many tokens as the tasks' longest.
Shapes shapes_of(const Model& model) {
  const auto& encoder = model.encoder();
  models::Given given{models::random_batch(encoder, 1, model.tokens())};
  if (encoder.buffers().size() > 0)
    given.buffers = encoder.buffers().views(at::zeros({encoder.buffers().size()}));
  Shapes shapes;
  const auto f = [&](const models::Blocks<autodiff::Counted>& p) {
    autodiff::Counted before;
    const std::function<void(int, const autodiff::Counted&)> see = [&](int l, const autodiff::Counted& h) {
      if (l == encoder.stages() - 1) before = h;
      shapes.layers.push_back(h.shape);
      if (of_decoder(encoder)) shapes.layers.back()[1] = 1;
    };
    const auto z = encoder.visit(p, given, see);
    shapes.layers.push_back(z.shape);
    shapes.read = encoder.stage(encoder.stages(), p, before, given, models::Reach::read).shape;
    return z;
  };
  autodiff::count(encoder.layout(), f, autodiff::Meter::Pass::value);
  return shapes;
}

}  // namespace

Layers::Layers(const Model& model, const Evaluation& evaluation, std::vector<int> chosen)
    : model_(model), evaluation_(evaluation) {
  const auto& encoder = model.encoder();
  const auto shapes = shapes_of(model);
  // What is read of a text may be another token than the first.
  has_class_token_ = !encoder.takes().text() && shapes.read.size() == 2 &&
                     shapes.layers[static_cast<std::size_t>(encoder.stages())].size() == 3;
  for (const auto l : chosen) {
    const auto& shape = shapes.layers.at(static_cast<std::size_t>(l));
    const auto numbers =
        std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
    layers_.push_back({l, numbers, has_class_token_ ? shape.back() : 0});
  }
}

std::optional<int> Layers::first_of_decoder(const Model& model) {
  for (int l = 1; l <= model.encoder().stages(); ++l)
    if (model.encoder().decodes(l)) return l;
  return {};
}

const char* Layers::feature() const {
  return of_decoder(model_.encoder())
             ? "of the encoder's residual stream the mean over tokens, of the decoder's its first token"
             : "all of a layer's output: every token of the residual stream";
}

double Layers::numbers() const {
  double all = 0;
  for (const auto& layer : layers_) all += static_cast<double>(layer.numbers);
  return all;
}

at::Tensor Layers::feature_of(int l, at::Tensor h, const models::Batch& batch) const {
  const auto& encoder = model_.encoder();
  if (h.dim() == 3 && encoder.answers_in_line()) {
    const auto places = batch.in_line();  // of answers: what is read of a text is its last token's
    h = l > encoder.stages() ? h.select(1, 0) : h.narrow(1, places, h.size(1) - places);
  }
  if (of_decoder(encoder) && (encoder.decodes(l) || l > encoder.stages())) {
    if (h.dim() == 3) h = h.narrow(1, 0, 1);
  } else if (batch.text() && h.dim() == 3) {  // [n, tokens, d]
    const auto weights = models::mean_weights(batch, h.options()).unsqueeze(2);
    h = of_decoder(encoder) ? (h * weights).sum(1) : h * weights.ne(0);
  }
  return h.flatten(1).to(at::kFloat);
}

template <class T, class Part>
void Layers::visit(const models::Blocks<T>& blocks, const models::State& state, const models::Batch& batch,
                   const See& see, const Part& part) const {
  const auto type = evaluation_.compute_type();
  const models::Given given{batch.to(type), model_.buffers(state, type)};
  std::size_t k = 0;
  const auto look = [&](int l, const T& h) {
    if (k == layers_.size() || layers_[k].number != l) return;
    see(k++, feature_of(l, part(h), batch));
  };
  look(last(model_), model_.encoder().visit(blocks, given, std::function<void(int, const T&)>(look)));
}

void Layers::outputs(const models::State& state, const models::Batch& batch, const See& see) const {
  const at::NoGradGuard no_grad;
  const auto theta = state.theta.to(evaluation_.compute_type());
  visit(model_.layout().views(theta), state, batch, see, [](const at::Tensor& h) { return h; });
}

void Layers::outputs_by_stages(const StageWeights& weights, const models::Batch& batch,
                               const std::function<void(int)>& before, const SeeAll& see) const {
  const auto type = evaluation_.compute_type();
  const std::vector<models::Given> given = {{batch.to(type)}};
  std::vector<at::Tensor> features;
  std::size_t layer = 0;
  const auto look = [&](int part, std::int64_t, std::size_t, const at::Tensor& h, const auto&) {
    while (layer < layers_.size() && layers_[layer].number < part) ++layer;  // of another rank
    if (layer == layers_.size() || layers_[layer].number != part) return;
    features.push_back(feature_of(part, h, batch));
    if (std::ssize(features) < weights.size()) return;
    see(layer++, features);
    features.clear();
  };
  weights.run<at::Tensor>({{0, weights.size()}, models::Reach::whole, false, type}, given, before, look);
}

void Layers::tangents(const at::Tensor& tau, const models::Batch& batch, const See& see) const {
  const at::NoGradGuard no_grad;
  const auto type = evaluation_.compute_type();
  const auto theta = model_.theta0().to(type), direction = tau.to(type);
  const auto blocks = autodiff::duals(model_.layout().views(theta), model_.layout().views(direction));
  visit(blocks, model_.start(), batch, see, autodiff::tangent_or_zeros);
}

}  // namespace taugrid::study
