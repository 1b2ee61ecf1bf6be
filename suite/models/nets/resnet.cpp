// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Residual networks of basic blocks with batch norm (He et al., 2016, section 4): ResNet-18 and 34 as
// torchvision defines them, with its names, and the narrower ones for pictures of 32×32, such as ResNet-20
// (section 4.2). Their folder is defined here: model_type is torchvision_resnet (transformers' own ResNet has
// other names), and config.json has
//   image_size, num_channels
//   layers    blocks a group [2, 2, 2, 2]; each group but the first halves the picture
//   widths    channels a group [64, 128, 256, 512]
//   stem      "imagenet": a convolution of 7×7 with stride 2 and max pooling; "cifar": one of 3×3 alone
//   shortcut  of a block that changes the shape: "projection", a convolution of 1×1 with batch norm;
//   "identity", every
//             second place and zeros for further channels (option A of He et al.)
//   num_classes  where the model brings its classifier, fc
// The features are the mean over the last group's places. The statistics' counters (num_batches_tracked) are
// not kept: PyTorch sets them to 0 where a file has none.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <nlohmann/json.hpp>

#include "suite/models/nets/affine.hpp"
#include "suite/models/nets/classifier.hpp"
#include "suite/models/nets/nets.hpp"
#include "suite/models/nets/patches.hpp"
#include "suite/models/start.hpp"

namespace taugrid::models {
namespace {

using autodiff::Kind;
using autodiff::Layout;

constexpr double epsilon = 1e-5;  // torchvision's

struct Config {
  std::int64_t image = 224, channels = 3, classes = 0;
  std::vector<std::int64_t> layers = {2, 2, 2, 2}, widths = {64, 128, 256, 512};
  bool small_stem = false, projects = true;
};

class ResNet final : public Net<ResNet> {
 public:
  ResNet(Config config, std::string config_json)
      : config_(std::move(config)), config_json_(std::move(config_json)) {
    auto in = config_.widths.front();
    stem_ = add_unit("conv1", "bn1", in, config_.channels, config_.small_stem ? 3 : 7,
                     config_.small_stem ? 1 : 2);
    for (std::size_t g = 0; g < config_.layers.size(); ++g) {
      const auto width = config_.widths[g];
      for (std::int64_t i = 0; i < config_.layers[g]; ++i) {
        for (auto* of_stages : {&layout_, &buffers_})
          of_stages->begin_stage(static_cast<int>(blocks_.size()) + 1);
        const auto name = "layer" + std::to_string(g + 1) + "." + std::to_string(i) + ".";
        const std::int64_t stride = g > 0 && i == 0 ? 2 : 1;
        Block block;
        block.first = add_unit(name + "conv1", name + "bn1", width, in, 3, stride);
        block.second = add_unit(name + "conv2", name + "bn2", width, width, 3, 1);
        block.changes = stride > 1 || in != width;
        if (block.changes && config_.projects)
          block.shortcut = add_unit(name + "downsample.0", name + "downsample.1", width, in, 1, stride);
        block.stride = stride;
        block.width = width;
        blocks_.push_back(block);
        in = width;
      }
    }
    layout_.begin_stage(stages() + 1);
    classifier_ = add_classifier(layout_, "fc", config_.classes, in);
  }

  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  std::string architecture() const override { return "ResNet"; }
  std::string config_json() const override { return config_json_; }
  int stages() const override { return static_cast<int>(blocks_.size()); }
  std::int64_t width() const override { return config_.widths.back(); }
  Takes takes() const override { return {.image_size = config_.image, .channels = config_.channels}; }
  int vocabulary_block() const override { return classifier_.weight; }
  int vocabulary_bias() const override { return classifier_.bias; }
  bool passes_over(const std::string& tensor) const override {
    return tensor.ends_with(".num_batches_tracked");
  }

  // As torchvision: convolutions by He et al. (2015) from the number of outputs, the rest as PyTorch does.
  State random_state(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    State state{at::zeros({layout_.size()}, at::kFloat), at::zeros({buffers_.size()}, at::kFloat)};
    auto views = layout_.parameter_views(state.theta);
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& p = layout_.parameters()[i];
      const auto outputs =
          static_cast<double>(p.count) / static_cast<double>(p.shape.size() > 1 ? p.shape[1] : 1);
      if (p.kind == Kind::convolution) views[i].normal_(0, std::sqrt(2 / outputs), generator);
      if (p.kind == Kind::norm && p.name.ends_with(".weight")) views[i].fill_(1);
      if (p.kind == Kind::projection) start_linear(views[i], width(), generator);
    }
    auto stored = buffers_.views(state.buffers);
    for (std::size_t i = 1; i < stored.size(); i += 2) stored[i].fill_(1);  // variances
    return state;
  }

