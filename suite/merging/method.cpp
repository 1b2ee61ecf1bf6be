// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/method.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <stdexcept>

#include "suite/error.hpp"
#include "suite/merging/methods.hpp"

namespace taugrid::merging {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<const Method> (*make)(config::Section);
  config::Meaning meaning;
};

const std::array<Entry, 12>& entries() {
  static const std::array<Entry, 12> all = {{
      {"linear", make_linear, "The weighted mean of the models: Σ w θ / Σ w"},
      {"task_arithmetic", make_task_arithmetic, "θ0 + λ Σ w τ (Ilharco et al. 2023)"},
      {"ties", make_ties,
       "TIES (Yadav et al. 2023): trims each vector to its largest numbers, elects a sign a place, and "
       "merges those that "
       "have it"},
      {"dare_linear", make_dare_linear,
       "DARE (Yu et al. 2024): drops numbers at random, rescales the others, and adds the vectors"},
      {"dare_ties", make_dare_ties,
       "DARE, then the election of TIES, and its trimming where that is asked for"},
      {"top_k", make_top_k, "Adds each vector's largest numbers and divides by the number of vectors"},
      {"slerp", make_slerp, "Spherical interpolation of two models, tensor by tensor (Shoemake 1985)"},
      {"consensus_ta", make_consensus_ta,
       "TALL masks (Wang et al. 2024): task arithmetic where at least two tasks claim the number as theirs"},
      {"consensus_ties", make_consensus_ties, "TALL masks on what TIES merges"},
      {"tsv_m", make_tsv_m,
       "Task singular vectors (Gargiulo et al. 2025): of each task's matrix the leading singular triples, "
       "made "
       "orthogonal among tasks"},
      {"iso_c", make_iso_c,
       "Isotropic merging (Marczak et al. 2025): the summed matrix with its mean singular value"},
      {"iso_cts", make_iso_cts,
       "Isotropic merging in a common space and one for each task (Marczak et al. 2025)"},
  }};
  return all;
}

struct EntryWithData {
  const char* name;
  config::Meaning meaning;
};

const std::array<EntryWithData, 8>& entries_with_data() {
  static const std::array<EntryWithData, 8> all = {{
      {"fisher",
       "Fisher merging (Matena and Raffel 2022): at each number of θ the mean of the models, weighted by "
       "the diagonal Fisher information of each on its own task's inputs"},
      {"regmean",
       "RegMean (Jin et al. 2023): every linear layer is the one that fits best, in the least squares' "
       "sense, "
       "what the tasks' own layers give on their own inputs; all else is averaged"},
      {"adamerging",
       "AdaMerging (Yang et al. 2024): task arithmetic with coefficients that minimise the entropy of the "
       "model's predictions on unlabelled inputs"},
      {"localize_stitch",
       "Localize-and-Stitch (He et al. 2024): at each number of θ the mean of the vectors whose masks have "
       "it; "
       "masks are learnt on labelled points (without data: top_k with cut = \"above\", divide = "
       "\"overlap\")"},
      {"mask_sharing",
       "Task vector bases' mask sharing: Localize-and-Stitch with one mask a cluster of tasks, the rounded "
       "mean "
       "of theirs"},
      {"stitch_twice",
       "Task vector bases' stitching twice: Localize-and-Stitch with masks that were divided among the tasks "
       "of a cluster, and rounded, before"},
      {"joint",
       "Multi-task training: no merge, but one model trained on all tasks as [finetune.multitask] says, for "
       "as "
       "many steps as each task's own takes together; beside the vectors of standard"},
      {"tangent",
       "Multi-task training in the tangent space of θ0, as [finetune.multitask_linear] says; otherwise as "
       "joint; "
       "beside the vectors of linear"},
  }};
  return all;
}

template <class Entries>
std::vector<std::string> names_of(const Entries& entries) {
  std::vector<std::string> found;
  for (const auto& each : entries) found.emplace_back(each.name);
  return found;
}

const Entry& entry(const std::string& name) {
  for (const auto& each : entries()) {
    if (name == each.name) return each;
  }
  throw std::logic_error("no method " + name);
}

}  // namespace

std::vector<std::int64_t> Team::sums(const std::vector<std::int64_t>& mine) const {
  if (group_ == nullptr) return mine;
  auto all = at::tensor(mine, at::kLong);
  group_->all_reduce_sum(all, "counts of a merge");
  const auto* values = all.const_data_ptr<std::int64_t>();
  return {values, values + all.numel()};
}

std::vector<std::int64_t> Team::joined(const std::vector<std::int64_t>& mine) const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(size()));
  counts[static_cast<std::size_t>(rank())] = std::ssize(mine);
  counts = sums(counts);
  const auto until = [&](int rank) {
    return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
  };
  std::vector<std::int64_t> all(static_cast<std::size_t>(until(size())));
  std::copy(mine.begin(), mine.end(), all.begin() + until(rank()));
  return sums(all);
}

Merged Method::merge(const TaskVectors& vectors, const std::vector<double>& weights, const Sink& sink,
                     const Team& team) const {
  check("merge", weights);
  const auto before = vectors.visited();
  const auto nonzero = run(vectors, weights, sink, team);
  const auto own = vectors.visited() - before;
  const auto visited = is_shared() ? team.sums({own}).front() : own;
  const auto length = static_cast<double>(vectors.length());
  return {static_cast<double>(nonzero) / length,
          static_cast<double>(visited) / (static_cast<double>(vectors.count()) * length)};
}

MergedVector merged_vector(const Method& method, const TaskVectors& vectors, const comm::Communicator& group,
                           const std::function<void(double)>& see) {
  const auto length = vectors.length();
  MergedVector merged{at::zeros({length}, at::kFloat), {}};
  std::int64_t put = 0;  // of all numbers, and again of those that come a second time
  merged.made =
      method.merge(vectors, std::vector<double>(vectors.count(), 1.0),
                   Sink(merged.tau,
                        [&](std::int64_t, const at::Tensor& part) {
                          put += part.numel();
                          see(std::min(1.0, static_cast<double>(put) / static_cast<double>(length)));
                        }),
                   Team(group));
  return merged;
}

const std::vector<std::string>& names() {
  static const auto all = names_of(entries());
  return all;
}

const std::vector<std::string>& names_with_data() {
  static const auto all = names_of(entries_with_data());
  return all;
}

std::unique_ptr<const Method> make(const std::string& name, config::Section parameters) {
  return entry(name).make(std::move(parameters));
}

config::Meaning meaning_of(const std::string& name) {
  for (const auto& each : entries_with_data()) {
    if (name == each.name) return each.meaning;
  }
  return entry(name).meaning;
}

}  // namespace taugrid::merging
