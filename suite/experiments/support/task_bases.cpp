// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/support/task_bases.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "kernels/spectral/clustering.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/merging/study_vectors.hpp"

namespace taugrid::experiments {

BasisMerge read_merge(config::Config& config, const std::string& name, const config::Meaning& meaning,
                      const std::string& fallback) {
  auto section = config.section(name, meaning);
  std::vector<std::string> methods;
  for (const auto& each : merging::names())
    if (each != "slerp") methods.push_back(each);  // it takes two
  auto method =
      section.word("method", "The method, of which the section has the parameters", fallback, methods);
  auto made = merging::make(method, section);
  return {std::move(method), std::move(made)};
}

BasisMerge read_merge_in(config::Config& config) {
  return read_merge(config, "bases.merge_in", "How a cluster's vectors become one", "linear");
}

BasisMerge read_merge_out(config::Config& config) {
  return read_merge(config, "bases.merge_out", "How the bases become one", "task_arithmetic");
}

double read_split(config::Config& config) {
  return config.section("bases", of_bases)
      .real("split_below",
            "A cluster with a cosine below this is split into two by sign, so that a partition may have more "
            "than k clusters (paper 2, algorithm 1, lines 5 to 12, without a value); -1: none is",
            -1, {-1, 0});
}

at::Tensor cosines_of(const at::Tensor& gram) {
  const auto norm = gram.diagonal().sqrt();
  return (gram / norm.outer(norm)).nan_to_num(0);
}

std::vector<std::int64_t> spectral_labels(const study::Study& study, const at::Tensor& cosine, std::int64_t k,
                                          double split_below) {
  const auto seed = study::seed_for(study.settings.seed, "bases");
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

std::vector<at::Tensor> bases_of(const study::Study& study, const std::string& regime,
                                 const std::vector<std::size_t>& tasks,
                                 const std::vector<std::int64_t>& labels, const BasisMerge& merge,
                                 const std::function<void()>& stop) {
  std::vector<at::Tensor> bases;
  const auto last = *std::max_element(labels.begin(), labels.end());
  for (std::int64_t c = 0; c <= last; ++c) {
    const auto members = members_of(tasks, labels, c);
    stop();
    bases.push_back(members.size() == 1
                        ? study.vectors.vector(regime, members.front()).cpu()
                        : merging::merged_vector(*merge.method, merging::StudyVectors(study, regime, members),
                                                 [&](double) { stop(); })
                              .tau);
  }
  return bases;
}

at::Tensor cosines_with(const at::Tensor& tau, const std::vector<at::Tensor>& bases) {
  auto found = at::zeros({static_cast<std::int64_t>(bases.size())}, at::kDouble);
  for (std::size_t c = 0; c < bases.size(); ++c) {
    const std::array both = {tau, bases[c]};
    found[static_cast<std::int64_t>(c)] = cosines_of(weights::gram(both).cpu())[0][1];
  }
  return found;
}

}  // namespace taugrid::experiments
