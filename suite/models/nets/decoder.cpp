// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Decoder-only language models as Hugging Face defines them: Llama (Touvron et al., 2023; SmolLM2,
// TinyLlama), Mistral, Qwen2, Qwen3, Gemma 2 and the text model of Gemma 3. They are one block with switches:
//   x ← x + W_o attention(W_q n, W_k n, W_v n),  n = norm(x)
//   x ← x + W_down (φ(W_gate n) ⊙ W_up n),      n = norm(x)
// with rotary positions, RMS norms and grouped heads. The features are the final norm of the state at the
// last token of each prompt; label words are read by rows of the vocabulary, the embeddings or a head of
// their own. A token sees those before it and itself, so that nothing behind a prompt is ever read. Where
// answers of several tokens stand, text_line.hpp says.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "suite/models/nets/causal_net.hpp"
#include "suite/models/nets/generation_config.hpp"
#include "suite/models/nets/rotary.hpp"
#include "suite/models/packing.hpp"

namespace taugrid::models {
namespace {

using autodiff::Activation;
using autodiff::Kind;

struct Config {
  std::string architecture;
  std::int64_t width = 4096, mlp = 11008, layers = 32, heads = 32, key_heads = 32, head_width = 128;
  std::int64_t vocabulary = 32000, tokens = 2048;
  std::int64_t padding = -1;  // the token whose embedding starts at zero; −1: none
  double epsilon = 1e-6, initializer_range = 0.02;
  Activation activation = Activation::silu;
  bool tied = false;
  bool read_biases = false;  // q, k and v have biases
  bool out_bias = false;     // and so has o
  bool mlp_biases = false;
  bool head_norms = false;     // each head of q and k is normed
  bool centred_norms = false;  // norms multiply by 1 + w
  bool norms_behind = false;   // what attention and MLP give is normed as well
  double embedding_scale = 1, score_scale = 1, score_cap = 0, logit_cap = 0;
  std::vector<std::int64_t> ends;  // eos_token_id
  std::vector<std::int64_t>
      windows;  // a layer each: how many tokens one sees, itself among them; 0: all before
  RotaryFrequencies rotary, rotary_of_windows;
};

struct Linear {
  std::size_t weight = 0;
  int bias = -1;
};

class Decoder final : public CausalNet<Decoder, Config> {
 public:
  Decoder(Config config, std::string config_json, Files beside)
      : CausalNet(std::move(config), std::move(config_json), std::move(beside)) {
    const auto& c = config_;
    words_ = layout_.add(Kind::embedding, {"model.embed_tokens.weight"}, {c.vocabulary, c.width});
    for (std::int64_t i = 0; i < c.layers; ++i) {
      layout_.begin_stage(static_cast<int>(i) + 1);
      layers_.push_back(add_layer("model.layers." + std::to_string(i) + "."));
    }
    layout_.begin_stage(stages() + 1);
    norm_ = add_norm("model.norm");
    read_words_ = c.tied ? words_ : layout_.add(Kind::word_head, {"lm_head.weight"}, {c.vocabulary, c.width});
  }

  std::string architecture() const override { return config_.architecture; }
  double logit_cap() const override { return config_.logit_cap; }

  // The double of tied embeddings, frequencies that early versions of transformers wrote, and a head of
  // labels.
  bool passes_over(const std::string& tensor) const override {
    return (config_.tied && tensor == "lm_head.weight") || tensor.ends_with(".rotary_emb.inv_freq") ||
           tensor == "score.weight";
  }
  at::Tensor constant(const std::string& tensor) const override {
    return tensor.ends_with(".rotary_emb.inv_freq") ? config_.rotary.unscaled : at::Tensor();
  }

