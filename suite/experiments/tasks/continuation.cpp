// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The trace of a regime that goes on from another's task vectors (paper 3, figure 3): τJp of all ordered
// pairs and normalised accuracy at α = 1, of each pair's sum and of all tasks', after each few further steps.
// From the tangent features that fine-tuning kept, by linearity, on up to 256 test points a task.
#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/metrics/metrics.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"
#include "suite/training/training.hpp"

namespace taugrid::experiments {
namespace {

std::string continuation_key(const std::string& regime) { return key::of("continuation", regime); }

std::vector<OutputGroup> continuation_outputs() {
  return {
      {"/continuation/R",
       "the trace of a regime that goes on from another's task vectors (paper 3, figure 3)",
       {{"step", "step", "", "steps taken", With{.element = Element::int64, .scale = "step_continuation_R"}},
        {"tau_jp", "step task task", "", "as /tau_jp/R/value, on up to 256 test points a task"},
        {"pair_normalized", "step pair", "1", "normalised accuracy of a pair's sum at α = 1"},
        {"normalized", "step", "1", "normalised accuracy of the sum of all at α = 1"},
        {"accuracy", "step task", "1", "of the task's own model"},
        {"@start", "", "", "the regime whose vectors it goes on from"},
        sample_rows("test", "continuation_point")},
       "a regime that goes on from another"}};
}

class Continuation final : public Experiment {
 public:
  Continuation(const Study& study, std::map<std::string, training::Training> training)
      : Experiment(study), training_(std::move(training)) {}

  bool runs_by_stages() const override { return true; }  // it has nothing to do there

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      if (!traced(name)) continue;
      auto needs = study_.vectors.needs(name, study_.tasks.all());
      for (const auto b : study_.tasks.all()) needs.push_back(key::base_features(study_.tasks.name(b)));
      units.push_back(unit(continuation_key(name), tally(name), needs,
                           [this, name, &folder](schedule::UnitContext&) { return compute(name, folder); }));
    }
  }

