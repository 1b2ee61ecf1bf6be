// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// BERT (Devlin et al., 2019) and RoBERTa (Liu et al., 2019) as Hugging Face defines them. As encoders of
// texts (BertModel, RobertaModel, without their pooler) the features are the mean over the tokens in use or
// the first token, as a sentence-transformers folder says. As masked language models (BertForMaskedLM,
// RobertaForMaskedLM) they are LN(act(W h + b)) of the state h at the mask, which label words read by rows of
// the vocabulary. Dropout is left out: f(x; θ) is a pure function.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "suite/models/nets/affine.hpp"
#include "suite/models/nets/nets.hpp"
#include "suite/models/packing.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/input_json.hpp"

namespace taugrid::models {
namespace {

using autodiff::Activation;
using autodiff::Kind;
using autodiff::Layout;

struct Config {
  std::string model = "BertModel";
  std::string prefix;  // of tensors' names, where the encoder is a part of a larger model
  std::int64_t hidden = 768, mlp = 3072, layers = 12, heads = 12, vocabulary = 30522, positions = 512,
               types = 2;
  std::int64_t padding = 0;         // the token whose row of the vocabulary starts at zero
  std::int64_t first_position = 0;  // of a text's first token: RoBERTa counts from behind its padding token
  double epsilon = 1e-12, initializer_range = 0.02;
  Activation activation = Activation::gelu, head_activation = Activation::gelu;
  bool mean_pooled = true;
  bool masked_lm = false, tied = true;  // label words read by the embeddings' rows, or by rows of their own
  bool roberta = false;
};

/// Tensors of a masked language model's head.
struct HeadNames {
  std::string dense, norm, decoder, bias;
};
HeadNames head_names(bool roberta) {
  if (roberta) return {"lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias"};
  const std::string top = "cls.predictions.";
  return {top + "transform.dense", top + "transform.LayerNorm", top + "decoder", top + "bias"};
}

class Bert final : public Net<Bert> {
 public:
  Bert(const Config& config, std::string config_json, Files beside)
      : config_(config), config_json_(std::move(config_json)), beside_(std::move(beside)) {
    const auto d = config.hidden;
    const auto top = config.prefix + "embeddings.";
    words_ = layout_.add(Kind::embedding, {top + "word_embeddings.weight"}, {config.vocabulary, d});
    positions_ = layout_.add(Kind::embedding, {top + "position_embeddings.weight"}, {config.positions, d});
    types_ = layout_.add(Kind::embedding, {top + "token_type_embeddings.weight"}, {config.types, d});
    norm_ = add_norm(layout_, top + "LayerNorm", d);
    for (std::int64_t i = 0; i < config.layers; ++i) {
      layout_.begin_stage(static_cast<int>(i) + 1);
      const auto name = config.prefix + "encoder.layer." + std::to_string(i) + ".";
      const auto self = name + "attention.self.";
      Layer layer;
      layer.qkv = add_qkv(layout_, self + "query", self + "key", self + "value", d);
      layer.out = add_linear(layout_, Kind::attention_weight, Kind::attention_bias,
                             name + "attention.output.dense", d, d);
      layer.norm1 = add_norm(layout_, name + "attention.output.LayerNorm", d);
      layer.fc1 =
          add_linear(layout_, Kind::mlp_weight, Kind::mlp_bias, name + "intermediate.dense", config.mlp, d);
      layer.fc2 = add_linear(layout_, Kind::mlp_weight, Kind::mlp_bias, name + "output.dense", d, config.mlp);
      layer.norm2 = add_norm(layout_, name + "output.LayerNorm", d);
      layers_.push_back(layer);
    }
    if (!config.masked_lm) return;
    layout_.begin_stage(stages() + 1);
    const auto names = head_names(config.roberta);
    dense_ = add_linear(layout_, Kind::word_head, Kind::word_head, names.dense, d, d);
    head_norm_.weight = layout_.add(Kind::word_head, {names.norm + ".weight"}, {d});
    head_norm_.bias = layout_.add(Kind::word_head, {names.norm + ".bias"}, {d});
    read_words_ = words_;
    if (!config.tied)
      read_words_ = layout_.add(Kind::word_head, {names.decoder + ".weight"}, {config.vocabulary, d});
    word_bias_ = layout_.add(Kind::word_head, {config.tied ? names.bias : names.decoder + ".bias"},
                             {config.vocabulary}, {config.vocabulary, 1});
  }

