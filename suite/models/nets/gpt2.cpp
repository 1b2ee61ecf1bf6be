// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al., 2019) as Hugging Face defines it, a decoder-only language model:
//   h = words + positions
//   h ← h + W_proj attention(W_attn n),  n = norm(h)
//   h ← h + W_proj φ(W_fc n),            n = norm(h)
// with learned positions, layer norms, and biases everywhere. W_attn gives queries, keys and values at once.
// Its layers are stored as [in, out]. What is read of it, and answers of several tokens, are as of the other
// decoders (decoder.cpp, text_line.hpp).
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "suite/models/nets/affine.hpp"
#include "suite/models/nets/causal_net.hpp"
#include "suite/models/nets/generation_config.hpp"
#include "suite/models/packing.hpp"

namespace taugrid::models {
namespace {

using autodiff::Activation;
using autodiff::Kind;

constexpr const char* architecture_name = "GPT2LMHeadModel";

struct Config {
  std::int64_t width = 768, mlp = 4 * 768, layers = 12, heads = 12, vocabulary = 50257, tokens = 1024;
  double epsilon = 1e-5, initializer_range = 0.02;
  Activation activation = Activation::gelu_tanh;
  bool tied = true;
  std::vector<std::int64_t> ends;  // eos_token_id
};

class Gpt2 final : public CausalNet<Gpt2, Config> {
 public:
  Gpt2(Config config, std::string config_json, Files beside)
      : CausalNet(std::move(config), std::move(config_json), std::move(beside)) {
    const auto& c = config_;
    words_ = layout_.add(Kind::embedding, {"transformer.wte.weight"}, {c.vocabulary, c.width});
    positions_ = layout_.add(Kind::embedding, {"transformer.wpe.weight"}, {c.tokens, c.width});
    for (std::int64_t i = 0; i < c.layers; ++i) {
      layout_.begin_stage(static_cast<int>(i) + 1);
      const auto name = "transformer.h." + std::to_string(i) + ".";
      Layer layer;
      layer.norm = add_norm(layout_, name + "ln_1", c.width);
      layer.qkv = add_layer(true, name + "attn.c_attn", 3 * c.width, c.width);
      layer.out = add_layer(true, name + "attn.c_proj", c.width, c.width);
      layer.mlp_norm = add_norm(layout_, name + "ln_2", c.width);
      layer.up = add_layer(false, name + "mlp.c_fc", c.mlp, c.width);
      layer.down = add_layer(false, name + "mlp.c_proj", c.width, c.mlp);
      layers_.push_back(layer);
    }
    layout_.begin_stage(stages() + 1);
    norm_ = add_norm(layout_, "transformer.ln_f", c.width);
    read_words_ = c.tied ? words_ : layout_.add(Kind::word_head, {"lm_head.weight"}, {c.vocabulary, c.width});
  }

  std::string architecture() const override { return architecture_name; }

  // The double of tied embeddings, masks that early versions of transformers wrote, and a head of labels.
  bool passes_over(const std::string& tensor) const override {
    return (config_.tied && tensor == "lm_head.weight") || is_mask(tensor) ||
           tensor.ends_with(".attn.masked_bias") || tensor == "score.weight";
  }
  at::Tensor constant(const std::string& tensor) const override {
    constexpr std::int64_t most = 1 << 13;  // a mask of more tokens would be large
    if (!is_mask(tensor) || config_.tokens > most) return {};
    return at::ones({config_.tokens, config_.tokens}).tril().unsqueeze(0).unsqueeze(0);
  }

  State random_state(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    auto theta = at::zeros({layout_.size()}, at::kFloat);
    const auto views = layout_.parameter_views(theta);
    const double range = config_.initializer_range;
    const double onto_residuals = range / std::sqrt(2 * static_cast<double>(config_.layers));
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& parameter = layout_.parameters()[i];
      if (!parameter.name.ends_with(".weight")) continue;
      if (parameter.kind == Kind::norm) {
        views[i].fill_(1);
        continue;
      }
      const bool residual = parameter.name.ends_with(".c_proj.weight");
      auto drawn = at::empty(parameter.stored_shape(), at::kFloat);
      drawn.normal_(0, residual ? onto_residuals : range, generator);
      views[i].copy_(parameter.turned(drawn));
    }
    return {theta, {}};
  }

