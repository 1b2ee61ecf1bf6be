// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// θ0: the model that every task vector starts from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "suite/models/checkpoint.hpp"
#include "suite/models/cost.hpp"
#include "suite/study/settings.hpp"
#include "suite/study/theta_files.hpp"

namespace taugrid::study {

class Model {
 public:
  /// Reads the model; θ0 lies on `device`. Throws InputError.
  Model(const Settings& settings, InputFiles& files, at::Device device);

  const models::Encoder& encoder() const { return *checkpoint_.encoder; }
  /// What is said of the files of θ0 though they are read: a line each.
  const std::vector<std::string>& notes() const { return checkpoint_.notes; }
  const autodiff::Layout& layout() const { return encoder().layout(); }
  /// Throws InputError where the run holds its models a stage at a time.
  const models::State& start() const;
  const at::Tensor& theta0() const { return start().theta; }
  /// Whether models are held a stage at a time ([model] in_memory), and θ0's file, where they are: it is read
  /// part by part.
  bool by_stages() const { return by_stages_; }
  const ThetaFile& start_file() const { return *start_file_; }
  /// A block of θ0, in its shape, on the device.
  at::Tensor start_block(std::size_t block) const;
  /// ‖θ0‖₂, as weights::norm() has it.
  double norm() const;
  /// Bytes of θ0's files, or, where there are none, as many as in bfloat16.
  double file_bytes() const;
  /// Views of a state's buffers, as a pass of the encoder takes them, in numbers of `type`.
  std::vector<at::Tensor> buffers(const models::State& state, at::ScalarType type) const;
  std::vector<at::Tensor> start_buffers() const { return buffers(start(), at::kFloat); }
  /// The fingerprint of θ0, which goes into the checkpoints trained from it.
  const std::string& fingerprint() const { return fingerprint_; }
  /// What θ0 is called: "pretrained" or "random".
  const std::string& name() const { return name_; }
  /// A state at random, drawn from the run's seed: θ0 where the run starts at random.
  models::State random_state() const;
  /// The cost of one input; of texts, of one as long as the tasks' longest.
  const models::Cost& cost() const { return cost_; }
  /// Tokens of the tasks' longest text, at most what the model takes; 0 without texts.
  std::int64_t tokens() const { return tokens_; }
  /// How many places the decoder is given for the tasks' labels; 0: its start alone.
  std::int64_t decoded() const { return decoded_; }
  /// A batch of n such inputs, drawn at random, on the device.
  models::Batch random_batch(std::int64_t n) const;
  bool is_stand_in() const { return stand_in_; }
  /// Whether its files were read; in a dry run they may be missing.
  bool is_there() const { return is_there_; }
  /// finetune.first_stage: the first stage that is trained. A stand-in may have fewer stages than the model
  /// whose place it takes; beyond them it is the last.
  int first_stage() const { return first_stage_; }
  at::Device device() const { return device_; }

 private:
  std::uint64_t seed_;
  bool by_stages_;
  bool drawn_by_open_clip_;
  at::Device device_;
  bool stand_in_ = false, is_there_ = false;
  int first_stage_ = 0;
  std::unique_ptr<const ThetaFile> start_file_;  // where models are held a stage at a time
  mutable models::Checkpoint checkpoint_;
  std::string name_, fingerprint_;
  std::int64_t decoded_;
  std::int64_t tokens_;
  models::Cost cost_;

  models::Checkpoint read(const Settings& settings, InputFiles& files);
};

}  // namespace taugrid::study
