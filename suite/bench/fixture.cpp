// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/bench/fixture.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "suite/data/packed.hpp"
#include "suite/machine/machine.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/models/registry.hpp"
#include "suite/store/results.hpp"
#include "suite/store/safetensors.hpp"

namespace taugrid::bench {
namespace {

/// config.json of a model of this width; MLP four times as wide, images of 32×32.
std::string config_of(int width, int heads, int layers) {
  nlohmann::json config = {{"architectures", {"CLIPVisionModelWithProjection"}},
                           {"model_type", "clip_vision_model"},
                           {"hidden_size", width},
                           {"intermediate_size", 4 * width},
                           {"num_hidden_layers", layers},
                           {"num_attention_heads", heads},
                           {"num_channels", 3},
                           {"image_size", 32},
                           {"patch_size", 8},
                           {"projection_dim", 384},
                           {"hidden_act", "quick_gelu"},
                           {"layer_norm_eps", 1e-5},
                           {"dtype", "float32"}};
  return config.dump(2);
}

const std::vector<float> mean = {0.5f, 0.5f, 0.5f}, deviation = {0.25f, 0.25f, 0.25f};

/// One split of a packed task.
void put_split(store::ResultsWriter& out, const std::string& name, const at::Tensor& images,
               const at::Tensor& labels) {
  out.put("/" + name + "/inputs", images, {name + " image", "row", "column", "channel"});
  out.put("/" + name + "/labels", labels, {name + " image"});
}

}  // namespace

std::unique_ptr<models::Encoder> make_encoder(int width, int heads, int layers) {
  return models::make_encoder(config_of(width, heads, layers), "the bench's model");
}

Fixture::Fixture(const comm::Runtime& runtime, std::filesystem::path folder, bool keep)
    : runtime_(runtime), folder_(std::move(folder)), keep_(keep) {
  encoder_ = make_encoder(128, 4);
  ntk_encoder_ = make_encoder(192, 3);
  start_ = encoder_->random_state(1);
  ntk_theta_ = ntk_encoder_->random_state(2).theta;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  // A tenth of θ0's length: as far as a fine-tuning goes.
  for (auto& tau : tau_) {
    tau = at::randn(start_.theta.sizes(), generator);
    tau.mul_(0.1 * start_.theta.norm() / tau.norm());
    tau = (start_.theta + tau) - start_.theta;  // as read back from a checkpoint
  }
  auto weight = at::randn({classes, encoder_->width()}, generator);
  head_ = {.weight = weight / weight.norm(2, 1, true), .scale = 30.0};
  images_ = at::randint(0, 256, {batch, 32, 32, 3}, generator, at::kByte);
  labels_ = at::randint(0, classes, {batch}, generator, at::kLong);
  pixels_ = data::normalised_images(images_, mean, deviation);
  for (auto* tensor :
       {&start_.theta, &ntk_theta_, &tau_[0], &tau_[1], &head_.weight, &images_, &labels_, &pixels_})
    *tensor = tensor->to(runtime.device());
}

double Fixture::timed(const std::function<void()>& work) const {
  world().barrier("start of a case");
  const auto began = std::chrono::steady_clock::now();
  machine::run_on(runtime_.device(), work);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  if (world().size() == 1) return seconds.count();
  return world()
      .all_gather(at::full({1}, seconds.count(), at::kDouble), "end of a case")
      .max()
      .item<double>();
}

double Fixture::fastest(int times, const std::function<void()>& work) const {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) best = std::min(best, timed(work));
  return best;
}

double Fixture::worst(double mine) const {
  return world().all_gather(at::full({1}, mine, at::kDouble), "error of a case").max().item<double>();
}

Fixture::~Fixture() {
  std::error_code ignored;
  if (!keep_) std::filesystem::remove_all(folder_, ignored);
}

void Fixture::write_task(const std::string& name, std::int64_t first) const {
  write_task(folder_ / "data" / (name + ".h5"), images_.narrow(0, first, grid_points),
             labels_.narrow(0, first, grid_points));
}

void Fixture::write_task(const std::filesystem::path& path, const at::Tensor& images,
                         const at::Tensor& labels, std::int64_t train) const {
  std::filesystem::create_directories(path.parent_path());
  const auto name = path.stem().string();
  std::vector<std::string> names;
  for (std::int64_t c = 0; c < classes; ++c) names.push_back("class " + std::to_string(c));
  store::ResultsWriter out(path, runtime_.world());
  for (const auto* attribute : {"task", "source", "license"}) out.attribute("/", attribute, name);
  out.attribute("/", "modality", std::string("image"));
  out.attribute("/", "mean", std::vector<double>(mean.begin(), mean.end()));
  out.attribute("/", "std", std::vector<double>(deviation.begin(), deviation.end()));
  out.put("/head/weight", head_.weight, {"class", "feature"});
  out.attribute("/head/weight", "logit_scale", head_.scale);
  out.put_text("/class_names", names, "class");
  put_split(out, "test", images, labels);
  put_split(out, "train", images.narrow(0, 0, train), labels.narrow(0, 0, train));
  put_split(out, "validation", images.narrow(0, 0, 1), labels.narrow(0, 0, 1));
  out.commit();
}

void Fixture::write_inputs() const {
  models::write_checkpoint(folder_ / "model", *encoder_, start_);
  models::write_checkpoint(folder_ / "ntk_model", *ntk_encoder_, {ntk_theta_, {}});
  for (std::size_t t = 0; t < 2; ++t) write_task(task_names[t], static_cast<std::int64_t>(t) * grid_points);
  store::TensorFile inputs;
  inputs.tensors = {{"pixels", pixels_}, {"labels", labels_}, {"head", head_.weight}};
  inputs.metadata = {{"scale", std::to_string(head_.scale)},
                     {"classes", std::to_string(classes)},
                     {"ntk_points", std::to_string(ntk_points)},
                     {"grid_points", std::to_string(grid_points)},
                     {"hessian_points", std::to_string(hessian_points)},
                     {"learning_rate", std::to_string(learning_rate)},
                     {"clip", std::to_string(clip)},
                     {"weight_decay", std::to_string(weight_decay)}};
  store::write_safetensors(folder_ / "inputs.safetensors", inputs);
}

void Fixture::write_task_vectors(const std::string& run, const std::string& regime) const {
  for (std::size_t t = 0; t < 2; ++t) {
    const auto folder = folder_ / run / "checkpoints" / regime / task_names[t];
    std::filesystem::create_directories(folder);
    models::write_checkpoint(folder, *encoder_, {start_.theta + tau_[t], {}});
  }
}

}  // namespace taugrid::bench
