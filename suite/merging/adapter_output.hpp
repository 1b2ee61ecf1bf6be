// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A merged model as a LoRA adapter of its base: each matrix Δ = λτ [out, in] of a layer becomes B·A with
// B [out, r] and A [r, in].
//
//   exact   columns of Δ are in the span of those of the adapters' B_t: B = Q, A = QᵀΔ, with Q R = [B_1 …
//   B_T];
//           r = Σ r_t
//   rank    the leading triples of Δ = U S Vᵀ, the nearest matrix of rank r (Eckart and Young 1936):
//           B = U S^½, A = S^½ Vᵀ
//
// What is no matrix of a layer is written whole, as PEFT's modules_to_save and bias have it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "suite/merging/making.hpp"
#include "suite/merging/stages.hpp"
#include "suite/store/unfinished_folder.hpp"

namespace taugrid::merging {

/// A matrix of an adapter that is written.
struct FactoredMatrix {
  std::string name;
  std::int64_t rank;
  double norm;   ///< ‖Δ‖
  double error;  ///< ‖Δ − BA‖ / ‖Δ‖, of the factors as they are written
};

struct AdapterOutput {
  std::vector<FactoredMatrix> matrices;
  std::vector<std::string> whole;  ///< names of tensors that are written whole
  std::vector<std::string> notes;  ///< what changed and is not in the adapter: a line each
  Merged merged;
  double written = 0;  ///< bytes, by all ranks together, in this start
};

/// Writes adapter_config.json and adapter_model.safetensors to the folder. Where the method needs all tensors
/// at once, λτ is made first, into a file that all ranks write; then each rank factors matrices of its own,
/// into a file each, which the first rank puts together. What is finished stays for the next start, of
/// whatever number of ranks. Rank 0 has `unfinished`, which is in `folder`, and the result. `go_on` may
/// throw. Collective. Throws InputError where no matrix changed, or the rank is to be exact and the models or
/// the method do not give one.
AdapterOutput write_adapter(const Recipe& recipe, const Stage& stage, const std::filesystem::path& folder,
                            store::UnfinishedFolder* unfinished, const Making& making,
                            const std::function<void()>& go_on);

/// Removes from a finished folder what the adapter was put together of. What stays is no harm.
void remove_making(const std::filesystem::path& folder);

/// What each of so many ranks has to do for it, about, of memory beyond the program's own. `read_a_number`:
/// bytes of the inputs' files for each number of a vector.
std::vector<Load> adapter_loads(const Recipe& recipe, const Stage& stage, double read_a_number, int ranks);

}  // namespace taugrid::merging
