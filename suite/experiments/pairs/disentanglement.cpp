// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Disentanglement error (paper 1, eq. 6): for two tasks,
//   ξ(α1, α2) = Σ_{t=1,2} E_{x∼μt} [ f(x; θ0 + αt τt) ≠ f(x; θ0 + α1τ1 + α2τ2) ],
// f being the predicted class under task t's head. A single task's predictions are made once an α and used by
// all its pairs. A linear regime's grid follows from features. In the same pass, the representation-level
// error (paper 4): the distance is KL(softmax f(x; θ0 + αt τt) ‖ softmax f(x; θ0 + α1τ1 + α2τ2)) of the
// encoder's outputs, in nats; and the mean of both directions' KL, which that paper's authors' code takes.
#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/metrics/metrics.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/experiments/pairs/pair_units.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

std::string predictions_key(const std::string& regime, const std::string& task) {
  return key::of("predictions", regime, task);
}
std::string disentanglement_key(const std::string& regime) { return key::of("disentanglement", regime); }

std::vector<OutputGroup> disentanglement_outputs() {
  const auto group = [](const std::string& name, const std::string& meaning, const std::string& unit,
                        const std::string& when, std::vector<Output> more) {
    return OutputGroup{
        "/" + name + "/R", meaning,
        together({{{"alpha", "alpha", "1", "α1 and α2 of the grid", With{.scale = "alpha_" + name + "_R"}},
                   {"error", "pair alpha alpha", unit, "ξ(α1, α2), summed over the two tasks"},
                   {"error_by_task", "pair side alpha alpha", unit, "its two terms"}},
                  std::move(more),
                  {{"@metric", "", "", "what is compared: disagreement of predictions, or kl of outputs"},
                   {"@split", "", "", "whose points they are: test or validation"},
                   sample_rows("test (or as `split` says)", "disentanglement_point_R")}}),
        when};
  };
  return {
      group("disentanglement", "the share of points on which the sum predicts something else", "1",
            "[disentanglement]", {}),
      group("representation", "the same of the encoder's outputs, KL(alone ‖ sum)", "nat",
            "[disentanglement] representation",
            {{"symmetric_error", "pair alpha alpha", "nat",
              "the mean of both directions' KL, summed over the tasks", With{.since = 2}},
             {"symmetric_error_by_task", "pair side alpha alpha", "nat", "its two terms", With{.since = 2}},
             {"@space", "", "", "whose softmax is compared, where tasks agree: as /tasks/space"}})};
}

class Disentanglement final : public Experiment {
 public:
  struct Settings {
    std::vector<std::string> regimes;
    std::vector<double> alpha;
    std::int64_t points, linear_points;
    bool representation;
    Split split;
  };
  Disentanglement(const Study& study, Settings settings)
      : Experiment(study), settings_(std::move(settings)), alpha_(settings_.alpha) {}

