// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Cross-task linearity (paper 5): for two tasks' models, each layer's feature f and each α, how far
// f(αθᵢ + (1−α)θⱼ) is αf(θᵢ) + (1−α)f(θⱼ), point by point over both tasks' points
// (kernels/metrics/linearity.hpp). Layers: 0 the embedding, 1 … L the stages (of a transformer the residual
// stream, all tokens), L + 1 the encoder's output. A linearised model is linear in its weights at each of
// them, so that there the error is rounding alone. Task arithmetic is the same of edited models, at α = ½,
// for each λ: addition of θ0 + 2λτᵢ and θ0 + 2λτⱼ, whose mixed model is θ0 + λ(τᵢ + τⱼ) (equation 2), and
// negation of θ0 + λτᵢ and θ0 − λτᵢ, whose mixed model is θ0 (equation 3), on its own task's points.
//
// A unit layer_products/R/TASK is one task's points with all its pairs, so that a single model's features are
// computed once a task: T + 2P + 2PA passes of fine-tuned and mixed models over a task's points (of all pairs
// T² + 2PA), and one of θ0 a task; of edits, for each λ, T + 2P + 2P + 2T. A unit linearity/R/PAIR makes the
// statistics of both tasks' points, layer_negation/R/TASK those of one task's.
//
// /linearity/R/cosine, coefficient, baseline; centred_cosine, …: of differences from θ0's features; error
// [P,L,A,S]: mean, standard deviation, quartiles; the baselines do not depend on α, and stand for every α all
// the same. …_histogram [P,L,A,B]; attributes cosine_edges, coefficient_edges. class_…: the same of the class
// token alone, where features are read of one. layer [L], alpha [A], passes [T], sample_index [T,N]
// /layer_addition/R: the same for lambda [Λ] in place of alpha; /layer_negation/R [T,L,Λ,…], without what is
// centred of u, which is f0; its passes [T] are those of all edits
#include "kernels/metrics/linearity.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "suite/config/canonical.hpp"
#include "suite/experiments/support/grids.hpp"
#include "suite/experiments/support/layer_products.hpp"
#include "suite/experiments/support/pair_units.hpp"

