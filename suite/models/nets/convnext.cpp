// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// ConvNeXt (Liu et al., 2022) as Hugging Face's ConvNextModel and ConvNextForImageClassification define it:
// groups of blocks, each a depthwise convolution of 7×7, a norm and two linear maps over channels, between
// which the picture is halved. A stage is a block, a group's first one with the halving before it; what lies
// between stages is [n, h, w, channels]. The features are the mean over the last group's places behind a
// norm. And as the image tower of a CLIP of open_clip (TimmModel), with timm's names and, behind those
// features, a projection into the space of texts. Stochastic depth (drop_path_rate) is left out, as dropout
// is elsewhere: f(x; θ) is a pure function.
#include "suite/models/nets/convnext.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <nlohmann/json.hpp>

#include "suite/models/nets/affine.hpp"
#include "suite/models/nets/nets.hpp"
#include "suite/models/nets/patches.hpp"

namespace taugrid::models {
namespace {

using autodiff::Kind;
using autodiff::Layout;

constexpr std::int64_t side = 7;              // of depthwise filters
constexpr const char* head = "visual.head.";  // of open_clip

using Config = ConvNextConfig;

class ConvNext final : public Net<ConvNext> {
 public:
  ConvNext(Config config, std::string config_json)
      : config_(std::move(config)), config_json_(std::move(config_json)) {
    const auto& prefix = config_.wrapping.prefix;
    auto in = config_.widths.front();
    const auto& names = config_.names;
    patch_ = add_convolution(Kind::embedding, prefix + names.patch, in, config_.channels, config_.patch);
    embedding_norm_ = add_norm(layout_, prefix + names.patch_norm, in);
    for (std::size_t g = 0; g < config_.depths.size(); ++g) {
      const auto group = prefix + names.group + std::to_string(g) + ".", down = group + names.down;
      const auto width = config_.widths[g];
      for (std::int64_t i = 0; i < config_.depths[g]; ++i) {
        layout_.begin_stage(static_cast<int>(blocks_.size()) + 1);
        Block block;
        block.halves = i == 0 && g > 0;
        if (i == 0 && g > 0) {
          block.down_norm = add_norm(layout_, down + "0", in);
          block.down = add_convolution(Kind::convolution, down + "1", width, in, 2);
        }
        add_block(block, group + names.block + std::to_string(i) + ".", width);
        blocks_.push_back(block);
      }
      in = width;
    }
    layout_.begin_stage(stages() + 1);
    after_ = add_norm(layout_, prefix + names.after, in);
    classifier_ = add_classifier(layout_, "classifier", config_.wrapping.classes, in);
    add_projection(in);
  }

  const Layout& layout() const override { return layout_; }
  std::string architecture() const override { return config_.wrapping.architecture; }
  std::string config_json() const override { return config_json_; }
  int stages() const override { return static_cast<int>(blocks_.size()); }
  std::int64_t width() const override {
    return config_.projection == Config::Projection::none ? config_.widths.back() : config_.projected;
  }
  Takes takes() const override { return {.image_size = config_.image, .channels = config_.channels}; }
  int vocabulary_block() const override { return classifier_.weight; }
  int vocabulary_bias() const override { return classifier_.bias; }
  // A whole CLIP's other tower, by the names of open_clip's CLIP and CustomTextCLIP.
  bool passes_over(const std::string& tensor) const override {
    if (config_.projection == Config::Projection::none) return false;
    return tensor.starts_with("transformer.") || tensor.starts_with("text.") ||
           tensor.starts_with("ln_final.") || tensor == "token_embedding.weight" ||
           tensor == "positional_embedding" || tensor == "text_projection" || tensor == "logit_scale" ||
           tensor == "logit_bias";
  }

