// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// ConvNeXt (Liu et al., 2022) as Hugging Face's ConvNextModel and ConvNextForImageClassification define it:
// groups of blocks, each a depthwise convolution of 7×7, a norm and two linear maps over channels, between
// which the picture is halved. A stage is a block, a group's first one with the halving before it; what lies
// between stages is [n, h, w, channels]. The features are the mean over the last group's places behind a
// norm. Stochastic depth (drop_path_rate) is left out, as dropout is elsewhere: f(x; θ) is a pure function.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <nlohmann/json.hpp>

#include "suite/models/nets/affine.hpp"
#include "suite/models/nets/classifier.hpp"
#include "suite/models/nets/nets.hpp"
#include "suite/models/nets/patches.hpp"

namespace taugrid::models {
namespace {

using autodiff::Kind;
using autodiff::Layout;

constexpr double inner_epsilon = 1e-6;  // of all norms but the last
constexpr std::int64_t side = 7;        // of depthwise filters

struct Config {
  Wrapping wrapping;
  std::int64_t image = 224, channels = 3, patch = 4;
  std::vector<std::int64_t> depths = {3, 3, 9, 3}, widths = {96, 192, 384, 768};
  double epsilon = 1e-12, initializer_range = 0.02, layer_scale = 1e-6;
};

class ConvNext final : public Net<ConvNext> {
 public:
  ConvNext(Config config, std::string config_json)
      : config_(std::move(config)), config_json_(std::move(config_json)) {
    const auto& prefix = config_.wrapping.prefix;
    auto in = config_.widths.front();
    patch_ = add_convolution(Kind::embedding, prefix + "embeddings.patch_embeddings", in, config_.channels,
                             config_.patch);
    embedding_norm_ = add_norm(layout_, prefix + "embeddings.layernorm", in);
    for (std::size_t g = 0; g < config_.depths.size(); ++g) {
      const auto group = prefix + "encoder.stages." + std::to_string(g) + ".",
                 down = group + "downsampling_layer.";
      const auto width = config_.widths[g];
      for (std::int64_t i = 0; i < config_.depths[g]; ++i) {
        layout_.begin_stage(static_cast<int>(blocks_.size()) + 1);
        Block block;
        block.halves = i == 0 && g > 0;
        if (i == 0 && g > 0) {
          block.down_norm = add_norm(layout_, down + "0", in);
          block.down = add_convolution(Kind::convolution, down + "1", width, in, 2);
        }
        add_block(block, group + "layers." + std::to_string(i) + ".", width);
        blocks_.push_back(block);
      }
      in = width;
    }
    layout_.begin_stage(stages() + 1);
    after_ = add_norm(layout_, prefix + "layernorm", in);
    classifier_ = add_classifier(layout_, "classifier", config_.wrapping.classes, in);
  }

  const Layout& layout() const override { return layout_; }
  std::string architecture() const override { return config_.wrapping.architecture; }
  std::string config_json() const override { return config_json_; }
  int stages() const override { return static_cast<int>(blocks_.size()); }
  std::int64_t width() const override { return config_.widths.back(); }
  Takes takes() const override { return {.image_size = config_.image, .channels = config_.channels}; }
  int vocabulary_block() const override { return classifier_.weight; }
  int vocabulary_bias() const override { return classifier_.bias; }
  bool passes_over(const std::string&) const override { return false; }

  State random_state(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    auto theta = at::zeros({layout_.size()}, at::kFloat);
    auto views = layout_.parameter_views(theta);
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& p = layout_.parameters()[i];
      if (p.name.ends_with(".layer_scale_parameter")) {
        views[i].fill_(config_.layer_scale);
      } else if (p.kind == Kind::norm) {
        if (p.name.ends_with(".weight")) views[i].fill_(1);
      } else if (p.name.ends_with(".weight")) {
        views[i].normal_(0, config_.initializer_range, generator);
      }
    }
    return {theta, {}};
  }

  template <class T>
  T embed_of(const Blocks<T>& p, const Given& given) const {
    const T x = autodiff::constant(pictures_of(given, takes()), p[patch_.weight]);
    return normed(convolved(x, p, patch_, config_.patch), p, embedding_norm_, inner_epsilon);
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T h, const Given&, Reach) const {
    const auto& block = blocks_[static_cast<std::size_t>(l - 1)];
    if (block.halves)
      h = convolved(autodiff::channels_first(normed(h, p, block.down_norm, inner_epsilon)), p, block.down, 2);
    const T mixed = autodiff::channels_last(autodiff::convolve_depthwise(
        autodiff::channels_first(h), p[block.depthwise.weight], p[block.depthwise.bias]));
    const T hidden = autodiff::activate(affine(normed(mixed, p, block.norm, inner_epsilon), p, block.fc1),
                                        autodiff::Activation::gelu);
    const T change = affine(hidden, p, block.fc2);
    return autodiff::add(h, config_.layer_scale > 0 ? autodiff::scale(change, p[block.scale]) : change);
  }

