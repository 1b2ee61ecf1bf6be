// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The keys of work units that several files read: KIND/REGIME/TASK or KIND/REGIME/PAIR. A key that one
// experiment alone reads stands with it.
#pragma once

#include <string>

namespace taugrid::study::key {

using Text = std::string;

inline Text of(const char* kind, const Text& regime) { return Text(kind) + "/" + regime; }
inline Text of(const char* kind, const Text& regime, const Text& what) {
  return of(kind, regime) + "/" + what;
}

/// A classifier on the features of θ0, by its name.
inline Text head(const Text& start, const Text& task) { return of("heads", start, task); }
inline Text fine_tune(const Text& regime, const Text& task) { return of("finetune", regime, task); }
inline Text joint(const Text& regime) { return of("finetune", regime, "joint"); }
/// `model`: a regime, or the name of θ0.
inline Text single_task(const Text& model, const Text& task) { return of("single_task", model, task); }
/// f(x; θ0), and J(x)τ of one task's vector.
inline Text base_features(const Text& task) { return of("features", "base", task); }
inline Text features(const Text& regime, const Text& task) { return of("features", regime, task); }
/// The vector that a method merged.
inline Text merging(const Text& method, const Text& regime) { return of("merging", method, regime); }
/// What one task's data give to a merge.
inline Text merging_data(const Text& method, const Text& regime, const Text& task) {
  return of("merging_data", method, regime) + "/" + task;
}
inline Text partitions(const Text& regime) { return of("partitions", regime); }
/// The models merged of m bases that a method made of the Gram matrix.
inline Text low_rank(const Text& regime, const Text& method, std::size_t m) {
  return of("low_rank", regime, method + "-" + std::to_string(m));
}
/// A model fine-tuned from another θ0.
inline Text other_fine_tune(const Text& regime, const Text& task) {
  return of("finetune_other", regime, task);
}

}  // namespace taugrid::study::key
