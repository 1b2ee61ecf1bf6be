// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/bases/task_bases.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "kernels/weights/weights.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/study/clusters.hpp"

namespace taugrid::experiments {
namespace {

at::Tensor merged_cluster(const study::Study& study, const std::string& regime,
                          const std::vector<std::size_t>& members, const ChosenMethod& merge,
                          const schedule::RunFolder& folder, schedule::UnitContext context) {
  if (merge.method->trains()) store::create_folders(context.scratch);
  const auto part = [&](std::size_t i, const std::string& tensor) {
    return folder.read_tensor(merge.part_key(study, regime, members[i]), tensor);
  };
  return merge.method->merge(merging::ModelsToMerge(study, regime, members), part, context).merged.tau;
}

/// The merge of bases, and before it the parts of each of their models.
at::Tensor merged_models(const merging::ModelsToMerge& models, const merging::Method& method,
                         const schedule::UnitContext& context) {
  const auto count = method.has_parts() ? models.size() : 0;
  const auto steps = static_cast<double>(count + 1);
  const auto within = [&](std::size_t step, const std::string& name) {
    const auto progress = [&context, step, steps](double share, std::string_view detail) {
      context.progress((static_cast<double>(step) + share) / steps, detail);
    };
    // A training's state is its model's own.
    schedule::UnitContext inner{context.group, context.stop, context.scratch / name, progress};
    if (method.takes_data()) store::create_folders(inner.scratch);
    return inner;
  };
  std::vector<store::TensorFile> parts;
  for (std::size_t i = 0; i < count; ++i) {
    auto inner = within(i, "basis_" + std::to_string(i));
    parts.push_back(method.part(models[i], inner));
  }
  const auto part = [&](std::size_t i, const std::string& tensor) { return parts[i].tensors.at(tensor); };
  auto inner = within(count, "merge_out");
  return method.merge(models, part, inner).merged.tau;
}

}  // namespace

double read_split(config::Config& config) {
  return config.section("bases", of_bases)
      .real("split_below",
            "A cluster with a cosine below this is split into two by sign, so that a partition may have more "
            "than k clusters (paper 2, algorithm 1, lines 5 to 12, without a value); -1: none is",
            -1, {-1, 0});
}

std::vector<at::Tensor> bases_of(const study::Study& study, const std::string& regime,
                                 const study::Clusters& clusters, const ChosenMethod& merge,
                                 const schedule::RunFolder& folder, schedule::UnitContext& context) {
  std::vector<at::Tensor> bases;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    context.stop_if_requested();
    if (clusters[c].size() == 1) {
      bases.push_back(study.vectors.vector(regime, clusters[c].front()).cpu());
      continue;
    }
    const auto progress = [&, c](double share, std::string_view detail) {
      context.progress((static_cast<double>(c) + share) / static_cast<double>(clusters.size()), detail);
    };
    // A training's state is its cluster's own.
    bases.push_back(merged_cluster(
        study, regime, clusters[c], merge, folder,
        {context.group, context.stop, context.scratch / ("cluster_" + std::to_string(c)), progress}));
  }
  return bases;
}

at::Tensor merged_bases(const study::Study& study, const std::string& regime, const study::Clusters& clusters,
                        const std::vector<at::Tensor>& bases, const ChosenMethod& merge_out,
                        const schedule::UnitContext& context) {
  const merging::ModelsToMerge models(study, regime, clusters, bases);
  return merged_models(models, *merge_out.method, context).to(study.device);
}

namespace {

/// w of a basis w Σ τ_t of so many vectors, where it is no more than that.
std::optional<double> basis_factor(const ChosenMethod& merge_in, std::size_t size) {
  if (size == 1) return 1;  // the vector itself
  return merge_in.method ? merge_in.method->factor(size) : std::nullopt;
}

}  // namespace

Edit basis_edit(const ChosenMethod& merge_in, const std::string& name, const std::vector<std::size_t>& tasks,
                const std::vector<double>& alpha, at::Tensor basis) {
  // A linear regime's outputs are sums of tangents that were computed once, where bases are sums of vectors.
  if (!regime(name).linear || !basis_factor(merge_in, 2))
    return Edit::along(name, tasks, alpha, std::move(basis));
  const auto factor = basis_factor(merge_in, std::max<std::size_t>(tasks.size(), 1));
  return Edit::weighted(name, tasks, at::full({length_of(tasks)}, *factor, at::kDouble), alpha);
}

EditAt merged_edit(const std::string& name, const std::vector<std::size_t>& tasks,
                   const std::optional<at::Tensor>& factors, const at::Tensor& direction) {
  return [=](const std::vector<double>& alpha) {
    return factors ? Edit::weighted(name, tasks, *factors, alpha, direction)
                   : Edit::along(name, tasks, alpha, direction);
  };
}

std::vector<std::string> basis_needs(const Study& study, const ChosenMethod& merge_in,
                                     const std::string& name, const std::vector<std::size_t>& tasks,
                                     std::size_t b) {
  auto needs = study.vectors.needs(name, tasks);
  add_missing(needs, basis_edit(merge_in, name, tasks, {1}).needs(study, b));
  return needs;
}

std::optional<at::Tensor> factors_of(const std::vector<std::int64_t>& labels, const ChosenMethod& merge_in,
                                     const ChosenMethod& merge_out) {
  std::map<std::int64_t, std::size_t> sizes;
  for (const auto label : labels) ++sizes[label];
  const auto out = merge_out.method->factor(sizes.size());
  if (!out) return std::nullopt;
  std::vector<double> factors;
  for (const auto label : labels) {
    const auto size = sizes.at(label);
    const auto in = basis_factor(merge_in, size);
    if (!in) return std::nullopt;
    factors.push_back(*in * *out);
  }
  return at::tensor(factors, at::kDouble);
}

LowRankChoice read_low_rank(config::Section& section, const study::Study& study) {
  const std::vector<std::string> known = {"autoencoder", "pca"};
  LowRankChoice choice;
  choice.methods = section.words("methods", "How the bases are made of the vectors", known, known);
  if (choice.methods.empty()) section.refuse("methods", "is empty");
  const auto tasks = std::max(1, static_cast<int>(study.tasks.size()));
  choice.bases = numbered(
      section, "bases",
      {"Numbers of bases M", {.fallback = "all", .values = "a list of ascending integers from 1 to T"}}, 1,
      tasks, false, fmt::format("there are {} tasks, which have 1 to {} bases", tasks, tasks));
  return choice;
}

at::Tensor combined(const study::Study& study, const std::string& regime,
                    const std::vector<std::size_t>& tasks, const at::Tensor& factors) {
  auto sum = at::zeros_like(study.model.theta0());
  const auto* values = factors.const_data_ptr<double>();
  study.vectors.visit(regime, tasks, {0, sum.numel()}, 1,
                      [&](std::int64_t begin, std::span<const at::Tensor> parts) {
                        auto out = sum.narrow(0, begin, parts.front().numel());
                        for (std::size_t t = 0; t < parts.size(); ++t) out.add_(parts[t], values[t]);
                      });
  return sum;
}

at::Tensor cosines_with(const at::Tensor& tau, const std::vector<at::Tensor>& bases) {
  auto cosines = at::zeros({static_cast<std::int64_t>(bases.size())}, at::kDouble);
  for (std::size_t c = 0; c < bases.size(); ++c) {
    const std::array both = {tau, bases[c]};
    cosines[static_cast<std::int64_t>(c)] = study::cosines_of(weights::gram(both).cpu())[0][1];
  }
  return cosines;
}

}  // namespace taugrid::experiments
