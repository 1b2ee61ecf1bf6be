// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/edited_outputs.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "suite/study/keys.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::study {

namespace {

/// One model after another.
class Outcomes {
 public:
  void add(Outcome one) {
    accuracy_.push_back(std::move(one.accuracy));
    correct_.push_back(std::move(one.correct));
  }
  Outcome on_host() const { return {at::stack(accuracy_).cpu(), at::stack(correct_).cpu()}; }

 private:
  std::vector<at::Tensor> accuracy_, correct_;
};

}  // namespace

std::string features_of(Split split, const std::string& task) {
  return std::string(split_name(split)) + "/" + task;
}

EditedOutputs::EditedOutputs(const Study& study, const schedule::RunFolder& folder, std::string regime,
                             const comm::Communicator& group)
    : study_(study), folder_(folder), regime_(std::move(regime)), group_(group) {}

std::vector<std::string> EditedOutputs::needs(const Study& study, const std::string& name,
                                              const std::vector<std::size_t>& tasks, std::size_t b) {
  if (!regime(name).linear) return study.vectors.needs(name, tasks);
  std::vector<std::string> keys = {key::base_features(study.tasks.name(b))};
  for (const auto t : tasks) keys.push_back(key::features(name, study.tasks.name(t)));
  return keys;
}

std::vector<std::string> EditedOutputs::sum_needs(const Study& study, const std::string& name,
                                                  const std::vector<std::size_t>& tasks, std::size_t b) {
  auto keys = study.vectors.needs(name, tasks);
  if (regime(name).linear) keys.push_back(key::base_features(study.tasks.name(b)));
  return keys;
}

at::Tensor EditedOutputs::features(const std::string& key, std::size_t b, Split split, std::int64_t n) const {
  const auto name = features_of(split, study_.tasks.name(b));
  auto& all = features_[key + " " + name];
  if (!all.defined()) all = folder_.read_tensor(key, name).to(study_.device);
  return all.narrow(0, 0, std::min(n, all.size(0)));
}

Outcome EditedOutputs::sum_outcomes(const std::vector<std::size_t>& tasks, const std::vector<double>& alpha,
                                    std::size_t b, Split split, std::int64_t n,
                                    const std::function<void(double)>& done) const {
  return outcomes_of(alpha.size(), b, split, n, done,
                     [&](const Visit& visit) { each_sum(tasks, alpha, b, split, n, visit); });
}

void EditedOutputs::each_sum(const std::vector<std::size_t>& tasks, const std::vector<double>& alpha,
                             std::size_t b, Split split, std::int64_t n, const Visit& visit) const {
  along(
      study_.vectors.sum(regime_, tasks), [&](double each) { return study_.edits.sum(regime_, tasks, each); },
      alpha, b, split, n, visit);
}

Outcome EditedOutputs::merged_outcomes(const std::vector<std::size_t>& tasks, const at::Tensor& tau,
                                       const std::vector<double>& alpha, std::size_t b, Split split,
                                       std::int64_t n, const std::function<void(double)>& done) const {
  return outcomes_of(alpha.size(), b, split, n, done, [&](const Visit& visit) {
    along(
        tau, [&](double each) { return study_.edits.along(regime_, tasks, tau, each); }, alpha, b, split, n,
        visit);
  });
}

void EditedOutputs::along(const at::Tensor& tau, const std::function<models::State(double)>& state,
                          const std::vector<double>& alpha, std::size_t b, Split split, std::int64_t n,
                          const Visit& visit) const {
  const at::NoGradGuard no_grad;
  const auto points = study_.sample(regime_, b, split, n).points;
  const bool linear = regime(regime_).linear;
  at::Tensor base, tangent;
  if (linear) {
    base = features(key::base_features(study_.tasks.name(b)), b, split, n);
    tangent = study_.evaluation.tangent(group_, tau, b, points);
  }
  for (std::size_t k = 0; k < alpha.size(); ++k)
    visit(static_cast<std::int64_t>(k), linear
                                            ? at::add(base, tangent, alpha[k])
                                            : study_.evaluation.output(group_, state(alpha[k]), b, points));
}

Outcome EditedOutputs::outcomes(const std::vector<std::size_t>& tasks, const at::Tensor& alpha, std::size_t b,
                                Split split, std::int64_t n,
                                const std::function<void(double)>& done) const {
  return outcomes_of(static_cast<std::size_t>(alpha.size(0)), b, split, n, done,
                     [&](const Visit& visit) { each(tasks, alpha, b, split, n, visit); });
}

Outcome EditedOutputs::outcomes_of(std::size_t count, std::size_t b, Split split, std::int64_t n,
                                   const std::function<void(double)>& done,
                                   const std::function<void(const Visit&)>& go) const {
  Outcomes all;
  const auto labels = study_.sample(regime_, b, split, n).labels;
  const auto& readout = study_.tasks.readout(b);
  go([&](std::int64_t k, const at::Tensor& z) {
    all.add(outcome(readout, readout.logits(z), labels, n));
    done(static_cast<double>(k + 1) / static_cast<double>(count));
  });
  return all.on_host();
}

Said EditedOutputs::said(const std::vector<std::size_t>& tasks, double alpha, std::size_t b, Split split,
                         std::int64_t n, std::int64_t most) const {
  const auto sample = study_.tasks.sample(b, split, n);
  const bool linear = regime(regime_).linear;
  const auto state = linear ? study_.model.start() : study_.edits.sum(regime_, tasks, alpha);
  const auto tau = linear ? alpha * study_.vectors.sum(regime_, tasks) : at::Tensor();
  return study_.evaluation.said(group_, state, tau, b, sample.points, sample.labels, most);
}

void EditedOutputs::each(const std::vector<std::size_t>& tasks, const at::Tensor& alpha, std::size_t b,
                         Split split, std::int64_t n, const Visit& visit) const {
  const at::NoGradGuard no_grad;
  if (!regime(regime_).linear) {
    const auto points = study_.sample(regime_, b, split, n).points;
    study_.edits.each(regime_, tasks, alpha, [&](std::int64_t k, const models::State& state) {
      visit(k, study_.evaluation.output(group_, state, b, points));
    });
    return;
  }
  const auto base = features(key::base_features(study_.tasks.name(b)), b, split, n);
  std::vector<at::Tensor> tangents;
  for (const auto t : tasks)
    tangents.push_back(features(key::features(regime_, study_.tasks.name(t)), b, split, n));
  for (std::int64_t k = 0; k < alpha.size(0); ++k) {
    auto z = base.clone();
    for (std::size_t t = 0; t < tasks.size(); ++t)
      z.add_(tangents[t], alpha[k][static_cast<std::int64_t>(t)].item<double>());
    visit(k, z);
  }
}

}  // namespace taugrid::study
