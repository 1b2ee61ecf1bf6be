// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// T5 (Raffel et al., 2020), T5 1.1 and Flan-T5 as Hugging Face defines them (T5ForConditionalGeneration): an
// encoder of the prompt, and a decoder. Its input is the start token alone, of which the first generated step
// is read, or what Batch::decoder says (teacher forcing); its states h are read by rows of the vocabulary: of
// the embeddings, h times width^−1/2 (T5), or of a head of its own (T5 1.1, Flan-T5). Stages are the
// encoder's layers, then the decoder's, whose states stand before the encoder's output, [n, places + tokens,
// d]. The softmax over a decoder's one token is 1: its self-attention reads values alone, and queries, keys
// and relative bias there do not matter. Relative biases are one block of the first layer, which all layers
// of the encoder use, or of the decoder. Attention modules are the q, k, v and o of self- and
// cross-attention. Dropout is left out: f(x; θ) is a pure function.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "suite/models/nets/generation_config.hpp"
#include "suite/models/nets/nets.hpp"
#include "suite/models/packing.hpp"
#include "suite/store/tensor_folder.hpp"

namespace taugrid::models {
namespace {

using autodiff::Activation;
using autodiff::Kind;
using autodiff::Layout;

struct Config {
  std::int64_t width = 512, head_width = 64, mlp = 2048, layers = 6, decoder_layers = 6, heads = 8;
  std::int64_t vocabulary = 32128, tokens = 512;
  std::int64_t buckets = 32, max_distance = 128;
  std::int64_t start = 0;                // the decoder's first token
  std::vector<std::int64_t> ends = {1};  // those that end what it says
  double epsilon = 1e-6, initializer_factor = 1;
  bool gated = false, tied = true, scaled = true;
};

/// The buckets of distances of keys from queries (T5's paper, section 2.1), int64. Half of the buckets are of
/// one distance each, the others grow with its logarithm up to max_distance; of an encoder half of all are
/// for keys behind the query.
at::Tensor buckets_of(const at::Tensor& distance, const Config& config, bool both_sides) {
  const auto count = both_sides ? config.buckets / 2 : config.buckets, exact = count / 2;
  const auto size = both_sides ? distance.abs() : distance.neg().clamp_min(0);
  // In float32, as transformers has it, so that both round alike.
  const auto steps = (size.clamp_min(exact).to(at::kFloat) / exact).log() /
                     std::log(static_cast<double>(config.max_distance) / static_cast<double>(exact)) *
                     (count - exact);
  const auto far = (exact + steps.to(at::kLong)).clamp_max(count - 1);
  const auto bucket = at::where(size < exact, size, far);
  return both_sides ? bucket + distance.gt(0).to(at::kLong) * count : bucket;
}

class T5 final : public Net<T5> {
 public:
  T5(const Config& config, std::string config_json, Files beside)
      : config_(config), config_json_(std::move(config_json)), beside_(std::move(beside)) {
    const auto d = config.width;
    shared_ = layout_.add(Kind::embedding, {"shared.weight"}, {config.vocabulary, d});
    for (std::int64_t i = 0; i < config.layers; ++i) {
      layout_.begin_stage(static_cast<int>(i) + 1);
      Layer layer;
      const auto name = "encoder.block." + std::to_string(i) + ".layer.";
      layer.self = add_self_attention(name + "0.", i == 0 ? &bias_ : nullptr);
      layer.feed = add_feed_forward(name + "1.");
      layers_.push_back(layer);
    }
    for (std::int64_t i = 0; i < config.decoder_layers; ++i) {
      layout_.begin_stage(static_cast<int>(config.layers + i) + 1);
      if (i == 0) encoder_norm_ = add_norm("encoder.final_layer_norm.weight");
      Layer layer;
      const auto name = "decoder.block." + std::to_string(i) + ".layer.";
      layer.self = add_self_attention(name + "0.", i == 0 ? &decoder_bias_ : nullptr);
      layer.cross = add_cross_attention(name + "1.");
      layer.feed = add_feed_forward(name + "2.");
      layers_.push_back(layer);
    }
    layout_.begin_stage(stages() + 1);
    decoder_norm_ = add_norm("decoder.final_layer_norm.weight");
    words_ = config.tied ? shared_ : layout_.add(Kind::word_head, {"lm_head.weight"}, {config.vocabulary, d});
  }