  State random_state(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    auto theta = at::zeros({layout_.size()}, at::kFloat);
    auto views = layout_.parameter_views(theta);
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& p = layout_.parameters()[i];
      if (p.name.ends_with("." + config_.names.scale)) {
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
    return normed(convolved(x, p, patch_, config_.patch), p, embedding_norm_, config_.inner_epsilon);
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T h, const Given&, Reach) const {
    const auto& block = blocks_[static_cast<std::size_t>(l - 1)];
    if (block.halves)
      h = convolved(autodiff::channels_first(normed(h, p, block.down_norm, config_.inner_epsilon)), p,
                    block.down, 2);
    const T mixed = autodiff::channels_last(autodiff::convolve_depthwise(
        autodiff::channels_first(h), p[block.depthwise.weight], p[block.depthwise.bias]));
    const T hidden =
        autodiff::activate(affine(normed(mixed, p, block.norm, config_.inner_epsilon), p, block.fc1),
                           autodiff::Activation::gelu);
    const T change = affine(hidden, p, block.fc2);
    return autodiff::add(h, config_.layer_scale > 0 ? autodiff::scale(change, p[block.scale]) : change);
  }

  template <class T>
  T features_of(const Blocks<T>& p, T h, const Given&, Reach) const {
    const T z = normed(autodiff::mean_places(autodiff::channels_first(h)), p, after_, config_.epsilon);
    if (config_.projection == Config::Projection::none) return z;
    if (config_.projection == Config::Projection::linear) return projected(z, p);
    return projected(autodiff::activate(affine(z, p, hidden_), autodiff::Activation::gelu), p);
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
    const auto& names = config_.names;
    block.depthwise = add_convolution(Kind::convolution, name + names.depthwise, width, 1, side);
    block.norm = add_norm(layout_, name + names.norm, width);
    block.fc1 = add_linear(layout_, Kind::mlp_weight, Kind::mlp_bias, name + names.fc1, 4 * width, width);
    block.fc2 = add_linear(layout_, Kind::mlp_weight, Kind::mlp_bias, name + names.fc2, width, 4 * width);
    if (config_.layer_scale > 0) block.scale = layout_.add(Kind::norm, {name + names.scale}, {width});
  }
  /// As open_clip's TimmModel: a linear map, or two with a GELU between, the first twice as wide.
  void add_projection(std::int64_t in) {
    if (config_.projection == Config::Projection::none) return;
    const bool deep = config_.projection == Config::Projection::mlp;
    if (deep) {
      hidden_ = add_linear(layout_, Kind::projection, Kind::projection, std::string(head) + "mlp.fc1",
                           2 * config_.projected, in);
      in = 2 * config_.projected;
    }
    const auto name = std::string(head) + (deep ? "mlp.fc2" : "proj");
    projection_.weight = layout_.add(Kind::projection, {name + ".weight"}, {config_.projected, in});
    if (config_.projection_bias)
      projection_.bias = layout_.add(Kind::projection, {name + ".bias"}, {config_.projected});
  }
  template <class T>
  T projected(const T& z, const Blocks<T>& p) const {
    return config_.projection_bias ? affine(z, p, projection_) : autodiff::linear(z, p[projection_.weight]);
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
  Affine patch_, embedding_norm_, after_, hidden_, projection_;
  std::vector<Block> blocks_;
  Classifier classifier_;
};

}  // namespace

void check_groups(const Keys& keys, const ConvNextConfig& config, const std::string& widths) {
  const auto groups = static_cast<std::int64_t>(config.depths.size());
  if (config.widths.size() != config.depths.size())
    keys.refuse(widths + " has " + std::to_string(config.widths.size()) + " numbers and depths " +
                std::to_string(groups) + "; expected as many");
  if (const auto least = config.patch << (groups - 1); config.image < least)
    keys.refuse("image_size is " + std::to_string(config.image) + "; expected at least " +
                std::to_string(least) + ", which the last group has one place of");
}

std::unique_ptr<Encoder> convnext_of(ConvNextConfig config, std::string config_json) {
  return std::make_unique<ConvNext>(std::move(config), std::move(config_json));
}

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
  if (config.widths.size() == config.depths.size() && keys.integer("num_stages", groups) != groups)
    keys.refuse("num_stages is not the number of depths, " + std::to_string(groups));
  check_groups(keys, config, "hidden_sizes");
  return convnext_of(std::move(config), json.dump(2) + "\n");
}

}  // namespace taugrid::models