  template <class T>
  T features_of(const Blocks<T>& p, T h, const Given&, Reach) const {
    return normed(autodiff::mean_places(autodiff::channels_first(h)), p, after_, config_.epsilon);
  }

 private:
  struct Block {
    bool halves = false;
    Affine down_norm, down, depthwise, norm, fc1, fc2;
    std::size_t scale = 0;
  };

  Affine add_convolution(Kind kind, const std::string& name, std::int64_t out, std::int64_t in,
                         std::int64_t extent) {
    const auto weight =
        layout_.add(kind, {name + ".weight"}, {out, in, extent, extent}, {out, in * extent * extent});
    return {weight, layout_.add(kind, {name + ".bias"}, {out})};
  }
  void add_block(Block& block, const std::string& name, std::int64_t width) {
    block.depthwise = add_convolution(Kind::convolution, name + "dwconv", width, 1, side);
    block.norm = add_norm(layout_, name + "layernorm", width);
    block.fc1 = add_linear(layout_, Kind::mlp_weight, Kind::mlp_bias, name + "pwconv1", 4 * width, width);
    block.fc2 = add_linear(layout_, Kind::mlp_weight, Kind::mlp_bias, name + "pwconv2", width, 4 * width);
    if (config_.layer_scale > 0)
      block.scale = layout_.add(Kind::norm, {name + "layer_scale_parameter"}, {width});
  }
  template <class T>
  static T affine(const T& x, const Blocks<T>& p, const Affine& at) {
    return autodiff::linear(x, p[at.weight], p[at.bias]);
  }
  /// A convolution whose windows do not overlap: pictures → [n, h, w, channels].
  template <class T>
  static T convolved(const T& x, const Blocks<T>& p, const Affine& at, std::int64_t extent) {
    return autodiff::channels_last(autodiff::convolve(x, p[at.weight], p[at.bias], extent, extent, 0));
  }

  Config config_;
  std::string config_json_;
  Layout layout_;
  Affine patch_, embedding_norm_, after_;
  std::vector<Block> blocks_;
  Classifier classifier_;
};

}  // namespace

std::unique_ptr<Encoder> make_convnext(const nlohmann::json& json, const std::string& where,
                                       const std::filesystem::path&) {
  const Keys keys(json, where);
  Config config;
  config.wrapping = wrapping_of(json, keys, "ConvNext", "convnext");
  config.image = keys.integer("image_size", config.image, 10'000);
  config.channels = keys.integer("num_channels", config.channels);
  config.patch = keys.integer("patch_size", config.patch);
  config.depths = keys.integers("depths", config.depths, 16, 1000);
  config.widths = keys.integers("hidden_sizes", config.widths, 16);
  config.epsilon = keys.real("layer_norm_eps", config.epsilon);
  config.initializer_range = keys.real("initializer_range", config.initializer_range);
  // 0: the model has no such parameters.
  if (json.contains("layer_scale_init_value") && json["layer_scale_init_value"] == 0)
    config.layer_scale = 0;
  else
    config.layer_scale = keys.real("layer_scale_init_value", config.layer_scale);
  if (keys.word("hidden_act", "gelu") != "gelu")
    keys.refuse("hidden_act is '" + keys.word("hidden_act", "") + "'; expected gelu");
  const auto groups = static_cast<std::int64_t>(config.depths.size());
  if (config.widths.size() != config.depths.size())
    keys.refuse("hidden_sizes has " + std::to_string(config.widths.size()) + " numbers and depths " +
                std::to_string(groups) + "; expected as many");
  if (keys.integer("num_stages", groups) != groups)
    keys.refuse("num_stages is not the number of depths, " + std::to_string(groups));
  if (const auto least = config.patch << (groups - 1); config.image < least)
    keys.refuse("image_size is " + std::to_string(config.image) + "; expected at least " +
                std::to_string(least) + ", which the last group has one place of");
  return std::make_unique<ConvNext>(std::move(config), json.dump(2) + "\n");
}

}  // namespace taugrid::models
