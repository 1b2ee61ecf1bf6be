// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a section of the experiment file may need of the whole run, and is refused without.
#pragma once

#include <string>

#include "suite/study/study.hpp"

namespace taugrid::study {

/// Throws InputError where no regime makes task vectors, for a section that needs them.
void require_vectors(const Study& study, const std::string& section);

/// Throws InputError where a task is answered by texts, for a section on classes.
void require_classes(const Study& study, const std::string& section);

/// Throws InputError where a task's rows have choices of their own, for a section that takes its logits on
/// other tasks' points.
void require_shared_classes(const Study& study, const std::string& section);

/// Throws InputError where [data] beat_majority may leave out tasks, for a section that merges all.
void refuse_filter(const Study& study, const std::string& section);

}  // namespace taugrid::study
