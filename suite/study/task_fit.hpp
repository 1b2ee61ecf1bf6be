// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Whether a task's data fit the model that reads them.
#pragma once

#include <string>

#include "suite/data/packed.hpp"
#include "suite/models/encoder.hpp"
#include "suite/study/settings.hpp"

namespace taugrid::study {

/// Whether the task is answered by whole sequences of tokens: labels' words, texts, or choices of each row.
bool has_answers(const data::Task& task);

/// The task's inputs are what the model takes, its tokens are the model's own, and its head fits the model's
/// features. Throws InputError that begins with `where`.
void require_fit(const data::Task& task, const models::Encoder& encoder, const Settings& settings,
                 const std::string& where);

}  // namespace taugrid::study