  const Layout& layout() const override { return layout_; }
  std::string architecture() const override { return "T5ForConditionalGeneration"; }
  std::string config_json() const override { return config_json_; }
  Files beside_config() const override { return beside_; }
  int stages() const override { return static_cast<int>(config_.layers + config_.decoder_layers); }
  std::int64_t width() const override { return config_.width; }
  Takes takes() const override { return {.vocabulary = config_.vocabulary, .tokens = config_.tokens}; }
  int vocabulary_block() const override { return static_cast<int>(words_); }
  const char* space() const override { return "decoder's output at the first step"; }
  bool decodes(int l) const override { return is_decoder(l) && l <= stages(); }
  std::int64_t decoder_start() const override { return config_.start; }
  std::vector<std::int64_t> decoder_ends() const override { return config_.ends; }

  // What doubles the vocabulary, a bias of early checkpoints that no code reads, and a head of labels.
  bool passes_over(const std::string& tensor) const override {
    return tensor.ends_with(".embed_tokens.weight") ||
           tensor.ends_with(".EncDecAttention.relative_attention_bias.weight") ||
           (config_.tied && tensor == "lm_head.weight") || tensor.starts_with("classification_head.");
  }

  State random_state(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    auto theta = at::zeros({layout_.size()}, at::kFloat);
    auto views = layout_.parameter_views(theta);
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& p = layout_.parameters()[i];
      if (p.kind == Kind::norm) {
        views[i].fill_(config_.initializer_factor);
      } else {
        views[i].normal_(0, config_.initializer_factor * deviation(p), generator);
      }
    }
    return {theta, {}};
  }

  template <class T>
  T embed_of(const Blocks<T>& p, const Given& x) const {
    return autodiff::lookup(p[shared_], x.batch.inputs);
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T h, const Given& x, Reach reach) const {
    const auto& layer = layers_[static_cast<std::size_t>(l - 1)];
    const auto mask = attention_mask(x.batch, autodiff::options_of(h));
    const auto packing = packing_of(x.batch);
    const auto tokens = x.batch.tokens();
    if (!is_decoder(l)) {
      h = autodiff::pack_tokens(h, packing);
      h = autodiff::add(h, self_attention(h, p, layer.self, bias_, places(tokens, x), mask, packing));
      return autodiff::unpack_tokens(autodiff::add(h, feed_forward(h, p, layer.feed)), packing);
    }
    const bool first = !is_decoder(l - 1);
    const auto decoded = x.batch.decoded();
    T s = first ? autodiff::lookup(p[shared_], starts(x)) : autodiff::some_tokens(h, 0, decoded);
    const T memory = first ? autodiff::rms_norm(h, p[encoder_norm_], config_.epsilon)
                           : autodiff::some_tokens(h, decoded, tokens);
    s = autodiff::add(s, self_attention(s, p, layer.self, decoder_bias_, decoder_places(x),
                                        decoder_mask(x, autodiff::options_of(s)), {}));
    const T query =
        autodiff::linear(autodiff::rms_norm(s, p[layer.cross.norm], config_.epsilon), p[layer.cross.query]);
    const T kv = autodiff::linear(autodiff::pack_tokens(memory, packing), p[layer.cross.kv]);
    const T read = autodiff::cross_attention(query, kv, config_.heads, mask, packing);
    s = autodiff::add(s, autodiff::linear(read, p[layer.cross.out]));
    s = autodiff::add(s, feed_forward(s, p, layer.feed));
    return reach == Reach::read ? s : autodiff::join_tokens(s, memory);
  }

  template <class T>
  T features_of(const Blocks<T>& p, T h, const Given& x, Reach reach) const {
    if (reach == Reach::whole) h = autodiff::some_tokens(h, 0, x.batch.decoded());
    if (!x.batch.decoder.defined()) h = autodiff::first_token(h);
    const T z = autodiff::rms_norm(h, p[decoder_norm_], config_.epsilon);
    return config_.scaled ? autodiff::scale(z, 1 / std::sqrt(static_cast<double>(config_.width))) : z;
  }

 private:
  struct SelfAttention {
    std::size_t qkv = 0, out = 0, norm = 0;
  };
  struct CrossAttention {
    std::size_t query = 0, kv = 0, out = 0, norm = 0;
  };
  struct FeedForward {
    std::size_t in = 0, gate = 0, out = 0, norm = 0;  // gated: act(in x) ⊙ gate x
  };
  struct Layer {
    SelfAttention self;
    CrossAttention cross;  // of the decoder
    FeedForward feed;
  };

  bool is_decoder(int l) const { return l > config_.layers; }

  std::size_t add_norm(const std::string& name) { return layout_.add(Kind::norm, {name}, {config_.width}); }

