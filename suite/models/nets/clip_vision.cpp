// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// CLIP's image tower as Hugging Face's CLIPVisionModelWithProjection defines it, of any size.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "suite/models/nets/affine.hpp"
#include "suite/models/nets/nets.hpp"
#include "suite/models/nets/patches.hpp"
#include "suite/models/start.hpp"

namespace taugrid::models {
namespace {

using autodiff::Activation;
using autodiff::Kind;
using autodiff::Layout;

struct Config : PatchTransformer {
  Config() : PatchTransformer{.patch = 32, .epsilon = 1e-5, .activation = Activation::quick_gelu} {}
  std::int64_t projection = 512;
  double initializer_factor = 1;
};

class ClipVision final : public Net<ClipVision> {
 public:
  ClipVision(const Config& config, std::string config_json)
      : config_(config), config_json_(std::move(config_json)) {
    const auto d = config.hidden;
    const std::string top = "vision_model.";
    const auto patch_numbers = config.channels * config.patch * config.patch;
    class_token_ = layout_.add(Kind::embedding, {top + "embeddings.class_embedding"}, {d});
    patch_ = layout_.add(Kind::embedding, {top + "embeddings.patch_embedding.weight"},
                         {d, config.channels, config.patch, config.patch}, {d, patch_numbers});
    position_ =
        layout_.add(Kind::embedding, {top + "embeddings.position_embedding.weight"}, {config.tokens(), d});
    before_ = add_norm(layout_, top + "pre_layrnorm", d);  // Hugging Face's spelling
    for (std::int64_t i = 0; i < config.layers; ++i) {
      layout_.begin_stage(static_cast<int>(i) + 1);
      const auto name = top + "encoder.layers." + std::to_string(i) + ".";
      const auto attention = name + "self_attn.";
      Layer layer;
      layer.norm1 = add_norm(layout_, name + "layer_norm1", d);
      layer.qkv = add_qkv(layout_, attention + "q_proj", attention + "k_proj", attention + "v_proj", d);
      layer.out =
          add_linear(layout_, Kind::attention_weight, Kind::attention_bias, attention + "out_proj", d, d);
      layer.norm2 = add_norm(layout_, name + "layer_norm2", d);
      layer.fc1 = add_linear(layout_, Kind::mlp_weight, Kind::mlp_bias, name + "mlp.fc1", config.mlp, d);
      layer.fc2 = add_linear(layout_, Kind::mlp_weight, Kind::mlp_bias, name + "mlp.fc2", d, config.mlp);
      layers_.push_back(layer);
    }
    layout_.begin_stage(stages() + 1);
    after_ = add_norm(layout_, top + "post_layernorm", d);
    projection_ = layout_.add(Kind::projection, {"visual_projection.weight"}, {config.projection, d});
  }

  const Layout& layout() const override { return layout_; }
  std::string architecture() const override { return "CLIPVisionModelWithProjection"; }
  std::string config_json() const override { return config_json_; }
  int stages() const override { return static_cast<int>(config_.layers); }
  std::int64_t width() const override { return config_.projection; }
  Takes takes() const override { return {config_.image, config_.channels}; }

  // Position ids, and a whole CLIP's other tower.
  bool passes_over(const std::string& tensor) const override {
    return tensor.ends_with(".position_ids") || tensor.starts_with("text_model.") ||
           tensor == "text_projection.weight" || tensor == "logit_scale";
  }

  State random_state(std::uint64_t seed) const override {
    const double d = static_cast<double>(config_.hidden), f = config_.initializer_factor;
    const double depth = 1.0 / std::sqrt(2.0 * static_cast<double>(config_.layers));
    return drawn(seed, [&](const auto& has, at::Tensor& numbers, at::Generator& generator) {
      double deviation = 0;
      if (has("class_embedding")) deviation = f / std::sqrt(d);
      if (has("patch_embedding") || has("position_embedding")) deviation = config_.initializer_range * f;
      if (has("q_proj.weight") || has("k_proj.weight") || has("v_proj.weight"))
        deviation = depth * f / std::sqrt(d);
      if (has("out_proj.weight") || has("visual_projection")) deviation = f / std::sqrt(d);
      if (has("fc1.weight")) deviation = f / std::sqrt(2 * d);
      if (has("fc2.weight")) deviation = depth * f / std::sqrt(d);
      if (deviation > 0) numbers.normal_(0, deviation, generator);
    });
  }

