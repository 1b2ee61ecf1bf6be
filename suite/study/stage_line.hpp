// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Ranks in a line that share out a model's parts: each has a stretch of them, and what a stretch puts out
// passes from a rank to the next. Part 0 is the embedding, 1 … L are the stages, L + 1 makes the features.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "suite/comm/communicator.hpp"
#include "suite/models/encoder.hpp"

namespace taugrid::study {

class StageLine {
 public:
  /// Parts begin … end − 1.
  struct Stretch {
    int begin = 0, end = 0;
    bool has(int part) const { return begin <= part && part < end; }
    bool empty() const { return begin == end; }
  };

  /// One rank that has all parts.
  explicit StageLine(const models::Encoder& encoder);
  /// The ranks of the group, in their order, which outlives this object. Collective.
  StageLine(const models::Encoder& encoder, const comm::Communicator& group);

  /// The parts of each of so many ranks: stretches of about equally many parameters, none of them empty but
  /// the last ones, where there are more ranks than parts.
  static std::vector<Stretch> stretches(const models::Encoder& encoder, int ranks);
  /// Parameters of a part of the model.
  static std::int64_t parameters(const models::Encoder& encoder, int part);

  /// Whether parts are shared out: every rank of the group then goes through all points.
  bool is_shared() const { return group_ != nullptr; }
  bool is_first() const { return !before_; }
  const Stretch& mine() const { return mine_; }

  /// What the rank before has sent of its last part: on the device, in numbers of `type`.
  at::Tensor received(at::Device device, at::ScalarType type) const;
  void send(const at::Tensor& state) const;
  bool receives() const { return before_ && !mine_.empty(); }
  bool sends() const { return sends_; }
  /// The least of all ranks' numbers, whose memory may differ: what they pass on, they pass in the same order.
  std::int64_t least(std::int64_t mine) const;
  /// The first rank's word, which goes from rank to rank: none waits for those behind it.
  bool word_of_first(bool word) const;
  /// Fills `features` on every rank with what the rank of the last part has.
  void share_last(at::Tensor& features) const;

 private:
  Stretch mine_;
  const comm::Communicator* group_ = nullptr;
  std::optional<comm::Communicator> before_, after_;  // two ranks each: messages from one to the other
  bool sends_ = false;
  int last_ = 0;  // the rank of the last part
};

}  // namespace taugrid::study
