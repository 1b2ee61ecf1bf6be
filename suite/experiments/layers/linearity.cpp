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
#include <ATen/ATen.h>

#include <algorithm>

#include "suite/config/canonical.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/experiments/layers/layer_products.hpp"
#include "suite/experiments/layers/layer_statistics.hpp"
#include "suite/experiments/pairs/pair_units.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

std::string layer_products_key(const std::string& regime, const std::string& task) {
  return key::of("layer_products", regime, task);
}
std::string linearity_key(const std::string& regime) { return key::of("linearity", regime); }
std::string layer_negation_key(const std::string& regime, const std::string& task) {
  return key::of("layer_negation", regime, task);
}

std::vector<OutputGroup> linearity_outputs() {
  return {{"/linearity/R", "how far f(αθᵢ + (1−α)θⱼ) is αf(θᵢ) + (1−α)f(θⱼ)",
           together({layer_outputs("pair", "alpha", layer_measures(), "linearity_R"),
                     {{"passes", "task", "1", "passes of models over the task's points",
                       With{.element = Element::int64}},
                      sample_rows("test", "linearity_point")}}),
           "[linearity]", 2},
          {"/layer_addition/R", "the same of θ0 + 2λτᵢ and θ0 + 2λτⱼ at α = ½",
           together({layer_outputs("pair", "lambda", layer_measures(), "layer_addition_R"),
                     {sample_rows("test", "linearity_point")}}),
           "[linearity] lambda", 2},
          {"/layer_negation/R", "the same of θ0 + λτ and θ0 − λτ at α = ½, on the task's own points",
           together({layer_outputs("task", "lambda", layer_measures_of_start(), "layer_negation_R"),
                     {{"passes", "task", "1", "passes of edited models over the task's points",
                       With{.element = Element::int64}},
                      sample_rows("test", "linearity_point")}}),
           "[linearity] lambda", 2}};
}

/// What is mixed: its group of results, and what its tensors' names begin with in a unit's file.
struct Mixture {
  const char *group, *prefix, *axis;
  bool of_pairs = true;
};
constexpr Mixture mixed_pairs = {"linearity", "", "alpha"}, mixed_sums = {"layer_addition", "sum_", "lambda"},
                  mixed_negations = {"layer_negation", "", "lambda", false};

