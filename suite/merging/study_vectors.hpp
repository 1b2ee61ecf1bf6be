// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A run's own task vectors, in memory or out of core.
#pragma once

#include <string>
#include <vector>

#include "suite/merging/task_vectors.hpp"
#include "suite/study/study.hpp"

namespace taugrid::merging {

/// The tensors of the study's model, as they lie in θ.
std::vector<NamedTensor> tensors_of(const study::Study& study);

class StudyVectors final : public TaskVectors {
 public:
  /// The regime's vectors of these tasks. The study outlives this object.
  StudyVectors(const study::Study& study, std::string regime, std::vector<std::size_t> tasks);

  std::size_t count() const override { return tasks_.size(); }
  const std::vector<NamedTensor>& tensors() const override { return tensors_; }
  std::size_t side_by_side() const override { return study_.vectors.all_kept() ? 1 : side_by_side_on_files; }

 private:
  void do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                const Visitor& visitor) const override;
  void do_visit_stretches(const std::vector<std::size_t>& which, Range range, const StretchVisitor& visitor,
                          double share) const override;
  /// Stretches of at most `size` numbers of what memory holds, which comes as one block.
  void cut(const std::vector<std::size_t>& which, Range range, std::int64_t align, std::int64_t size,
           const Visitor& visitor) const;
  /// Which of the study's tasks these are, θ0 left out.
  std::vector<std::size_t> tasks_of(const std::vector<std::size_t>& which) const;

  const study::Study& study_;
  std::string regime_;
  std::vector<std::size_t> tasks_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace taugrid::merging
