// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A multilayer perceptron over a picture's numbers, channel by channel, row by row. transformers has no class
// for it, so its folder is defined here: config.json has image_size, num_channels, hidden_sizes, hidden_act
// and perhaps num_classes; model.safetensors has the names of torchvision.ops.MLP(channels · rows · columns,
// [*hidden_sizes, num_classes]), a linear map in every third place of a list: 0.weight, 0.bias, 3.weight, ….
// The features are the last hidden layer behind its activation; the linear map behind that is the classifier
// (suite/models/nets/classifier.hpp).
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <nlohmann/json.hpp>

#include "suite/models/nets/affine.hpp"
#include "suite/models/nets/classifier.hpp"
#include "suite/models/nets/nets.hpp"
#include "suite/models/start.hpp"
#include "suite/models/nets/patches.hpp"

namespace taugrid::models {
namespace {

using autodiff::Activation;
using autodiff::Kind;
using autodiff::Layout;

struct Config {
  std::int64_t image = 28, channels = 1, classes = 0;
  std::vector<std::int64_t> hidden = {100, 100};
  Activation activation = Activation::relu;
};

class Mlp final : public Net<Mlp> {
 public:
  Mlp(Config config, std::string config_json)
      : config_(std::move(config)), config_json_(std::move(config_json)) {
    auto in = config_.channels * config_.image * config_.image;
    for (std::size_t i = 0; i < config_.hidden.size(); ++i) {
      layout_.begin_stage(static_cast<int>(i));
      layers_.push_back(add_linear(layout_, Kind::mlp_weight, Kind::mlp_bias, std::to_string(3 * i),
                                   config_.hidden[i], in));
      in = config_.hidden[i];
    }
    layout_.begin_stage(stages() + 1);
    classifier_ = add_classifier(layout_, std::to_string(3 * layers_.size()), config_.classes, in);
  }

  const Layout& layout() const override { return layout_; }
  std::string architecture() const override { return "MLP"; }
  std::string config_json() const override { return config_json_; }
  int stages() const override { return static_cast<int>(layers_.size()) - 1; }
  std::int64_t width() const override { return config_.hidden.back(); }
  Takes takes() const override { return {.image_size = config_.image, .channels = config_.channels}; }
  int vocabulary_block() const override { return classifier_.weight; }
  int vocabulary_bias() const override { return classifier_.bias; }
  bool passes_over(const std::string&) const override { return false; }

  // PyTorch's start of linear layers.
  State random_state(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    auto theta = at::zeros({layout_.size()}, at::kFloat);
    auto views = layout_.parameter_views(theta);
    for (std::size_t i = 0; i < views.size(); i += 2) {  // weights and biases take turns
      for (std::size_t k = i; k < i + 2; ++k) start_linear(views[k], views[i].size(1), generator);
    }
    return {theta, {}};
  }

  template <class T>
  T embed_of(const Blocks<T>& p, const Given& x) const {
    return layer(0, p, autodiff::constant(pictures_of(x, takes()).flatten(1), p.front()));
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T h, const Given&, Reach) const {
    return layer(static_cast<std::size_t>(l), p, h);
  }

  template <class T>
  T features_of(const Blocks<T>&, T h, const Given&, Reach) const {
    return h;
  }

 private:
  template <class T>
  T layer(std::size_t i, const Blocks<T>& p, const T& h) const {
    return autodiff::activate(autodiff::linear(h, p[layers_[i].weight], p[layers_[i].bias]),
                              config_.activation);
  }

  Config config_;
  std::string config_json_;
  Layout layout_;
  std::vector<Affine> layers_;
  Classifier classifier_;
};

}  // namespace

std::unique_ptr<Encoder> make_mlp(const nlohmann::json& json, const std::string& where,
                                  const std::filesystem::path&) {
  const Keys keys(json, where);
  Config config;
  config.image = keys.integer("image_size", config.image, 10'000);
  config.channels = keys.integer("num_channels", config.channels);
  config.hidden = keys.integers("hidden_sizes", config.hidden, 1000);
  config.classes = classes_of(keys);
  const auto activation = keys.word("hidden_act", "relu");
  if (activation != "relu" && activation != "gelu")
    keys.refuse("hidden_act is '" + activation + "'; expected relu or gelu");
  config.activation = activation == "gelu" ? Activation::gelu : Activation::relu;
  return std::make_unique<Mlp>(std::move(config), json.dump(2) + "\n");
}

}  // namespace taugrid::models