  SelfAttention add_self_attention(const std::string& name, std::size_t* bias) {
    const auto d = config_.width, inner = config_.heads * config_.head_width;
    const auto at = name + "SelfAttention.";
    SelfAttention attention;
    attention.qkv =
        layout_.add(Kind::attention_weight, {at + "q.weight", at + "k.weight", at + "v.weight"}, {inner, d});
    attention.out = layout_.add(Kind::attention_weight, {at + "o.weight"}, {d, inner});
    if (bias != nullptr)
      *bias = layout_.add(Kind::attention_bias, {at + "relative_attention_bias.weight"},
                          {config_.buckets, config_.heads});
    attention.norm = add_norm(name + "layer_norm.weight");
    return attention;
  }

  CrossAttention add_cross_attention(const std::string& name) {
    const auto d = config_.width, inner = config_.heads * config_.head_width;
    const auto at = name + "EncDecAttention.";
    CrossAttention attention;
    attention.query = layout_.add(Kind::attention_weight, {at + "q.weight"}, {inner, d});
    attention.kv = layout_.add(Kind::attention_weight, {at + "k.weight", at + "v.weight"}, {inner, d});
    attention.out = layout_.add(Kind::attention_weight, {at + "o.weight"}, {d, inner});
    attention.norm = add_norm(name + "layer_norm.weight");
    return attention;
  }

  FeedForward add_feed_forward(const std::string& name) {
    const auto d = config_.width;
    const auto at = name + "DenseReluDense.";
    FeedForward feed;
    feed.in =
        layout_.add(Kind::mlp_weight, {at + (config_.gated ? "wi_0.weight" : "wi.weight")}, {config_.mlp, d});
    if (config_.gated) feed.gate = layout_.add(Kind::mlp_weight, {at + "wi_1.weight"}, {config_.mlp, d});
    feed.out = layout_.add(Kind::mlp_weight, {at + "wo.weight"}, {d, config_.mlp});
    feed.norm = add_norm(name + "layer_norm.weight");
    return feed;
  }

  /// The deviation of its normal start, over initializer_factor, as transformers has it.
  double deviation(const autodiff::Parameter& p) const {
    const auto root = [](std::int64_t n) { return 1 / std::sqrt(static_cast<double>(n)); };
    if (p.kind == Kind::embedding || p.kind == Kind::word_head) return 1;
    if (p.name.ends_with(".q.weight")) return root(config_.width * config_.head_width);
    if (p.name.ends_with(".o.weight")) return root(config_.heads * config_.head_width);
    return root(p.name.ends_with(".wo.weight") ? config_.mlp : config_.width);
  }

  at::Tensor places(std::int64_t tokens, const Given& x) const {
    const auto all = at::arange(tokens, at::kLong);
    return buckets_of(all.unsqueeze(0) - all.unsqueeze(1), config_, true)
        .to(x.batch.held().device(), /*non_blocking=*/true);
  }
  /// How many places lie between on the way from the start; any number for keys that a query does not see.
  at::Tensor decoder_places(const Given& x) const {
    const auto decoded = x.batch.decoded();
    const auto of_distance =
        buckets_of(-at::arange(decoded, at::kLong), config_, false).to(x.batch.held().device());
    if (!x.batch.decoder.defined()) return of_distance.view({1, 1});
    const auto depth = x.batch.sees.sum(2);
    const auto distance = (depth.unsqueeze(2) - depth.unsqueeze(1)).clamp_min(0);
    return of_distance.index_select(0, distance.flatten()).view(distance.sizes());
  }
  at::Tensor decoder_mask(const Given& x, const at::TensorOptions& options) const {
    if (!x.batch.decoder.defined()) return {};
    return at::zeros(x.batch.sees.sizes(), options)
        .masked_fill_(x.batch.sees.logical_not(), -std::numeric_limits<double>::infinity());
  }
  at::Tensor starts(const Given& x) const {
    if (x.batch.decoder.defined()) return x.batch.decoder;
    return at::full({x.batch.size(), 1}, config_.start, x.batch.held().options().dtype(at::kLong));
  }

  template <class T>
  T self_attention(const T& h, const Blocks<T>& p, const SelfAttention& at, std::size_t bias,
                   const at::Tensor& places, const at::Tensor& mask, const autodiff::Packing& packing) const {
    const T qkv = autodiff::linear(autodiff::rms_norm(h, p[at.norm], config_.epsilon), p[at.qkv]);
    const T read = autodiff::relative_attention(qkv, p[bias], places, config_.heads, mask, packing);
    return autodiff::linear(read, p[at.out]);
  }

  template <class T>
  T feed_forward(const T& h, const Blocks<T>& p, const FeedForward& at) const {
    const T x = autodiff::rms_norm(h, p[at.norm], config_.epsilon);
    T inner = autodiff::activate(autodiff::linear(x, p[at.in]),
                                 config_.gated ? Activation::gelu_tanh : Activation::relu);
    if (config_.gated) inner = autodiff::multiply(inner, autodiff::linear(x, p[at.gate]));
    return autodiff::linear(inner, p[at.out]);
  }

