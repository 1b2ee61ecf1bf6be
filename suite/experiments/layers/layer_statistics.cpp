// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/layers/layer_statistics.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "suite/experiments/grids.hpp"

namespace taugrid::experiments {
namespace {

const std::vector<std::string> statistics = {"mean", "standard_deviation", "lower_quartile", "median",
                                             "upper_quartile"};

/// Edges of cosines' bins: eight a decade of 1 − cosine, from 2 down to 2·10⁻⁷, and 1.
std::vector<double> cosine_edges() {
  std::vector<double> edges;
  for (int k = 0; k <= 56; ++k) edges.push_back(1 - 2 * std::pow(10.0, -k / 8.0));
  edges.push_back(1);
  return edges;
}

/// Edges of coefficients' and errors' bins: 0, 0.0125, 0.0375, … 1.9875; 0 and 1, which rounding alone may
/// leave, lie inside of theirs.
std::vector<double> coefficient_edges() {
  std::vector<double> edges = {0};
  for (int k = 0; k < 80; ++k) edges.push_back(0.0125 + 0.025 * k);
  return edges;
}

std::vector<double> edges_of(const LayerMeasure& measure) {
  return measure.cosine ? cosine_edges() : coefficient_edges();
}

std::int64_t bins_of(const LayerMeasure& measure) {
  return static_cast<std::int64_t>(edges_of(measure).size()) - 1;
}

std::int64_t size_of(const std::vector<std::string>& names) {
  return static_cast<std::int64_t>(names.size());
}

std::string bin_of(const LayerMeasure& measure) { return measure.cosine ? "cosine_bin" : "coefficient_bin"; }

const std::string class_token = "class_";  // what names of its own numbers begin with

}  // namespace

const std::vector<LayerMeasure>& layer_measures() {
  static const std::vector<LayerMeasure> all = {
      {"cosine", &metrics::Linearity::cosine, true,
       "cos(u, v), u the mixed model's feature and v the mixed features"},
      {"coefficient", &metrics::Linearity::coefficient, false, "⟨u, v⟩ / ⟨v, v⟩"},
      {"baseline", &metrics::Linearity::baseline, true,
       "the mean of cos(u, f) over the models' features f, whatever α"},
      {"centred_cosine", &metrics::Linearity::centred_cosine, true,
       "cosine of differences from θ0's features"},
      {"centred_coefficient", &metrics::Linearity::centred_coefficient, false,
       "coefficient of differences from θ0's features"},
      {"centred_baseline", &metrics::Linearity::centred_baseline, true,
       "baseline of differences from θ0's features"},
      {"error", &metrics::Linearity::error, false, "‖u − v‖ over the distance of the models' features"},
  };
  return all;
}

const std::vector<LayerMeasure>& layer_measures_of_start() {
  static const auto some = [] {
    auto all = layer_measures();
    std::erase_if(all, [](const LayerMeasure& each) {
      return each.value == &metrics::Linearity::centred_cosine ||
             each.value == &metrics::Linearity::centred_coefficient;
    });
    return all;
  }();
  return some;
}

std::vector<int> layers_to_compare(config::Section& section, const Study& study) {
  const int last = study::Layers::last(study.model);
  return numbered(section, "layers",
                  {"Layers whose features are compared: 0 the embedding, 1 to L the stages, "
                   "L + 1 the encoder's output",
                   {.fallback = "all", .values = "a list of ascending integers from 0 to L + 1"}},
                  0, last, study.model.is_stand_in(),
                  fmt::format("the model's layers are 0 (the embedding), 1 to {} (its stages) and {} (the "
                              "encoder's output)",
                              last - 1, last));
}

std::vector<std::string> layer_variants(const study::Layers& layers) {
  return layers.has_class_token() ? std::vector<std::string>{"", class_token} : std::vector<std::string>{""};
}

at::Tensor products_of_layer(const study::Layers& layers, std::size_t layer, const at::Tensor& a,
                             const at::Tensor& b) {
  const auto all = metrics::inner_products(a, b);
  if (!layers.has_class_token()) return all.unsqueeze(1);
  const auto token = layers.chosen()[layer].class_token;
  return at::stack({all, metrics::inner_products(a.narrow(2, 0, token), b.narrow(2, 0, token))}, 1);
}

void tell_statistics(store::TensorFile& file, const LayerMeasure& measure, const std::string& prefix,
                     const std::vector<at::Tensor>& values, bool of_coefficients) {
  std::vector<at::Tensor> summaries, histograms;
  for (const auto& each : values) {
    summaries.push_back(metrics::summary(each));
    histograms.push_back(metrics::histogram(each, edges_of(measure)));
  }
  const auto name = prefix + measure.name;
  file.tensors[name] = of_coefficients ? at::stack(summaries, 1) : summaries.front();
  file.tensors[name + "_histogram"] = of_coefficients ? at::stack(histograms, 1) : histograms.front();
}

std::vector<Output> layer_outputs(const std::string& first, const std::string& axis,
                                  const std::vector<LayerMeasure>& measures, const std::string& group) {
  std::vector<Output> outputs;
  const auto along = first + " layer " + (axis.empty() ? "" : axis + " ");
  if (!axis.empty())
    outputs.push_back({axis, axis, "1", "the coefficients", With{.scale = axis + "_" + group}});
  outputs.push_back({"layer", "layer", "", "0 the embedding, 1 … L the stages, L + 1 the encoder's output",
                     With{.element = Element::int64, .scale = "layer_" + group}});
  outputs.push_back({"statistic", "statistic", "", "over points: mean, standard deviation, quartiles",
                     With{.text = true, .scale = "statistic_" + group}});
  for (const bool token : {false, true}) {
    const std::string when = token ? "features of which a class token is read" : "";
    for (const auto& measure : measures) {
      const auto name = (token ? class_token : "") + measure.name;
      outputs.push_back({name, along + "statistic", "1",
                         std::string(measure.meaning) + (token ? ", of the class token alone" : ""),
                         With{.when = when}});
      outputs.push_back({name + "_histogram", along + bin_of(measure), "1", "how many points are in each bin",
                         With{.element = Element::int64, .when = when}});
    }
  }
  return together({outputs,
                   {{"@feature", "", "", "what is compared of a layer"},
                    {"@last_layer", "", "", "L + 1"},
                    {"@first_decoder_layer", "", "", "the first stage of the decoder",
                     With{.when = "a model with a decoder"}},
                    {"@cosine_edges", "", "", "of cosine_bin"},
                    {"@coefficient_edges", "", "", "of coefficient_bin"}}});
}

WrittenGroup written_layers(const study::Layers& layers, const LayerGroup& group, const Lengths& more) {
  WrittenGroup written = {group.path,
                          {{"layer", length_of(layers.chosen())},
                           {"statistic", length_of(statistics)},
                           {"cosine_bin", length_of(cosine_edges()) - 1},
                           {"coefficient_bin", length_of(coefficient_edges()) - 1}}};
  written.lengths.insert(more.begin(), more.end());
  written.lengths[group.first] = group.size;
  if (!group.axis.empty()) written.lengths[group.axis] = length_of(group.along);
  for (const auto& measure : layers.has_class_token() ? std::vector<LayerMeasure>{} : group.measures)
    for (const auto* what : {"", "_histogram"}) written.without.push_back(class_token + measure.name + what);
  return written;
}

void place_statistics(Results& out, const Finished& done, const Study& study, const study::Layers& layers,
                      const LayerGroup& group, const std::vector<Box>& boxes) {
  std::vector<std::int64_t> numbers;
  for (const auto& each : layers.chosen()) numbers.push_back(each.number);
  if (!group.axis.empty()) out.put(group.path + "/" + group.axis, group.along);
  out.put(group.path + "/layer", at::tensor(numbers, at::kLong));
  out.put(group.path + "/statistic", statistics);
  for (const auto& variant : layer_variants(layers))
    for (const auto& measure : group.measures)
      for (const auto* what : {"", "_histogram"}) {
        const auto name = variant + measure.name + what;
        out.place(done, group.path + "/" + name, boxes, group.prefix + name);
      }
  out.attribute(group.path, "feature", std::string(layers.feature()));
  out.attribute(group.path, "last_layer", static_cast<std::int64_t>(study::Layers::last(study.model)));
  if (const auto first = study::Layers::first_of_decoder(study.model))
    out.attribute(group.path, "first_decoder_layer", static_cast<std::int64_t>(*first));
  out.attribute(group.path, "cosine_edges", cosine_edges());
  out.attribute(group.path, "coefficient_edges", coefficient_edges());
}

std::int64_t numbers_of(const study::Layers& layers, const LayerGroup& group) {
  std::int64_t all = 0;
  for (const auto& measure : group.measures) all += size_of(statistics) + bins_of(measure);
  if (!group.axis.empty()) all *= static_cast<std::int64_t>(group.along.size());
  return all * static_cast<std::int64_t>(layers.chosen().size()) * size_of(layer_variants(layers));
}

}  // namespace taugrid::experiments