  std::vector<WrittenGroup> written() const override {
    std::vector<WrittenGroup> groups;
    for (const auto& name : study_.settings.vector_regimes) {
      if (!traced(name)) continue;
      const auto& training = training_.at(name);
      groups.push_back({"/continuation/" + name,
                        {{"step", training.traced_until(training.steps)},
                         {"continuation_point", training::trace_points(study_)}}});
    }
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      if (!traced(name)) continue;
      const auto group = "/continuation/" + name;
      const auto file = done.folder.read_unit(done.world, continuation_key(name));
      out.put(group + "/step", file.tensors.at("step"));
      out.put(group + "/tau_jp", file.tensors.at("tau_jp"));
      if (!study_.tasks.pairs().empty())
        out.put(group + "/pair_normalized", file.tensors.at("pair_normalized"));
      out.put(group + "/normalized", file.tensors.at("normalized"));
      out.put(group + "/accuracy", file.tensors.at("accuracy"));
      out.attribute(group, "start", regime(name).start);
      out.put(group + "/sample_index", study_.samples.index(Split::test, training::trace_points(study_)));
    }
  }

 private:
  bool traced(const std::string& name) const {
    return !regime(name).start.empty() && study_.settings.trains(name);
  }
  std::int64_t width(std::size_t b) const { return study_.readouts.of(b).width(study_.model.encoder()); }

  Tally tally(const std::string& name) const {
    const auto& training = training_.at(name);
    const auto steps = training.traced_until(training.steps);
    const auto T = static_cast<std::int64_t>(study_.tasks.size()),
               P = static_cast<std::int64_t>(study_.tasks.pairs().size());
    Tally tally(study_);
    std::int64_t numbers_a_step = 0;
    for (std::size_t b = 0; b < study_.tasks.size(); ++b) {
      const auto n = study_.samples.size(b, Split::test, training::trace_points(study_));
      // Alone, of all, of each pair; and a norm of each vector, which takes about as long.
      tally.sample(b, Split::test, n).logits(b, n, steps * (2 * T + 1));
      numbers_a_step += n * width(b);
      tally.reads(ledger::features_bytes(study_, b));
    }
    tally.reads(4.0 * static_cast<double>(T * steps * numbers_a_step));
    const auto numbers = steps * (T * T + P + T + 2);
    return tally.stores(numbers);
  }

  store::TensorFile compute(const std::string& name, const schedule::RunFolder& folder) const {
    const auto tasks = study_.tasks.size();
    const auto points = training::trace_points(study_);
    const auto& training = training_.at(name);
    std::vector<at::Tensor> traces;  // of each task vector [S, Σn · features]
    for (std::size_t t = 0; t < tasks; ++t)
      traces.push_back(
          folder.read_tensor(key::fine_tune(name, study_.tasks.name(t)), "trace").to(study_.device));
    const auto steps = traces[0].size(0);
    const auto T = static_cast<std::int64_t>(tasks),
               P = static_cast<std::int64_t>(study_.tasks.pairs().size());
    auto tau_jp = study_.sums({steps, T, T}), single = study_.sums({steps, T});
    auto pair_normalised = study_.sums({steps, P}), all = single.clone();

    // J(x)τa on task b's points, at one step.
    std::vector<at::Tensor> f0;
    std::vector<std::int64_t> begin = {0};
    for (std::size_t b = 0; b < tasks; ++b) {
      const auto& task = study_.tasks.name(b);
      const auto whole = folder.read_tensor(key::base_features(task), study::features_of(Split::test, task))
                             .to(study_.device);
      f0.push_back(whole.narrow(0, 0, std::min(points, whole.size(0))));
      begin.push_back(begin.back() + f0.back().numel());
    }
    const auto tangent = [&](std::int64_t s, std::size_t a, std::size_t b) {
      return traces[a][s].narrow(0, begin[b], begin[b + 1] - begin[b]).view({-1, width(b)});
    };
    for (std::int64_t s = 0; s < steps; ++s) {
      for (std::size_t b = 0; b < tasks; ++b) {
        const auto column = static_cast<std::int64_t>(b);
        const auto labels = study_.samples.of(b, Split::test, points).labels;
        const auto accuracy = [&, b = b](const at::Tensor& z) {
          const auto& readout = study_.readouts.of(b);
          return readout.correct(readout.logits(z), labels).sum().to(at::kDouble).div_(labels.size(0));
        };
        auto sum = f0[b].clone();
        for (std::size_t a = 0; a < tasks; ++a) {
          const auto jt = tangent(s, a, b);
          sum.add_(jt);
          tau_jp[s][static_cast<std::int64_t>(a)][column] = jt.to(at::kDouble).square().sum(1).mean();
        }
        const auto alone = f0[b] + tangent(s, b, b);
        const auto mine = accuracy(alone);
        single[s][column] = mine;
        all[s][column] = accuracy(sum);
        for (std::int64_t p = 0; p < P; ++p) {
          const auto [i, j] = study_.tasks.pairs()[static_cast<std::size_t>(p)];
          if (b != i && b != j) continue;
          const auto merged = accuracy(alone + tangent(s, b == i ? j : i, b));
          pair_normalised[s][p] += at::where(mine > 0, 0.5 * merged / mine, 0.0);
        }
      }
    }
    auto step = at::arange(steps, at::kLong).mul_(training.trace_every).clamp_max_(training.steps);
    auto normalised = study_.sums({steps});
    for (std::int64_t s = 0; s < steps; ++s) normalised[s] = metrics::normalised_accuracy(all[s], single[s]);
    store::TensorFile file;
    file.tensors = {{"step", step},
                    {"tau_jp", tau_jp},
                    {"pair_normalized", pair_normalised},
                    {"normalized", normalised},
                    {"accuracy", single}};
    return file;
  }

  std::map<std::string, training::Training> training_;
};

std::unique_ptr<Experiment> make_continuation(config::Config& config, const Study& study) {
  if (!study::finetune_section(config)) return nullptr;
  return std::make_unique<Continuation>(study, training::read_trainings(config));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(continuation, 120, make_continuation, continuation_outputs)
