// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Similarity of task vectors, and the loss gap of pairs (paper 2): for tasks i, j,
// L_i(θ0 + ½(τ_i + τ_j)) − L_i(θ_i); and of the sum of all vectors (table 3), L_i(θ0 + α Σ τ) − L_i(θ_i), for
// which the paper's bound (theorem 4.4) holds at α = 1/T.
//
// Its two other bounds, of negation and of use on another task, are of single vectors on tasks that are not
// theirs: L_j(θ0 + ατ_i), at α = −1 and 1.
//
// Beside the cosine, what element-wise merges see of two vectors. Each keeps the numbers that TIES keeps at
// `density` d, zeros never; of places that two both keep, sign_conflict is the share where their signs differ
// (Yadav et al. 2023, section 3; ½ for independent signs), and mask_overlap the share of the places that
// either keeps (intersection over union; d/(2 − d) for masks that chance lays). sign_conflict_all is of all
// places where neither is zero. NaN where there are none.
#include <ATen/ATen.h>

#include <functional>

#include "kernels/weights/masks.hpp"
#include "kernels/weights/merging.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/experiments/pairs/pair_units.hpp"
#include "suite/merging/study_vectors.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

std::string similarity_key(const std::string& regime) { return key::of("similarity", regime); }
std::string loss_gap_key(const std::string& regime) { return key::of("loss_gap", regime); }
/// The unit of the sum of all vectors, on one task.
std::string sum_loss_gap_key(const std::string& regime, const std::string& task) {
  return key::of("sum_loss_gap", regime, task);
}
/// The unit of a task's vector, on every task.
std::string cross_loss_key(const std::string& regime, const std::string& task) {
  return key::of("cross_loss", regime, task);
}

std::vector<OutputGroup> similarity_outputs() {
  return {{"/similarity/R",
           "task vectors beside each other, and what the loss of their sums is",
           {{"cosine", "task task", "1", "⟨τᵢ, τⱼ⟩ / ‖τᵢ‖‖τⱼ‖"},
            {"norm", "task", "", "‖τ‖"},
            {"norm_ratio", "task", "1", "‖τ‖ / ‖θ0‖"},
            {"mask_density", "task", "1", "the share of a vector's numbers that is kept at `density`",
             With{.since = 2}},
            {"sign_conflict", "task task", "1",
             "the share of places that both keep where their signs differ; NaN where there are none",
             With{.since = 2}},
            {"sign_conflict_all", "task task", "1", "the same of all places where neither is zero",
             With{.since = 2}},
            {"mask_overlap", "task task", "1", "the places that both keep, over those that either keeps",
             With{.since = 2}},
            {"loss_gap", "pair side", "nat",
             "Lᵢ(θ0 + α(τᵢ + τⱼ)) − Lᵢ(θᵢ) at `alpha`, on test points of either task"},
            {"sum_alpha", "sum_alpha", "1", "α of sum_loss_gap",
             With{.scale = "alpha_sum_loss_gap_R", .when = "sum_alpha"}},
            {"sum_loss_gap", "task sum_alpha", "nat", "Lᵢ(θ0 + α Σ τ) − Lᵢ(θᵢ)", With{.when = "sum_alpha"}},
            {"cross_alpha", "cross_alpha", "1", "α of cross_loss",
             With{.scale = "alpha_cross_loss_R", .when = "cross_alpha"}},
            {"cross_loss", "task task cross_alpha", "nat",
             "Lⱼ(θ0 + ατᵢ): of task i's vector on the points of task j", With{.when = "cross_alpha"}},
            {"@alpha", "", "", "α of loss_gap"},
            {"@density", "", "", "the share of its numbers that a vector keeps in masks"},
            sample_rows()},
           "[similarity]"}};
}

class Similarity final : public Experiment {
 public:
  Similarity(const Study& study, double alpha, std::vector<double> sum_alpha, std::vector<double> cross_alpha,
             double density)
      : Experiment(study),
        alpha_(alpha),
        sum_alpha_(std::move(sum_alpha)),
        cross_alpha_(std::move(cross_alpha)),
        density_(density) {}