  const Layout& layout() const override { return layout_; }
  std::string architecture() const override { return config_.model; }
  std::string config_json() const override { return config_json_; }
  Files beside_config() const override { return beside_; }
  int stages() const override { return static_cast<int>(config_.layers); }
  std::int64_t width() const override { return config_.hidden; }
  Takes takes() const override {
    return {.vocabulary = config_.vocabulary,
            .tokens = config_.positions - config_.first_position,
            .types = config_.types,
            .mask = config_.masked_lm};
  }
  const char* space() const override {
    return config_.masked_lm ? "word head's output at the mask" : Encoder::space();
  }
  int vocabulary_block() const override { return config_.masked_lm ? static_cast<int>(read_words_) : -1; }
  int vocabulary_bias() const override { return config_.masked_lm ? static_cast<int>(word_bias_) : -1; }

  // Position ids, the pooler, and the head of a language model or of labels; of a masked language model what
  // only doubles its own tensors, and the head for next sentences.
  bool passes_over(const std::string& tensor) const override {
    if (tensor.ends_with(".position_ids") || tensor.starts_with("pooler.") ||
        tensor.starts_with(config_.prefix + "pooler."))
      return true;
    if (!config_.masked_lm)
      return tensor.starts_with("cls.") || tensor.starts_with("lm_head.") ||
             tensor.starts_with("classifier.") || tensor.starts_with("qa_outputs.");
    const auto names = head_names(config_.roberta);
    if (config_.tied && tensor.starts_with(names.decoder + ".")) return true;
    return tensor == names.bias || tensor.starts_with("cls.seq_relationship.");
  }

  State random_state(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    auto theta = at::zeros({layout_.size()}, at::kFloat);
    auto views = layout_.parameter_views(theta);
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& p = layout_.parameters()[i];
      if (p.kind == Kind::norm || p.name.ends_with("ayer_norm.weight") ||
          p.name.ends_with("LayerNorm.weight")) {
        if (p.name.ends_with(".weight")) views[i].fill_(1);
      } else if (p.name.ends_with(".weight")) {
        views[i].normal_(0, config_.initializer_range, generator);
      }
      if (p.name.ends_with("word_embeddings.weight") && config_.padding < config_.vocabulary)
        views[i][config_.padding].zero_();
      if (p.name.ends_with("position_embeddings.weight") && config_.first_position > 0)
        views[i][config_.first_position - 1].zero_();
    }
    return {theta, {}};
  }

  template <class T>
  T embed_of(const Blocks<T>& p, const Given& x) const {
    const auto& ids = x.batch.inputs;
    const auto types = x.batch.types.defined() ? x.batch.types : at::zeros_like(ids);
    const T words = autodiff::add(autodiff::lookup(p[words_], ids), autodiff::lookup(p[types_], types));
    return normed(autodiff::add_position(words, p[positions_], config_.first_position), p, norm_,
                  config_.epsilon);
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T h, const Given& x, Reach reach) const {
    const auto& layer = layers_[static_cast<std::size_t>(l - 1)];
    const auto mask = attention_mask(x.batch, autodiff::options_of(h));
    const auto packing = packing_of(x.batch);
    const auto affine = [&p](const T& y, const Affine& at) {
      return autodiff::linear(y, p[at.weight], p[at.bias]);
    };
    h = autodiff::pack_tokens(h, packing);
    T attended = autodiff::attention(affine(h, layer.qkv), config_.heads, mask, packing);
    const bool one_token = reach == Reach::read && !config_.mean_pooled;
    if (one_token) {
      attended = read_of(autodiff::unpack_tokens(attended, packing), x);
      h = read_of(autodiff::unpack_tokens(h, packing), x);
    }
    h = normed(autodiff::add(h, affine(attended, layer.out)), p, layer.norm1, config_.epsilon);
    const T hidden = autodiff::activate(affine(h, layer.fc1), config_.activation);
    h = normed(autodiff::add(h, affine(hidden, layer.fc2)), p, layer.norm2, config_.epsilon);
    return one_token ? h : autodiff::unpack_tokens(h, packing);
  }

