// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Cross-task linearity (paper 5): for two tasks' models, each layer's feature f and each α, how far
// f(αθᵢ + (1−α)θⱼ) is αf(θᵢ) + (1−α)f(θⱼ), point by point over both tasks' points
// (kernels/metrics/linearity.hpp). Layers: 0 the embedding, 1 … L the stages (of a transformer the residual
// stream, all tokens), L + 1 the encoder's output. A linearised model is linear in its weights at each of
// them, so that there the error is rounding alone.
//
// A unit layer_products/R/TASK is one task's points with all its pairs, so that a single model's features are
// computed once a task: T + 2P + 2PA passes of fine-tuned and mixed models over a task's points (of all pairs
// T² + 2PA), and one of θ0 a task. A unit linearity/R/PAIR makes the statistics of both tasks' points.
//
// /linearity/R/cosine, coefficient, baseline; centred_cosine, …: of differences from θ0's features; error
// [P,L,A,S]: mean, standard deviation, quartiles; the baselines do not depend on α, and stand for every α all
// the same. …_histogram [P,L,A,B]; attributes cosine_edges, coefficient_edges. class_…: the same of the class
// token alone, where features are read of one. layer [L], alpha [A], passes [T], sample_index [T,N]
#include "kernels/metrics/linearity.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "suite/experiments/support/grids.hpp"
#include "suite/experiments/support/layer_products.hpp"
#include "suite/experiments/support/pair_units.hpp"

namespace taugrid::experiments {
namespace {

struct Measure {
  const char* name;
  at::Tensor metrics::Linearity::*value;
  bool cosine;
};
constexpr Measure measures[] = {
    {"cosine", &metrics::Linearity::cosine, true},
    {"coefficient", &metrics::Linearity::coefficient, false},
    {"baseline", &metrics::Linearity::baseline, true},
    {"centred_cosine", &metrics::Linearity::centred_cosine, true},
    {"centred_coefficient", &metrics::Linearity::centred_coefficient, false},
    {"centred_baseline", &metrics::Linearity::centred_baseline, true},
    {"error", &metrics::Linearity::error, false},
};

const std::vector<std::string> statistics = {"mean", "standard_deviation", "lower_quartile", "median",
                                             "upper_quartile"};

/// Edges of cosines' bins: eight a decade of 1 − cosine, from 2 down to 2·10⁻⁷, and 1.
std::vector<double> cosine_edges() {
  std::vector<double> edges;
  for (int k = 0; k <= 56; ++k) edges.push_back(1 - 2 * std::pow(10.0, -k / 8.0));
  edges.push_back(1);
  return edges;
}

/// Edges of coefficients' and errors' bins: 0, 0.0125, 0.0375, … 1.9875; 0 and 1, which rounding alone may leave, lie
/// inside of theirs.
std::vector<double> coefficient_edges() {
  std::vector<double> edges = {0};
  for (int k = 0; k < 80; ++k) edges.push_back(0.0125 + 0.025 * k);
  return edges;
}

class CrossTaskLinearity final : public Experiment {
 public:
  struct Settings {
    std::vector<std::string> regimes;
    std::vector<double> alpha;
    std::vector<int> layers;
    std::int64_t points, batch;
  };
  CrossTaskLinearity(const Study& study, Settings settings)
      : Experiment(study),
        settings_(std::move(settings)),
        layers_(study.model, study.evaluation, settings_.layers) {
    for (const auto& name : settings_.regimes)
      products_.try_emplace(name, study_, layers_, name, settings_.alpha, settings_.points, settings_.batch);
  }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : settings_.regimes) {
      const auto& products = products_.at(name);
      for (const auto t : study_.tasks.all()) {
        const auto models = products.models_of(t);
        if (models.size() == 1) continue;
        units.push_back(
            unit(key::layer_products(name, study_.tasks.name(t)), products.tally(t),
                 study_.vectors.needs(name, models),
                 [&products, t](schedule::UnitContext& context) { return products.compute(t, context); }));
      }
      pairs(name).add(
          units, [&](std::size_t p) { return pair_tally(products, p); },
          [this, name](std::size_t p) {
            const auto [i, j] = study_.tasks.pairs()[p];
            return std::vector<std::string>{key::layer_products(name, study_.tasks.name(i)),
                                            key::layer_products(name, study_.tasks.name(j))};
          },
          [this, name, &folder](std::size_t p, schedule::UnitContext&) { return pair(name, p, folder); });
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    const auto p = static_cast<std::int64_t>(study_.tasks.pairs().size());
    const auto a = static_cast<std::int64_t>(settings_.alpha.size()),
               l = static_cast<std::int64_t>(settings_.layers.size()),
               s = static_cast<std::int64_t>(statistics.size());
    if (p == 0) return;
    for (const auto& name : settings_.regimes) {
      const auto group = "/linearity/" + name, alpha = group + "/alpha", layer = group + "/layer",
                 statistic = group + "/statistic";
      out.scale(alpha, at::tensor(settings_.alpha, at::kDouble), "alpha_linearity_" + name, "1");
      out.scale(layer, at::tensor(settings_.layers, at::kInt).to(at::kLong), "layer_linearity_" + name);
      out.scale(statistic, statistics, "statistic_linearity_" + name);
      const auto boxes = pairs(name).boxes();
      for (const auto& prefix : prefixes()) {
        for (const auto& measure : measures) {
          const auto path = prefix + measure.name;
          place(out, done, group + "/" + path, store::Element::float64, {p, l, a, s},
                {"pair", layer, alpha, statistic}, boxes, path, "1");
          const std::string bin = measure.cosine ? "cosine_bin" : "coefficient_bin";
          const auto bins = static_cast<std::int64_t>(edges(measure).size()) - 1;
          place(out, done, group + "/" + path + "_histogram", store::Element::int64, {p, l, a, bins},
                {"pair", layer, alpha, bin}, boxes, path + "_histogram", "1");
        }
      }
      out.attribute(group, "feature", std::string(layers_.feature()));
      out.attribute(group, "last_layer", static_cast<std::int64_t>(study::Layers::last(study_.model)));
      out.attribute(group, "cosine_edges", cosine_edges());
      out.attribute(group, "coefficient_edges", coefficient_edges());
      std::vector<Box> tasks;
      for (const auto t : study_.tasks.all()) {
        if (!study_.tasks.pairs_of(t).empty())
          tasks.push_back({key::layer_products(name, study_.tasks.name(t)), {static_cast<std::int64_t>(t)}});
      }
      place(out, done, group + "/passes", store::Element::int64,
            {static_cast<std::int64_t>(study_.tasks.size())}, {"task"}, tasks, "passes", "1");
      out.put(group + "/sample_index", study_.tasks.sample_index(Split::test, settings_.points),
              {"task", "linearity_point"});
    }
  }