  State random_state(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    auto theta = at::zeros({layout_.size()}, at::kFloat);
    auto views = layout_.parameter_views(theta);
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& name = layout_.parameters()[i].name;
      if (name.ends_with("norm.weight")) {
        if (!config_.centred_norms) views[i].fill_(1);
      } else if (name.ends_with(".weight")) {
        views[i].normal_(0, config_.initializer_range, generator);
      }
      if (name == "model.embed_tokens.weight" && config_.padding >= 0 && config_.padding < config_.vocabulary)
        views[i][config_.padding].zero_();
    }
    return {theta, {}};
  }

  template <class T>
  T embed_of(const Blocks<T>& p, const Given& x) const {
    const T words = autodiff::lookup(p[words_], line_of(x.batch));
    return config_.embedding_scale == 1 ? words : autodiff::scale(words, config_.embedding_scale);
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T h, const Given& x, Reach reach) const {
    const auto& layer = layers_[static_cast<std::size_t>(l - 1)];
    const bool answers = x.batch.in_line() > 0;
    const auto packing = with_places(packing_of(x.batch), x.batch.in_line());
    const auto options = autodiff::options_of(h);
    const auto window = config_.windows[static_cast<std::size_t>(l - 1)];
    const auto& rotary = window > 0 ? config_.rotary_of_windows : config_.rotary;
    const bool last = reach == Reach::read;  // only the last token of each text goes on
    const auto tokens = x.batch.tokens();
    // Shapes alone need no angles and no mask, which of a model's longest text would not fit into memory.
    constexpr bool counted = std::is_same_v<T, autodiff::Counted>;
    const auto rotation = [&](const at::Tensor& places, bool by_row = false) {
      if (counted) return autodiff::Rotation{};
      auto angles = rotation_at(rotary, places, options);
      angles.by_row = by_row;
      return angles;
    };
    const auto positions = answers && !counted ? positions_of(x.batch) : at::Tensor();
    const auto mask = counted   ? at::Tensor()
                      : answers ? mask_of_answers(x.batch, positions, window, last, options)
                      : last    ? mask_of_last(x.batch, window, options)
                                : mask_of_all(tokens, window, options);
    constexpr bool packs = !std::is_same_v<T, autodiff::Recorded>;
    const auto of_all = answers ? rotation(by_rows(positions, packs ? packing : autodiff::Packing{}), true)
                                : rotation(at::arange(tokens, at::kLong));

    h = autodiff::pack_tokens(h, packing);
    T normed = normed_by(h, p, layer.norm);
    T kv = linear(normed, p, layer.kv);
    if (last && answers) {
      h = autodiff::some_tokens(autodiff::unpack_tokens(h, packing), 0, x.batch.in_line());
      normed = autodiff::some_tokens(autodiff::unpack_tokens(normed, packing), 0, x.batch.in_line());
    } else if (last) {
      const auto places = last_places(x.batch);
      h = one_token(autodiff::unpack_tokens(h, packing), places);
      normed = one_token(autodiff::unpack_tokens(normed, packing), places);
    }
    T q = linear(normed, p, layer.q);
    if (config_.head_norms) {
      q = autodiff::norm_heads(q, weight_of(p, layer.q_norm), config_.heads, config_.epsilon);
      kv = autodiff::norm_heads(kv, weight_of(p, layer.k_norm), config_.key_heads, config_.epsilon);
    }
    kv = autodiff::rotate_heads(kv, of_all, config_.key_heads, packing);
    if (last && answers) {
      const auto of_answers = counted ? at::Tensor() : positions.narrow(1, 0, x.batch.in_line()).flatten();
      q = autodiff::rotate_heads(q, rotation(of_answers, true), config_.heads);
    } else {
      q = last ? autodiff::rotate_heads(q, rotation(x.batch.lengths - 1), config_.heads)
               : autodiff::rotate_heads(q, of_all, config_.heads, packing);
    }
    T read = autodiff::grouped_attention(q, kv, grouped(), mask, packing);
    read = linear(read, p, layer.out);
    if (config_.norms_behind) read = normed_by(read, p, layer.norm_behind_attention);
    h = autodiff::add(h, read);

    T inner =
        autodiff::gated(linear(normed_by(h, p, layer.mlp_norm), p, layer.gate_and_up), config_.activation);
    inner = linear(inner, p, layer.down);
    if (config_.norms_behind) inner = normed_by(inner, p, layer.norm_behind_mlp);
    h = autodiff::add(h, inner);
    if (last) return answers ? h : autodiff::flatten_tokens(h);
    return autodiff::unpack_tokens(h, packing);
  }

