// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A small residual network with batch norm: a convolution, residual blocks, the mean over places.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <nlohmann/json.hpp>

#include "suite/models/registry.hpp"

namespace taugrid::models {
namespace {

using autodiff::Kind;

class TinyConv final : public Net<TinyConv> {
 public:
  TinyConv(const Keys& keys, std::string config_json)
      : config_json_(std::move(config_json)),
        image_(keys.integer("image_size", 16)),
        channels_(keys.integer("num_channels", 3)),
        width_(keys.integer("width", 8)),
        blocks_(keys.integer("blocks", 2)) {
    stem_ = unit("stem", channels_);
    for (std::int64_t l = 0; l < blocks_; ++l) {
      layout_.begin_stage(static_cast<int>(l) + 1);
      const auto name = "block." + std::to_string(l) + ".";
      units_.emplace_back(unit(name + "0", width_), unit(name + "1", width_));
    }
  }

  const autodiff::Layout& layout() const override { return layout_; }
  const autodiff::Layout& buffers() const override { return buffers_; }
  std::string architecture() const override { return "TinyConv"; }
  std::string config_json() const override { return config_json_; }
  int stages() const override { return static_cast<int>(blocks_); }
  std::int64_t width() const override { return width_; }
  Takes takes() const override { return {.image_size = image_, .channels = channels_}; }
  bool passes_over(const std::string& tensor) const override {
    return tensor.ends_with(".num_batches_tracked");
  }
  State random_state(std::uint64_t seed) const override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    State state{at::zeros({layout_.size()}), at::zeros({buffers_.size()})};
    auto views = layout_.views(state.theta);
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& block = layout_.blocks()[i];
      if (block.kind == Kind::convolution) views[i].normal_(0, std::sqrt(2.0 / block.shape[1]), generator);
    }
    for (std::size_t i = 0; i < layout_.parameters().size(); ++i) {
      const auto& parameter = layout_.parameters()[i];
      if (parameter.name.ends_with("bn.weight")) layout_.parameter_views(state.theta)[i].fill_(1);
    }
    auto stored = buffers_.views(state.buffers);
    for (std::size_t i = 1; i < stored.size(); i += 2) stored[i].fill_(1);
    return state;
  }

  template <class T>
  T embed_of(const Blocks<T>& p, const Given& x) const {
    return rectified(normed(autodiff::constant(x.batch.inputs, p[stem_.weight]), p, x, stem_, 1));
  }

  template <class T>
  T stage_of(int l, const Blocks<T>& p, T h, const Given& x, Reach) const {
    const auto& [first, second] = units_[static_cast<std::size_t>(l - 1)];
    const T inside = rectified(normed(h, p, x, first, l == 2 ? 2 : 1));  // the second block halves the picture
    const T shortcut = l == 2 ? autodiff::convolve(h, p[first.weight], 3, 2, 1) : h;  // by the block's own filter
    return rectified(autodiff::add(shortcut, normed(inside, p, x, second, 1)));
  }

  template <class T>
  T features_of(const Blocks<T>&, T h, const Given&, Reach) const {
    return autodiff::mean_places(h);
  }

 private:
  struct Unit {
    std::size_t weight = 0, scale = 0, shift = 0, statistics = 0;
  };
  Unit unit(const std::string& name, std::int64_t in) {
    Unit made;
    made.weight =
        layout_.add(Kind::convolution, {name + ".conv.weight"}, {width_, in, 3, 3}, {width_, in * 9});
    made.scale = layout_.add(Kind::norm, {name + ".bn.weight"}, {width_});
    made.shift = layout_.add(Kind::norm, {name + ".bn.bias"}, {width_});
    made.statistics = buffers_.add(Kind::norm, {name + ".bn.running_mean"}, {width_});
    buffers_.add(Kind::norm, {name + ".bn.running_var"}, {width_});
    return made;
  }
  template <class T>
  T normed(const T& h, const Blocks<T>& p, const Given& x, const Unit& at, std::int64_t stride) const {
    return autodiff::batch_norm(autodiff::convolve(h, p[at.weight], 3, stride, 1), p[at.scale], p[at.shift],
                                x.buffers[at.statistics], x.buffers[at.statistics + 1], 1e-5, x.statistics);
  }
  template <class T>
  static T rectified(const T& h) {
    return autodiff::activate(h, autodiff::Activation::relu);
  }

  std::string config_json_;
  std::int64_t image_, channels_, width_, blocks_;
  autodiff::Layout layout_, buffers_;
  Unit stem_;
  std::vector<std::pair<Unit, Unit>> units_;
};

std::unique_ptr<Encoder> make(const nlohmann::json& config, const std::string& where, const std::filesystem::path&) {
  return std::make_unique<TinyConv>(Keys(config, where), config.dump());
}

[[maybe_unused]] const bool registered = [] {
  register_architecture("tiny_conv", make);
  return true;
}();

}  // namespace
}  // namespace taugrid::models
