// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Averages of k models by layer (paper 5, equation 1, figures 5, 6, 17, 18; theorem 4.2): how far
//   u = f(1/k Σ θₖ)   is   v = 1/k Σ f(θₖ),
// f being each layer's feature as of linearity.cpp, point by point. Of several fine-tunings of one task these
// are the models, on their common points; where each task has one model, all tasks' models, on each task's
// points. The baseline is the mean over the models of cos(u, f(θₖ)), the error ‖u − v‖ over the root mean
// square of ‖f(θᵢ) − f(θⱼ)‖ (kernels/metrics/linearity.hpp). A unit layer_averages/R/TASK is one task's
// points: a pass of θ0, of each model and of their average.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "suite/error.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/experiments/layers/layer_statistics.hpp"
#include "suite/experiments/layers/point_rows.hpp"
#include "suite/ledger/tally.hpp"
#include "suite/study/refusals.hpp"
#include "suite/study/task_sets.hpp"

namespace taugrid::experiments {
namespace {

/// `data`: the task on whose points the models' average is seen.
std::string layer_averages_key(const std::string& regime, const std::string& data) {
  return key::of("layer_averages", regime, data);
}

std::vector<OutputGroup> layer_averages_outputs() {
  return {{"/layer_averages/R", "how far f(1/k Σ θₖ) is 1/k Σ f(θₖ), of data sets",
           together(
               {layer_outputs("data_set", "", layer_measures(), "layer_averages_R"),
                {{"data", "data_set", "", "the task whose points are taken", With{.element = Element::int64}},
                 {"sets", "data_set task", "", "1 for the models that are averaged",
                  With{.element = Element::uint8}},
                 sample_rows("test", "layer_averages_point")}}),
           "[layer_averages]", 2}};
}

/// Which models are averaged, and the task on whose points.
struct AveragedModels {
  std::size_t data;
  study::TaskSet models;
};

std::vector<AveragedModels> averaged_models(const Study& study) {
  std::vector<AveragedModels> averages;
  for (const auto t : study.tasks.all()) {
    if (study.tasks.first_alike(t) != t) continue;
    study::TaskSet alike;
    for (const auto k : study.tasks.all())
      if (study.tasks.first_alike(k) == t) alike.push_back(k);
    averages.push_back({t, alike.size() > 1 ? alike : study.tasks.all()});
  }
  return averages;
}

class LayerAverages final : public Experiment {
 public:
  LayerAverages(const Study& study, std::vector<int> layers, std::int64_t points, std::int64_t batch)
      : Experiment(study),
        layers_(study.model, study.evaluation, std::move(layers)),
        points_(points),
        batch_(batch),
        averages_(averaged_models(study)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    for (const auto& name : study_.settings.vector_regimes)
      for (const auto& average : averages_)
        units.push_back(unit(key_of(name, average), tally(name, average),
                             study_.vectors.needs(name, average.models),
                             [this, name, &average](schedule::UnitContext& context) {
                               return compute(name, average, context);
                             }));
  }

  std::vector<WrittenGroup> written() const override {
    std::vector<WrittenGroup> groups;
    for (const auto& name : study_.settings.vector_regimes)
      groups.push_back(written_layers(layers_, group(name), {{"layer_averages_point", points_}}));
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    std::vector<std::int64_t> data;
    std::vector<study::TaskSet> sets;
    for (const auto& average : averages_) {
      data.push_back(static_cast<std::int64_t>(average.data));
      sets.push_back(average.models);
    }
    for (const auto& name : study_.settings.vector_regimes) {
      std::vector<Box> boxes;
      for (const auto& average : averages_)
        boxes.push_back({key_of(name, average), {static_cast<std::int64_t>(boxes.size())}});
      const auto places = group(name);
      place_statistics(out, done, study_, layers_, places, boxes);
      out.put(places.path + "/data", at::tensor(data, at::kLong));
      out.put(places.path + "/sets", study::memberships(sets, study_.tasks.size()));
      out.put(places.path + "/sample_index", study_.samples.index(Split::test, points_));
    }
  }

 private:
  std::string key_of(const std::string& name, const AveragedModels& average) const {
    return layer_averages_key(name, study_.tasks.name(average.data));
  }
  LayerGroup group(const std::string& name) const {
    return {.path = "/layer_averages/" + name,
            .prefix = "",
            .measures = layer_measures(),
            .first = "data_set",
            .size = static_cast<std::int64_t>(averages_.size())};
  }
  std::int64_t variants() const { return layers_.has_class_token() ? 2 : 1; }
  double flops(bool linear) const {
    return (linear ? 3 : 1) * study_.model.cost().forward() + 8 * layers_.numbers();
  }

