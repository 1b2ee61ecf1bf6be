// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The keys of all work units, spelled here alone: KIND/REGIME/TASK or KIND/REGIME/PAIR.
#pragma once

#include <string>

namespace taugrid::study::key {

using Text = std::string;

inline Text of(const char* kind, const Text& regime) { return Text(kind) + "/" + regime; }
inline Text of(const char* kind, const Text& regime, const Text& what) { return of(kind, regime) + "/" + what; }

/// A classifier on the features of θ0, by its name.
inline Text head(const Text& start, const Text& task) { return of("heads", start, task); }
inline Text pretrain() { return "pretrain"; }
inline Text fine_tune(const Text& regime, const Text& task) { return of("finetune", regime, task); }
inline Text joint(const Text& regime) { return of("finetune", regime, "joint"); }
/// `model`: a regime, or the name of θ0.
inline Text single_task(const Text& model, const Text& task) { return of("single_task", model, task); }
inline Text multitask(const Text& regime, const Text& task) { return of("multitask", regime, task); }
inline Text similarity(const Text& regime) { return of("similarity", regime); }
/// A given regime's models on the way of their training, trained again.
inline Text kept(const Text& regime, const Text& task) { return of("kept", regime, task); }
/// Of vectors on the way of their training.
inline Text early_similarity(const Text& regime) { return of("early_similarity", regime); }
inline Text loss_gap(const Text& regime) { return of("loss_gap", regime); }
/// Of the sum of all vectors, on one task.
inline Text sum_loss_gap(const Text& regime, const Text& task) { return of("sum_loss_gap", regime, task); }
/// Of a task's vector, on every task.
inline Text cross_loss(const Text& regime, const Text& task) { return of("cross_loss", regime, task); }
/// f(x; θ0), and J(x)τ of one task's vector.
inline Text base_features(const Text& task) { return of("features", "base", task); }
inline Text features(const Text& regime, const Text& task) { return of("features", regime, task); }
inline Text predictions(const Text& regime, const Text& task) { return of("predictions", regime, task); }
inline Text disentanglement(const Text& regime) { return of("disentanglement", regime); }
inline Text layer_products(const Text& regime, const Text& task) {
  return of("layer_products", regime, task);
}
inline Text linearity(const Text& regime) { return of("linearity", regime); }
inline Text layer_negation(const Text& regime, const Text& task) {
  return of("layer_negation", regime, task);
}
/// `data`: the task on whose points the models' average is seen.
inline Text layer_averages(const Text& regime, const Text& data) {
  return of("layer_averages", regime, data);
}
inline Text barrier(const Text& regime) { return of("barrier", regime); }
inline Text averages(const Text& regime, const Text& task) { return of("averages", regime, task); }
/// The d-th set of so many tasks.
inline Text subset(const Text& regime, std::size_t size, std::size_t d) {
  return of("subsets", regime, std::to_string(size) + "-" + std::to_string(d));
}
/// `data`: the task, or the control, on whose points models are stitched.
inline Text stitching(const Text& regime, const Text& data) { return of("stitching", regime, data); }
/// `model`: a regime, or the name of θ0.
inline Text generation(const Text& model, const Text& task) { return of("generation", model, task); }
inline Text smoothness(const Text& regime, const Text& task) { return of("smoothness", regime, task); }
inline Text ntk(const Text& start, const Text& task) { return of("ntk", start, task); }
inline Text addition(const Text& regime, const Text& task) { return of("addition", regime, task); }
inline Text pair_addition(const Text& regime) { return of("pair_addition", regime); }
inline Text negation(const Text& regime, const Text& task) { return of("negation", regime, task); }
inline Text continuation(const Text& regime) { return of("continuation", regime); }
/// The merged vector, and its model on a task.
inline Text merging(const Text& method, const Text& regime) { return of("merging", method, regime); }
inline Text merged(const Text& method, const Text& regime, const Text& task) {
  return of("merged", method, regime) + "/" + task;
}
/// What is merged before the tasks' masks.
inline Text whole_merge(const Text& method, const Text& regime) { return of("whole_merge", method, regime); }
/// What one task's data give to a merge.
inline Text merging_data(const Text& method, const Text& regime, const Text& task) {
  return of("merging_data", method, regime) + "/" + task;
}
inline Text saved_merge(const Text& method, const Text& regime) { return of("saved_merge", method, regime); }
inline Text partitions(const Text& regime) { return of("partitions", regime); }
/// The model merged of bases, by the p-th partition into k clusters; the first is the spectral one.
inline Text bases(const Text& regime, std::size_t k, std::size_t p) {
  return of("bases", regime, std::to_string(k) + "-" + std::to_string(p));
}
/// The bases by one partition, and what they do for a task: subtracted, and of other tasks' vectors, added.
inline Text basis_vectors(const Text& regime) { return of("basis_vectors", regime); }
inline Text basis_negation(const Text& regime, const Text& task) {
  return of("basis_negation", regime, task);
}
inline Text basis_transfer(const Text& regime, const Text& task) {
  return of("basis_transfer", regime, task);
}
/// The models merged of m bases that a method made of the Gram matrix.
inline Text low_rank(const Text& regime, const Text& method, std::size_t m) {
  return of("low_rank", regime, method + "-" + std::to_string(m));
}
/// A model trained on a cluster of tasks together.
inline Text cluster_model(const Text& regime, const Text& cluster) {
  return of("finetune_cluster", regime, cluster);
}
/// A cluster's basis, by a method that is trained.
inline Text cluster_basis(const Text& method, const Text& regime, const Text& cluster) {
  return of("cluster_basis", method, regime) + "/" + cluster;
}
/// The model merged of the p-th partition of a few tasks, and what its bases do for another task.
inline Text partition_merge(const Text& method, const Text& regime, std::size_t p) {
  return of("partition_merge", method, regime) + "/" + std::to_string(p);
}
inline Text partition_transfer(const Text& method, const Text& regime, const Text& task) {
  return of("partition_transfer", method, regime) + "/" + task;
}
/// The c-th cluster's basis subtracted, to forget one of its tasks.
inline Text partition_negation(const Text& method, const Text& regime, std::size_t c) {
  return of("partition_negation", method, regime) + "/" + std::to_string(c);
}
/// A model fine-tuned from another θ0, the two sets of vectors, the outcomes of another θ0's models on a
/// task, and those of one of the two θ0 with one kind of vectors added.
inline Text other_fine_tune(const Text& regime, const Text& task) {
  return of("finetune_other", regime, task);
}
inline Text mixed_vectors(const Text& regime) { return of("mixed_vectors", regime); }
inline Text mixed_single(const Text& regime, const Text& task) { return of("mixed_single", regime, task); }
inline Text mixed(const Text& regime, std::size_t start, const Text& vectors) {
  return of("mixed", regime, std::to_string(start + 1) + "-" + vectors);
}
/// `bases`: how they were made, and how many.
inline Text low_rank_negation(const Text& regime, const Text& bases, const Text& task) {
  return of("low_rank_negation", bases, regime) + "/" + task;
}
inline Text cost(const Text& regime) { return of("cost", regime); }

}  // namespace taugrid::study::key