  template <class T>
  T embed_of(const Blocks<T>& p, const Given& x) const {
    const T h =
        rectified(normed(autodiff::constant(pictures_of(x, takes()), p[stem_.weight]), false, p, x, stem_));
    return config_.small_stem ? h : autodiff::max_pool(h, 3, 2, 1);
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T h, const Given& x, Reach) const {
    const auto& block = blocks_[static_cast<std::size_t>(l - 1)];
    const T inside = normed(normed(h, false, p, x, block.first), true, p, x, block.second);
    if (!block.changes) return rectified(autodiff::add(inside, h));
    return rectified(autodiff::add(inside, config_.projects
                                               ? normed(h, false, p, x, block.shortcut)
                                               : autodiff::thin_out(h, block.stride, block.width)));
  }

  template <class T>
  T features_of(const Blocks<T>&, T h, const Given&, Reach) const {
    return autodiff::mean_places(h);
  }

 private:
  /// A convolution and its batch norm. Units are added in the order in which they run.
  struct Unit {
    std::size_t weight = 0, statistics = 0;
    Affine norm;
    std::int64_t side = 0, stride = 0;
  };
  struct Block {
    Unit first, second, shortcut;
    bool changes = false;
    std::int64_t stride = 1, width = 0;
  };

  Unit add_unit(const std::string& convolution, const std::string& norm, std::int64_t out, std::int64_t in,
                std::int64_t side, std::int64_t stride) {
    Unit unit;
    unit.side = side;
    unit.stride = stride;
    unit.weight = layout_.add(Kind::convolution, {convolution + ".weight"}, {out, in, side, side},
                              {out, in * side * side});
    unit.norm = add_norm(layout_, norm, out);
    unit.statistics = buffers_.add(Kind::norm, {norm + ".running_mean"}, {out});
    buffers_.add(Kind::norm, {norm + ".running_var"}, {out});
    return unit;
  }
  /// Convolves and normalises h, or max(h, 0) where it is `rectified` before.
  template <class T>
  T normed(const T& h, bool rectified, const Blocks<T>& p, const Given& x, const Unit& at) const {
    return autodiff::convolve_normed<T>(h, rectified, p[at.weight], at.side, at.stride, at.side / 2,
                                        {p[at.norm.weight], p[at.norm.bias], x.buffers[at.statistics],
                                         x.buffers[at.statistics + 1], epsilon, x.statistics});
  }
  template <class T>
  static T rectified(const T& h) {
    return autodiff::activate(h, autodiff::Activation::relu);
  }

  Config config_;
  std::string config_json_;
  Layout layout_, buffers_;
  Unit stem_;
  std::vector<Block> blocks_;
  Classifier classifier_;
};

/// Whether the key says `yes` and not `no`, of which `fallback` is one.
bool says(const Keys& keys, const char* key, const std::string& yes, const std::string& no,
          const std::string& fallback) {
  const auto word = keys.word(key, fallback);
  if (word != yes && word != no)
    keys.refuse(std::string(key) + " is '" + word + "'; expected " + yes + " or " + no);
  return word == yes;
}

}  // namespace

std::unique_ptr<Encoder> make_resnet(const nlohmann::json& json, const std::string& where,
                                     const std::filesystem::path&) {
  const Keys keys(json, where);
  Config config;
  config.image = keys.integer("image_size", config.image, 10'000);
  config.channels = keys.integer("num_channels", config.channels);
  config.layers = keys.integers("layers", config.layers, 16, 1000);
  config.widths = keys.integers("widths", config.widths, 16);
  config.classes = classes_of(keys);
  config.small_stem = says(keys, "stem", "cifar", "imagenet", "imagenet");
  config.projects = says(keys, "shortcut", "projection", "identity", "projection");
  if (config.widths.size() != config.layers.size())
    keys.refuse("widths has " + std::to_string(config.widths.size()) + " numbers and layers " +
                std::to_string(config.layers.size()) + "; expected as many");
  if (!config.projects && !std::is_sorted(config.widths.begin(), config.widths.end()))
    keys.refuse("widths become smaller; expected larger ones where shortcut is identity");
  return std::make_unique<ResNet>(std::move(config), json.dump(2) + "\n");
}

}  // namespace taugrid::models