namespace taugrid::experiments {
namespace {

struct Measure {
  const char* name;
  at::Tensor metrics::Linearity::*value;
  bool cosine, of_negations = true;
};
constexpr Measure measures[] = {
    {"cosine", &metrics::Linearity::cosine, true},
    {"coefficient", &metrics::Linearity::coefficient, false},
    {"baseline", &metrics::Linearity::baseline, true},
    {"centred_cosine", &metrics::Linearity::centred_cosine, true, false},
    {"centred_coefficient", &metrics::Linearity::centred_coefficient, false, false},
    {"centred_baseline", &metrics::Linearity::centred_baseline, true},
    {"error", &metrics::Linearity::error, false},
};

/// What is mixed: its group of results, what its tensors' names begin with in a unit's file, the axis of
/// coefficients.
struct Mixture {
  std::string group, prefix, axis;
  bool of_pairs = true;
  bool has(const Measure& measure) const { return of_pairs || measure.of_negations; }
};
const Mixture mixed_pairs = {"linearity", "", "alpha"}, mixed_sums = {"layer_addition", "sum_", "lambda"},
              mixed_negations = {"layer_negation", "", "lambda", false};

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
    std::vector<double> alpha, lambda;
    std::vector<int> layers;
    std::int64_t points, batch;
  };
  CrossTaskLinearity(const Study& study, Settings settings)
      : Experiment(study),
        settings_(std::move(settings)),
        layers_(study.model, study.evaluation, settings_.layers) {
    for (const auto& name : settings_.regimes)
      products_.try_emplace(name, study_, layers_, name, settings_.alpha, settings_.lambda, settings_.points,
                            settings_.batch);
  }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : settings_.regimes) {
      const auto& products = products_.at(name);
      for (const auto t : study_.tasks.all()) {
        if (!products.sees(t)) continue;
        const auto seen = key::layer_products(name, study_.tasks.name(t));
        units.push_back(
            unit(seen, products.tally(t), study_.vectors.needs(name, products.models_of(t)),
                 [&products, t](schedule::UnitContext& context) { return products.compute(t, context); }));
        if (settings_.lambda.empty()) continue;
        units.push_back(
            unit(key::layer_negation(name, study_.tasks.name(t)), negation_tally(products, t), {seen},
                 [this, seen, &folder](schedule::UnitContext&) { return negation(seen, folder); }));
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
    for (const auto& name : settings_.regimes) {
      std::vector<Box> tasks, negated;
      for (const auto t : study_.tasks.all()) {
        const std::vector<std::int64_t> at = {static_cast<std::int64_t>(t)};
        const auto& task = study_.tasks.name(t);
        if (products_.at(name).sees(t)) tasks.push_back({key::layer_products(name, task), at});
        negated.push_back({key::layer_negation(name, task), at});
      }
      if (!study_.tasks.pairs().empty()) {
        const auto boxes = pairs(name).boxes();
        write(out, done, mixed_pairs, name, settings_.alpha, boxes);
        write_passes(out, done, mixed_pairs, name, "passes", tasks);
        if (!settings_.lambda.empty()) write(out, done, mixed_sums, name, settings_.lambda, boxes);
      }
      if (settings_.lambda.empty()) continue;
      write(out, done, mixed_negations, name, settings_.lambda, negated);
      write_passes(out, done, mixed_negations, name, "edit_passes", tasks);
    }
  }

 private:
  PairUnits pairs(const std::string& name) const { return {study_, key::linearity(name)}; }
  std::vector<std::string> variants() const {
    return layers_.has_class_token() ? std::vector<std::string>{"", "class_"} : std::vector<std::string>{""};
  }
  static std::vector<double> edges(const Measure& measure) {
    return measure.cosine ? cosine_edges() : coefficient_edges();
  }

  void write(store::ResultsWriter& out, const Finished& done, const Mixture& mixture, const std::string& name,
             const std::vector<double>& along, const std::vector<Box>& boxes) const {
    const auto group = "/" + mixture.group + "/" + name, axis = group + "/" + mixture.axis,
               layer = group + "/layer", statistic = group + "/statistic",
               of = "_" + mixture.group + "_" + name;
    const auto first = static_cast<std::int64_t>(mixture.of_pairs ? study_.tasks.pairs().size()
                                                                  : study_.tasks.size()),
               c = static_cast<std::int64_t>(along.size()),
               l = static_cast<std::int64_t>(settings_.layers.size()),
               s = static_cast<std::int64_t>(statistics.size());
    const std::string each = mixture.of_pairs ? "pair" : "task";
    out.scale(axis, at::tensor(along, at::kDouble), mixture.axis + of, "1");
    out.scale(layer, at::tensor(settings_.layers, at::kInt).to(at::kLong), "layer" + of);
    out.scale(statistic, statistics, "statistic" + of);
    for (const auto& variant : variants()) {
      for (const auto& measure : measures) {
        if (!mixture.has(measure)) continue;
        const auto path = variant + measure.name, tensor = mixture.prefix + path;
        place(out, done, group + "/" + path, store::Element::float64, {first, l, c, s},
              {each, layer, axis, statistic}, boxes, tensor, "1");
        const std::string bin = measure.cosine ? "cosine_bin" : "coefficient_bin";
        const auto bins = static_cast<std::int64_t>(edges(measure).size()) - 1;
        place(out, done, group + "/" + path + "_histogram", store::Element::int64, {first, l, c, bins},
              {each, layer, axis, bin}, boxes, tensor + "_histogram", "1");
      }
    }
    out.attribute(group, "feature", std::string(layers_.feature()));
    out.attribute(group, "last_layer", static_cast<std::int64_t>(study::Layers::last(study_.model)));
    out.attribute(group, "cosine_edges", cosine_edges());
    out.attribute(group, "coefficient_edges", coefficient_edges());
    out.put(group + "/sample_index", study_.tasks.sample_index(Split::test, settings_.points),
            {"task", "linearity_point"});
  }

  void write_passes(store::ResultsWriter& out, const Finished& done, const Mixture& mixture,
                    const std::string& name, const std::string& tensor, const std::vector<Box>& tasks) const {
    place(out, done, "/" + mixture.group + "/" + name + "/passes", store::Element::int64,
          {static_cast<std::int64_t>(study_.tasks.size())}, {"task"}, tasks, tensor, "1");
  }

  /// Numbers of a mixture's statistics, for so many coefficients.
  std::int64_t numbers(const Mixture& mixture, std::size_t along) const {
    std::size_t all = 0;
    for (const auto& measure : measures)
      if (mixture.has(measure)) all += statistics.size() + edges(measure).size() - 1;
    return static_cast<std::int64_t>(all * along * settings_.layers.size() * variants().size());
  }

  /// Numbers' worth of what HDF5 keeps beside a mixture's data sets: headers, attributes, their places in
  /// scales' lists.
  std::int64_t headers(const Mixture& mixture, std::size_t along) const {
    constexpr std::size_t numbers_each = 1700 / 8;  // as files of other runs have it
    std::size_t sets = 0;
    for (const auto& measure : measures) sets += along > 0 && mixture.has(measure) ? 2 : 0;
    return static_cast<std::int64_t>(sets * variants().size() * numbers_each);
  }

  Tally pair_tally(const LayerProducts& products, std::size_t p) const {
    const auto all =
        numbers(mixed_pairs, settings_.alpha.size()) + numbers(mixed_sums, settings_.lambda.size());
    const auto [i, j] = study_.tasks.pairs()[p];
    return Tally(study_)
        .reads(products.pair_bytes(i))
        .reads(products.pair_bytes(j))
        .stores(all)
        .publishes(all + (p > 0 ? 0
                                : headers(mixed_pairs, settings_.alpha.size()) +
                                      headers(mixed_sums, settings_.lambda.size())));
  }

  Tally negation_tally(const LayerProducts& products, std::size_t t) const {
    const auto all = numbers(mixed_negations, settings_.lambda.size());
    return Tally(study_)
        .reads(products.negation_bytes(t))
        .stores(all)
        .publishes(all + (t > 0 ? 0 : headers(mixed_negations, settings_.lambda.size())));
  }

  /// Statistics over the points of both tasks.
  store::TensorFile pair(const std::string& name, std::size_t p, const schedule::RunFolder& folder) const {
    const auto [i, j] = study_.tasks.pairs()[p];
    const auto of_both = [&, i = i, j = j](const std::string& tensor) {
      std::vector<at::Tensor> sides;
      for (const auto t : {i, j})
        sides.push_back(folder.read_tensor(key::layer_products(name, study_.tasks.name(t)),
                                           tensor + "/" + study_.tasks.pair_name(p)));
      return at::cat(sides);
    };
    const auto sets = settings_.lambda.size();
    store::TensorFile file;
    tell(file, mixed_pairs, of_both("mixed"), of_both("frame").unsqueeze(3), settings_.alpha);
    if (sets > 0)
      tell(file, mixed_sums, of_both("sum"), of_both("sum_frame"), std::vector<double>(sets, 0.5));
    return file;
  }

  /// Of one task's points, where the mixed model is θ0: all of its products are 0.
  store::TensorFile negation(const std::string& seen, const schedule::RunFolder& folder) const {
    const auto frame = folder.read_tensor(seen, "negation_frame");  // [N,V,L,Λ,3,3]
    store::TensorFile file;
    auto shape = frame.sizes().vec();
    shape.pop_back();
    shape.back() = 4;
    tell(file, mixed_negations, at::zeros(shape, frame.options()), frame,
         std::vector<double>(settings_.lambda.size(), 0.5));
    return file;
  }

  /// Adds statistics [L,C,S] and histograms [L,C,B] of mixed models [N,V,L,C,4] and of what they are mixed of
  /// [N,V,L,C or 1,3,3], with these weights of the first.
  void tell(store::TensorFile& file, const Mixture& mixture, const at::Tensor& mixed, const at::Tensor& frame,
            const std::vector<double>& weights) const {
    const auto names = variants();
    for (std::size_t v = 0; v < names.size(); ++v) {
      std::map<std::string, std::vector<at::Tensor>> found;  // by coefficient
      for (std::size_t k = 0; k < weights.size(); ++k) {
        const auto variant = static_cast<std::int64_t>(v), c = static_cast<std::int64_t>(k);
        const auto each =
            metrics::linearity(mixed.select(1, variant).select(2, c),
                               frame.select(1, variant).select(2, frame.size(3) > 1 ? c : 0), weights[k]);
        for (const auto& measure : measures) {
          if (!mixture.has(measure)) continue;
          const auto values = (each.*measure.value).t();  // [L,N]
          const auto name = mixture.prefix + names[v] + measure.name;
          found[name].push_back(metrics::summary(values));
          found[name + "_histogram"].push_back(metrics::histogram(values, edges(measure)));
        }
      }
      for (const auto& [tensor, all] : found) file.tensors[tensor] = at::stack(all, 1);
    }
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
  const auto lambda = section->reals("lambda",
                                     {"λ of sums θ0 + λ(τ₁ + τ₂) against θ0 + 2λτ₁ and θ0 + 2λτ₂, and of "
                                      "negations θ0 ± λτ against θ0, each apart",
                                      {.values = "a list of numbers, each from -1000 to 1000; [] for none"}},
                                     {0.4}, coefficients);
  for (auto it = lambda.begin(); it != lambda.end(); ++it)
    if (std::find(lambda.begin(), it, *it) != it)
      section->refuse("lambda", "holds " + config::canonical(*it) + " twice");
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
      study, CrossTaskLinearity::Settings{regimes, std::move(alpha), lambda, read_layers(*section, study),
                                          points, batch});
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(linearity, 65, make_linearity)