const std::vector<LayerMeasure>& measures_of(const Mixture& mixture) {
  return mixture.of_pairs ? layer_measures() : layer_measures_of_start();
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

  bool runs_by_stages() const override { return true; }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : settings_.regimes) {
      const auto& products = products_.at(name);
      for (const auto t : study_.tasks.all()) {
        if (!products.sees(t)) continue;
        const auto seen = layer_products_key(name, study_.tasks.name(t));
        units.push_back(
            unit(seen, products.tally(t), study_.vectors.needs(name, products.models_of(t)),
                 [&products, t](schedule::UnitContext& context) { return products.compute(t, context); }));
        if (settings_.lambda.empty()) continue;
        units.push_back(
            unit(layer_negation_key(name, study_.tasks.name(t)), negation_tally(products, name, t), {seen},
                 [this, seen, &folder](schedule::UnitContext&) { return negation(seen, folder); }));
      }
      pairs(name).add(
          units, [&](std::size_t p) { return pair_tally(products, name, p); },
          [this, name](std::size_t p) {
            const auto [i, j] = study_.tasks.pairs()[p];
            return std::vector<std::string>{layer_products_key(name, study_.tasks.name(i)),
                                            layer_products_key(name, study_.tasks.name(j))};
          },
          [this, name, &folder](std::size_t p, schedule::UnitContext&) { return pair(name, p, folder); });
    }
  }

  std::vector<WrittenGroup> written() const override {
    std::vector<WrittenGroup> groups;
    const std::map<std::string, std::int64_t> points = {{"linearity_point", settings_.points}};
    for (const auto& name : settings_.regimes) {
      if (!study_.tasks.pairs().empty()) {
        groups.push_back(written_layers(layers_, group(mixed_pairs, name, settings_.alpha), points));
        if (!settings_.lambda.empty())
          groups.push_back(written_layers(layers_, group(mixed_sums, name, settings_.lambda), points));
      }
      if (!settings_.lambda.empty())
        groups.push_back(written_layers(layers_, group(mixed_negations, name, settings_.lambda), points));
    }
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    for (const auto& name : settings_.regimes) {
      std::vector<Box> tasks, negated;
      for (const auto t : study_.tasks.all()) {
        const std::vector<std::int64_t> at = {static_cast<std::int64_t>(t)};
        const auto& task = study_.tasks.name(t);
        if (products_.at(name).sees(t)) tasks.push_back({layer_products_key(name, task), at});
        negated.push_back({layer_negation_key(name, task), at});
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
  PairUnits pairs(const std::string& name) const { return {study_, linearity_key(name)}; }
  LayerGroup group(const Mixture& mixture, const std::string& name, const std::vector<double>& along) const {
    const auto size = mixture.of_pairs ? study_.tasks.pairs().size() : study_.tasks.size();
    return {.path = "/" + std::string(mixture.group) + "/" + name,
            .prefix = mixture.prefix,
            .measures = measures_of(mixture),
            .first = mixture.of_pairs ? "pair" : "task",
            .size = static_cast<std::int64_t>(size),
            .axis = mixture.axis,
            .along = along};
  }

  void write(Results& out, const Finished& done, const Mixture& mixture, const std::string& name,
             const std::vector<double>& along, const std::vector<Box>& boxes) const {
    const auto places = group(mixture, name, along);
    place_statistics(out, done, study_, layers_, places, boxes);
    out.put(places.path + "/sample_index", study_.samples.index(Split::test, settings_.points));
  }

  void write_passes(Results& out, const Finished& done, const Mixture& mixture, const std::string& name,
                    const std::string& tensor, const std::vector<Box>& tasks) const {
    out.place(done, "/" + std::string(mixture.group) + "/" + name + "/passes", tasks, tensor);
  }

  Tally pair_tally(const LayerProducts& products, const std::string& name, std::size_t p) const {
    const auto [i, j] = study_.tasks.pairs()[p];
    return Tally(study_)
        .reads(products.pair_bytes(i))
        .reads(products.pair_bytes(j))
        .stores(numbers_of(layers_, group(mixed_pairs, name, settings_.alpha)))
        .stores(numbers_of(layers_, group(mixed_sums, name, settings_.lambda)));
  }

  Tally negation_tally(const LayerProducts& products, const std::string& name, std::size_t t) const {
    return Tally(study_)
        .reads(products.negation_bytes(t))
        .stores(numbers_of(layers_, group(mixed_negations, name, settings_.lambda)));
  }

  /// Statistics over the points of both tasks.
  store::TensorFile pair(const std::string& name, std::size_t p, const schedule::RunFolder& folder) const {
    const auto [i, j] = study_.tasks.pairs()[p];
    const auto of_both = [&, i = i, j = j](const std::string& tensor) {
      std::vector<at::Tensor> sides;
      for (const auto t : {i, j})
        sides.push_back(folder.read_tensor(layer_products_key(name, study_.tasks.name(t)),
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

  /// The cosines on one task's points, where the mixed model is θ0: all of its products are 0.
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
    const auto names = layer_variants(layers_);
    for (std::size_t v = 0; v < names.size(); ++v) {
      const auto variant = static_cast<std::int64_t>(v);
      std::vector<metrics::Linearity> linearities;  // by coefficient
      for (std::size_t k = 0; k < weights.size(); ++k) {
        const auto c = static_cast<std::int64_t>(k);
        linearities.push_back(
            metrics::linearity(mixed.select(1, variant).select(2, c),
                               frame.select(1, variant).select(2, frame.size(3) > 1 ? c : 0), weights[k]));
      }
      for (const auto& measure : measures_of(mixture)) {
        std::vector<at::Tensor> values;  // [L,N] each
        for (const auto& each : linearities) values.push_back((each.*measure.value).t());
        tell_statistics(file, measure, mixture.prefix + names[v], values, true);
      }
    }
  }

  Settings settings_;
  study::Layers layers_;
  std::map<std::string, LayerProducts> products_;  // by regime
};

std::unique_ptr<Experiment> make_linearity(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "linearity", "Cross-task linearity by layer: how far mixed weights give mixed features");
  if (!section) return nullptr;
  study::require_vectors(study, "linearity");
  auto usual = study.settings.vector_regimes;
  if (study.model.by_stages()) std::erase_if(usual, [](const auto& name) { return regime(name).linear; });
  if (usual.empty()) usual = study.settings.vector_regimes;  // which is refused below
  const auto regimes = section->words(
      "regimes",
      {"Regimes whose models are compared",
       {.fallback = "all of finetune.regimes that have task vectors; where models are held a stage at a time "
                    "(model.in_memory), of these the ones that are not linear",
        .values = "a list of some of finetune.regimes"}},
      usual, study.settings.vector_regimes);
  for (const auto& name : regimes)
    if (study.model.by_stages() && regime(name).linear)
      section->refuse("regimes", "has " + name +
                                     ", which is linear in its weights at each of its layers; expected "
                                     "others where models are held a stage at a time (model.in_memory)");
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
                       study.settings.evaluation_points, {1, 1e7});
  const auto batch =
      section->integer("batch",
                       "Points that pass through a model at once; their features are held for all models "
                       "that one task's pairs need",
                       64, {1, 1e6});
  return std::make_unique<CrossTaskLinearity>(
      study, CrossTaskLinearity::Settings{regimes, std::move(alpha), lambda,
                                          layers_to_compare(*section, study), points, batch});
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(linearity, 65, make_linearity, linearity_outputs)
