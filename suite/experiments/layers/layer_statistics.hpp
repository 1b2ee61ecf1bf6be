// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Cross-task linearity of layers: from each point's numbers to statistics over points, and their places in
// results.h5.
#pragma once

#include <string>
#include <vector>

#include "kernels/metrics/linearity.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"
#include "suite/study/layers.hpp"

namespace taugrid::experiments {

/// One number of a point and layer, and whether its histogram has a cosine's bins.
struct LayerMeasure {
  const char* name;
  at::Tensor metrics::Linearity::*value;
  bool cosine;
  const char* meaning;
};
/// All of metrics::Linearity; or those that are something where u is f0 itself.
const std::vector<LayerMeasure>& layer_measures();
const std::vector<LayerMeasure>& layer_measures_of_start();

/// Key `layers`: some of 0 … L + 1, all unless given. Throws InputError, which says which there are.
std::vector<int> layers_to_compare(config::Section& section, const Study& study);

/// What names of all of a feature's numbers begin with, and of the class token's alone, where features are
/// read of one: "", "class_".
std::vector<std::string> layer_variants(const study::Layers& layers);

/// Inner products of the `layer`-th chosen layer's features, as rows [n,K,numbers] and [n,J,numbers], of each
/// variant: [n,V,K,J].
at::Tensor products_of_layer(const study::Layers& layers, std::size_t layer, const at::Tensor& a,
                             const at::Tensor& b);

/// Where statistics of layers go: a group of results.h5, the scale that is its first dimension, how many that
/// has, and the coefficients that come behind the layers, with their name; none where it is empty.
struct LayerGroup {
  std::string path;    ///< "/linearity/standard"
  std::string prefix;  ///< what the units' tensors begin with
  const std::vector<LayerMeasure>& measures;
  std::string first;
  std::int64_t size;
  std::string axis = {};
  std::vector<double> along = {};
};

/// Adds a measure's statistics [L,…,S] and histogram [L,…,B] of values [L,N], one for each coefficient, under
/// its name behind `prefix`; without coefficients of the one tensor, [L,S] and [L,B].
void tell_statistics(store::TensorFile& file, const LayerMeasure& measure, const std::string& prefix,
                     const std::vector<at::Tensor>& values, bool of_coefficients);

/// What place_statistics() writes of groups whose path is GROUP, with _ for /, as their scales' names end.
std::vector<Output> layer_outputs(const std::string& first, const std::string& axis,
                                  const std::vector<LayerMeasure>& measures, const std::string& group);
/// The same with lengths, and `more` that the caller writes beside.
WrittenGroup written_layers(const study::Layers& layers, const LayerGroup& group, const Lengths& more);

/// Writes layer_outputs(). Collective.
void place_statistics(Results& out, const Finished& done, const Study& study, const study::Layers& layers,
                      const LayerGroup& group, const std::vector<Box>& boxes);

/// How many numbers of a group one of its units has.
std::int64_t numbers_of(const study::Layers& layers, const LayerGroup& group);

}  // namespace taugrid::experiments
