// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// `taugrid merge`: a Hugging Face folder comes of a recipe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "suite/merging/adapter_output.hpp"
#include "suite/merging/making.hpp"
#include "suite/merging/recipe.hpp"

namespace taugrid::merging {

struct Report {
  std::int64_t numbers = 0;  ///< of a model
  Merged merged;
  double bytes = 0;                           ///< of all inputs
  std::vector<std::string> notes;             ///< what was not merged, or not as it stood
  std::vector<FactoredMatrix> matrices = {};  ///< of an adapter
  std::size_t whole = 0;                      ///< tensors that stand in it whole
  double read = 0, written = 0;               ///< bytes, by all ranks together, in this start
};

/// What the merged model takes each of so many ranks, about. Reads little but headers. Throws InputError.
std::vector<Load> loads(const Recipe& recipe, int ranks);

/// Writes recipe.out: the merged weights in recipe.dtype and the base model's files (merged_files.hpp), the
/// files beside them that say what the model is (side_files.hpp), or an adapter of the base
/// (adapter_output.hpp); merge.toml, and the model's card (model_card.hpp). The folder appears whole or not
/// at all. It is built beside its place, where what is finished stays after Interrupted or a kill, and the
/// next start of the same merge, by any number of ranks, goes on; InputError leaves nothing behind. The same
/// bytes for any number of ranks. Collective. Throws InputError.
Report merge(const Recipe& recipe, const Making& making);

}  // namespace taugrid::merging