  template <class T>
  T features_of(const Blocks<T>& p, T h, const Given& x, Reach reach) const {
    if (reach == Reach::whole) h = read_of_line(h, x.batch);
    return normed_by(h, p, norm_);
  }

 private:
  struct Layer {
    Linear q, kv, out, gate_and_up, down;
    std::size_t q_norm = 0, k_norm = 0;
    std::size_t norm = 0, mlp_norm = 0, norm_behind_attention = 0, norm_behind_mlp = 0;
  };

  std::size_t add_norm(const std::string& name) {
    return layout_.add(Kind::norm, {name + ".weight"}, {config_.width});
  }

  Linear add_linear(bool attention, const std::vector<std::string>& names, std::int64_t out, std::int64_t in,
                    bool bias) {
    std::vector<std::string> weights, biases;
    for (const auto& name : names) {
      weights.push_back(name + ".weight");
      biases.push_back(name + ".bias");
    }
    Linear map;
    map.weight = layout_.add(attention ? Kind::attention_weight : Kind::mlp_weight, weights, {out, in});
    if (bias)
      map.bias =
          static_cast<int>(layout_.add(attention ? Kind::attention_bias : Kind::mlp_bias, biases, {out}));
    return map;
  }

  Layer add_layer(const std::string& name) {
    const auto& c = config_;
    const auto self = name + "self_attn.", mlp = name + "mlp.";
    const auto keys = c.key_heads * c.head_width, queries = c.heads * c.head_width;
    Layer layer;
    layer.norm = add_norm(name + "input_layernorm");
    layer.q = add_linear(true, {self + "q_proj"}, queries, c.width, c.read_biases);
    layer.kv = add_linear(true, {self + "k_proj", self + "v_proj"}, keys, c.width, c.read_biases);
    if (c.head_norms) {  // parts of the attention module
      layer.q_norm = layout_.add(Kind::attention_weight, {self + "q_norm.weight"}, {c.head_width});
      layer.k_norm = layout_.add(Kind::attention_weight, {self + "k_norm.weight"}, {c.head_width});
    }
    layer.out = add_linear(true, {self + "o_proj"}, c.width, queries, c.out_bias);
    // Where norms stand behind attention, too, post_attention_layernorm is that one.
    if (c.norms_behind) layer.norm_behind_attention = add_norm(name + "post_attention_layernorm");
    layer.mlp_norm =
        add_norm(name + (c.norms_behind ? "pre_feedforward_layernorm" : "post_attention_layernorm"));
    layer.gate_and_up = add_linear(false, {mlp + "gate_proj", mlp + "up_proj"}, c.mlp, c.width, c.mlp_biases);
    layer.down = add_linear(false, {mlp + "down_proj"}, c.width, c.mlp, c.mlp_biases);
    if (c.norms_behind) layer.norm_behind_mlp = add_norm(name + "post_feedforward_layernorm");
    return layer;
  }

  autodiff::GroupedHeads grouped() const {
    return {config_.heads, config_.key_heads, config_.score_scale, config_.score_cap};
  }

  template <class T>
  T weight_of(const Blocks<T>& p, std::size_t norm) const {
    return config_.centred_norms ? autodiff::plus(p[norm], 1) : p[norm];
  }
  template <class T>
  T normed_by(const T& x, const Blocks<T>& p, std::size_t norm) const {
    return autodiff::rms_norm(x, weight_of(p, norm), config_.epsilon);
  }
  template <class T>
  static T linear(const T& x, const Blocks<T>& p, const Linear& map) {
    if (map.bias < 0) return autodiff::linear(x, p[map.weight]);
    return autodiff::linear(x, p[map.weight], p[static_cast<std::size_t>(map.bias)]);
  }

