// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a unit has found of its points, a row a point: each rank of its group has some of them, or all of them
// and some layers of the model; passes them a round at a time, and keeps in a file of its own what is done,
// so that a unit that is stopped or killed goes on there.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "suite/schedule/work_unit.hpp"

namespace taugrid::experiments {

class PointRows {
 public:
  /// `tensors`: of as many rows as any rank of the group has points. Collective over the group.
  PointRows(const schedule::UnitContext& context, std::map<std::string, at::Tensor> tensors);

  /// How many rounds are done.
  std::int64_t rounds() const { return rounds_; }
  at::Tensor of(const std::string& name, std::int64_t begin, std::int64_t count) const {
    return tensors_.at(name).narrow(0, begin, count);
  }
  /// A further round is done.
  void done();
  void save();
  /// All ranks' rows, of which there are n. Collective.
  std::map<std::string, at::Tensor> gathered(std::int64_t n) const;
  /// The sums of all ranks' rows, each of which has all points, and zeros for what is another's. Collective.
  std::map<std::string, at::Tensor> summed() const;

 private:
  const comm::Communicator& group_;
  std::filesystem::path path_;
  std::map<std::string, at::Tensor> tensors_;
  std::int64_t rounds_ = 0;
  double saved_;
};

}  // namespace taugrid::experiments
