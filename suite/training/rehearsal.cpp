// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/training/rehearsal.hpp"

#include <ATen/ATen.h>

#include <memory>

namespace taugrid::training {

Term random_term(const study::Study& study, std::int64_t inputs) {
  const auto& readout = study.readouts.of(0);
  using Kind = models::Readout::Kind;
  const auto labels =
      readout.kind == Kind::text ? at::randint(readout.vocabulary, {inputs, readout.paths.nodes}, at::kLong)
      : readout.kind == Kind::choices ? at::zeros({inputs, models::Readout::parts + readout.most}, at::kLong)
                                      : at::randint(readout.classes(), {inputs}, at::kLong);
  return {study.model.random_batch(inputs), labels.to(study.device), &readout,
          1 / static_cast<double>(inputs)};
}

schedule::Rehearsal rehearse_update(const study::Study& study, const std::string& name,
                                    const comm::Communicator& alone, std::int64_t inputs) {
  struct Step {
    Step(const study::Study& of, const std::string& regime, const comm::Communicator& ranks, std::int64_t n)
        : update(of, study::regime(regime), training, of.model.start(), ranks), terms{random_term(of, n)} {}
    Training training{.clip = 1};
    Update update;
    std::vector<Term> terms;
  };
  const auto step = std::make_shared<Step>(study, name, alone, inputs);
  const double flops =
      step_flops_an_input(study::regime(name), study.trained_blocks(name), study.model.cost());
  return {[step] { step->update(step->terms, 0); }, static_cast<double>(inputs) * flops};
}

schedule::Rehearsal rehearse_gradient(const study::Study& study, std::int64_t inputs) {
  struct Step {
    Step(const study::Study& of, std::int64_t n)
        : loss(of.model.encoder(), study::regime("standard"), of.model.start(), {}),
          terms{random_term(of, n)} {}
    TrainingLoss loss;
    std::vector<Term> terms;
    at::Tensor gradient;
  };
  const auto step = std::make_shared<Step>(study, inputs);
  return {[step, &study] { step->loss(study.model.theta0(), step->terms, step->gradient); },
          3 * static_cast<double>(inputs) * study.model.cost().forward()};
}

}  // namespace taugrid::training
