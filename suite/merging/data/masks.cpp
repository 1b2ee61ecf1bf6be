// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/data/masks.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "kernels/metrics/metrics.hpp"
#include "kernels/weights/merging.hpp"
#include "suite/merging/data/joint_models.hpp"
#include "suite/study/task_sets.hpp"
#include "suite/training/loop.hpp"
#include "suite/training/loss.hpp"

namespace taugrid::merging {
namespace {

/// What one task gives to a mask's loss: its rows of the split, each times the weight.
struct TaskPoints {
  std::size_t task;
  at::Tensor rows;
  double weight;
};

}  // namespace

std::int64_t Masks::points(std::size_t t) const {
  const auto rows = study_.tasks.data(t).split(settings_.inputs).labels.size(0);
  return std::min({rows, settings_.points, settings_.points_a_class * study_.readouts.of(t).classes()});
}

at::Tensor Masks::rows(std::size_t t) const {
  const auto labels =
      study_.readouts.of(t).classes_of(study_.tasks.data(t).split(settings_.inputs).labels).contiguous();
  const auto purpose = std::string("localize/") + study::split_name(settings_.inputs) + "/";
  auto generator = at::make_generator<at::CPUGeneratorImpl>(
      study::seed_for(study_.settings.seed, purpose + study_.tasks.name(t)));
  const auto order = at::randperm(labels.size(0), generator, at::kLong);
  // The first of each class, then the second of each, and so on.
  std::vector<std::vector<std::int64_t>> turns(
      static_cast<std::size_t>(std::min(settings_.points_a_class, labels.size(0))));
  std::vector<std::size_t> seen(static_cast<std::size_t>(study_.readouts.of(t).classes()), 0);
  const auto* label = labels.const_data_ptr<std::int64_t>();
  const auto* place = order.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < order.size(0); ++i) {
    auto& before = seen[static_cast<std::size_t>(label[place[i]])];
    if (before < turns.size()) turns[before++].push_back(place[i]);
  }
  std::vector<std::int64_t> rows;
  for (const auto& turn : turns) rows.insert(rows.end(), turn.begin(), turn.end());
  rows.resize(std::min(rows.size(), static_cast<std::size_t>(settings_.points)));
  return at::tensor(rows, at::kLong);
}

std::vector<Segment> Masks::segments(const std::string& regime) const {
  auto all = trained_segments(study_, regime);
  const auto& parameters = study_.model.layout().parameters();
  const auto wanted = [&](const Segment& segment) {
    const auto& name = parameters[static_cast<std::size_t>(segment.parameter)].name;
    return settings_.tensors.empty() ||
           std::any_of(settings_.tensors.begin(), settings_.tensors.end(),
                       [&](const std::string& part) { return name.find(part) != std::string::npos; });
  };
  std::erase_if(all, [&](const Segment& segment) { return !wanted(segment); });
  return all;
}

std::int64_t Masks::numbers(const std::string& regime) const {
  std::int64_t sum = 0;
  for (const auto& segment : segments(regime)) sum += segment.range.count;
  return sum;
}

void Masks::count(Tally& tally, const std::string& name, const std::vector<std::size_t>& tasks) const {
  const auto& cost = study_.model.cost();
  const auto& r = study::regime(name);
  tally.holds(20 * static_cast<double>(study_.model.layout().size()));
  for (const auto t : tasks)
    tally.passes("localize/" + name, points(t), settings_.chunk, settings_.steps,
                 training::step_flops_an_input(r, study_.trained_blocks(name), cost),
                 r.linear ? cost.alive_in_linear_step() : cost.alive_in_step(),
                 [this, name](const comm::Communicator&, std::int64_t inputs, std::int64_t) {
                   return rehearse(name, inputs);
                 });
}