  template <class T>
  T features_of(const Blocks<T>& p, T h, const Given& x, Reach reach) const {
    if (config_.mean_pooled)
      return autodiff::weighted_tokens(h, mean_weights(x.batch, autodiff::options_of(h)));
    if (reach == Reach::whole) h = read_of(h, x);
    if (!config_.masked_lm) return h;
    h = autodiff::linear(h, p[dense_.weight], p[dense_.bias]);
    return normed(autodiff::activate(h, config_.head_activation), p, head_norm_, config_.epsilon);
  }

 private:
  /// The mask, or the first token.
  template <class T>
  T read_of(const T& h, const Given& x) const {
    if (!config_.masked_lm) return autodiff::first_token(h);
    if (!x.batch.mask.defined()) throw std::logic_error("a masked language model's batch has no masks");
    return autodiff::token_at(h, x.batch.mask);
  }

  struct Layer {
    Affine qkv, out, norm1, fc1, fc2, norm2;
  };

  Config config_;
  std::string config_json_;
  Files beside_;
  Layout layout_;
  std::size_t words_ = 0, positions_ = 0, types_ = 0;
  Affine norm_;
  Affine dense_, head_norm_;
  std::size_t read_words_ = 0, word_bias_ = 0;
  std::vector<Layer> layers_;
};

/// Reads a sentence-transformers Pooling module's config.json.
bool is_mean_pooled(const nlohmann::json& json, const Keys& keys) {
  if (json.contains("pooling_mode")) {  // as later versions write it
    const auto mode = keys.word("pooling_mode", "");
    if (mode == "mean" || mode == "cls") return mode == "mean";
    keys.refuse("pooling_mode is '" + mode + "'; expected mean or cls");
  }
  const bool mean = keys.flag("pooling_mode_mean_tokens", false),
             first = keys.flag("pooling_mode_cls_token", false);
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with("pooling_mode_") && key != "pooling_mode_mean_tokens" &&
        key != "pooling_mode_cls_token" && value == true)
      keys.refuse(key + " is true; expected the mean over tokens or the first token alone");
  }
  if (mean == first)
    keys.refuse("expected one of pooling_mode_mean_tokens and pooling_mode_cls_token to be true");
  return mean;
}

/// What modules.json of a sentence-transformers folder says beside the encoder; without it, the mean over
/// tokens.
Files read_modules(const std::filesystem::path& folder, Config& config) {
  const auto path = folder / "modules.json";
  if (folder.empty() || !store::is_there(path)) return {};
  const std::string expected = "a sentence-transformers model's list of modules";
  const auto text = store::input_text(path, expected);
  Files files = {{"modules.json", text}};
  const auto modules = store::json_of(text, path.string(), expected, store::JsonKind::list);
  for (const auto& module : modules) {
    const Keys keys(module, path.string());
    if (!module.is_object()) keys.refuse("holds what is not an object");
    const auto type = keys.word("type", ""), place = keys.word("path", "");
    const auto kind = type.substr(type.rfind('.') + 1);
    if (kind == "Normalize" || (kind == "Transformer" && place.empty()))
      continue;  // a cosine is of unit rows anyway
    if (kind != "Pooling")
      keys.refuse("module '" + type + "' at '" + place +
                  "'; expected Transformer at '', Pooling and Normalize");
    if (place.empty() || place.find('/') != std::string::npos || place.starts_with("."))
      keys.refuse("path is '" + place + "'; expected a folder's plain name");
    const auto name = place + "/config.json";
    const std::string asked_for = "what modules.json asks for";
    files[name] = store::input_text(folder / name, asked_for);
    const auto pooling = store::json_of(files[name], (folder / name).string(), asked_for);
    config.mean_pooled = is_mean_pooled(pooling, Keys(pooling, (folder / name).string()));
  }
  return files;
}

