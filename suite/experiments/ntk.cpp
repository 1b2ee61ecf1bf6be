// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// NTK localisation (paper 1, section 6.1): Gram matrices of the tangent kernel at θ0, one a logit of each
// task's head, and the local energy of the singular vectors of [K(t,t), K(t,s)] for trained task t, control
// s.
//
// Besides, the eigenvalues of each K(t,t), descending.
//
// /ntk/R/gram [T,C,n,T,n], local_energy [T,T,C,2n] (NaN for s = t), eigenvalues [T,C,n], sample_index [T,n]
// of the train split; R names θ0: "pretrained" or "random"
#include "kernels/tangent/ntk.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "suite/study/full_products.hpp"
#include "suite/experiments/support/placement.hpp"

namespace taugrid::experiments {
namespace {

class Ntk final : public Experiment {
 public:
  Ntk(const Study& study, std::int64_t points, std::int64_t classes, std::int64_t chunk,
      std::vector<std::string> starts)
      : Experiment(study), points_(points), classes_(classes), chunk_(chunk), starts_(std::move(starts)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    for (const auto& start : starts_) {
      for (const auto t : study_.tasks.all()) {
        // The Gram matrices, the energies of both tasks' points, the eigenvalues.
        const auto numbers = classes_ * points_ * (tasks * points_ + 2 * (2 * tasks + 1));
        Tally tally(study_);
        for (const auto s : study_.tasks.all()) tally.sample(s, Split::train, points_);
        tally.gram(points_, tasks * points_, chunk_, logits_of(t),
                   [this, t](const comm::Communicator&, std::int64_t n, std::int64_t rows) {
                     return rehearse(t, n, std::min(rows, n));
                   });
        tally.stores(numbers, sizeof(float)).publishes(numbers, sizeof(float)).publishes(points_);
        units.push_back(
            unit(key::ntk(start, study_.tasks.name(t)), tally, {},
                 [this, start, t](schedule::UnitContext& context) { return compute(start, t, context); }));
      }
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    for (const auto& start : starts_) {
      std::vector<Box> boxes;
      for (std::int64_t t = 0; t < tasks; ++t)
        boxes.push_back({key::ntk(start, study_.tasks.name(static_cast<std::size_t>(t))), {t}});
      const auto group = "/ntk/" + start;
      place(out, done, group + "/gram", store::Element::float32, {tasks, classes_, points_, tasks, points_},
            {"task", "ntk_logit", "ntk_point", "task", "ntk_point"}, boxes, "gram");
      place(out, done, group + "/local_energy", store::Element::float64,
            {tasks, tasks, classes_, 2 * points_}, {"task", "task", "ntk_logit", "ntk_points_of_both"}, boxes,
            "local_energy", "1");
      place(out, done, group + "/eigenvalues", store::Element::float64, {tasks, classes_, points_},
            {"task", "ntk_logit", "ntk_point"}, boxes, "eigenvalues");
      out.put(group + "/sample_index", study_.tasks.sample_index(Split::train, points_), {"task", "ntk_point"});
    }
  }

 private:
  std::int64_t logits_of(std::size_t t) const {
    return std::min(classes_, study_.tasks.readout(t).classes());
  }

  /// Gram matrices at a state of these logits of task t, of the batch's rows with all of it.
  at::Tensor gram(const models::State& state, std::size_t t, const models::Batch& batch,
                  const std::vector<std::int64_t>& which, Range rows) const {
    const auto& encoder = study_.model.encoder();
    const auto& readout = study_.tasks.readout(t);
    const models::Given x{batch, study_.model.buffers(state, at::kFloat)};
    const auto logits = [&](const models::Blocks<autodiff::Recorded>& p) {
      return readout.logits(readout.output(encoder, p, encoder.encode(p, x)));
    };
    return tangent::ntk_gram(study_.model.layout(), logits, state.theta, which, rows);
  }

  /// Two logits.
  schedule::Rehearsal rehearse(std::size_t t, std::int64_t n, std::int64_t rows) const {
    auto batch = models::random_batch(study_.model.encoder(), n);
    batch.inputs = batch.inputs.to(study_.device);
    return {[this, t, batch, rows] {
              const study::FullProducts full;
              gram(study_.model.start(), t, batch, {0, 1}, {0, rows});
            },
            gram_flops(study_, n, rows, 2)};
  }

  store::TensorFile compute(const std::string& start, std::size_t t, schedule::UnitContext& context) const {
    const study::FullProducts full;
    const auto state = start == study_.model.name() ? study_.model.start() : study_.model.random_state();
    std::vector<models::Batch> all;
    for (const auto s : study_.tasks.all())
      all.push_back(study_.tasks.sample(s, Split::train, points_).batch);
    const auto batch = models::joined(all);
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size()), logits = logits_of(t);
    const auto first = static_cast<std::int64_t>(t) * points_, n = batch.size();

    // The group's ranks share out the logits.
    auto kernels = at::full({classes_, points_, tasks, points_}, std::nan(""), at::kFloat);
    std::vector<std::int64_t> mine;
    for (std::int64_t c = context.group.rank(); c < logits; c += context.group.size()) mine.push_back(c);
    auto whole = at::zeros({logits, points_, n}, state.theta.options());
    const auto index = at::tensor(mine, at::kLong).to(study_.device);
    const auto own_batch = batch.narrow(first, points_);
    for (std::int64_t i = 0; i < n; i += chunk_) {
      context.stop_if_requested();  // all ranks of the group, also those without a logit
      if (mine.empty()) continue;
      if (n <= chunk_) {
        whole.index_copy_(0, index, gram(state, t, batch, mine, {first, points_}));
        break;
      }
      // Columns by chunks, the rows' points recorded beside each.
      const auto m = std::min(chunk_, n - i);
      const auto part = gram(state, t, models::joined({own_batch, batch.narrow(i, m)}), mine, {0, points_});
      whole.narrow(2, i, m).index_copy_(0, index, part.narrow(2, points_, m));
      context.progress(static_cast<double>(i + m) / static_cast<double>(n), "chunk");
    }
    if (context.group.size() > 1) context.group.all_reduce_sum(whole, "NTK Gram matrices");
    kernels.narrow(0, 0, logits).copy_(whole.view({logits, points_, tasks, points_}));

    auto energy = at::full({tasks, classes_, 2 * points_}, std::nan(""), at::kDouble);
    const auto own = static_cast<std::int64_t>(t);
    for (std::int64_t s = 0; s < tasks; ++s) {
      if (s == own) continue;
      for (std::int64_t c = 0; c < logits; ++c) {
        const auto k = kernels[c];
        energy[s][c] = tangent::local_energy(at::cat({k.select(1, own), k.select(1, s)}, 1));
      }
    }
    auto eigenvalues = at::full({classes_, points_}, std::nan(""), at::kDouble);
    for (std::int64_t c = 0; c < logits; ++c)
      eigenvalues[c] = at::linalg_eigvalsh(kernels[c].select(1, own).to(at::kDouble)).flip(0);
    store::TensorFile file;
    file.tensors["eigenvalues"] = eigenvalues;
    file.tensors["gram"] = kernels;
    file.tensors["local_energy"] = energy;
    return file;
  }