  template <class T>
  T embed_of(const Blocks<T>& p, const Given& x) const {
    const auto line = line_of(x.batch);
    const T words = autodiff::lookup(p[words_], line);
    if (x.batch.in_line() == 0) return autodiff::add_position(words, p[positions_]);
    // Shapes alone need no positions.
    const auto places = is_counted<T> ? line : positions_of(x.batch);
    return autodiff::add(words, autodiff::lookup(p[positions_], places));
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T h, const Given& x, Reach reach) const {
    const auto& layer = layers_[static_cast<std::size_t>(l - 1)];
    const auto places = x.batch.in_line(), tokens = x.batch.tokens();
    const auto packing = with_places(packing_of(x.batch), places);
    const auto options = autodiff::options_of(h);
    at::Tensor mask;  // which a model's longest text would not fit into memory: shapes alone need none
    if (!is_counted<T>)
      mask = places > 0
                 ? mask_of_answers(x.batch, positions_of(x.batch), 0, /*of_places=*/false, options)
                 : mask_of_all(tokens, 0, options).unsqueeze(0).expand({x.batch.size(), tokens, tokens});

    h = autodiff::pack_tokens(h, packing);
    T read = linear(normed(h, p, layer.norm, config_.epsilon), p, layer.qkv);
    read = autodiff::attention(read, config_.heads, mask, packing);
    if (reach == Reach::read) {  // only the last token of each text goes on, or the answers' places
      h = autodiff::unpack_tokens(h, packing);
      read = autodiff::unpack_tokens(read, packing);
      const auto last = places > 0 ? at::Tensor() : last_places(x.batch);
      h = places > 0 ? autodiff::some_tokens(h, 0, places) : one_token(h, last);
      read = places > 0 ? autodiff::some_tokens(read, 0, places) : one_token(read, last);
    }
    h = autodiff::add(h, linear(read, p, layer.out));
    T inner = linear(normed(h, p, layer.mlp_norm, config_.epsilon), p, layer.up);
    inner = linear(autodiff::activate(inner, config_.activation), p, layer.down);
    h = autodiff::add(h, inner);
    if (reach == Reach::read) return places > 0 ? h : autodiff::flatten_tokens(h);
    return autodiff::unpack_tokens(h, packing);
  }

  template <class T>
  T features_of(const Blocks<T>& p, T h, const Given& x, Reach reach) const {
    if (reach == Reach::whole) h = read_of_line(h, x.batch);
    return normed(h, p, norm_, config_.epsilon);
  }

 private:
  struct Layer {
    Affine norm, qkv, out, mlp_norm, up, down;
  };

  template <class T>
  static constexpr bool is_counted = std::is_same_v<T, autodiff::Counted>;

  static bool is_mask(const std::string& tensor) { return tensor.ends_with(".attn.bias"); }

  Affine add_layer(bool attention, const std::string& name, std::int64_t out, std::int64_t in) {
    const auto weight = layout_.add_transposed(attention ? Kind::attention_weight : Kind::mlp_weight,
                                               name + ".weight", out, in);
    return {weight, layout_.add(attention ? Kind::attention_bias : Kind::mlp_bias, {name + ".bias"}, {out})};
  }

  template <class T>
  static T linear(const T& x, const Blocks<T>& p, const Affine& map) {
    return autodiff::linear(x, p[map.weight], p[map.bias]);
  }

  std::size_t positions_ = 0;
  Affine norm_;
  std::vector<Layer> layers_;
};

Activation activation_of(const Keys& keys) {
  static const std::map<std::string, Activation> known = {
      {"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu", Activation::gelu},          {"relu", Activation::relu},
      {"silu", Activation::silu},          {"swish", Activation::silu}};
  const auto name = keys.word("activation_function", "gelu_new");
  const auto activation = known.find(name);
  if (activation == known.end())
    keys.refuse("activation_function is '" + name +
                "'; expected gelu_new, gelu_pytorch_tanh, gelu, relu, silu or swish");
  return activation->second;
}

void require_plain_attention(const Keys& keys) {
  if (!keys.flag("scale_attn_weights", true))
    keys.refuse("scale_attn_weights is false; expected scores over √d");
  if (keys.flag("scale_attn_by_inverse_layer_idx", false))
    keys.refuse("scale_attn_by_inverse_layer_idx is true; expected scores over √d alone");
  if (keys.flag("add_cross_attention", false))
    keys.refuse("add_cross_attention is true; expected a decoder without an encoder");
}

}  // namespace

std::unique_ptr<Encoder> make_gpt2(const nlohmann::json& json, const std::string& where,
                                   const std::filesystem::path& folder) {
  const Keys keys(json, where);
  Config config;
  config.tied = keys.flag("tie_word_embeddings", true);
  require_vocabulary(json, keys, architecture_name, "GPT2ForSequenceClassification", config.tied);
  config.width = keys.integer("n_embd", config.width);
  config.mlp = keys.has("n_inner") ? keys.integer("n_inner", config.mlp) : 4 * config.width;
  config.layers = keys.integer("n_layer", config.layers, 10'000);
  config.heads = keys.integer("n_head", config.heads);
  if (config.width % config.heads != 0) keys.refuse("n_embd is not a multiple of n_head");
  config.vocabulary = keys.integer("vocab_size", config.vocabulary, 100'000'000);
  config.tokens = keys.integer("n_positions", config.tokens, 100'000'000);
  config.epsilon = keys.real("layer_norm_epsilon", config.epsilon);
  config.initializer_range = keys.real("initializer_range", config.initializer_range);
  config.activation = activation_of(keys);
  require_plain_attention(keys);
  auto beside = generation_config(folder);
  config.ends = ends_of(json, keys, beside);
  auto written = as_written(json, keys, architecture_name);
  return std::make_unique<Gpt2>(std::move(config), std::move(written), std::move(beside));
}

}  // namespace taugrid::models