/// BertModel, and the prefix "bert." where config.json tells of a model that holds one: a masked language
/// model, or the encoder in it, in a folder of sentence-transformers or beside a head of labels.
void read_names(const nlohmann::json& json, const Keys& keys, bool roberta, bool pooled, Config& config) {
  const std::string family = roberta ? "Roberta" : "Bert";
  config.model = family + "Model";
  if (!keys.has("architectures")) return;
  const auto& named = json["architectures"];
  if (!named.is_array() || named.size() != 1 || !named[0].is_string())
    keys.refuse("architectures is " + named.dump() + "; expected a list of one name");
  const auto name = named[0].get<std::string>();
  if (name == config.model) return;
  constexpr std::array<std::string_view, 4> of_labels = {
      "ForSequenceClassification", "ForTokenClassification", "ForMultipleChoice", "ForQuestionAnswering"};
  const bool has_labels = std::any_of(of_labels.begin(), of_labels.end(),
                                      [&](const auto kind) { return name == family + std::string(kind); });
  if (!has_labels && name != family + "ForMaskedLM" && name != family + "ForPreTraining")
    keys.refuse("architectures names " + name + "; expected " + config.model + ", " + family +
                "ForMaskedLM, or one with a head of labels, such as " + family + "ForSequenceClassification");
  config.prefix = roberta ? "roberta." : "bert.";
  if (pooled || has_labels) return;  // the encoder alone is read
  config.model = family + "ForMaskedLM";
  config.masked_lm = true;
  config.mean_pooled = false;
  config.tied = keys.flag("tie_word_embeddings", true);
}

}  // namespace

std::unique_ptr<Encoder> make_bert(const nlohmann::json& json, const std::string& where,
                                   const std::filesystem::path& folder) {
  const Keys keys(json, where);
  const bool roberta = keys.word("model_type", "bert") == "roberta";
  Config config;
  config.roberta = roberta;
  read_names(json, keys, roberta, !folder.empty() && store::is_there(folder / "modules.json"), config);
  if (roberta) config.vocabulary = 50265;  // Hugging Face's own default, as those above are BERT's
  config.hidden = keys.integer("hidden_size", config.hidden);
  config.mlp = keys.integer("intermediate_size", config.mlp);
  config.layers = keys.integer("num_hidden_layers", config.layers, 10'000);
  config.heads = keys.integer("num_attention_heads", config.heads);
  config.vocabulary = keys.integer("vocab_size", config.vocabulary, 100'000'000);
  config.positions = keys.integer("max_position_embeddings", config.positions);
  config.types = keys.integer("type_vocab_size", config.types);
  config.epsilon = keys.real("layer_norm_eps", config.epsilon);
  config.initializer_range = keys.real("initializer_range", config.initializer_range);
  config.padding = roberta ? 1 : 0;
  if (keys.has("pad_token_id")) config.padding = keys.from_zero("pad_token_id", config.vocabulary);
  if (roberta) config.first_position = config.padding + 1;
  if (config.positions <= config.first_position)
    keys.refuse("max_position_embeddings leaves no place behind pad_token_id; expected more");
  if (const auto kind = keys.word("position_embedding_type", "absolute"); kind != "absolute")
    keys.refuse("position_embedding_type is '" + kind + "'; expected absolute");
  if (keys.flag("is_decoder", false)) keys.refuse("is_decoder is true; expected an encoder");
  const auto activation = keys.word("hidden_act", "gelu");
  if (activation != "gelu" && activation != "relu")
    keys.refuse("hidden_act is '" + activation + "'; expected gelu or relu");
  config.activation = activation == "gelu" ? Activation::gelu : Activation::relu;
  config.head_activation = roberta ? Activation::gelu : config.activation;  // as RobertaLMHead has it
  if (config.hidden % config.heads != 0) keys.refuse("hidden_size is not a multiple of num_attention_heads");
  auto beside = read_modules(folder, config);
  return std::make_unique<Bert>(config, json.dump(2) + "\n", std::move(beside));
}

}  // namespace taugrid::models
