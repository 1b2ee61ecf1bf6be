// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/vector_method.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "suite/error.hpp"
#include "suite/merging/study_vectors.hpp"

namespace taugrid::merging {

MergeWork VectorMethod::work(const std::vector<NamedTensor>&, std::size_t) const { return {}; }

void VectorMethod::check_values(const std::string&, std::size_t) const {}

std::shared_ptr<const VectorMethod> VectorMethod::with(const std::string&, const std::vector<double>&) const {
  return nullptr;
}

Merged VectorMethod::merge(const TaskVectors& vectors, const std::vector<double>& weights, const Sink& sink,
                           const Team& team) const {
  check("merge", weights);
  const auto before = vectors.visited();
  const bool all_make_all = team.keeps_apart() && !shares_places();
  const auto range = team.share_of(vectors.range());
  const Sink of_share([&](std::int64_t begin, const at::Tensor& tau) {
    const auto first = std::max(begin, range.begin), end = std::min(begin + tau.numel(), range.end());
    if (first < end) sink.put(first, tau.narrow(0, first - begin, end - first));
  });
  const auto nonzero =
      all_make_all ? run(vectors, weights, of_share, team.gathering()) : run(vectors, weights, sink, team);
  const auto mine = vectors.visited() - before;
  const auto visited = is_shared() ? team.sums({mine}).front() : mine;
  const auto length = static_cast<double>(vectors.length());
  return {static_cast<double>(nonzero) / length,
          static_cast<double>(visited) / (static_cast<double>(vectors.count()) * length)};
}

double VectorMethod::passes(const Study& study, std::size_t count) const {
  return work(tensors_of(study), count).passes;
}

void VectorMethod::count(Tally& tally, const std::string&, std::size_t models, std::size_t) const {
  const auto needed = work(tensors_of(tally.study()), models);
  const auto length = static_cast<double>(tally.study().model.layout().size());
  tally.computes(needed.flops).holds(4 * length + needed.bytes);
}

MergeResult VectorMethod::merge(const ModelsToMerge& models, const Part&,
                                schedule::UnitContext& context) const {
  return {merged_vector(*this, models.vectors(), context.group, [&](double share) {
    context.stop_if_requested();
    context.progress(share, "vectors");
  })};
}

void require_alike(const std::string& what, const std::string& method, const std::vector<double>& weights) {
  for (const auto weight : weights)
    if (weight != 1) throw InputError(what + ": " + method + " counts all models alike; expected no weights");
}

void require_sum(const std::string& what, const std::vector<double>& weights) {
  double all = 0, sizes = 0;
  for (const auto weight : weights) {
    all += weight;
    sizes += std::fabs(weight);
  }
  if (std::fabs(all) <= 1e-6 * sizes || static_cast<float>(all) == 0.0F)
    throw InputError(what + ": the weights add up to 0, and the mean divides by their sum");
}

MergedVector merged_vector(const VectorMethod& method, const TaskVectors& vectors,
                           const comm::Communicator& group, const std::function<void(double)>& see) {
  const auto length = vectors.length();
  MergedVector merged{at::zeros({length}, at::kFloat), {}};
  std::int64_t put = 0;  // of all numbers, and again of those that come a second time
  merged.stats =
      method.merge(vectors, std::vector<double>(vectors.count(), 1.0),
                   Sink(merged.tau,
                        [&](std::int64_t, const at::Tensor& part) {
                          put += part.numel();
                          see(std::min(1.0, static_cast<double>(put) / static_cast<double>(length)));
                        }),
                   Team(group));
  return merged;
}

}  // namespace taugrid::merging