  bool runs_by_stages() const override { return true; }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : settings_.regimes) {
      for (const auto t : study_.tasks.all()) {
        units.push_back(unit(predictions_key(name, study_.tasks.name(t)), single_tally(name, t),
                             Edit::single(name, t, alpha_).needs(study_, t),
                             [this, name, t, &folder](schedule::UnitContext& context) {
                               return single(name, t, folder, context);
                             }));
      }
      PairUnits(study_, disentanglement_key(name))
          .add(
              units, [&](std::size_t p) { return pair_tally(name, p); },
              PairUnits::needs(study_, name, predictions_key),
              [this, name, &folder](std::size_t p, schedule::UnitContext& context) {
                return pair(name, p, folder, context);
              });
    }
  }

  std::vector<WrittenGroup> written() const override {
    std::vector<WrittenGroup> groups;
    for (const auto& name : settings_.regimes)
      for (const auto* kind : {"disentanglement", "representation"})
        if (settings_.representation || kind == std::string("disentanglement"))
          groups.push_back({"/" + std::string(kind) + "/" + name,
                            {{"alpha", length_of(alpha_)}, {"disentanglement_point_R", points(name)}}});
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    if (study_.tasks.pairs().empty()) return;
    for (const auto& name : settings_.regimes) {
      const auto boxes = PairUnits(study_, disentanglement_key(name)).boxes();
      for (const bool kl : {false, true}) {
        if (kl && !settings_.representation) continue;
        const std::string experiment = kl ? "representation" : "disentanglement";
        const auto group = "/" + experiment + "/" + name;
        const std::string prefix = kl ? "kl_" : "";
        out.put(group + "/alpha", alpha_);
        for (const auto& error : kl ? kl_errors : std::vector<std::string>{"error"}) {
          out.place(done, group + "/" + error, boxes, prefix + error);
          out.place(done, group + "/" + error + "_by_task", boxes, prefix + error + "_by_task");
        }
        out.attribute(group, "metric", std::string(kl ? "kl" : "disagreement"));
        if (kl) out.attribute(group, "space", study_.readouts.space());
        out.attribute(group, "split", std::string(study::split_name(settings_.split)));
        out.put(group + "/sample_index", study_.samples.index(settings_.split, points(name)));
      }
    }
  }

 private:
  at::Tensor labels(const std::string& name, std::size_t t) const {
    const auto rows = study_.samples.rows(t, settings_.split, points(name));
    return study_.samples.labels(t, settings_.split, rows);
  }
  at::Tensor predictions(std::size_t t, const at::Tensor& z, const at::Tensor& of_labels) const {
    const auto& readout = study_.readouts.of(t);
    return metrics::predictions(readout.compared(readout.logits(z), of_labels));
  }

  inline static const std::vector<std::string> kl_errors = {"error", "symmetric_error"};

  std::int64_t points(const std::string& name) const {
    return regime(name).linear ? settings_.linear_points : settings_.points;
  }
  /// Bytes of the unit of single().
  double single_bytes(const std::string& name, std::size_t t) const {
    const auto n = study_.samples.size(t, settings_.split, points(name));
    const auto a = static_cast<std::int64_t>(alpha_.size());
    const auto outputs =
        settings_.representation ? 4 * study_.readouts.of(t).width(study_.model.encoder()) : 0;
    return static_cast<double>(a * n * (8 + outputs));
  }

  Tally single_tally(const std::string& name, std::size_t t) const {
    Tally tally(study_);
    tally.edited(Edit::single(name, t, alpha_), t, settings_.split, points(name));
    return tally.stores(static_cast<std::int64_t>(single_bytes(name, t)), 1);
  }

  Tally pair_tally(const std::string& name, std::size_t p) const {
    Tally tally(study_);
    const auto [i, j] = study_.tasks.pairs()[p];
    const auto a = static_cast<std::int64_t>(alpha_.size());
    const auto measures = settings_.representation ? 1 + static_cast<std::int64_t>(kl_errors.size()) : 1;
    for (int side = 0; side < 2; ++side) {
      const auto t = side == 0 ? i : j;
      const auto grid = grid_of(name, p, side);
      tally.edited(grid.edit, t, settings_.split, points(name));
      tally.reads(single_bytes(name, t));
      if (settings_.representation)
        tally.divergence(t, study_.samples.size(t, settings_.split, points(name)), length_of(grid.cells));
    }
    return tally.stores(3 * measures * a * a);
  }

  /// Predictions [A, n], and outputs [A, n, features], of θ0 + α τt on task t's own points.
  store::TensorFile single(const std::string& name, std::size_t t, const schedule::RunFolder& folder,
                           schedule::UnitContext& context) const {
    const EditedOutputs models(study_, folder, context.group);
    const auto of_labels = labels(name, t);
    std::vector<at::Tensor> rows(alpha_.size()), outputs;
    models.each(Edit::single(name, t, alpha_), t, settings_.split, points(name),
                [&](std::int64_t k, const at::Tensor& z) {
                  rows[static_cast<std::size_t>(k)] = predictions(t, z, of_labels);
                  if (settings_.representation) outputs.push_back(z);
                });
    store::TensorFile file;
    if (settings_.representation) file.tensors["outputs"] = at::stack(outputs);
    file.tensors["predictions"] = at::stack(rows);
    return file;
  }

  /// The models of a pair that are seen on one side's points, and the place (α₁, α₂) of each in the grid.
  struct Grid {
    Edit edit;
    std::vector<std::pair<std::int64_t, std::int64_t>> cells;
  };
  /// Where the other coefficient is 0, the merged model is the single one: no error, no pass.
  Grid grid_of(const std::string& name, std::size_t p, int side) const {
    const auto [i, j] = study_.tasks.pairs()[p];
    const auto a = static_cast<std::int64_t>(alpha_.size());
    Grid grid;
    std::vector<double> coefficients;
    for (std::int64_t r = 0; r < a; ++r) {
      for (std::int64_t c = 0; c < a; ++c) {
        const double other = alpha_[static_cast<std::size_t>(side == 0 ? c : r)];
        if (other == 0.0) continue;
        grid.cells.emplace_back(r, c);
        coefficients.push_back(alpha_[static_cast<std::size_t>(r)]);
        coefficients.push_back(alpha_[static_cast<std::size_t>(c)]);
      }
    }
    grid.edit = Edit::terms(name, {i, j}, at::tensor(coefficients, at::kDouble).view({-1, 2}));
    return grid;
  }

  store::TensorFile pair(const std::string& name, std::size_t p, const schedule::RunFolder& folder,
                         schedule::UnitContext& context) const {
    const EditedOutputs models(study_, folder, context.group);
    const auto [i, j] = study_.tasks.pairs()[p];
    const auto a = static_cast<std::int64_t>(alpha_.size());
    auto error = study_.sums({2, a, a}), kl = error.clone(), symmetric = error.clone();  // [side, α1, α2]
    for (int side = 0; side < 2; ++side) {
      const auto t = side == 0 ? i : j;
      const auto single = folder.read_unit(predictions_key(name, study_.tasks.name(t)));
      const auto alone = single.tensors.at("predictions").to(study_.device);
      const auto outputs =
          settings_.representation ? single.tensors.at("outputs").to(study_.device) : at::Tensor();
      const auto of_labels = labels(name, t);
      const auto grid = grid_of(name, p, side);
      const auto& cells = grid.cells;
      models.each(
          grid.edit, t, settings_.split, points(name), [&, t = t](std::int64_t k, const at::Tensor& z) {
            const auto [r, c] = cells[static_cast<std::size_t>(k)];
            const auto merged = predictions(t, z, of_labels);
            error[side][r][c] =
                metrics::disagreements(alone[side == 0 ? r : c], merged).to(at::kDouble).div_(merged.size(0));
            if (settings_.representation) {
              const auto both =
                  metrics::kl_sums(outputs[side == 0 ? r : c], z) / static_cast<double>(merged.size(0));
              kl[side][r][c] = both[0];
              symmetric[side][r][c] = both.mean();
            }
            if (k % a == 0) {
              context.stop_if_requested();
              context.progress((side + static_cast<double>(k) / static_cast<double>(cells.size())) / 2,
                               "grid");
            }
          });
    }
    store::TensorFile file;
    file.tensors["error_by_task"] = error;
    file.tensors["error"] = error.sum(0);
    if (settings_.representation) {
      file.tensors["kl_error_by_task"] = kl;
      file.tensors["kl_error"] = kl.sum(0);
      file.tensors["kl_symmetric_error_by_task"] = symmetric;
      file.tensors["kl_symmetric_error"] = symmetric.sum(0);
    }
    return file;
  }

  Settings settings_;
  const std::vector<double>& alpha_;
};

