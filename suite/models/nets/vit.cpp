// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The Vision Transformer (Dosovitskiy et al., 2021) as Hugging Face's ViTModel and ViTForImageClassification
// define it, without a pooler. The features are the class token behind the last norm;
// ViTForImageClassification brings a classifier behind them. Dropout is left out: f(x; θ) is a pure function.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <nlohmann/json.hpp>

#include "suite/models/nets/affine.hpp"
#include "suite/models/nets/classifier.hpp"
#include "suite/models/nets/nets.hpp"
#include "suite/models/nets/patches.hpp"

namespace taugrid::models {
namespace {

using autodiff::Activation;
using autodiff::Kind;
using autodiff::Layout;

struct Config : PatchTransformer {
  Config() : PatchTransformer{.patch = 16, .epsilon = 1e-12, .activation = Activation::gelu} {}
  Wrapping wrapping;
};

class Vit final : public Net<Vit> {
 public:
  Vit(Config config, std::string config_json)
      : config_(std::move(config)), config_json_(std::move(config_json)) {
    const auto d = config_.hidden;
    const auto top = config_.wrapping.prefix + "embeddings.";
    class_token_ = layout_.add(Kind::embedding, {top + "cls_token"}, {1, 1, d}, {d});
    const auto patch = top + "patch_embeddings.projection";
    patch_.weight =
        layout_.add(Kind::embedding, {patch + ".weight"}, {d, config_.channels, config_.patch, config_.patch},
                    {d, config_.channels * config_.patch * config_.patch});
    patch_.bias = layout_.add(Kind::embedding, {patch + ".bias"}, {d});
    position_ = layout_.add(Kind::embedding, {top + "position_embeddings"}, {1, config_.tokens(), d},
                            {config_.tokens(), d});
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      layout_.begin_stage(static_cast<int>(i) + 1);
      const auto name = config_.wrapping.prefix + "encoder.layer." + std::to_string(i) + ".";
      const auto self = name + "attention.attention.";
      Layer layer;
      layer.norm1 = add_norm(layout_, name + "layernorm_before", d);
      layer.qkv = add_qkv(layout_, self + "query", self + "key", self + "value", d);
      layer.out = add_linear(layout_, Kind::attention_weight, Kind::attention_bias,
                             name + "attention.output.dense", d, d);
      layer.norm2 = add_norm(layout_, name + "layernorm_after", d);
      layer.fc1 =
          add_linear(layout_, Kind::mlp_weight, Kind::mlp_bias, name + "intermediate.dense", config_.mlp, d);
      layer.fc2 =
          add_linear(layout_, Kind::mlp_weight, Kind::mlp_bias, name + "output.dense", d, config_.mlp);
      layers_.push_back(layer);
    }
    layout_.begin_stage(stages() + 1);
    after_ = add_norm(layout_, config_.wrapping.prefix + "layernorm", d);
    classifier_ = add_classifier(layout_, "classifier", config_.wrapping.classes, d);
  }

  const Layout& layout() const override { return layout_; }
  std::string architecture() const override { return config_.wrapping.architecture; }
  std::string config_json() const override { return config_json_; }
  int stages() const override { return static_cast<int>(config_.layers); }
  std::int64_t width() const override { return config_.hidden; }
  Takes takes() const override { return {.image_size = config_.image, .channels = config_.channels}; }
  int vocabulary_block() const override { return classifier_.weight; }
  int vocabulary_bias() const override { return classifier_.bias; }
  bool passes_over(const std::string& tensor) const override {
    return tensor.starts_with(config_.wrapping.prefix + "pooler.") ||
           tensor == config_.wrapping.prefix + "embeddings.mask_token";
  }

  // Hugging Face's start, whose normal numbers are cut far out, at a distance of 2.
  State random_state(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    auto theta = at::zeros({layout_.size()}, at::kFloat);
    auto views = layout_.parameter_views(theta);
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& p = layout_.parameters()[i];
      if (p.kind == Kind::norm) {
        if (p.name.ends_with(".weight")) views[i].fill_(1);
      } else if (!p.name.ends_with(".bias")) {
        views[i].normal_(0, config_.initializer_range, generator).clamp_(-2, 2);
      }
    }
    return {theta, {}};
  }

  template <class T>
  T embed_of(const Blocks<T>& p, const Given& given) const {
    const T x =
        affine(autodiff::constant(patches_of(given, takes(), config_.patch), p[patch_.weight]), p, patch_);
    return autodiff::add_position(autodiff::prepend_token(p[class_token_], x), p[position_]);
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T x, const Given&, Reach reach) const {
    const auto& layer = layers_[static_cast<std::size_t>(l - 1)];
    T attended = autodiff::attention(affine(normed(x, p, layer.norm1, config_.epsilon), p, layer.qkv),
                                     config_.heads, {});
    if (reach == Reach::read) {  // only the class token
      attended = autodiff::first_token(attended);
      x = autodiff::first_token(x);
    }
    x = autodiff::add(x, affine(attended, p, layer.out));
    const T hidden = autodiff::activate(affine(normed(x, p, layer.norm2, config_.epsilon), p, layer.fc1),
                                        config_.activation);
    return autodiff::add(x, affine(hidden, p, layer.fc2));
  }

  template <class T>
  T features_of(const Blocks<T>& p, T x, const Given&, Reach reach) const {
    return normed(reach == Reach::whole ? autodiff::first_token(x) : x, p, after_, config_.epsilon);
  }

 private:
  struct Layer {
    Affine norm1, qkv, out, norm2, fc1, fc2;
  };
  template <class T>
  static T affine(const T& x, const Blocks<T>& p, const Affine& at) {
    return autodiff::linear(x, p[at.weight], p[at.bias]);
  }

  Config config_;
  std::string config_json_;
  Layout layout_;
  std::size_t class_token_ = 0, position_ = 0;
  Affine patch_, after_;
  std::vector<Layer> layers_;
  Classifier classifier_;
};

}  // namespace

std::unique_ptr<Encoder> make_vit(const nlohmann::json& json, const std::string& where,
                                  const std::filesystem::path&) {
  const Keys keys(json, where);
  Config config;
  config.wrapping = wrapping_of(json, keys, "ViT", "vit");
  read_shape(keys, config);
  if (!keys.flag("qkv_bias", true)) keys.refuse("qkv_bias is false; expected true");
  return std::make_unique<Vit>(std::move(config), json.dump(2) + "\n");
}

}  // namespace taugrid::models
