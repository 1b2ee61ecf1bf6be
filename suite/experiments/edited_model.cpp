// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/edited_model.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "kernels/metrics/metrics.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/experiments/regime.hpp"

namespace taugrid::experiments {
namespace {

constexpr std::int64_t combined_numbers = std::int64_t{1} << 28;  // of models held at once: 1 GiB

std::int64_t models_at_once(const Study& study) {
  return std::max<std::int64_t>(1, combined_numbers / study.layout().size());
}

}  // namespace

EditedModel::EditedModel(const Study& study, const schedule::RunFolder& folder, std::string regime,
                         const comm::Communicator& group)
    : study_(study), folder_(folder), regime_(std::move(regime)), group_(group) {}

std::vector<std::string> EditedModel::needs(const Study& study, const std::string& name,
                                            const std::vector<std::size_t>& tasks) {
  if (!regime(name).linear) return study.vector_needs(name, tasks);
  std::vector<std::string> keys = {"features/base"};
  for (const auto t : tasks) keys.push_back("features/" + name + "/" + study.task_name(t));
  return keys;
}

std::vector<std::string> EditedModel::sum_needs(const Study& study, const std::string& name,
                                                const std::vector<std::size_t>& tasks) {
  auto keys = study.vector_needs(name, tasks);
  if (regime(name).linear) keys.emplace_back("features/base");
  return keys;
}

void EditedModel::count(Tally& tally, const Study& study, const std::string& name,
                        const std::vector<std::size_t>& tasks, std::size_t b, Split split, std::int64_t n,
                        std::int64_t models) {
  n = study.sample_size(b, split, n);
  tally.logits(b, n, models).sample(b, split, n);
  if (regime(name).linear) return;
  const auto held = std::min(models, models_at_once(study));
  tally.vectors(name, tasks).forward(n, models);
  tally.holds(4.0 * static_cast<double>(held * study.layout().size()));
}

void EditedModel::count_files(Tally& tally, const Study& study, const std::string& name, std::size_t tasks) {
  if (regime(name).linear) tally.reads(static_cast<double>(1 + tasks) * features_bytes(study));
}

void EditedModel::count_sum(Tally& tally, const Study& study, const std::string& name, std::size_t b,
                            Split split, std::int64_t n, std::int64_t models) {
  n = study.sample_size(b, split, n);
  tally.vectors(name, study.all_tasks()).sample(b, split, n).logits(b, n, models);
  if (regime(name).linear) {
    tally.tangent(n);
  } else {
    tally.forward(n, models);
  }
}

at::Tensor EditedModel::features(const std::string& key, std::size_t b, Split split, std::int64_t n) const {
  auto& file = features_[key];
  if (file.tensors.empty()) {
    file = folder_.read_unit(key);
    for (auto& [name, tensor] : file.tensors) tensor = tensor.to(study_.device());
  }
  const auto& all = file.tensors.at(std::string(split_name(split)) + "/" + study_.task_name(b));
  return all.narrow(0, 0, std::min(n, all.size(0)));
}

at::Tensor EditedModel::sum_accuracies(const std::vector<std::size_t>& tasks,
                                       const std::vector<double>& alpha, std::size_t b, Split split,
                                       std::int64_t n, const std::function<void(double)>& done) const {
  const at::NoGradGuard no_grad;
  const auto sum = study_.task_vector_sum(regime_, tasks);
  const auto& sample = study_.sample(b, split, n);
  const auto head = study_.head(b);
  const bool linear = regime(regime_).linear;
  at::Tensor base, tangent;
  if (linear) {
    base = features("features/base", b, split, n);
    tangent = study_.tangent(group_, sum, sample.pixels);
  }
  auto accuracy = study_.sums({static_cast<std::int64_t>(alpha.size())});
  for (std::size_t k = 0; k < alpha.size(); ++k) {
    const auto z = linear ? at::add(base, tangent, alpha[k])
                          : study_.encode(group_, at::add(study_.theta0(), sum, alpha[k]), sample.pixels);
    accuracy[static_cast<std::int64_t>(k)] = metrics::accuracy(head.logits(z), sample.labels);
    done(static_cast<double>(k + 1) / static_cast<double>(alpha.size()));
  }
  return accuracy.cpu();
}

at::Tensor EditedModel::accuracies(const std::vector<std::size_t>& tasks, const at::Tensor& alpha,
                                   std::size_t b, Split split, std::int64_t n,
                                   const std::function<void(double)>& done) const {
  auto accuracy = study_.sums({alpha.size(0)});
  const auto& labels = study_.sample(b, split, n).labels;
  const auto head = study_.head(b);
  outputs(tasks, alpha, b, split, n, [&](std::int64_t k, const at::Tensor& z) {
    accuracy[k] = metrics::accuracy(head.logits(z), labels);
    done(static_cast<double>(k + 1) / static_cast<double>(alpha.size(0)));
  });
  return accuracy.cpu();
}

void EditedModel::outputs(const std::vector<std::size_t>& tasks, const at::Tensor& alpha, std::size_t b,
                          Split split, std::int64_t n,
                          const std::function<void(std::int64_t, const at::Tensor&)>& visit) const {
  const at::NoGradGuard no_grad;
  const auto rows = alpha.size(0);
  if (regime(regime_).linear) {
    const auto base = features("features/base", b, split, n);
    std::vector<at::Tensor> tangents;
    for (const auto t : tasks)
      tangents.push_back(features("features/" + regime_ + "/" + study_.task_name(t), b, split, n));
    for (std::int64_t k = 0; k < rows; ++k) {
      auto z = base.clone();
      for (std::size_t t = 0; t < tasks.size(); ++t) {
        z.add_(tangents[t], alpha[k][static_cast<std::int64_t>(t)].item<double>());
      }
      visit(k, z);
    }
    return;
  }
  const auto& pixels = study_.sample(b, split, n).pixels;
  std::vector<at::Tensor> vectors;
  for (const auto t : tasks) vectors.push_back(study_.task_vector(regime_, t));
  const auto step = std::clamp<std::int64_t>(models_at_once(study_), 1, std::max<std::int64_t>(rows, 1));
  auto models = at::empty({step, study_.layout().size()}, study_.theta0().options());
  for (std::int64_t k = 0; k < rows; k += step) {
    const auto m = std::min(step, rows - k);
    auto some = models.narrow(0, 0, m);
    weights::combine(study_.theta0(), vectors, alpha.narrow(0, k, m), some);
    for (std::int64_t i = 0; i < m; ++i) visit(k + i, study_.encode(group_, some[i], pixels));
  }
}

}  // namespace taugrid::experiments
