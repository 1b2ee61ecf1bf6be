// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/models_to_merge.hpp"

#include <ATen/ATen.h>

#include "kernels/autodiff/products.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/merging/study_vectors.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::merging {

ModelToMerge::ModelToMerge(const study::Study& study, std::string regime, std::size_t t)
    : study_(study), regime_(std::move(regime)), tasks_{t} {}

ModelToMerge::ModelToMerge(const study::Study& study, std::string regime, std::vector<std::size_t> tasks,
                           at::Tensor basis)
    : study_(study), regime_(std::move(regime)), tasks_(std::move(tasks)), basis_(basis.to(study.device)) {}

at::Tensor ModelToMerge::vector() const {
  return basis_.defined() ? basis_ : study_.vectors.vector(regime_, tasks_.front());
}

models::State ModelToMerge::state() const {
  if (study::regime(regime_).linear) return study_.model.start();
  using study::Edit;
  return study_.edits.state(tasks_.size() == 1 ? Edit::fine_tuned(regime_, tasks_.front())
                                               : Edit::along(regime_, tasks_, {1}, basis_));
}

ModelsToMerge::ModelsToMerge(const study::Study& study, const std::string& regime,
                             const std::vector<std::size_t>& tasks)
    : study_(study), regime_(regime), vectors_(std::make_unique<StudyVectors>(study, regime, tasks)) {
  for (const auto t : tasks) models_.emplace_back(study, regime, t);
}

ModelsToMerge::ModelsToMerge(const study::Study& study, const std::string& regime,
                             const std::vector<std::vector<std::size_t>>& clusters,
                             const std::vector<at::Tensor>& bases)
    : study_(study), regime_(regime) {
  std::vector<at::Tensor> on_host;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    models_.emplace_back(study, regime, clusters[c], bases[c]);
    bases_.push_back(models_.back().vector());
    on_host.push_back(bases_.back().cpu());
  }
  vectors_ = std::make_unique<HeldVectors>(tensors_of(study), std::move(on_host), study.model.theta0().cpu());
}

std::vector<std::size_t> ModelsToMerge::tasks() const {
  std::vector<std::size_t> all;
  for (const auto& model : models_) all.insert(all.end(), model.tasks().begin(), model.tasks().end());
  return all;
}

void ModelsToMerge::visit(Range range, std::int64_t align, const study::Vectors::Visitor& visitor) const {
  if (bases_.empty()) return study_.vectors.visit(regime_, tasks(), range, align, visitor);
  std::vector<at::Tensor> blocks;
  for (const auto& basis : bases_) blocks.push_back(basis.narrow(0, range.begin, range.count));
  if (range.count > 0) visitor(range.begin, blocks);
}

at::Tensor ModelsToMerge::gram(const comm::Communicator& group) const {
  return (bases_.empty() ? study_.vectors.gram(group, regime_, tasks()) : weights::gram(bases_)).cpu();
}

RegimeModel::RegimeModel(const study::Study& study, const ModelToMerge& model)
    : study_(study), state_(model.state()) {
  if (study::regime(model.regime()).linear) tau_ = model.vector();
}

at::Tensor RegimeModel::output(std::size_t t, const at::Tensor& recorded, const models::Batch& batch) const {
  const auto value = recorded.detach();
  if (!tau_.defined()) return value;
  const auto& encoder = study_.model.encoder();
  const auto& readout = study_.readouts.of(t);
  const auto along = autodiff::jvp(
      study_.model.layout(),
      [&](const models::Blocks<autodiff::Dual>& p) {
        return readout.output(encoder, p, encoder.encode(p, {batch, study_.model.start_buffers()}), batch);
      },
      study_.model.theta0(), tau_);
  return value + autodiff::tangent_or_zeros(along);
}

}  // namespace taugrid::merging