  std::size_t norm_ = 0;
  std::vector<Layer> layers_;
};

struct Family {
  std::string_view model_type, name;
  bool is_gemma() const { return model_type.starts_with("gemma"); }
};
constexpr std::array<Family, 6> families = {{{"llama", "Llama"},
                                             {"mistral", "Mistral"},
                                             {"qwen2", "Qwen2"},
                                             {"qwen3", "Qwen3"},
                                             {"gemma2", "Gemma2"},
                                             {"gemma3_text", "Gemma3"}}};

/// Each family's own values where config.json says nothing, as transformers has them.
Config defaults_of(const Family& family) {
  Config config;
  if (family.model_type == "mistral") {
    config.mlp = 14336;
    config.key_heads = 8;
    config.tokens = 131072;
  } else if (family.name.starts_with("Qwen")) {
    config.mlp = 22016;
    config.vocabulary = 151936;
    config.tokens = 32768;
  } else if (family.is_gemma()) {
    config.width = 2304;
    config.mlp = 9216;
    config.layers = 26;
    config.heads = 8;
    config.key_heads = 4;
    config.head_width = 256;
    config.tied = true;
    config.vocabulary = family.model_type == "gemma2" ? 256000 : 262208;
    config.tokens = family.model_type == "gemma2" ? 8192 : 131072;
  }
  return config;
}

void read_shape(const nlohmann::json& json, const Keys& keys, const Family& family, Config& config) {
  config.width = keys.integer("hidden_size", config.width);
  config.mlp = keys.integer("intermediate_size", config.mlp);
  config.layers = keys.integer("num_hidden_layers", config.layers, 10'000);
  config.heads = keys.integer("num_attention_heads", config.heads);
  if (keys.has("num_key_value_heads"))
    config.key_heads = keys.integer("num_key_value_heads", config.heads);
  else if (family.model_type == "llama" || json.contains("num_key_value_heads"))
    config.key_heads = config.heads;
  if (config.heads % config.key_heads != 0)
    keys.refuse("num_attention_heads is not a multiple of num_key_value_heads");
  const bool own_width = family.is_gemma() || family.model_type == "qwen3";
  if (keys.has("head_dim")) {
    config.head_width = keys.integer("head_dim", config.head_width);
  } else if (!own_width || json.contains("head_dim")) {
    if (config.width % config.heads != 0) keys.refuse("hidden_size is not a multiple of num_attention_heads");
    config.head_width = config.width / config.heads;
  }
  if (config.head_width % 2 != 0) keys.refuse("head_dim is odd; expected pairs, which positions rotate");
  config.vocabulary = keys.integer("vocab_size", config.vocabulary, 100'000'000);
  config.tokens = keys.integer("max_position_embeddings", config.tokens, 100'000'000);
  config.epsilon = keys.real("rms_norm_eps", config.epsilon);
  config.initializer_range = keys.real("initializer_range", config.initializer_range);
  config.tied = keys.flag("tie_word_embeddings", config.tied);
  if (family.is_gemma()) config.padding = 0;
  if (json.contains("pad_token_id"))
    config.padding = json["pad_token_id"].is_null() || json["pad_token_id"] == -1
                         ? -1
                         : keys.from_zero("pad_token_id", 100'000'000);
}

void read_activation(const Keys& keys, const Family& family, Config& config) {
  const std::string usual = family.is_gemma() ? "gelu_pytorch_tanh" : "silu";
  // Early files of Gemma name the plain GELU under hidden_act and mean the approximation by tanh.
  const char* key = family.is_gemma() ? "hidden_activation" : "hidden_act";
  const auto named = keys.has(key) ? keys.word(key, usual) : usual;
  if (named != "silu" && named != "gelu_pytorch_tanh")
    keys.refuse(std::string(key) + " is '" + named + "'; expected silu or gelu_pytorch_tanh");
  config.activation = named == "silu" ? Activation::silu : Activation::gelu_tanh;
}

void read_switches(const nlohmann::json& json, const Keys& keys, const Family& family, Config& config) {
  const bool biases = keys.flag("attention_bias", false);
  if (family.model_type == "qwen2") {
    config.read_biases = true;
  } else if (family.model_type != "mistral") {
    config.read_biases = config.out_bias = biases;
  }
  if (family.model_type == "llama") config.mlp_biases = keys.flag("mlp_bias", false);
  config.head_norms = family.model_type == "qwen3" || family.model_type == "gemma3_text";
  config.score_scale = 1 / std::sqrt(static_cast<double>(config.head_width));
  if (!family.is_gemma()) return;
  if (keys.has("use_bidirectional_attention") && json["use_bidirectional_attention"] != false)
    keys.refuse("use_bidirectional_attention is not false; expected a model that reads what stands before");
  config.centred_norms = config.norms_behind = true;
  config.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(config.width)));
  config.score_scale = 1 / std::sqrt(keys.real("query_pre_attn_scalar", 256));
  const bool caps = family.model_type == "gemma2";
  const auto cap = [&](const char* key, double usual) {
    if (keys.has(key)) return keys.real(key, usual);
    return caps && !json.contains(key) ? usual : 0.0;
  };
  config.score_cap = cap("attn_logit_softcapping", 50);
  config.logit_cap = cap("final_logit_softcapping", 30);
  if (!caps && config.score_cap > 0)
    keys.refuse("attn_logit_softcapping is there, which no Gemma 3 applies; expected none");
}