/// −`bias` everywhere, and +`bias` where |τ| is above the k-th largest, k = ⌊density·n⌋.
at::Tensor Masks::first_scores(const at::Tensor& tau, const std::vector<Segment>& segments,
                               std::int64_t& passes) const {
  std::int64_t n = 0;
  for (const auto& segment : segments) n += segment.range.count;
  const auto k = static_cast<std::int64_t>(settings_.start_density * static_cast<double>(n));
  auto scores = at::full_like(tau, -settings_.bias);
  if (k == 0) return scores;
  const auto host = tau.cpu();
  weights::KthMagnitude kth(k, n);
  do {
    ++passes;
    for (const auto& segment : segments) kth.add(host.narrow(0, segment.range.begin, segment.range.count));
  } while (kth.next());
  for (const auto& segment : segments) {
    const auto [begin, count] = segment.range;
    auto part = scores.narrow(0, begin, count);
    part.masked_fill_(tau.narrow(0, begin, count).abs() > static_cast<double>(kth.value()), settings_.bias);
  }
  ++passes;
  return scores;
}

store::TensorFile Masks::learnt(const ModelToMerge& model, schedule::UnitContext& context) const {
  const auto& group = context.group;
  const auto& name = model.regime();
  const auto every = segments(name);
  auto tau = model.vector();
  auto inside = at::zeros_like(tau, at::kBool);
  for (const auto& segment : every) inside.narrow(0, segment.range.begin, segment.range.count).fill_(true);
  tau = at::where(inside, tau, 0.0);
  std::int64_t over_tau = 1 + 2 * settings_.steps;  // the model itself; θ of a step, and the scores' slope
  auto scores = first_scores(tau, every, over_tau);
  const auto start = model.state();
  const training::TrainingLoss loss(study_.model.encoder(), study::regime(name), start,
                                    study_.trained_blocks(name), study_.evaluation.compute_type());
  std::vector<TaskPoints> of_tasks;
  std::vector<at::Tensor> chosen;
  for (const auto t : model.tasks()) {
    chosen.push_back(rows(t));
    const auto labels = study_.tasks.data(t).split(settings_.inputs).labels.index_select(0, chosen.back());
    const auto items = study_.readouts.of(t).loss_items(labels);
    of_tasks.push_back({t, chosen.back(), 1 / items / static_cast<double>(model.tasks().size())});
  }
  const int from = study_.first_changed_stage(name);
  auto losses = study_.sums({settings_.steps});

  training::Steps steps;
  steps.what = "localize/" + name + "/" + study::joined_names(study_, model.tasks());
  steps.steps = settings_.steps;
  steps.checkpoint_seconds = settings_.checkpoint_seconds;
  steps.save_last = true;  // one of several bases, of one unit
  steps.device = study_.device;
  steps.losses = {losses};
  steps.state = [&] {
    store::TensorFile file;
    file.tensors["scores"] = scores;
    file.tensors["loss"] = losses;
    return file;
  };
  steps.step = [&](std::int64_t number) {
    const auto soft = scores.sigmoid();
    const auto theta = study_.model.theta0() + soft * tau;
    auto sum = study_.sums({});
    at::Tensor gradient;
    for (const auto& [t, its_rows, weight] : of_tasks) {
      const auto share = group.share_of(its_rows.size(0));
      for (std::int64_t at = 0; at == 0 || at < share.count; at += settings_.chunk) {
        const auto count = std::min(settings_.chunk, share.count - at);
        const auto mine = its_rows.narrow(0, share.begin + at, count);
        std::vector<training::Term> terms;
        if (count > 0)
          terms.push_back({study_.samples.batch(t, settings_.inputs, mine, from),
                           study_.samples.labels(t, settings_.inputs, mine), &study_.readouts.of(t), weight});
        at::Tensor part;
        sum.add_(loss(theta, terms, part).loss);
        gradient = gradient.defined() ? gradient.add_(part) : part;
      }
    }
    if (group.size() > 1) {
      group.all_reduce_sum(gradient, "gradient of a mask");
      group.all_reduce_sum(sum, "loss of a mask");
    }
    for (const auto& segment : every) {
      const auto [begin, count] = segment.range;
      auto s = scores.narrow(0, begin, count);
      const auto y = soft.narrow(0, begin, count);
      auto slope = gradient.narrow(0, segment.gradient, count) * tau.narrow(0, begin, count);
      slope.mul_(settings_.learning_rate);
      if (settings_.signed_regulariser) {
        slope.sub_(at::where(s > 0, settings_.l1, -settings_.l1));
      } else {
        slope.add_(settings_.l1);
      }
      s.sub_(slope.mul_(y * (1 - y)));
    }
    losses[number].copy_(sum);
    return sum;
  };
  training::run(steps, context);

  store::TensorFile file;
  const auto all_rows = at::cat(chosen);
  const auto inputs = static_cast<double>(all_rows.size(0) * settings_.steps);
  file.tensors = {{"mask", metrics::packed_bits((scores > 0).logical_and(inside)).cpu()},
                  {"loss", losses.cpu()},
                  {"rows", all_rows},
                  {"passes", at::tensor({inputs, inputs, static_cast<double>(over_tau)}, at::kDouble)}};
  return file;
}

