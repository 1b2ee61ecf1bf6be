// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/refusals.hpp"

#include "suite/error.hpp"

namespace taugrid::study {

void require_vectors(const Study& study, const std::string& section) {
  if (study.settings.vector_regimes.empty())
    throw InputError("section [" + section +
                     "] needs task vectors; add a section [finetune] with a regime that makes them, such as "
                     "standard or linear");
}

void require_classes(const Study& study, const std::string& section) {
  for (std::size_t t = 0; t < study.tasks.with_control(); ++t)
    if (study.readouts.of(t).kind == models::Readout::Kind::text)
      throw InputError("section [" + section + "] compares classes; the task " + study.tasks.name(t) +
                       " is answered by texts, of which it has no meaning");
}

void require_shared_classes(const Study& study, const std::string& section) {
  for (std::size_t t = 0; t < study.tasks.with_control(); ++t)
    if (study.readouts.of(t).kind == models::Readout::Kind::choices)
      throw InputError("section [" + section +
                       "] takes each task's logits on others' points; the rows of the task " +
                       study.tasks.name(t) + " have choices of their own, which no other's have");
}

void refuse_filter(const Study& study, const std::string& section) {
  if (study.settings.beat_majority)
    throw InputError("data.beat_majority leaves out tasks once they are fine-tuned; section [" + section +
                     "] takes all that data.tasks names: expected false");
}

}  // namespace taugrid::study