/// Which layers look back a window alone.
std::vector<bool> sliding_layers(const nlohmann::json& json, const Keys& keys, const Family& family,
                                 std::int64_t layers) {
  std::vector<bool> sliding;
  if (keys.has("layer_types")) {
    const auto& types = json["layer_types"];
    if (!types.is_array() || types.size() != static_cast<std::size_t>(layers))
      keys.refuse("layer_types is no list of " + std::to_string(layers) + " names, one a layer");
    for (const auto& type : types) {
      if (type != "sliding_attention" && type != "full_attention")
        keys.refuse("layer_types holds " + type.dump().substr(0, 80) +
                    "; expected sliding_attention or full_attention");
      sliding.push_back(type == "sliding_attention");
    }
    return sliding;
  }
  const auto pattern = family.model_type == "gemma3_text" ? keys.integer("sliding_window_pattern", 6) : 2;
  const auto full = json.contains("max_window_layers") ? keys.from_zero("max_window_layers") : 28;
  for (std::int64_t i = 0; i < layers; ++i)
    sliding.push_back(family.is_gemma() ? (i + 1) % pattern != 0
                                        : family.model_type == "mistral" || i >= full);
  return sliding;
}

void read_windows(const nlohmann::json& json, const Keys& keys, const Family& family, Config& config) {
  config.windows.assign(static_cast<std::size_t>(config.layers), 0);
  if (family.model_type == "llama") return;
  const auto sliding = sliding_layers(json, keys, family, config.layers);
  if ((family.name.starts_with("Qwen") && !keys.flag("use_sliding_window", false)) ||
      (json.contains("sliding_window") && json["sliding_window"].is_null())) {
    if (keys.has("layer_types") && std::find(sliding.begin(), sliding.end(), true) != sliding.end())
      keys.refuse(std::string("layer_types has sliding_attention, but no window is in use; expected "
                              "sliding_window") +
                  (family.name.starts_with("Qwen") ? " and use_sliding_window = true" : ""));
    return;
  }
  const auto window = keys.integer("sliding_window", 4096, 100'000'000);
  for (std::size_t i = 0; i < sliding.size(); ++i) config.windows[i] = sliding[i] ? window : 0;
}

