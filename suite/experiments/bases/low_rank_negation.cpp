// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Negation by vectors that are made again of a few bases (the later code of paper 2): M vectors are kept
// instead of T, and θ0 − ατ̂_t makes the model forget task t, τ̂_t being what the bases of [bases.low_rank]
// give of τ_t. α as for task negation. How much of forgetting the bases lose is seen beside θ0 − ατ_t
// ([negation]).
#include <ATen/ATen.h>

#include <algorithm>

#include "suite/experiments/bases/task_bases.hpp"
#include "suite/experiments/edits/target_and_control.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

/// `bases`: how they were made, and how many.
std::string low_rank_negation_key(const std::string& regime, const std::string& bases,
                                  const std::string& task) {
  return key::of("low_rank_negation", bases, regime) + "/" + task;
}

std::vector<OutputGroup> low_rank_negation_outputs() {
  return {{"/low_rank_negation/METHOD/R",
           "θ0 − ατ̂, τ̂ being made again of a few bases; METHOD has their number: pca-4",
           together({forgotten_outputs("task", "alpha_METHOD_negation_R"),
                     {{"cosine", "task", "1", "of τ̂ and τ"}}}),
           "[bases.low_rank.negation]", 2}};
}

class LowRankNegation final : public Experiment {
 public:
  LowRankNegation(const Study& study, LowRankChoice bases, std::vector<double> alpha, double threshold)
      : Experiment(study), bases_(std::move(bases)), alpha_(std::move(alpha)), threshold_(threshold) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto all = study_.tasks.all();
    for (const auto& name : study_.settings.vector_regimes) {
      each([&](const std::string& method, std::size_t m) {
        for (const auto t : all) {
          const auto edit = negated(name, at::ones({length_of(all)}, at::kDouble));
          auto tally = target_and_control_tally(study_, edit, t);
          tally.visit(name, all).stores(1);
          auto needs = study_.vectors.needs(name, all);  // of which the cosine is
          add_missing(needs, target_and_control_needs(study_, edit, t));
          needs.push_back(key::low_rank(name, method, m));
          units.push_back(unit(low_rank_negation_key(name, of(method, m), study_.tasks.name(t)), tally, needs,
                               [this, name, method, m, t, &folder](schedule::UnitContext& context) {
                                 return curves(name, method, m, t, folder, context);
                               }));
        }
      });
    }
  }

  std::vector<WrittenGroup> written() const override {
    std::vector<WrittenGroup> groups;
    for (const auto& name : study_.settings.vector_regimes)
      each([&](const std::string& method, std::size_t m) {
        groups.push_back(
            {"/low_rank_negation/" + of(method, m) + "/" + name, {{"alpha", length_of(alpha_)}}});
      });
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      each([&](const std::string& method, std::size_t m) {
        const auto group = "/low_rank_negation/" + of(method, m) + "/" + name;
        const auto rows = each_task(study_, [&](const std::string& task) {
          return low_rank_negation_key(name, of(method, m), task);
        });
        put_target_and_control(out, done, study_, group, alpha_, {{"", alpha_}}, threshold_, rows);
        put_cosines(out, done, group, rows);
      });
    }
  }

 private:
  static std::string of(const std::string& method, std::size_t m) { return method + "-" + std::to_string(m); }
  void each(const std::function<void(const std::string& method, std::size_t m)>& see) const {
    for (const auto& method : bases_.methods)
      for (const auto m : bases_.bases) see(method, static_cast<std::size_t>(m));
  }

  /// θ0 − α Σ c_t τ_t of factors c [T]; the sum is `direction`.
  Edit negated(const std::string& name, const at::Tensor& factors, const at::Tensor& direction = {}) const {
    return Edit::weighted(name, study_.tasks.all(), factors, minus(alpha_), direction);
  }

  store::TensorFile curves(const std::string& name, const std::string& method, std::size_t m, std::size_t t,
                           const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    const auto all = study_.tasks.all();
    const auto factors = folder.read_tensor(key::low_rank(name, method, m), "recovered")
                             .select(1, static_cast<std::int64_t>(t))
                             .contiguous();
    const auto tau = combined(study_, name, all, factors);
    const auto cosine = cosines_with(study_.vectors.vector(name, t).cpu(), {tau.cpu()})[0];
    auto file = target_and_control(study_, folder, context, negated(name, factors, tau), t);
    file.tensors["cosine"] = cosine;
    return file;
  }

  LowRankChoice bases_;
  std::vector<double> alpha_;
  double threshold_;
};

std::unique_ptr<Experiment> make_low_rank_negation(config::Config& config, const Study& study) {
  auto section = config.optional_section("bases.low_rank.negation",
                                         "Subtracts the vectors that are made again of [bases.low_rank]'s "
                                         "bases: accuracy on the task and on the control");
  if (!section) return nullptr;
  study::require_vectors(study, "bases.low_rank.negation");
  require_control(study, "bases.low_rank.negation");
  auto of = config.section("bases.low_rank", of_low_rank);
  auto bases = read_low_rank(of, study);
  auto alpha = read_wide_alpha(*section, "alpha", "Coefficients α of θ0 − ατ̂");
  const auto threshold = control_threshold(*section);
  return std::make_unique<LowRankNegation>(study, std::move(bases), std::move(alpha), threshold);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(low_rank_negation, 99, make_low_rank_negation, low_rank_negation_outputs)
