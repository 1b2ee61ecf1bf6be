// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The makers of methods, one family a file.
#pragma once

#include "suite/merging/method.hpp"

namespace taugrid::merging {

std::unique_ptr<const Method> make_linear(config::Section parameters);
std::unique_ptr<const Method> make_task_arithmetic(config::Section parameters);
std::unique_ptr<const Method> make_ties(config::Section parameters);
std::unique_ptr<const Method> make_dare_linear(config::Section parameters);
std::unique_ptr<const Method> make_dare_ties(config::Section parameters);
std::unique_ptr<const Method> make_top_k(config::Section parameters);
std::unique_ptr<const Method> make_consensus_ta(config::Section parameters);
std::unique_ptr<const Method> make_consensus_ties(config::Section parameters);
std::unique_ptr<const Method> make_slerp(config::Section parameters);
std::unique_ptr<const Method> make_tsv_m(config::Section parameters);
std::unique_ptr<const Method> make_iso_c(config::Section parameters);
std::unique_ptr<const Method> make_iso_cts(config::Section parameters);

}  // namespace taugrid::merging
