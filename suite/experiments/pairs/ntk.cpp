// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// NTK localisation (paper 1, section 6.1): Gram matrices of the tangent kernel at θ0, one a logit of each
// task's head, and the local energy of the singular vectors of [K(t,t), K(t,s)] for trained task t, control
// s.
//
// K(t,t) holds the points' kernel with themselves and K(t,s) does not, so the trained points have more than
// half of the energy whatever the control. How much, the null says: the same with n further points of task t
// itself as the control, in D draws that have no point in common.
//
// Besides, the eigenvalues of each K(t,t), descending.
#include "kernels/tangent/ntk.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kernels/full_products.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/frozen_below.hpp"
#include "suite/ledger/results.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

std::string ntk_key(const std::string& start, const std::string& task) { return key::of("ntk", start, task); }

std::vector<OutputGroup> ntk_outputs() {
  const std::string draws = "null_draws";
  return {
      {"/ntk/START",
       "the tangent kernel at θ0; NaN beyond a task's logits",
       {{"gram", "task ntk_logit ntk_point task ntk_point", "",
         "[t,c,i,s,j]: the kernel of logit c of task t's head between points i of task t and j of task s",
         With{.element = Element::float32}},
        {"local_energy", "task task ntk_logit ntk_points_of_both", "1",
         "of trained task t and control s, Σρ φρ² over t's n points, then s's n; NaN for s = t"},
        {"rank", "task task ntk_logit", "1", "singular vectors that the cut-off kept; 0 where there are none",
         With{.element = Element::int64, .since = 2}},
        {"@cut_off", "", "", "relative to the largest singular value"},
        frozen_below(),
        {"eigenvalues", "task ntk_logit ntk_point", "", "of K(t,t), descending"},
        sample_rows("train", "ntk_point"),
        {"null_gram", "task ntk_logit ntk_point ntk_draw ntk_point", "",
         "the kernel with further points of the task itself, in draws",
         With{.element = Element::float32, .when = draws, .since = 2}},
        {"null_energy", "task ntk_logit ntk_draw ntk_points_of_both", "1",
         "local_energy with a draw as the control", With{.when = draws, .since = 2}},
        {"null_share", "task ntk_logit ntk_draw", "1", "the part of it that the trained points have",
         With{.when = draws, .since = 2}},
        {"null_sample_index", "task ntk_draw ntk_point", "", "rows of the draws' points",
         With{.element = Element::int64, .when = draws, .since = 2}}},
       "[ntk]"}};
}

