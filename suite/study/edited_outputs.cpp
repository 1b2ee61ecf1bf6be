// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/edited_outputs.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "suite/study/keys.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::study {

std::string features_of(Split split, const std::string& task) {
  return std::string(split_name(split)) + "/" + task;
}

at::Tensor EditedOutputs::features(const std::string& key, std::size_t b, Split split, std::int64_t n) const {
  const auto name = features_of(split, study_.tasks.name(b));
  auto& all = features_[key + " " + name];
  if (!all.defined()) all = folder_.read_tensor(key, name).to(study_.device);
  return all.narrow(0, 0, std::min(n, all.size(0)));
}

Sample EditedOutputs::sample(const Edit& edit, std::size_t b, Split split, std::int64_t n) const {
  // θ0 has no regime; no vector changes what lies below the stage that is trained first.
  return edit.regime.empty() ? study_.samples.of(b, split, n, study_.model.first_stage())
                             : study_.sample(edit.regime, b, split, n);
}

void EditedOutputs::each_of_linear(const Edit& edit, std::size_t b, Split split, std::int64_t n,
                                   const Visit& visit) const {
  using Kind = Edit::Kind;
  if (edit.kind == Kind::joint) {
    const auto points = sample(edit, b, split, n).points;
    const auto tau = study_.edits.state(edit).theta - study_.model.theta0();
    return visit(0, study_.evaluation.output(group_, study_.model.start(), b, points) +
                        study_.evaluation.tangent(group_, tau, b, points));
  }
  const auto base = features(key::base_features(study_.tasks.name(b)), b, split, n);
  if (edit.kind == Kind::start) return visit(0, base);
  if (edit.kind == Kind::terms) {
    std::vector<at::Tensor> tangents;
    for (const auto t : edit.tasks)
      tangents.push_back(features(key::features(edit.regime, study_.tasks.name(t)), b, split, n));
    for (std::int64_t k = 0; k < edit.models(); ++k) {
      auto z = base.clone();
      for (std::size_t t = 0; t < tangents.size(); ++t)
        z.add_(tangents[t], edit.alpha[k][static_cast<std::int64_t>(t)].item<double>());
      visit(k, z);
    }
    return;
  }
  const auto points = sample(edit, b, split, n).points;
  const auto along = [&] {
    if (edit.kind == Kind::direction) return study_.evaluation.tangent(group_, edit.direction, b, points);
    if (!study_.model.by_stages())
      return study_.evaluation.tangent(group_, study_.vectors.sum(edit.regime, edit.tasks), b, points);
    StageWeights weights(study_, group_);
    weights.go_along(edit.regime, edit.tasks);
    return study_.evaluation.output_by_stages(group_, weights, b, points);
  };
  const auto tangent = along();
  for (std::int64_t k = 0; k < edit.models(); ++k)
    visit(k, at::add(base, tangent, edit.alpha[k].item<double>()));
}

void EditedOutputs::each(const Edit& edit, std::size_t b, Split split, std::int64_t n,
                         const Visit& visit) const {
  const at::NoGradGuard no_grad;
  if (edit.is_linear()) return each_of_linear(edit, b, split, n, visit);
  const auto points = sample(edit, b, split, n).points;
  if (study_.model.by_stages()) {
    StageWeights weights(study_, group_);
    weights.add(edit);
    return study_.evaluation.outputs_by_stages(group_, weights, b, points, visit);
  }
  study_.edits.each(edit, [&](std::int64_t k, const models::State& state) {
    visit(k, study_.evaluation.output(group_, state, b, points));
  });
}

at::Tensor EditedOutputs::output(const Edit& edit, std::size_t b, Split split, std::int64_t n) const {
  at::Tensor only;
  each(edit, b, split, n, [&](std::int64_t, const at::Tensor& z) { only = z; });
  return only;
}

Outcome EditedOutputs::outcomes(const Edit& edit, std::size_t b, Split split, std::int64_t n,
                                const std::function<void(double)>& done) const {
  std::vector<at::Tensor> accuracy, correct;
  const auto labels = sample(edit, b, split, n).labels;
  const auto& readout = study_.readouts.of(b);
  each(edit, b, split, n, [&](std::int64_t k, const at::Tensor& z) {
    auto of_model = outcome(readout, readout.logits(z), labels, n);
    accuracy.push_back(std::move(of_model.accuracy));
    correct.push_back(std::move(of_model.correct));
    done(static_cast<double>(k + 1) / static_cast<double>(edit.models()));
  });
  return {at::stack(accuracy).cpu(), at::stack(correct).cpu()};
}

Said EditedOutputs::said(const Edit& edit, std::size_t b, Split split, std::int64_t n, std::int64_t most,
                         const std::function<void(double)>& before) const {
  const auto inputs = study_.samples.of(b, split, n);
  if (study_.model.by_stages()) {
    StageWeights weights(study_, group_);
    if (edit.is_linear() && edit.kind == Edit::Kind::sum)
      weights.go_along(edit.regime, edit.tasks, edit.alpha[0].item<double>());
    else
      weights.add(edit);
    return study_.evaluation.said_by_stages(group_, weights, b, inputs.points, inputs.labels, most, before);
  }
  before(0);
  const bool tangent = edit.is_linear() && edit.kind == Edit::Kind::sum;
  const auto state = edit.is_linear() ? study_.model.start() : study_.edits.state(edit);
  const auto tau =
      tangent ? edit.alpha[0].item<double>() * study_.vectors.sum(edit.regime, edit.tasks) : at::Tensor();
  return study_.evaluation.said(group_, state, tau, b, inputs.points, inputs.labels, most);
}

}  // namespace taugrid::study