  // open_clip leaves the tower to PyTorch's starts of its parts, whatever the number of layers: queries, keys
  // and values are one matrix there, [3d, d], Xavier's.
  bool is_drawn_by_open_clip() const override { return true; }
  State random_state_of_open_clip(std::uint64_t seed) const override {
    const double d = static_cast<double>(config_.hidden), of_qkv = std::sqrt(6 / (d + 3 * d));
    return drawn(seed, [&](const auto& has, at::Tensor& numbers, at::Generator& generator) {
      if (has("class_embedding") || has("position_embedding") || has("visual_projection"))
        numbers.normal_(0, 1 / std::sqrt(d), generator);
      if (has("patch_embedding")) start_linear(numbers, numbers[0].numel(), generator);
      if (has("q_proj.weight") || has("k_proj.weight") || has("v_proj.weight"))
        numbers.uniform_(-of_qkv, of_qkv, generator);
      if (has("out_proj.weight") || has("fc1")) start_linear(numbers, config_.hidden, generator);
      if (has("fc2")) start_linear(numbers, config_.mlp, generator);
    });
  }

  template <class T>
  T embed_of(const Blocks<T>& p, const Given& given) const {
    T x =
        autodiff::linear(autodiff::constant(patches_of(given, takes(), config_.patch), p[patch_]), p[patch_]);
    x = autodiff::add_position(autodiff::prepend_token(p[class_token_], x), p[position_]);
    return normed(x, p, before_, config_.epsilon);
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T x, const Given&, Reach reach) const {
    const auto& layer = layers_[static_cast<std::size_t>(l - 1)];
    const auto affine = [&p](const T& y, const Affine& at) {
      return autodiff::linear(y, p[at.weight], p[at.bias]);
    };
    T attended =
        autodiff::attention(affine(normed(x, p, layer.norm1, config_.epsilon), layer.qkv), config_.heads, {});
    if (reach == Reach::read) {  // only the class token
      attended = autodiff::first_token(attended);
      x = autodiff::first_token(x);
    }
    x = autodiff::add(x, affine(attended, layer.out));
    const T hidden =
        autodiff::activate(affine(normed(x, p, layer.norm2, config_.epsilon), layer.fc1), config_.activation);
    return autodiff::add(x, affine(hidden, layer.fc2));
  }

  template <class T>
  T features_of(const Blocks<T>& p, T x, const Given&, Reach reach) const {
    if (reach == Reach::whole) x = autodiff::first_token(x);
    return autodiff::linear(normed(x, p, after_, config_.epsilon), p[projection_]);
  }

 private:
  /// Calls draw(has, numbers, generator) for each parameter, has(part) telling whether its name has the part.
  /// What is not drawn is 0, and gains of norms are 1.
  template <class Draw>
  State drawn(std::uint64_t seed, const Draw& draw) const {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    auto theta = at::zeros({layout_.size()}, at::kFloat);
    auto views = layout_.parameter_views(theta);
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& parameter = layout_.parameters()[i];
      const auto has = [&](const char* part) { return parameter.name.find(part) != std::string::npos; };
      draw(has, views[i], generator);
      if (parameter.kind == Kind::norm && has(".weight")) views[i].fill_(1);
    }
    return {theta, {}};
  }

  struct Layer {
    Affine norm1, qkv, out, norm2, fc1, fc2;
  };

  Config config_;
  std::string config_json_;
  Layout layout_;
  std::size_t class_token_ = 0, patch_ = 0, position_ = 0, projection_ = 0;
  Affine before_, after_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<Encoder> make_clip_vision(const nlohmann::json& given, const std::string& where,
                                          const std::filesystem::path&) {
  auto json = given;
  if (json["model_type"] == "clip") {  // a whole CLIP's
    if (!json.contains("vision_config") || !json["vision_config"].is_object())
      Keys(json, where).refuse("vision_config is missing; expected an object");
    const auto projection = json.contains("projection_dim") ? json["projection_dim"] : nlohmann::json(512);
    json = nlohmann::json(json["vision_config"]);
    json["projection_dim"] = projection;
    json["model_type"] = "clip_vision_model";
    json["architectures"] = {"CLIPVisionModelWithProjection"};
  }
  const Keys keys(json, where);
  Config config;
  read_shape(keys, config);
  config.projection = keys.integer("projection_dim", config.projection);
  config.initializer_factor = keys.real("initializer_factor", config.initializer_factor);
  keys.require_zero("attention_dropout", "f(x; θ) is a pure function, trained without dropout");
  return std::make_unique<ClipVision>(config, json.dump(2) + "\n");
}

}  // namespace taugrid::models
