// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/edits/second_start.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels/weights/weights.hpp"
#include "suite/experiments/bases/task_bases.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/study/clusters.hpp"
#include "suite/training/trained_model.hpp"
#include "suite/training/trainer.hpp"

namespace taugrid::experiments {

void SecondStart::read(const config::Section& section) {
  if (study_.model.first_stage() > 0)
    section.refuse("other", "goes with finetune.first_stage = 0 alone: frozen stages are θ0's");
  if (study_.settings.words_frozen)
    section.refuse("other", "goes without model.label_words = \"frozen\": those words are θ0's");
  if (study_.settings.trains_heads)
    section.refuse("other", "goes without [heads], whose classifiers read θ0's features");
  if (study_.model.encoder().buffers().size() > 0)
    section.refuse("other", fmt::format("goes with models without batch norm, and {} has it",
                                        study_.settings.model.string()));
  const auto description = [](const std::filesystem::path& path, const models::Encoder& encoder) {
    return fmt::format("{} is a {} of {} parameters", path.string(), encoder.architecture(),
                       encoder.layout().size());
  };
  const auto& encoder = study_.model.encoder();
  const auto& model = study_.settings.model;
  const auto other = models::read_architecture(path_);
  const auto& mine = encoder.layout().parameters();
  const auto& theirs = other.encoder->layout().parameters();
  if (!std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(),
                  [](const auto& a, const auto& b) { return a.name == b.name && a.shape == b.shape; }))
    section.refuse("other", fmt::format("{}, and {}; vectors of both are of the same tensors",
                                        description(path_, *other.encoder), description(model, encoder)));
  if (study_.model.fingerprint().empty()) return;  // nothing is computed
  start_ = models::read_checkpoint(path_).state;
  fingerprint_ = models::fingerprint(start_);
  if (fingerprint_ == study_.model.fingerprint())
    section.refuse("other", fmt::format("{} has the weights of {}; expected another start", path_.string(),
                                        model.string()));
  start_ = start_.to(study_.device);
}

std::filesystem::path SecondStart::folder(const std::string& name, std::size_t t) const {
  return study_.vectors.folder() / "checkpoints" / "other_start" / name / study_.tasks.name(t);
}

study::Begun SecondStart::tuned(const std::string& name, std::size_t t) const {
  return {folder(name, t), start_.theta, fingerprint_, path_.string()};
}

void SecondStart::add_training(std::vector<schedule::WorkUnit>& units, const std::string& name,
                               std::size_t t) const {
  const auto how = training::of_task(training_.at(name), study_, t);
  auto tally = Tally(study_).train(name, how, t, how.steps).checkpoint().stores(how.steps, 4);
  units.push_back(
      unit(key::other_fine_tune(name, study_.tasks.name(t)), tally, {},
           [this, name, t](schedule::UnitContext& context) { return fine_tune(name, t, context); }));
  units.back().verify = [this, name, t](const auto& header) {
    return training::verify_checkpoint(folder(name, t), header, "fingerprint");
  };
}

store::TensorFile SecondStart::fine_tune(const std::string& name, std::size_t t,
                                         schedule::UnitContext& context) const {
  const auto how = training::of_task(training_.at(name), study_, t);
  training::Trainer trainer(study_, name, how, t, context.group, start_);
  return training::train_and_write(study_, trainer, how, key::other_fine_tune(name, study_.tasks.name(t)),
                                   folder(name, t), fingerprint_, context);
}

store::TensorFile SecondStart::vectors(const std::string& name, const schedule::UnitContext& context) const {
  std::vector<study::Begun> models, others;
  for (const auto t : study_.tasks.all()) {
    models.push_back({study_.vectors.checkpoint_folder(name, t), study_.model.theta0(),
                      study_.model.fingerprint(), study_.settings.model.string()});
    others.push_back(tuned(name, t));
  }
  models.insert(models.end(), others.begin(), others.end());
  models.push_back({path_, study_.model.theta0(), {}, {}});  // θ0' − θ0
  const auto gram = study_.vectors.gram_from(context.group, models).cpu();
  const auto count = gram.size(0) - 1, tasks = count / 2;
  const auto products = gram.narrow(0, 0, count).narrow(1, 0, count);
  // ‖τ − δ‖² and ‖τ' + δ‖², δ = θ0' − θ0.
  const auto along = gram[count].narrow(0, 0, count);
  const auto sign = at::cat({at::full({tasks}, -2.0, at::kDouble), at::full({tasks}, 2.0, at::kDouble)});
  auto sum = at::zeros_like(study_.model.theta0());
  study_.vectors.visit_from(others, {0, sum.numel()}, 1,
                            [&](std::int64_t begin, std::span<const at::Tensor> parts) {
                              context.stop_if_requested();
                              auto out = sum.narrow(0, begin, parts.front().numel());
                              for (const auto& part : parts) out.add_(part);
                            });
  store::TensorFile file;
  file.tensors = {
      {"cosine", study::cosines_of(products)},
      {"norm", products.diagonal().sqrt()},
      {"across_norm", (products.diagonal() + sign * along + gram[count][count]).clamp_min(0).sqrt()},
      {"distance", gram[count][count].sqrt()},
      {"start_norm",
       at::tensor({weights::norm(study_.model.theta0()), weights::norm(start_.theta)}, at::kDouble)},
      {"sum", sum.cpu()}};
  return file;
}

}  // namespace taugrid::experiments
