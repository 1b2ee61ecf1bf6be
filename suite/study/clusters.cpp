// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/clusters.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/spectral/clustering.hpp"

namespace taugrid::study {

at::Tensor cosines_of(const at::Tensor& gram) {
  const auto norm = gram.diagonal().sqrt();
  return (gram / norm.outer(norm)).nan_to_num(0);
}

std::vector<std::int64_t> spectral_labels(const Study& study, const at::Tensor& cosine, std::int64_t k,
                                          double split_below) {
  const auto seed = seed_for(study.settings.seed, "bases");
  const auto labels = spectral::spectral_partition(cosine, k, seed);
  return split_below > -1 ? spectral::split_by_sign(cosine, labels, split_below, seed) : labels;
}

std::vector<std::int64_t> labels_of(const at::Tensor& stored) {
  const auto* values = stored.const_data_ptr<std::int64_t>();
  return {values, values + stored.numel()};
}

std::vector<std::size_t> members_of(const std::vector<std::size_t>& tasks,
                                    const std::vector<std::int64_t>& labels, std::int64_t c) {
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (labels[i] == c) members.push_back(tasks[i]);
  return members;
}

Clusters clusters_by(const std::vector<std::size_t>& tasks, const std::vector<std::int64_t>& labels) {
  Clusters clusters;
  const auto last = *std::max_element(labels.begin(), labels.end());
  for (std::int64_t c = 0; c <= last; ++c) clusters.push_back(members_of(tasks, labels, c));
  return clusters;
}

}  // namespace taugrid::study
