// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the cases work on: random models and tasks by seed, in memory and, for experiments and peers, on disk.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "suite/comm/runtime.hpp"
#include "suite/models/cost.hpp"
#include "suite/models/readout.hpp"

namespace taugrid::bench {

using Blocks = std::vector<at::Tensor>;

inline constexpr std::int64_t batch = 128, classes = 10;
inline constexpr std::int64_t ntk_points = 32, grid_points = 64, hessian_points = 128;
inline constexpr double learning_rate = 1e-4, clip = 1.0, weight_decay = 0.1;

/// A ViT of this width: MLP four times as wide, images of 32×32.
std::unique_ptr<models::Encoder> make_encoder(int width, int heads, int layers = 4);

class Fixture {
 public:
  /// Works in `folder`; removes it at the end unless `keep`.
  Fixture(const comm::Runtime& runtime, std::filesystem::path folder, bool keep);
  ~Fixture();
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  /// The default model's shape (models/clip_mini): 869,632 parameters.
  const models::Encoder& encoder() const { return *encoder_; }
  double forward_flops() const { return models::Cost(*encoder_).forward(); }  ///< of one image
  /// A ViT of 1.9 M parameters, for the NTK.
  const models::Encoder& ntk_encoder() const { return *ntk_encoder_; }
  const at::Tensor& theta0() const { return start_.theta; }  ///< [P]
  const models::State& start() const { return start_; }
  const at::Tensor& ntk_theta() const { return ntk_theta_; }
  const at::Tensor& tau(std::size_t task) const { return tau_[task]; }  ///< [P]
  const models::Readout& head() const { return head_; }                 ///< [classes, features]
  const at::Tensor& images() const { return images_; }                  ///< uint8 [batch, 32, 32, 3]
  const at::Tensor& pixels() const { return pixels_; }                  ///< float32 [batch, 3, 32, 32]
  const at::Tensor& labels() const { return labels_; }                  ///< int64 [batch]
  const comm::Runtime& runtime() const { return runtime_; }
  const comm::Communicator& world() const { return runtime_.world(); }
  /// Seconds that work() takes from when all ranks begin to when the last ends. Collective.
  double timed(const std::function<void()>& work) const;
  /// The least of so many. Collective.
  double fastest(int times, const std::function<void()>& work) const;
  /// The largest of the ranks' errors: rank 0 alone prints, and another may hold what is wrong. Collective.
  double worst(double mine) const;
  const std::filesystem::path& folder() const { return folder_; }

  /// FOLDER/model, ntk_model and data/{first,second}.h5, as a run reads them; inputs.safetensors for the
  /// peers.
  void write_inputs() const;
  /// FOLDER/data/NAME.h5, whose test points are grid_points of the images from `first` on.
  void write_task(const std::string& name, std::int64_t first) const;
  /// A packed task of these images, uint8 [n, 32, 32, 3], and labels as its test points, the first `train` as
  /// its training points.
  void write_task(const std::filesystem::path& path, const at::Tensor& images, const at::Tensor& labels,
                  std::int64_t train = 1) const;
  /// Fine-tuned models θ0 + τ under FOLDER/RUN/checkpoints/REGIME.
  void write_task_vectors(const std::string& run, const std::string& regime) const;

 private:
  const comm::Runtime& runtime_;
  std::filesystem::path folder_;
  bool keep_;
  std::unique_ptr<models::Encoder> encoder_, ntk_encoder_;
  models::State start_;
  at::Tensor ntk_theta_, images_, pixels_, labels_;
  std::array<at::Tensor, 2> tau_;
  models::Readout head_;
};

inline constexpr std::array<const char*, 2> task_names = {"first", "second"};

}  // namespace taugrid::bench