  Tally tally(const std::string& name, const AveragedModels& average) const {
    const auto n = study_.samples.size(average.data, Split::test, points_), at_once = std::min(n, batch_);
    const auto& cost = study_.model.cost();
    const bool linear = regime(name).linear;
    const auto models = static_cast<std::int64_t>(average.models.size());
    std::int64_t largest = 0;
    for (const auto& layer : layers_.chosen()) largest = std::max(largest, layer.numbers);
    Tally tally(study_);
    tally.sample(average.data, Split::test, n, batch_).vectors(name, average.models);
    tally.passes(linear ? "layers/linear" : "layers/standard", n, batch_, models + 2, flops(linear),
                 std::max(linear ? cost.passing_tangent() : cost.passing(),
                          (2 + 4 + 2 * 5) * static_cast<double>(largest)),
                 [this, linear](const comm::Communicator&, std::int64_t inputs, std::int64_t) {
                   return rehearse(linear, inputs);
                 });
    tally.statistics(name, average.models, 1);
    const auto rows = n * variants() * static_cast<std::int64_t>(layers_.chosen().size()) *
                      static_cast<std::int64_t>(layer_measures().size());
    tally.holds(4 * (static_cast<double>(models + 2) * static_cast<double>(at_once) * layers_.numbers() +
                     static_cast<double>(study_.model.layout().size())) +
                8 * static_cast<double>(rows));
    tally.gathers(2 * rows, 1);
    const auto places = group(name);
    const auto numbers = numbers_of(layers_, places);
    return tally.stores(numbers);
  }

  using Features = std::vector<at::Tensor>;  // a chosen layer each, [n, numbers]

  /// f − f0 of the layers of θ0 + Σ ατ over these models, α alike: one whole, or all of them by parts.
  class Passes {
   public:
    Passes(const Study& study, const study::Layers& layers, const std::string& name,
           const study::TaskSet& models)
        : study_(study), layers_(layers), name_(name), linear_(regime(name).linear) {
      const auto part = 1 / static_cast<double>(models.size());
      if (!linear_) {
        mean_ = study_.edits.state(Edit::sum(name, models, {part}));
        return;
      }
      for (const auto k : models) {
        const auto tau = study_.vectors.vector(name, k);
        if (step_.defined()) {
          step_.add_(tau, part);
        } else {
          step_ = part * tau;
        }
      }
    }
    Features of_model(std::size_t k, const models::Batch& batch, const Features& start) const {
      return linear_ ? tangents(study_.vectors.vector(name_, k), batch)
                     : outputs(study_.edits.state(Edit::fine_tuned(name_, k)), batch, start);
    }
    Features mean(const models::Batch& batch, const Features& start) const {
      return linear_ ? tangents(step_, batch) : outputs(mean_, batch, start);
    }

   private:
    Features outputs(const models::State& state, const models::Batch& batch, const Features& start) const {
      Features features;
      layers_.outputs(state, batch,
                      [&](std::size_t l, const at::Tensor& f) { features.push_back(f - start[l]); });
      return features;
    }
    Features tangents(const at::Tensor& tau, const models::Batch& batch) const {
      Features features;
      layers_.tangents(tau, batch, [&](std::size_t, const at::Tensor& f) { features.push_back(f); });
      return features;
    }
    const Study& study_;
    const study::Layers& layers_;
    const std::string& name_;
    bool linear_;
    models::State mean_;
    at::Tensor step_;
  };

  Features start_of(const models::Batch& batch) const {
    Features features;
    layers_.outputs(study_.model.start(), batch,
                    [&](std::size_t, const at::Tensor& f) { features.push_back(f); });
    return features;
  }

  /// Every measure of layer l [n,V,M], of the models' features, their mean's and θ0's.
  at::Tensor compared(std::size_t l, const std::vector<Features>& models, const at::Tensor& mixed,
                      const at::Tensor& start) const {
    auto mean = models.front()[l].clone();
    for (std::size_t k = 1; k < models.size(); ++k) mean.add_(models[k][l]);
    mean.div_(static_cast<double>(models.size()));
    const auto whole = at::stack({mean, mixed, start}, 1);
    std::vector<at::Tensor> each;
    for (const auto& model : models) {
      const auto rows = at::stack({model[l], start, mixed}, 1);
      each.push_back(products_of_layer(layers_, l, rows.narrow(1, 0, 1), rows).squeeze(2));  // [n,V,3]
    }
    const auto linearity =
        metrics::average_linearity(at::stack(each, 2), products_of_layer(layers_, l, whole, whole));
    std::vector<at::Tensor> values;
    for (const auto& measure : layer_measures()) values.push_back(linearity.*measure.value);
    return at::stack(values, -1);
  }

