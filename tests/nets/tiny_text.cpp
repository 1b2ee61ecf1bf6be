// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A small text encoder: words and positions, transformer layers with the norm behind each half, the mean over the
// words in use. Its vocabulary may also read label words, so that one block is used twice.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <nlohmann/json.hpp>

#include "suite/models/registry.hpp"

namespace taugrid::models {
namespace {

using autodiff::Kind;

class TinyText final : public Net<TinyText> {
 public:
  TinyText(const Keys& keys, std::string config_json)
      : config_json_(std::move(config_json)),
        vocabulary_(keys.integer("vocab_size", 40)),
        tokens_(keys.integer("max_tokens", 12)),
        width_(keys.integer("hidden_size", 16)),
        mlp_(keys.integer("intermediate_size", 24)),
        heads_(keys.integer("num_attention_heads", 2)),
        layers_(keys.integer("num_hidden_layers", 3)) {
    words_ = layout_.add(Kind::embedding, {"embeddings.word.weight"}, {vocabulary_, width_});
    positions_ = layout_.add(Kind::embedding, {"embeddings.position.weight"}, {tokens_, width_});
    before_ = pair(Kind::norm, Kind::norm, "embeddings.norm", {width_});
    for (std::int64_t l = 0; l < layers_; ++l) {
      layout_.begin_stage(static_cast<int>(l) + 1);
      const auto name = "layer." + std::to_string(l) + ".";
      Layer layer;
      layer.qkv = pair(Kind::attention_weight, Kind::attention_bias, name + "qkv", {3 * width_, width_});
      layer.out = pair(Kind::attention_weight, Kind::attention_bias, name + "out", {width_, width_});
      layer.norm1 = pair(Kind::norm, Kind::norm, name + "norm1", {width_});
      layer.fc1 = pair(Kind::mlp_weight, Kind::mlp_bias, name + "fc1", {mlp_, width_});
      layer.fc2 = pair(Kind::mlp_weight, Kind::mlp_bias, name + "fc2", {width_, mlp_});
      layer.norm2 = pair(Kind::norm, Kind::norm, name + "norm2", {width_});
      stages_.push_back(layer);
    }
  }

  const autodiff::Layout& layout() const override { return layout_; }
  std::string architecture() const override { return "TinyText"; }
  std::string config_json() const override { return config_json_; }
  int stages() const override { return static_cast<int>(layers_); }
  std::int64_t width() const override { return width_; }
  Takes takes() const override { return {.vocabulary = vocabulary_, .tokens = tokens_}; }
  int vocabulary_block() const override { return static_cast<int>(words_); }
  bool passes_over(const std::string&) const override { return false; }
  State random_state(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    auto theta = at::empty({layout_.size()}, at::kFloat).normal_(0, 0.3, generator);
    return {theta, {}};
  }

  template <class T>
  T embed_of(const Blocks<T>& p, const Given& x) const {
    return normed(autodiff::add_position(autodiff::lookup(p[words_], x.batch.inputs), p[positions_]), p, before_);
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T h, const Given& x, Reach) const {
    const auto& layer = stages_[static_cast<std::size_t>(l - 1)];
    const auto mask = attention_mask(x.batch, autodiff::options_of(h));
    const auto affine = [&p](const T& y, const Pair& at) { return autodiff::linear(y, p[at.weight], p[at.bias]); };
    const T attended = affine(autodiff::attention(affine(h, layer.qkv), heads_, mask), layer.out);
    h = normed(autodiff::add(h, attended), p, layer.norm1);
    const T hidden = autodiff::activate(affine(h, layer.fc1), autodiff::Activation::gelu);
    return normed(autodiff::add(h, affine(hidden, layer.fc2)), p, layer.norm2);
  }

  template <class T>
  T features_of(const Blocks<T>&, T h, const Given& x, Reach) const {
    return autodiff::weighted_tokens(h, mean_weights(x.batch, autodiff::options_of(h)));
  }

 private:
  struct Pair {
    std::size_t weight = 0, bias = 0;
  };
  struct Layer {
    Pair qkv, out, norm1, fc1, fc2, norm2;
  };
  Pair pair(Kind weight_kind, Kind bias_kind, const std::string& name, const std::vector<std::int64_t>& shape) {
    const auto weight = layout_.add(weight_kind, {name + ".weight"}, shape);
    return {weight, layout_.add(bias_kind, {name + ".bias"}, {shape.front()})};
  }
  template <class T>
  T normed(const T& x, const Blocks<T>& p, const Pair& at) const {
    return autodiff::layer_norm(x, p[at.weight], p[at.bias], 1e-5);
  }
  std::string config_json_;
  std::int64_t vocabulary_, tokens_, width_, mlp_, heads_, layers_;
  autodiff::Layout layout_;
  std::size_t words_ = 0, positions_ = 0;
  Pair before_;
  std::vector<Layer> stages_;
};

std::unique_ptr<Encoder> make(const nlohmann::json& config, const std::string& where, const std::filesystem::path&) {
  return std::make_unique<TinyText>(Keys(config, where), config.dump());
}

[[maybe_unused]] const bool registered = [] {
  register_architecture("tiny_text", make);
  return true;
}();

}  // namespace
}  // namespace taugrid::models
