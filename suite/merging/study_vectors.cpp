// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/study_vectors.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace taugrid::merging {

std::vector<NamedTensor> tensors_of(const study::Study& study) {
  std::vector<NamedTensor> tensors;
  for (const auto& parameter : study.model.layout().parameters())
    tensors.push_back({parameter.name, parameter.shape, {parameter.offset, parameter.count}});
  return tensors;
}

StudyVectors::StudyVectors(const study::Study& study, std::string regime, std::vector<std::size_t> tasks)
    : study_(study), regime_(std::move(regime)), tasks_(std::move(tasks)), tensors_(tensors_of(study)) {}

std::vector<std::size_t> StudyVectors::tasks_of(const std::vector<std::size_t>& which) const {
  std::vector<std::size_t> tasks;
  for (const auto t : which) {
    if (t != theta0) tasks.push_back(tasks_[t]);
  }
  return tasks;
}

void StudyVectors::do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                            const Visitor& visitor) const {
  cut(which, range, align, stretch(which.size(), align), visitor);
}

void StudyVectors::do_visit_stretches(const std::vector<std::size_t>& which, Range range,
                                      const StretchVisitor& visitor, double) const {
  if (study_.vectors.visit_files(regime_, tasks_of(which), range, 1, visitor)) return;
  cut(which, range, 1, long_stretch, of_tau(visitor));
}

void StudyVectors::cut(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                       std::int64_t size, const Visitor& visitor) const {
  const auto tasks = tasks_of(which);
  std::vector<at::Tensor> stretches(which.size());
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