  Config config_;
  std::string config_json_;
  Files beside_;
  Layout layout_;
  std::size_t shared_ = 0, bias_ = 0, decoder_bias_ = 0, encoder_norm_ = 0, decoder_norm_ = 0, words_ = 0;
  std::vector<Layer> layers_;  // the encoder's, then the decoder's
};

/// T5 scales what its embeddings read; T5 1.1 has a head of its own, which some versions of transformers call
/// tied all the same and keep beside the embeddings: the weights tell, where they are there.
void read_head(const nlohmann::json& json, const Keys& keys, const std::filesystem::path& folder,
               Config& config) {
  const bool tied = keys.flag("tie_word_embeddings", true);
  config.scaled = keys.flag("scale_decoder_outputs", tied);
  config.tied = config.scaled;
  if (config.scaled || folder.empty() || !store::TensorFolder::is_in(folder)) return;
  config.tied =
      tied && json.contains("scale_decoder_outputs") && !store::TensorFolder(folder).has("lm_head.weight");
}

void read_feed_forward(const nlohmann::json& json, const Keys& keys, Config& config) {
  const auto kind = keys.word("feed_forward_proj", "relu");
  if (kind != "relu" && kind != "gated-gelu")
    keys.refuse("feed_forward_proj is '" + kind + "'; expected relu or gated-gelu");
  config.gated = kind == "gated-gelu";
  const std::string usual = config.gated ? "gelu_new" : "relu";
  if (json.contains("dense_act_fn") && keys.word("dense_act_fn", "") != usual)
    keys.refuse("dense_act_fn is '" + keys.word("dense_act_fn", "") + "'; expected " + usual + ", which " +
                kind + " means");
}

void read_names(const nlohmann::json& json, const Keys& keys) {
  if (!keys.has("architectures")) return;
  const auto& named = json["architectures"];
  // T5WithLMHeadModel: as earlier transformers called it.
  if (named != nlohmann::json::array({"T5ForConditionalGeneration"}) &&
      named != nlohmann::json::array({"T5WithLMHeadModel"}) &&
      named != nlohmann::json::array({"T5ForSequenceClassification"}))
    keys.refuse("architectures is " + named.dump() +
                "; expected [\"T5ForConditionalGeneration\"] or [\"T5ForSequenceClassification\"]");
}

}  // namespace

std::unique_ptr<Encoder> make_t5(const nlohmann::json& json, const std::string& where,
                                 const std::filesystem::path& folder) {
  const Keys keys(json, where);
  read_names(json, keys);
  Config config;
  config.width = keys.integer("d_model", config.width);
  config.head_width = keys.integer("d_kv", config.head_width);
  config.mlp = keys.integer("d_ff", config.mlp);
  config.layers = keys.integer("num_layers", config.layers, 10'000);
  config.decoder_layers = config.layers;
  if (keys.has("num_decoder_layers"))
    config.decoder_layers = keys.integer("num_decoder_layers", config.layers, 10'000);
  config.heads = keys.integer("num_heads", config.heads);
  config.vocabulary = keys.integer("vocab_size", config.vocabulary, 100'000'000);
  config.tokens = keys.integer("n_positions", config.tokens);  // no limit of the model, but of a run's memory
  config.buckets = keys.integer("relative_attention_num_buckets", config.buckets);
  config.max_distance = keys.integer("relative_attention_max_distance", config.max_distance);
  if (config.buckets < 4 || config.buckets % 2 != 0)
    keys.refuse("relative_attention_num_buckets is " + std::to_string(config.buckets) +
                "; expected an even number of at least 4");
  if (config.max_distance <= config.buckets / 2)
    keys.refuse("relative_attention_max_distance is " + std::to_string(config.max_distance) +
                "; expected more than half of the buckets, " + std::to_string(config.buckets / 2));
  config.epsilon = keys.real("layer_norm_epsilon", config.epsilon);
  config.initializer_factor = keys.real("initializer_factor", config.initializer_factor);
  const auto token = [&](const char* key, std::int64_t fallback) {
    return keys.has(key) ? keys.from_zero(key, config.vocabulary - 1) : fallback;
  };
  config.start = token("decoder_start_token_id", token("pad_token_id", 0));
  const auto beside = generation_config(folder);
  if (const auto ends = ends_of(json, keys, beside); !ends.empty()) config.ends = ends;
  if (keys.flag("is_decoder", false)) keys.refuse("is_decoder is true; expected an encoder and a decoder");
  read_feed_forward(json, keys, config);
  read_head(json, keys, folder, config);
  return std::make_unique<T5>(config, json.dump(2) + "\n", beside);
}

}  // namespace taugrid::models
