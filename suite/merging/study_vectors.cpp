// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/study_vectors.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace taugrid::merging {

std::vector<NamedTensor> tensors_of(const study::Study& study) {
  std::vector<NamedTensor> found;
  for (const auto& parameter : study.model.layout().parameters())
    found.push_back({parameter.name, parameter.shape, {parameter.offset, parameter.count}});
  return found;
}

StudyVectors::StudyVectors(const study::Study& study, std::string regime, std::vector<std::size_t> tasks)
    : study_(study), regime_(std::move(regime)), tasks_(std::move(tasks)), tensors_(tensors_of(study)) {}

void StudyVectors::do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                            const Visitor& visitor) const {
  std::vector<std::size_t> tasks;
  for (const auto t : which) {
    if (t != theta0) tasks.push_back(tasks_[t]);
  }
  const auto size = stretch(which.size(), align);
  std::vector<at::Tensor> stretches(which.size());
  // What memory holds comes as one block: cut here, so that a stretch of each vector stays in cache.
  study_.vectors.visit(
      regime_, tasks, range, align, [&](std::int64_t begin, std::span<const at::Tensor> blocks) {
        const auto end = blocks.front().numel();
        if (end <= size && tasks.size() == which.size() && blocks.front().is_cpu())
          return visitor(begin, blocks);  // as it is
        for (std::int64_t at = 0; at < end; at += size) {
          const auto n = std::min(size, end - at);
          auto block = blocks.begin();
          for (std::size_t i = 0; i < which.size(); ++i) {
            stretches[i] = (which[i] == theta0 ? study_.model.theta0().narrow(0, begin + at, n)
                                               : (block++)->narrow(0, at, n))
                               .cpu();
          }
          visitor(begin + at, stretches);
        }
      });
}

}  // namespace taugrid::merging