  bool runs_by_stages() const override { return true; }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    for (const auto& name : study_.settings.vector_regimes) {
      const auto every = study_.tasks.all();
      auto all = Tally(study_).visit(name, every).stores(tasks * (4 * tasks + 3));
      if (study_.tasks.size() > study_.vectors.kept()) {  // each cut reads its vector until it is found
        constexpr double passes = 2;
        all.goes_through(passes * 4 * static_cast<double>(study_.model.layout().size() * tasks));
      }
      units.push_back(unit(similarity_key(name), all, study_.vectors.needs(name, every),
                           [this, name](schedule::UnitContext& context) { return cosines(name, context); }));
      units.back().ranks = ranks_wanted();
      const auto tally = [&](std::size_t p) {
        const auto [i, j] = study_.tasks.pairs()[p];
        auto work = Tally(study_).stores(2);
        for (const auto t : {i, j})
          work.edited(Edit::together(name, {i, j}, {alpha_}), t, Split::test, points());
        return work;
      };
      gaps(name).add(units, tally, PairUnits::needs(study_, name, key::single_task),
                     [this, name, &folder](std::size_t p, schedule::UnitContext& context) {
                       return loss_gap(name, p, folder, context);
                     });
      add_cross_losses(units, name, folder);
      if (sum_alpha_.empty()) continue;
      const auto sum = Edit::sum(name, every, sum_alpha_);
      for (const auto t : every) {
        const auto& task = study_.tasks.name(t);
        auto needs = sum.needs(study_, t);
        needs.push_back(key::single_task(name, task));
        const auto work = Tally(study_).edited(sum, t, Split::test, points()).stores(sum.models());
        units.push_back(unit(sum_loss_gap_key(name, task), work, needs,
                             [this, sum, t, &folder](schedule::UnitContext& context) {
                               return sum_loss_gap(sum, t, folder, context);
                             }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/similarity", study_.settings.vector_regimes,
                     {{"sum_alpha", length_of(sum_alpha_)}, {"cross_alpha", length_of(cross_alpha_)}});
  }

  void write(Results& out, const Finished& done) const override {
    const auto pairs = static_cast<std::int64_t>(study_.tasks.pairs().size());
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/similarity/" + name;
      const auto file = done.folder.read_unit(done.world, similarity_key(name));
      out.put(group + "/cosine", file.tensors.at("cosine"));
      out.put(group + "/norm", file.tensors.at("norm"));
      for (const auto* what : {"norm_ratio", "mask_density"})
        out.put(group + "/" + what, file.tensors.at(what));
      for (const auto* what : {"sign_conflict", "sign_conflict_all", "mask_overlap"})
        out.put(group + "/" + what, file.tensors.at(what));
      if (pairs > 0) out.place(done, group + "/loss_gap", gaps(name).boxes(), "loss_gap");
      put_by_task(out, done, name, "sum_loss_gap", "sum_alpha", sum_alpha_, sum_loss_gap_key);
      put_by_task(out, done, name, "cross_loss", "cross_alpha", cross_alpha_, cross_loss_key);
      out.attribute(group, "alpha", alpha_);
      out.attribute(group, "density", density_);
      out.put(group + "/sample_index", study_.samples.index(Split::test, points()));
    }
  }

 private:
  PairUnits gaps(const std::string& name) const { return {study_, loss_gap_key(name)}; }

  /// A rank for each few GiB of vectors: reading them is most of the work.
  int ranks_wanted() const {
    constexpr double bytes_a_rank = 4.0 * (1 << 30);
    const double bytes =
        4.0 * static_cast<double>(study_.model.layout().size()) * static_cast<double>(study_.tasks.size());
    return 1 + static_cast<int>(std::min(1e4, bytes / bytes_a_rank));
  }

  /// The magnitudes from which TIES keeps numbers [T]. Each rank selects those of some vectors.
  std::vector<float> cuts(const std::string& name, schedule::UnitContext& context) const {
    const auto length = study_.model.layout().size();
    const auto share = context.group.share_of(static_cast<std::int64_t>(study_.tasks.size()));
    auto magnitudes = at::zeros({static_cast<std::int64_t>(study_.tasks.size())}, at::kDouble);
    const auto rounds =
        comm::rows_a_rank(static_cast<std::int64_t>(study_.tasks.size()), context.group.size());
    for (std::int64_t round = 0; round < rounds; ++round) {
      context.stop_if_requested();  // every rank, also one that has no vector left
      if (round >= share.count) continue;
      const auto t = share.begin + round;
      weights::KthMagnitude kth(weights::ties_rank(density_, length), length);
      const merging::StudyVectors vectors(study_, name, {static_cast<std::size_t>(t)});
      do {
        vectors.visit_stretches({0}, {0, length}, [&](std::int64_t, const weights::Stretches& tau) {
          kth.add(tau.x.front(), tau.start);
          return true;  // the Gram matrix says whether
        });
      } while (kth.next());
      magnitudes[t] = kth.value();
    }
    if (context.group.size() > 1) context.group.all_reduce_sum(magnitudes, "cuts of the vectors");
    const auto* first = magnitudes.const_data_ptr<double>();
    return {first, first + magnitudes.numel()};
  }

  static at::Tensor summed(const weights::MaskCount& count, schedule::UnitContext& context) {
    auto counts = count.counts();
    if (context.group.size() > 1) context.group.all_reduce_sum(counts, "counts of masks");
    return counts;
  }

  store::TensorFile cosines(const std::string& name, schedule::UnitContext& context) const {
    weights::MaskCount trimmed(cuts(name, context)), whole(std::vector<float>(study_.tasks.size(), 0.0F));
    std::vector<at::Tensor> on_host;
    const auto gram = study_.vectors.gram(context.group, name, study_.tasks.all(),
                                          [&](std::int64_t, const weights::Stretches& tau) {
                                            on_host.clear();
                                            for (const auto& block : tau.x) on_host.push_back(block.cpu());
                                            trimmed.add({on_host, tau.start});
                                            whole.add({on_host, tau.start});
                                          });
    const auto norm = gram.diagonal().sqrt();
    const auto kept = summed(trimmed, context), all = summed(whole, context);
    const auto sizes = kept[0].diagonal();
    store::TensorFile file;
    file.tensors["cosine"] = gram / norm.outer(norm);
    file.tensors["norm"] = norm.clone();
    file.tensors["sign_conflict"] = kept[1] / kept[0];
    file.tensors["sign_conflict_all"] = all[1] / all[0];
    file.tensors["mask_overlap"] = kept[0] / (sizes.unsqueeze(0) + sizes.unsqueeze(1) - kept[0]);
    file.tensors["mask_density"] = sizes / static_cast<double>(study_.model.layout().size());
    file.tensors["norm_ratio"] = norm / study_.model.norm();
    return file;
  }

  store::TensorFile loss_gap(const std::string& name, std::size_t p, const schedule::RunFolder& folder,
                             schedule::UnitContext& context) const {
    const EditedOutputs models(study_, folder, context.group);
    const auto [i, j] = study_.tasks.pairs()[p];
    auto gaps = study_.sums({2});
    for (int side = 0; side < 2; ++side) {
      context.stop_if_requested();
      const auto t = side == 0 ? i : j;
      const auto labels = study_.samples.of(t, Split::test, points()).labels;
      const auto z = models.output(Edit::together(name, {i, j}, {alpha_}), t, Split::test, points());
      const auto& readout = study_.readouts.of(t);
      gaps[side] = study::mean_loss(readout, readout.logits(z), labels);
      const auto alone = folder.read_tensor(key::single_task(name, study_.tasks.name(t)), "loss");
      gaps[side] -= alone.to(study_.device);
    }
    store::TensorFile file;
    file.tensors["loss_gap"] = gaps;
    return file;
  }

  store::TensorFile sum_loss_gap(const Edit& sum, std::size_t t, const schedule::RunFolder& folder,
                                 const schedule::UnitContext& context) const {
    const EditedOutputs models(study_, folder, context.group);
    const auto labels = study_.samples.of(t, Split::test, points()).labels;
    const auto& readout = study_.readouts.of(t);
    auto gaps = study_.sums({sum.models()});
    models.each(sum, t, Split::test, points(), [&](std::int64_t k, const at::Tensor& z) {
      context.stop_if_requested();
      gaps[k] = study::mean_loss(readout, readout.logits(z), labels);
    });
    const auto alone = folder.read_tensor(key::single_task(sum.regime, study_.tasks.name(t)), "loss");
    store::TensorFile file;
    file.tensors["sum_loss_gap"] = gaps - alone.to(study_.device);
    return file;
  }

  /// Each vector on every task's points: a unit a vector.
  void add_cross_losses(std::vector<schedule::WorkUnit>& units, const std::string& name,
                        const schedule::RunFolder& folder) const {
    if (cross_alpha_.empty()) return;
    const auto every = study_.tasks.all();
    for (const auto i : every) {
      const auto edit = Edit::single(name, i, cross_alpha_);
      Tally tally(study_);
      std::vector<std::string> needs;
      for (const auto j : every) {
        tally.edited(edit, j, Split::test, points()).stores(edit.models());
        add_missing(needs, edit.needs(study_, j));
      }
      units.push_back(unit(cross_loss_key(name, study_.tasks.name(i)), tally, needs,
                           [this, edit, &folder](schedule::UnitContext& context) {
                             return cross_losses(edit, folder, context);
                           }));
    }
  }

  store::TensorFile cross_losses(const Edit& edit, const schedule::RunFolder& folder,
                                 const schedule::UnitContext& context) const {
    const EditedOutputs models(study_, folder, context.group);
    auto losses = study_.sums({static_cast<std::int64_t>(study_.tasks.size()), edit.models()});
    for (const auto j : study_.tasks.all()) {
      const auto labels = study_.samples.of(j, Split::test, points()).labels;
      const auto& readout = study_.readouts.of(j);
      models.each(edit, j, Split::test, points(), [&](std::int64_t k, const at::Tensor& z) {
        context.stop_if_requested();
        losses[static_cast<std::int64_t>(j)][k] = study::mean_loss(readout, readout.logits(z), labels);
      });
    }
    store::TensorFile file;
    file.tensors["cross_loss"] = losses;
    return file;
  }

  /// Writes `what` of a unit a task, where there are coefficients.
  void put_by_task(Results& out, const Finished& done, const std::string& name, const std::string& what,
                   const std::string& axis, const std::vector<double>& alpha,
                   const std::function<std::string(const std::string&, const std::string&)>& key) const {
    if (alpha.empty()) return;
    const auto group = "/similarity/" + name;
    out.put(group + "/" + axis, alpha);
    std::vector<Box> boxes;
    for (const auto t : study_.tasks.all())
      boxes.push_back({key(name, study_.tasks.name(t)), {static_cast<std::int64_t>(t)}});
    out.place(done, group + "/" + what, boxes, what);
  }

  double alpha_;
  std::vector<double> sum_alpha_, cross_alpha_;
  double density_;
};

std::unique_ptr<Experiment> make_similarity(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "similarity", "Cosines and norms of task vectors, and the loss that adding a pair costs");
  if (!section) return nullptr;
  study::require_vectors(study, "similarity");
  const auto alpha = section->real(
      "loss_gap_alpha", "α at which a pair's loss is compared with its tasks' own", 0.5, coefficients);
  auto sum_alpha = section->reals(
      "sum_alpha", "α at which the loss of θ0 + α Σ τ is compared with the tasks' own (paper 2, table 3)", {},
      coefficients);
  auto cross_alpha = section->reals(
      "cross_alpha",
      "α at which the loss of θ0 + ατ of each task is taken on every task (paper 2, the bounds of negation, "
      "α = −1, and of use on another task, α = 1)",
      {}, coefficients);
  const auto density =
      section->real("density", "The share of each vector's numbers whose places and signs are compared", 0.2,
                    config::some_share);
  return std::make_unique<Similarity>(study, alpha, std::move(sum_alpha), std::move(cross_alpha), density);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(similarity, 40, make_similarity, similarity_outputs)