  std::int64_t points_, classes_, chunk_;
  std::vector<std::string> starts_;
};

std::unique_ptr<Experiment> make(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "ntk", "Gram matrices of the neural tangent kernel at θ0, and the local energy of task vectors");
  if (!section) return nullptr;
  std::int64_t most = 0, least = 1000000000;
  for (std::size_t t = 0; t < study.tasks.size(); ++t) {
    most = std::max(most, study.tasks.readout(t).classes());
    least = std::min(least, study.tasks.data(t).train.labels.size(0));
  }
  const auto points = section->integer(
      "points",
      {"Training points a task", {.values = "an integer from 1 to the smallest task's training points"}}, 200,
      {1, 1e6});
  if (points > least)
    section->refuse("points", "exceeds the training images of the smallest task, " + std::to_string(least));
  const auto classes = section->integer(
      "logits", {"Logits of each task that are measured, the first ones", {.fallback = "all"}}, most,
      {1, 1e6});
  // Paper 1, section 6.1 and appendix: the pre-trained model, and one at random beside it.
  const auto starts =
      section->words("init", {"The models whose kernel is taken", {.fallback = "that of model.init"}},
                     {study.model.name()}, {"pretrained", "random"});
  if (starts.empty()) section->refuse("init", "names no model");
  if (study.model.name() == "random" && starts != std::vector<std::string>{"random"})
    section->refuse("init", "asks for the pre-trained model, but model.init is random");
  // Recorded at once, besides the trained task's own points: what bounds the memory of a unit.
  const auto chunk = section->integer(
      "chunk", "Points recorded at once beside the trained task's own: fewer take less memory", 256,
      {1, 1e6});
  return std::make_unique<Ntk>(study, points, std::min(classes, most), chunk, starts);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(ntk, 80, make)