  store::TensorFile compute(const std::string& name, const AveragedModels& average,
                            schedule::UnitContext& context) const {
    const at::NoGradGuard no_grad;
    const auto sample = study_.samples.of(average.data, Split::test, points_);
    const auto n = sample.labels.size(0), most = comm::rows_a_rank(n, context.group.size());
    const auto share = context.group.share_of(n);
    const auto l = static_cast<std::int64_t>(layers_.chosen().size()),
               m = static_cast<std::int64_t>(layer_measures().size());
    PointRows rows(context, {{"values", study_.sums({most, variants(), l, m})}});
    const auto rounds = (most + batch_ - 1) / batch_;
    std::optional<Passes> passes;
    try {
      while (rows.rounds() < rounds) {
        context.stop_if_requested();  // every rank, also one that has no point left
        const auto begin = rows.rounds() * batch_,
                   count = std::clamp<std::int64_t>(share.count - begin, 0, batch_);
        if (count > 0) {
          if (!passes) passes.emplace(study_, layers_, name, average.models);
          const auto batch = sample.points.part(share.begin + begin, count);
          const auto start = start_of(batch);
          std::vector<Features> single;
          for (const auto k : average.models) single.push_back(passes->of_model(k, batch, start));
          const auto mixed = passes->mean(batch, start);
          auto slice = rows.of("values", begin, count);
          for (std::size_t layer = 0; layer < start.size(); ++layer)
            slice.select(2, static_cast<std::int64_t>(layer))
                .copy_(compared(layer, single, mixed[layer], start[layer]));
        }
        rows.done();
        context.progress(static_cast<double>(rows.rounds()) / static_cast<double>(rounds), "batch");
      }
    } catch (const Interrupted&) {
      rows.save();
      throw;
    }
    const auto values = rows.gathered(n).at("values");  // [N,V,L,M]
    store::TensorFile file;
    const auto names = layer_variants(layers_);
    for (std::size_t v = 0; v < names.size(); ++v)
      for (std::size_t k = 0; k < layer_measures().size(); ++k)
        tell_statistics(
            file, layer_measures()[k], names[v],
            {values.select(1, static_cast<std::int64_t>(v)).select(2, static_cast<std::int64_t>(k)).t()},
            false);
    return file;
  }

  schedule::Rehearsal rehearse(bool linear, std::int64_t n) const {
    const auto batch = study_.model.random_batch(n);
    const auto start = start_of(batch);
    std::vector<Features> single(1);
    for (const auto& f : start) single.front().push_back(1e-3 * f);
    single.push_back(single.front());
    const auto tau = linear ? 1e-3 * study_.model.theta0() : at::Tensor();
    return {[this, batch, start, single, tau] {
              const at::NoGradGuard no_grad;
              const auto see = [&](std::size_t l, const at::Tensor& c) { compared(l, single, c, start[l]); };
              if (tau.defined()) return layers_.tangents(tau, batch, see);
              layers_.outputs(study_.model.start(), batch, see);
            },
            static_cast<double>(n) * flops(linear)};
  }

  study::Layers layers_;
  std::int64_t points_, batch_;
  std::vector<AveragedModels> averages_;
};

std::unique_ptr<Experiment> make_layer_averages(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "layer_averages",
      "Averages of weights by layer: how far they give the average of the models' features, of one task's "
      "fine-tunings where there are several, else of all tasks' models");
  if (!section) return nullptr;
  study::require_vectors(study, "layer_averages");
  auto layers = layers_to_compare(*section, study);
  const auto points =
      section->integer("points",
                       {"Test points a task",
                        {.fallback = "data.evaluation_points", .values = "an integer from 1 to 1000000000"}},
                       study.settings.evaluation_points, {1, 1e7});
  const auto batch = section->integer(
      "batch", "Points that pass through a model at once; their features are held for all models", 64,
      {1, 1e6});
  if (study.tasks.size() < 2) return nullptr;  // one model has nobody to be averaged with
  return std::make_unique<LayerAverages>(study, std::move(layers), points, batch);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(layer_averages, 66, make_layer_averages, layer_averages_outputs)
