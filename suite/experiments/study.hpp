// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What all experiments of one run share: the settings, the tasks, θ0, the task vectors, the samples.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "suite/comm/communicator.hpp"
#include "suite/config/config.hpp"
#include "suite/data/packed.hpp"
#include "suite/models/checkpoint.hpp"

namespace taugrid::experiments {

enum class Split { train, validation, test };

const char* split_name(Split split);

/// Points drawn by seed from one split of one task. A smaller sample is the beginning of a larger one.
struct Sample {
  at::Tensor index;   ///< int64 [n], rows of the split; on the host
  at::Tensor pixels;  ///< float32 [n, c, h, w], normalised; on the device
  at::Tensor labels;  ///< int64 [n]; on the device
};

struct Settings {
  std::string name;
  std::uint64_t seed = 0;
  int threads = 1;
  int ranks_per_unit = 1;
  /// "float32"; "tf32": products of float32 with 10 bits of mantissa, on GPUs that have them; "bf16":
  /// evaluation and training in bfloat16, with θ, its gradient, the losses and all sums in float32 or double.
  /// Hessian and NTK products are in float32 always: they are differences of nearly equal numbers.
  std::string precision = "float32";
  std::filesystem::path model;
  bool random_init = false;
  std::filesystem::path data;
  std::vector<std::string> tasks;
  std::string control;  ///< empty: none
  std::vector<std::string> regimes;
  std::filesystem::path checkpoints;  ///< of regimes that are not trained here; empty: none
  std::int64_t evaluation_points = 0;
  std::int64_t evaluation_batch = 0;
};

/// A file that a study reads.
struct Input {
  std::string name;  ///< "model", the task, or the regime
  std::filesystem::path path;
  std::string state;     ///< what was found there
  bool missing = false;  ///< or wrong; `state` is the error, then
};

class Study {
 public:
  /// Reads the sections [run], [model] and [data], the model and the head of each task. Throws InputError.
  /// With `inputs`, each input is listed there, and where one is missing or wrong, a stand-in takes its
  /// place: enough to check a configuration and to count its work, not to compute it. θ0, heads, samples and
  /// task vectors lie on `device`.
  explicit Study(config::Config& config, std::vector<Input>* inputs = nullptr, at::Device device = at::kCPU);

  const Settings& settings() const { return settings_; }
  /// Sets where checkpoints are; before compute() of any unit.
  void set_folder(std::filesystem::path run_folder) { folder_ = std::move(run_folder); }
  const std::filesystem::path& folder() const { return folder_; }

  at::Device device() const { return device_; }
  /// Of evaluation and training: float32 or bfloat16.
  at::ScalarType compute_type() const { return settings_.precision == "bf16" ? at::kBFloat16 : at::kFloat; }
  /// Zeros of float64 on the device: results that are written there one by one make the host wait for none.
  at::Tensor sums(at::IntArrayRef shape) const;
  const models::Encoder& encoder() const { return *checkpoint_.encoder; }
  const autodiff::Layout& layout() const { return encoder().layout(); }
  /// Of θ0; goes into the checkpoints trained from it.
  const std::string& fingerprint() const { return fingerprint_; }
  const at::Tensor& theta0() const { return checkpoint_.theta; }
  /// θ at random, drawn from the run's seed: θ0 where the run starts at random.
  at::Tensor random_theta() const;
  const std::string& theta0_name() const { return theta0_name_; }  ///< "pretrained" or "random"
  /// Those with a task vector a task.
  const std::vector<std::string>& regimes() const { return vector_regimes_; }
  /// Those that are trained and used as linearised models.
  std::vector<std::string> linear_regimes() const;
  /// Those with one model of all tasks.
  const std::vector<std::string>& joint_regimes() const { return joint_regimes_; }
  /// Whether this run trains it: no other's task vectors, no checkpoints found.
  bool trains(const std::string& regime) const;

  std::vector<std::size_t> all_tasks() const;  ///< 0, 1, …, without the control
  std::size_t tasks() const { return settings_.tasks.size(); }
  bool has_control() const { return !settings_.control.empty(); }
  /// The control's number, wherever a task's is asked for (papers 1 and 3: ImageNet).
  std::size_t control() const { return tasks(); }
  /// All tasks, and the control if there is one.
  std::size_t tasks_and_control() const { return tasks_.size(); }
  const std::string& task_name(std::size_t t) const {
    return t < tasks() ? settings_.tasks[t] : settings_.control;
  }
  const data::Task& task(std::size_t t) const { return *tasks_[t]; }
  const models::Head& head(std::size_t t) const { return heads_[t]; }
  /// Rows of a task's split, normalised, on the device: float32 [n, c, h, w].
  at::Tensor pixels(std::size_t t, Split split, const at::Tensor& rows) const;
  /// int64 [n], likewise.
  at::Tensor labels(std::size_t t, Split split, const at::Tensor& rows) const;
  std::filesystem::path task_file(std::size_t t) const { return settings_.data / (task_name(t) + ".h5"); }
  /// Pairs of tasks in the order (0,1), (0,2), … of the contract.
  const std::vector<std::pair<std::size_t, std::size_t>>& pairs() const { return pairs_; }
  std::string pair_name(std::size_t p) const;
  /// Of all that the numbers come from, file by file, what tells one content from another: TOML. Collective:
  /// the ranks share the reading. Throws InputError where a given checkpoint cannot be read.
  std::string inputs(const comm::Communicator& world) const;