/// Gemma 3 rotates in layers with a window at a base of its own, without a scaling.
void read_rotary(const nlohmann::json& json, const Keys& keys, const Family& family, Config& config) {
  const auto of = [&](nlohmann::json parameters, double theta) {
    // As transformers 5 reads it: beside the scaling it counts before the one within.
    constexpr const char* before = "original_max_position_embeddings";
    if (parameters.is_object() && keys.has(before)) parameters[before] = json[before];
    return rotary_frequencies(parameters, keys, theta, config.head_width, config.tokens);
  };
  const bool nested = family.model_type == "gemma3_text";
  constexpr double theta_most = 1e12;
  const auto theta = keys.has("rope_theta") ? keys.real("rope_theta", 1, theta_most) : nested ? 1e6 : 1e4;
  const auto scaling = keys.has("rope_scaling") ? json["rope_scaling"] : nlohmann::json();
  const auto parameters = keys.has("rope_parameters") ? json["rope_parameters"] : nlohmann::json();
  if (!scaling.is_null() && !parameters.is_null())
    keys.refuse("has both rope_scaling and rope_parameters; expected one of them");
  if (nested && parameters.is_object() &&
      (parameters.contains("rope_type") || parameters.contains("rope_theta")))
    keys.refuse("rope_parameters are not by kind of layer; expected full_attention and sliding_attention");
  if (keys.has("partial_rotary_factor") && json["partial_rotary_factor"] != 1)
    keys.refuse("partial_rotary_factor is not 1; expected positions for whole heads");
  if (!nested) {
    config.rotary = config.rotary_of_windows = of(parameters.is_null() ? scaling : parameters, theta);
    return;
  }
  const auto part = [&](const char* layers) {
    return parameters.is_object() && parameters.contains(layers) ? parameters[layers] : nlohmann::json();
  };
  const auto full = part("full_attention");
  config.rotary = of(full.is_null() ? scaling : full, theta);
  const auto local =
      keys.has("rope_local_base_freq") ? keys.real("rope_local_base_freq", 1, theta_most) : 1e4;
  config.rotary_of_windows = of(part("sliding_attention"), local);
}

}  // namespace

void require_vocabulary(const nlohmann::json& json, const Keys& keys, const std::string& architecture,
                        const std::string& of_labels, bool tied) {
  if (!keys.has("architectures")) return;
  const auto& named = json["architectures"];
  const auto is = [&](const std::string& name) { return named == nlohmann::json::array({name}); };
  if (!is(architecture) && !(is(of_labels) && tied))
    keys.refuse("architectures is " + named.dump().substr(0, 80) + "; expected [\"" + architecture +
                "\"], a model with its vocabulary");
}

std::string as_written(nlohmann::json json, const Keys& keys, const std::string& architecture) {
  if (keys.has("architectures")) json["architectures"] = nlohmann::json::array({architecture});
  return json.dump(2) + "\n";
}

std::unique_ptr<Encoder> make_decoder(const nlohmann::json& json, const std::string& where,
                                      const std::filesystem::path& folder) {
  const Keys keys(json, where);
  const auto type = keys.word("model_type", "llama");
  const auto& family =
      *std::find_if(families.begin(), families.end(), [&](const Family& f) { return f.model_type == type; });
  auto config = defaults_of(family);
  const auto name = std::string(family.name);
  config.architecture = name + "ForCausalLM";
  require_vocabulary(json, keys, config.architecture, name + "ForSequenceClassification",
                     keys.flag("tie_word_embeddings", config.tied));
  read_shape(json, keys, family, config);
  read_activation(keys, family, config);
  read_switches(json, keys, family, config);
  read_windows(json, keys, family, config);
  read_rotary(json, keys, family, config);
  auto beside = generation_config(folder);
  config.ends = ends_of(json, keys, beside);
  auto written = as_written(json, keys, config.architecture);
  return std::make_unique<Decoder>(std::move(config), std::move(written), std::move(beside));
}

}  // namespace taugrid::models