std::unique_ptr<Experiment> make_disentanglement(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "disentanglement",
      "ξ(α₁, α₂) of every pair: how far adding one task's vector changes the other's predictions");
  if (!section) return nullptr;
  study::require_vectors(study, "disentanglement");
  study::require_classes(study, "disentanglement");
  const auto limit = static_cast<double>(study.settings.evaluation_points);
  constexpr config::InWords up_to_evaluation = {.fallback = "data.evaluation_points",
                                                .values = "an integer from 1 to data.evaluation_points"};
  const auto points =
      section->integer("points", {"Points a task, of a regime that is not linear", up_to_evaluation},
                       study.settings.evaluation_points, {1, limit});
  std::vector<double> papers;  // 20 values on [−3, 3] (paper 1, section 3)
  for (int k = 0; k < 20; ++k) papers.push_back(-3.0 + 6.0 * k / 19.0);
  return std::make_unique<Disentanglement>(
      study,
      Disentanglement::Settings{
          section->words("regimes",
                         {"Regimes whose vectors are looked at",
                          {.fallback = "all of finetune.regimes that have task vectors",
                           .values = "a list of some of finetune.regimes"}},
                         study.settings.vector_regimes, study.settings.vector_regimes),
          section->alpha_grid("alpha",
                              {"Coefficients α₁ and α₂ of the grid", {.fallback = "20 from −3 to 3"}}, papers,
                              coefficients),
          points,
          section->integer("linear_points",
                           {"Points a task, of a linear regime, whose grid costs hardly more than a point",
                            {.fallback = "points", .values = "an integer from 1 to data.evaluation_points"}},
                           points, {1, limit}),
          section->flag("representation",
                        "Whether ξ of the encoder's outputs, as KL, is measured beside that of predictions",
                        true),
          section->word("split",
                        "Whose points ξ is measured on; the accuracy after addition, which ξ bounds, is "
                        "measured on test points",
                        "test", {"test", "validation"}) == "test"
              ? Split::test
              : Split::validation});
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(disentanglement, 60, make_disentanglement, disentanglement_outputs)
