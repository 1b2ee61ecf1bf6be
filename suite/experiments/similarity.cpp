// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Similarity of task vectors, and the loss gap of pairs (paper 2): for tasks i, j,
// L_i(θ0 + ½(τ_i + τ_j)) − L_i(θ_i).
//
// /similarity/R/cosine [T,T], norm [T], norm_ratio [T] (to ‖θ0‖), loss_gap [P,2]
#include <ATen/ATen.h>

#include "kernels/metrics/metrics.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/experiments/edited_model.hpp"
#include "suite/experiments/placement.hpp"

namespace taugrid::experiments {
namespace {

class Similarity final : public Experiment {
 public:
  Similarity(const Study& study, double alpha) : Experiment(study), alpha_(alpha) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks());
    for (const auto& name : study_.regimes()) {
      auto all = Tally(study_).vectors(name, study_.all_tasks());
      all.stores(tasks * (tasks + 2)).publishes(tasks * (tasks + 2 + points()));
      units.push_back(unit("similarity/" + name, all, study_.vector_needs(name, study_.all_tasks()),
                           [this, name](schedule::UnitContext&) { return cosines(name); }));
      for (std::size_t p = 0; p < study_.pairs().size(); ++p) {
        const auto [i, j] = study_.pairs()[p];
        auto needs = EditedModel::needs(study_, name, {i, j});
        for (const auto t : {i, j}) needs.push_back("single_task/" + name + "/" + study_.task_name(t));
        auto tally = Tally(study_).stores(2).publishes(2);
        for (const auto t : {i, j})
          EditedModel::count(tally, study_, name, {i, j}, t, Split::test, points(), 1);
        EditedModel::count_files(tally, study_, name, 2);
        units.push_back(unit("loss_gap/" + name + "/" + study_.pair_name(p), tally, needs,
                             [this, name, p, &folder](schedule::UnitContext& context) {
                               return loss_gap(name, p, folder, context);
                             }));
      }
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    const auto pairs = static_cast<std::int64_t>(study_.pairs().size());
    for (const auto& name : study_.regimes()) {
      const auto group = "/similarity/" + name;
      const auto file = done.folder.read_unit("similarity/" + name);
      out.put(group + "/cosine", file.tensors.at("cosine"), {"task", "task"}, "1");
      out.put(group + "/norm", file.tensors.at("norm"), {"task"});
      out.put(group + "/norm_ratio", file.tensors.at("norm_ratio"), {"task"}, "1");
      std::vector<Box> boxes;
      for (std::int64_t p = 0; p < pairs; ++p) {
        boxes.push_back({"loss_gap/" + name + "/" + study_.pair_name(static_cast<std::size_t>(p)), {p}});
      }
      place(out, done, group + "/loss_gap", store::Element::float64, {pairs, 2}, {"pair", "side"}, boxes,
            "loss_gap", "nat");
      out.attribute(group, "alpha", alpha_);
      out.put(group + "/sample_index", study_.sample_index(Split::test, points()),
              {"task", "evaluation_point"});
    }
  }

 private:
  std::int64_t points() const { return study_.settings().evaluation_points; }

  store::TensorFile cosines(const std::string& name) const {
    const auto gram = weights::gram(study_.task_vectors(name));
    const auto norm = gram.diagonal().sqrt();
    store::TensorFile file;
    file.tensors["cosine"] = gram / norm.outer(norm);
    file.tensors["norm"] = norm.clone();
    file.tensors["norm_ratio"] = norm / weights::norm(study_.theta0());
    return file;
  }

  store::TensorFile loss_gap(const std::string& name, std::size_t p, const schedule::RunFolder& folder,
                             schedule::UnitContext& context) const {
    const EditedModel model(study_, folder, name, context.group);
    const auto [i, j] = study_.pairs()[p];
    auto gaps = study_.sums({2});
    for (int side = 0; side < 2; ++side) {
      context.stop_if_requested();
      const auto t = side == 0 ? i : j;
      const auto& labels = study_.sample(t, Split::test, points()).labels;
      model.outputs({i, j}, at::full({1, 2}, alpha_, at::kDouble), t, Split::test, points(),
                    [&, t = t](std::int64_t, const at::Tensor& z) {
                      gaps[side] = metrics::cross_entropy_sum(study_.head(t).logits(z), labels) /
                                   static_cast<double>(labels.size(0));
                    });
      const auto alone = folder.read_tensor("single_task/" + name + "/" + study_.task_name(t), "loss");
      gaps[side] -= alone.to(study_.device());
    }
    store::TensorFile file;
    file.tensors["loss_gap"] = gaps;
    return file;
  }

  double alpha_;
};

}  // namespace

std::unique_ptr<Experiment> make_similarity(config::Config& config, const Study& study) {
  if (!config.has("similarity")) return nullptr;
  return std::make_unique<Similarity>(study, config.section("similarity").real("loss_gap_alpha", 0.5));
}

}  // namespace taugrid::experiments