  /// min(n, rows of the split) points. The last few GiB are kept for further calls.
  Sample sample(std::size_t t, Split split, std::int64_t n) const;
  /// Bytes of samples kept at most, one sample aside.
  std::size_t kept_samples() const;
  /// The rows of sample(), without reading a picture: int64 [min(n, rows of the split)].
  at::Tensor sample_rows(std::size_t t, Split split, std::int64_t n) const;
  /// How many points sample() has.
  std::int64_t sample_size(std::size_t t, Split split, std::int64_t n) const;
  /// int64 [T, n]: the samples' rows, −1 beyond a split's end.
  at::Tensor sample_index(Split split, std::int64_t n) const;

  /// Keys of the units that make the regime's task vector: none where its checkpoint is given.
  std::vector<std::string> vector_needs(const std::string& regime, std::size_t t) const;
  std::vector<std::string> vector_needs(const std::string& regime,
                                        const std::vector<std::size_t>& tasks) const;
  /// Keys of the units that training the regime on task t goes on from: none where it starts at θ0.
  std::vector<std::string> start_needs(const std::string& regime, std::size_t t) const;
  /// Where the regime's model of a task is, or will be.
  std::filesystem::path checkpoint_folder(const std::string& regime, std::size_t t) const;
  std::filesystem::path joint_folder(const std::string& regime) const;
  /// τ = θ* − θ0 [P] of task t; the last few are kept in memory.
  at::Tensor task_vector(const std::string& regime, std::size_t t) const;
  std::vector<at::Tensor> task_vectors(const std::string& regime) const;
  /// How many task vectors are kept in memory.
  std::size_t kept_vectors() const;
  /// Σ τ [P] over these tasks; the last one is kept.
  at::Tensor task_vector_sum(const std::string& regime, const std::vector<std::size_t>& tasks) const;

  /// f(x; θ), float32 [n, features], of θ [P]; the samples are dealt to the group's ranks, the result is on
  /// all.
  at::Tensor encode(const comm::Communicator& group, const at::Tensor& theta, const at::Tensor& pixels) const;
  /// J(x)τ [n, features] at θ0, likewise.
  at::Tensor tangent(const comm::Communicator& group, const at::Tensor& tau, const at::Tensor& pixels) const;

 private:
  void read_regimes(config::Section section, std::vector<Input>* inputs);
  void read_given(config::Section section, std::vector<std::string> needed, std::vector<Input>* inputs);
  void check_given(std::vector<Input>* inputs) const;
  void read_model(std::vector<Input>* inputs);
  void read_task(const std::string& name, std::vector<Input>* inputs);
  template <class F>
  at::Tensor by_shards(const comm::Communicator& group, const at::Tensor& pixels, const char* what,
                       F&& f) const;

  Settings settings_;
  at::Device device_ = at::kCPU;
  std::filesystem::path folder_;
  models::Checkpoint checkpoint_;
  std::string theta0_name_, fingerprint_;
  bool stand_in_ = false;  // the model is missing, and only counted with
  std::vector<std::string> vector_regimes_, joint_regimes_, given_regimes_;
  std::vector<std::unique_ptr<data::Task>> tasks_;           // the control last
  std::vector<models::Head> heads_;                          // of each, on the device
  std::vector<std::pair<at::Tensor, at::Tensor>> channels_;  // of each, mean and std, on the device
  std::vector<std::pair<std::size_t, std::size_t>> pairs_;
  mutable std::list<std::tuple<std::size_t, Split, Sample>> samples_;  // newest first
  mutable std::list<std::pair<std::string, at::Tensor>> vectors_;      // newest first
  mutable std::pair<std::string, at::Tensor> sum_;
};

/// A seed for one purpose, from the run's seed: numbers never depend on which rank draws them.
std::uint64_t seed_for(std::uint64_t seed, const std::string& purpose);

}  // namespace taugrid::experiments