class Ntk final : public Experiment {
 public:
  Ntk(const Study& study, std::int64_t points, std::int64_t draws, std::int64_t classes, std::int64_t chunk,
      std::vector<std::string> starts)
      : Experiment(study),
        points_(points),
        draws_(draws),
        classes_(classes),
        chunk_(chunk),
        starts_(std::move(starts)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    for (const auto& start : starts_) {
      for (const auto t : study_.tasks.all()) {
        // The Gram matrices, the energies of both samples' points, the eigenvalues.
        const auto controls = tasks + draws_;
        const auto numbers =
            classes_ * (points_ * (controls * points_ + 2 * (2 * controls + 1)) + 2 * controls);
        Tally tally(study_);
        for (const auto s : study_.tasks.all()) {
          const auto n = s == t ? (1 + draws_) * points_ : points_;
          tally.sample(s, Split::train, n, n);
        }
        tally.gram(points_, (controls - 1) * points_, chunk_, logits_of(t),
                   [this, t](const comm::Communicator&, std::int64_t n, std::int64_t rows) {
                     return rehearse(t, n, std::min(rows, n));
                   });
        tally.stores(numbers, sizeof(float));
        units.push_back(
            unit(ntk_key(start, study_.tasks.name(t)), tally, {},
                 [this, start, t](schedule::UnitContext& context) { return compute(start, t, context); }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/ntk", starts_,
                     {{"ntk_logit", classes_},
                      {"ntk_point", points_},
                      {"ntk_points_of_both", 2 * points_},
                      {"ntk_draw", draws_}});
  }

  void write(Results& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    for (const auto& start : starts_) {
      std::vector<Box> boxes;
      for (std::int64_t t = 0; t < tasks; ++t)
        boxes.push_back({ntk_key(start, study_.tasks.name(static_cast<std::size_t>(t))), {t}});
      const auto group = "/ntk/" + start;
      out.place(done, group + "/gram", boxes, "gram");
      out.place(done, group + "/local_energy", boxes, "local_energy");
      out.place(done, group + "/rank", boxes, "rank");
      out.attribute(group, "cut_off", tangent::energy_cut_off);
      write_frozen_below(out, group, study_);
      out.place(done, group + "/eigenvalues", boxes, "eigenvalues");
      out.put(group + "/sample_index", study_.samples.index(Split::train, points_));
      if (draws_ > 0) write_null(out, done, group, boxes);
    }
  }

 private:
  void write_null(Results& out, const Finished& done, const std::string& group,
                  const std::vector<Box>& boxes) const {
    out.place(done, group + "/null_gram", boxes, "null_gram");
    out.place(done, group + "/null_energy", boxes, "null_energy");
    out.place(done, group + "/null_share", boxes, "null_share");
    std::vector<at::Tensor> rows;
    for (const auto t : study_.tasks.all()) {
      const auto all = study_.samples.rows(t, Split::train, (1 + draws_) * points_);
      rows.push_back(all.narrow(0, points_, draws_ * points_).view({draws_, points_}));
    }
    out.put(group + "/null_sample_index", at::stack(rows));
  }

  std::int64_t logits_of(std::size_t t) const { return std::min(classes_, study_.readouts.of(t).classes()); }

  /// Gram matrices at a state of these logits of task t, of the batch's rows with all of it.
  at::Tensor gram(const models::State& state, std::size_t t, const models::Batch& batch,
                  const std::vector<std::int64_t>& which, Range rows) const {
    const auto& encoder = study_.model.encoder();
    const auto& readout = study_.readouts.of(t);
    const models::Given x{batch, study_.model.buffers(state, at::kFloat)};
    const auto logits = [&](const models::Blocks<autodiff::Recorded>& p) {
      return readout.logits(readout.output(encoder, p, encoder.encode(p, x), batch));
    };
    return tangent::ntk_gram(study_.model.layout(), logits, state.theta, which, rows, tangent::ntk_workspace,
                             study_.free_blocks());
  }

  /// Two logits, where there are two.
  schedule::Rehearsal rehearse(std::size_t t, std::int64_t n, std::int64_t rows) const {
    const auto batch = study_.model.random_batch(n);
    std::vector<std::int64_t> logits(static_cast<std::size_t>(std::min<std::int64_t>(2, logits_of(t))));
    std::iota(logits.begin(), logits.end(), 0);
    return {[this, t, batch, rows, logits] {
              const FullProducts full;
              gram(study_.model.start(), t, batch, logits, {0, rows});
            },
            ledger::gram_flops(study_, n, rows, std::ssize(logits))};
  }

  store::TensorFile compute(const std::string& start, std::size_t t, schedule::UnitContext& context) const {
    const FullProducts full;
    const bool of_theta0 = start == study_.model.name();
    const auto state = of_theta0 ? study_.model.start() : study_.model.random_state();
    // What frozen stages gave is θ0's.
    const auto points_of = [&](std::size_t s, std::int64_t n) {
      return (of_theta0 ? study_.free_sample(s, n, true) : study_.samples.of(s, Split::train, n))
          .points.whole();
    };
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size()), logits = logits_of(t);
    const auto task = static_cast<std::int64_t>(t);
    // Columns: the task's own points, those of the other tasks, and further ones of its own for the null.
    const auto mine = points_of(t, (1 + draws_) * points_);
    std::vector<models::Batch> others;
    for (const auto s : study_.tasks.all())
      if (s != t) others.push_back(study_.readouts.read_by(t, points_of(s, points_)));
    if (draws_ > 0) others.push_back(mine.narrow(points_, draws_ * points_));
    const auto all = columns(state, t, mine.narrow(0, points_), others, context);

    const auto of = [&](std::int64_t block) { return all.narrow(2, block * points_, points_); };  // [C,n,n]
    auto kernels = at::full({classes_, points_, tasks, points_}, std::nan(""), at::kFloat);
    for (std::int64_t s = 0; s < tasks; ++s)
      kernels.narrow(0, 0, logits).select(2, s).copy_(of(s == task ? 0 : s < task ? s + 1 : s));
    auto energy = at::full({tasks, classes_, 2 * points_}, std::nan(""), at::kDouble);
    auto rank = at::zeros({tasks, classes_}, at::kLong);
    auto null_kernels = at::full({classes_, points_, draws_, points_}, std::nan(""), at::kFloat);
    auto null_energy = at::full({classes_, draws_, 2 * points_}, std::nan(""), at::kDouble);
    auto eigenvalues = at::full({classes_, points_}, std::nan(""), at::kDouble);
    for (std::int64_t d = 0; d < draws_; ++d)
      null_kernels.narrow(0, 0, logits).select(2, d).copy_(of(tasks + d));
    for (std::int64_t c = 0; c < logits; ++c) {
      const auto k = kernels[c].select(1, task);
      const auto with = [&](const at::Tensor& control) {
        return tangent::local_energy(at::cat({k, control}, 1));
      };
      for (std::int64_t s = 0; s < tasks; ++s) {
        if (s == task) continue;
        const auto result = with(kernels[c].select(1, s));
        energy[s][c] = result.energy;
        rank[s][c] = result.rank;
      }
      for (std::int64_t d = 0; d < draws_; ++d) null_energy[c][d] = with(null_kernels[c].select(1, d)).energy;
      eigenvalues[c] = at::linalg_eigvalsh(k.to(at::kDouble)).flip(0);
    }
    store::TensorFile file;
    file.tensors = {
        {"eigenvalues", eigenvalues}, {"gram", kernels}, {"local_energy", energy}, {"rank", rank}};
    if (draws_ > 0) {
      file.tensors["null_energy"] = null_energy;
      file.tensors["null_gram"] = null_kernels;
      file.tensors["null_share"] = null_energy.narrow(-1, 0, points_).sum(-1) / null_energy.sum(-1);
    }
    return file;
  }

  /// Gram matrices [logits, n, n + m], on the host, of task t's own n points with themselves and m others,
  /// these by chunks, the own ones recorded beside each. The group's ranks share out the logits.
  at::Tensor columns(const models::State& state, std::size_t t, const models::Batch& sample,
                     const std::vector<models::Batch>& others, schedule::UnitContext& context) const {
    std::vector<std::int64_t> mine;
    for (std::int64_t c = context.group.rank(); c < logits_of(t); c += context.group.size())
      mine.push_back(c);
    const auto index = at::tensor(mine, at::kLong).to(study_.device);
    const auto beside = others.empty() ? sample : models::joined(others);
    const auto n = points_, total = others.empty() ? 0 : beside.size();
    auto whole = at::zeros({logits_of(t), n, n + total}, state.theta.options());
    for (std::int64_t i = 0; i == 0 || i < total; i += chunk_) {
      context.stop_if_requested();  // all ranks of the group, also those without a logit
      if (mine.empty()) continue;
      const auto m = std::min(chunk_, total - i);
      const auto batch = m > 0 ? models::joined({sample, beside.narrow(i, m)}) : sample;
      const auto part = gram(state, t, batch, mine, {0, n});
      if (i == 0) whole.narrow(2, 0, n).index_copy_(0, index, part.narrow(2, 0, n));
      if (m > 0) whole.narrow(2, n + i, m).index_copy_(0, index, part.narrow(2, n, m));
      if (i + m < total) context.progress(static_cast<double>(i + m) / static_cast<double>(total), "chunk");
    }
    if (context.group.size() > 1) context.group.all_reduce_sum(whole, "NTK Gram matrices");
    return whole.cpu();
  }

  std::int64_t points_, draws_, classes_, chunk_;
  std::vector<std::string> starts_;
};

std::unique_ptr<Experiment> make_ntk(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "ntk", "Gram matrices of the neural tangent kernel at θ0, and the local energy of task vectors");
  if (!section) return nullptr;
  study::require_classes(study, "ntk");
  study::require_shared_classes(study, "ntk");
  std::int64_t most = 0, least = 1000000000;
  for (std::size_t t = 0; t < study.tasks.size(); ++t) {
    most = std::max(most, study.readouts.of(t).classes());
    least = std::min(least, study.tasks.data(t).train.labels.size(0));
  }
  const auto points = section->integer(
      "points",
      {"Training points a task", {.values = "an integer from 1 to the smallest task's training points"}}, 200,
      {1, 1e6});
  if (points > least)
    section->refuse("points", "exceeds the training images of the smallest task, " + std::to_string(least));
  // Paper 1 shows no null; without it no share of the energy can be judged.
  constexpr std::int64_t usual_draws = 4;
  const auto most_draws = least / points - 1;
  if (most_draws < 1 && !section->has("null_draws")) {
    section->refuse(
        "points",
        fmt::format("is {}, and the smallest task has {} training images: too few for a second, disjoint "
                    "sample, the null; expected at most {}, or ntk.null_draws = 0",
                    points, least, least / 2));
  }
  const auto draws =
      section->integer("null_draws",
                       {"Further disjoint samples of the trained task itself, as large as the first, taken "
                        "as control: the null",
                        {.fallback = "4, or as many as the smallest task's training points allow",
                         .values = "an integer from 0 to the smallest task's training points / points − 1"}},
                       std::min(usual_draws, most_draws), {0, 1000});
  if (draws > most_draws) {
    section->refuse(
        "null_draws",
        fmt::format("is {}: {} disjoint samples of {} points, and the smallest task has {} training "
                    "images; expected at most {}",
                    draws, draws + 1, points, least, most_draws));
  }
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
  return std::make_unique<Ntk>(study, points, draws, std::min(classes, most), chunk, starts);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(ntk, 80, make_ntk, ntk_outputs)