schedule::Rehearsal Masks::rehearse(const std::string& name, std::int64_t n) const {
  const auto& r = study::regime(name);
  const auto loss =
      std::make_shared<training::TrainingLoss>(study_.model.encoder(), r, study_.model.start(),
                                               study_.trained_blocks(name), study_.evaluation.compute_type());
  const training::Term term{study_.model.random_batch(n),
                            at::zeros({n}, study_.model.theta0().options().dtype(at::kLong)),
                            &study_.readouts.of(0), 1 / static_cast<double>(n)};
  return {[loss, term, theta = 1.001 * study_.model.theta0()] {
            at::Tensor gradient;
            (*loss)(theta, {term}, gradient);
          },
          static_cast<double>(n) *
              training::step_flops_an_input(r, study_.trained_blocks(name), study_.model.cost())};
}

MaskSettings read_masks(config::Section& parameters) {
  MaskSettings settings{};
  settings.inputs = parameters.word("inputs", "The split whose points, with labels, masks are learnt on",
                                    "train", {"train", "validation"}) == "train"
                        ? Split::train
                        : Split::validation;
  settings.points_a_class =
      parameters.integer("points_per_class", "Points of each class, at most", 64, {1, 1e9});
  settings.points = parameters.integer(
      "points", "Points of a task, at most; the first of each class, then the second, and so on", 1024,
      {1, 1e9});
  settings.steps = parameters.integer("steps", "Steps of a mask, each over all points", 10, {1, 1e6});
  settings.learning_rate = parameters.real("learning_rate", "The rate of these steps", 1e7, {0, 1e30});
  settings.l1 = parameters.real("l1",
                                "The weight ℓ of the regulariser (Localize-and-Stitch: 1 for vision, 10 for "
                                "language; paper 2's code 0)",
                                1, {0, 1e9});
  settings.signed_regulariser =
      parameters.word(
          "regulariser",
          "What ℓ does: moves scores away from 0 on both sides (the authors' code), or makes masks "
          "sparse, as ℓ‖σ(S)‖₁ does",
          "signed", {"signed", "l1"}) == "signed";
  settings.bias = parameters.real("bias", "Scores begin at ± this (Localize-and-Stitch 5; paper 2's code 3)",
                                  5, {1e-3, 1e3});
  settings.start_density = parameters.real(
      "start_density", "The share of numbers, the largest, whose scores begin at +", 1e-5, {0, 1});
  settings.tensors = parameters.words(
      "tensors",
      {"Parts of the names of the tensors that masks are of; all others stay as θ0's (for language the "
       "encoder's layers alone: [\"encoder.layer\"])",
       {.fallback = "all"}},
      {});
  settings.chunk = parameters.integer("chunk", "Points that go through the model at once", 64, {1, 1e6});
  settings.checkpoint_seconds =
      parameters.real("checkpoint_seconds",
                      "Seconds between saved states; 0: one only where a stop asks for it", 60, {0, 1e6});
  return settings;
}

}  // namespace taugrid::merging