 private:
  PairUnits pairs(const std::string& name) const { return {study_, key::linearity(name)}; }
  std::vector<std::string> prefixes() const {
    return layers_.has_class_token() ? std::vector<std::string>{"", "class_"} : std::vector<std::string>{""};
  }
  static std::vector<double> edges(const Measure& measure) {
    return measure.cosine ? cosine_edges() : coefficient_edges();
  }

  Tally pair_tally(const LayerProducts& products, std::size_t p) const {
    std::size_t numbers = 0;
    for (const auto& measure : measures) numbers += statistics.size() + edges(measure).size() - 1;
    const auto all = static_cast<std::int64_t>(numbers * settings_.alpha.size() * settings_.layers.size() *
                                               prefixes().size());
    const auto [i, j] = study_.tasks.pairs()[p];
    return Tally(study_)
        .reads(products.pair_bytes(i))
        .reads(products.pair_bytes(j))
        .stores(all)
        .publishes(all);
  }

  /// Statistics over the points of both tasks: [L,A,S], and [L,A,B].
  store::TensorFile pair(const std::string& name, std::size_t p, const schedule::RunFolder& folder) const {
    const auto [i, j] = study_.tasks.pairs()[p];
    const auto of_both = [&, i = i, j = j](const std::string& tensor) {
      std::vector<at::Tensor> sides;
      for (const auto t : {i, j})
        sides.push_back(folder.read_tensor(key::layer_products(name, study_.tasks.name(t)),
                                           tensor + "/" + study_.tasks.pair_name(p)));
      return at::cat(sides);
    };
    const auto mixed = of_both("mixed"), frame = of_both("frame");  // [2N,V,L,A,4], [2N,V,L,3,3]
    std::map<std::string, std::vector<at::Tensor>> found;           // by α
    const auto names = prefixes();
    for (std::size_t v = 0; v < names.size(); ++v) {
      const auto variant = static_cast<std::int64_t>(v);
      for (std::size_t k = 0; k < settings_.alpha.size(); ++k) {
        const auto each = metrics::linearity(mixed.select(1, variant).select(2, static_cast<std::int64_t>(k)),
                                             frame.select(1, variant), settings_.alpha[k]);
        for (const auto& measure : measures) {
          const auto values = (each.*measure.value).t();  // [L,2N]
          found[names[v] + measure.name].push_back(metrics::summary(values));
          found[names[v] + measure.name + "_histogram"].push_back(metrics::histogram(values, edges(measure)));
        }
      }
    }
    store::TensorFile file;
    for (const auto& [tensor, by_alpha] : found) file.tensors[tensor] = at::stack(by_alpha, 1);
    return file;
  }

  Settings settings_;
  study::Layers layers_;
  std::map<std::string, LayerProducts> products_;  // by regime
};

std::vector<int> read_layers(config::Section& section, const Study& study) {
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

std::unique_ptr<Experiment> make_linearity(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "linearity", "Cross-task linearity by layer: how far mixed weights give mixed features");
  if (!section) return nullptr;
  require_vectors(study, "linearity");
  const auto regimes = section->words("regimes",
                                      {"Regimes whose models are compared",
                                       {.fallback = "all of finetune.regimes that have task vectors",
                                        .values = "a list of some of finetune.regimes"}},
                                      study.settings.vector_regimes, study.settings.vector_regimes);
  auto alpha = section->alpha_grid(
      "alpha", {"Weights α of a pair's first model in the mixed one, 1 − α of the second"}, {0.25, 0.5, 0.75},
      coefficients);
  const auto points =
      section->integer("points",
                       {"Test points a task",
                        {.fallback = "data.evaluation_points", .values = "an integer from 1 to 1000000000"}},
                       study.settings.evaluation_points, {1, 1e9});
  const auto batch =
      section->integer("batch",
                       "Points that pass through a model at once; their features are held for all models "
                       "that one task's pairs need",
                       64, {1, 1e6});
  return std::make_unique<CrossTaskLinearity>(
      study,
      CrossTaskLinearity::Settings{regimes, std::move(alpha), read_layers(*section, study), points, batch});
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(linearity, 65, make_linearity)
