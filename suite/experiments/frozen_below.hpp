// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Tangent kernels and curvature are taken in the parameters that finetune.first_stage leaves free, and say
// so; as does a copy of θ0 that is trained with a classifier.
#pragma once

#include <string>

#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"

namespace taugrid::experiments {

inline Output frozen_below() {
  return {
      "@first_stage", "", "",
      "derivatives are in the parameters from this stage on, a head of frozen label words aside; else in all",
      With{.element = Element::int64, .when = "finetune.first_stage > 0"}};
}

inline void write_frozen_below(Results& out, const std::string& group, const Study& study) {
  if (const std::int64_t first = study.model.first_stage(); first > 0)
    out.attribute(group, "first_stage", first);
}

}  // namespace taugrid::experiments
