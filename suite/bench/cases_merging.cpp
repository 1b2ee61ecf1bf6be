// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Merging methods that take data: what an experiment calls of them, and beside it the passes that none can do
// without, on the same inputs.
//   fisher            a forward pass; for each class a backward pass, and each point's gradient squared
//   regmean           the case `forward`, and XᵀX of what each linear layer takes in, of which half has to be
//                     found: of an MLP four times as wide as the model, 19 d² flops a token and layer beside
//                     the pass's 24 d² and its attention: by count about 0.8 of it. The pass itself is 1.2
//                     of the case `forward`, whose last layer takes the class token alone through its MLP
//   adamerging/step   forward and backward passes of each task's batch, and two passes over the vectors
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "kernels/autodiff/products.hpp"
#include "kernels/autodiff/tape.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/bench/model_work.hpp"
#include "suite/merging/table.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/training/loss.hpp"

namespace taugrid::bench {
namespace {

constexpr const char* merged_regime = "standard";
constexpr std::int64_t merged_tasks = 8, merged_batch = 32, merged_steps = 4;
constexpr double merged_start = 0.3;  // λ before the first step

/// A study of tasks whose every split has the first `points` of the fixture's images, and a method on it.
struct MergingRun {
  MergingRun(const Fixture& x, const std::string& name, std::int64_t count, std::int64_t points,
             const std::string& section)
      : path(x.folder() / ("merging_" + name)),
        config(written(x, path, count, points, section)),
        study(config, x.runtime().device()),
        method(merging::entry(name).read(
            config.section("merging." + name, merging::entry(name).meaning),
            {.tasks = study.tasks.size()})({config, study, "merging." + name, name})) {
    study.vectors.set_folder(path);
    for (std::int64_t t = 0; t < count; ++t) all.push_back(static_cast<std::size_t>(t));
    for (const auto t : all) vectors.push_back(study.vectors.vector(merged_regime, t));  // kept in memory
  }

  static config::Config written(const Fixture& x, const std::filesystem::path& path, std::int64_t count,
                                std::int64_t points, const std::string& section) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(17);
    models::write_checkpoint(path / "model", x.encoder(), x.start());
    std::string names;
    for (std::int64_t t = 0; t < count; ++t) {
      const auto name = fmt::format("task{}", t);
      x.write_task(path / "data" / (name + ".h5"), x.images().narrow(0, 0, points),
                   x.labels().narrow(0, 0, points), points);
      const auto tau = 0.01 * at::randn(x.theta0().sizes(), generator);
      models::write_checkpoint(path / "checkpoints" / merged_regime / name, x.encoder(),
                               {x.theta0().cpu() + tau, {}});
      names += (t > 0 ? ", \"" : "\"") + name + "\"";
    }
    store::write_atomically(
        path / "bench.toml",
        fmt::format("[run]\nname = \"bench\"\n[model]\npath = \"model\"\n[data]\nfolder = \"data\"\ntasks = "
                    "[{}]\nevaluation_points = {}\n[finetune]\nregimes = [\"{}\"]\n{}",
                    names, points, merged_regime, section));
    return config::Config::load(path / "bench.toml");
  }

  /// In a scratch folder without the state of a training before, which would not be repeated.
  schedule::UnitContext context(const Fixture& x) const {
    std::filesystem::remove_all(path / "scratch");
    store::create_folders(path / "scratch");
    return {x.runtime().world(), x.runtime().stop(), path / "scratch", [](double, std::string_view) {}};
  }
  /// The first task's model.
  at::Tensor theta() const { return study.model.theta0() + vectors[0]; }
  models::Batch pictures() const {
    return study.samples.of(0, study::Split::test, study.settings.evaluation_points).points.whole();
  }

  std::filesystem::path path;
  config::Config config;
  study::Study study;
  std::shared_ptr<const merging::Method> method;
  std::vector<std::size_t> all;
  std::vector<at::Tensor> vectors;
  store::TensorFile part_file;  // of a part
  merging::MergeResult merge_result;
};

Work fisher(const Fixture& x) {
  const auto run = std::make_shared<MergingRun>(x, "fisher", 1, merged_batch,
                                                fmt::format("[merging.fisher]\npoints = {}\n", merged_batch));
  const double n = merged_batch, f = x.forward_flops(), p = static_cast<double>(x.theta0().numel());
  Work work;
  work.run = [&x, run] {
    auto context = run->context(x);
    run->part_file = run->method->part({run->study, merged_regime, 0}, context);
  };
  work.flops = n * (f + classes * (2 * f + 2 * p));
  work.bytes = 8 * p;
  work.items = n * classes;
  work.unit = "gradients";
  work.tolerance = 1e-4;
  work.error = [&x, run] {  // each gradient by itself, in float64
    const auto theta = run->theta().to(at::kDouble), pixels = x.pixels().to(at::kDouble);
    const auto head = x.head().to(at::kDouble);
    auto sum = at::zeros_like(theta);
    for (std::int64_t i = 0; i < merged_batch; ++i) {
      for (std::int64_t c = 0; c < classes; ++c) {
        const auto log_p = [&](const Blocks& blocks) {
          const auto z = x.encoder().encode(blocks, models::pictures(pixels.narrow(0, i, 1)));
          return head.logits(z).log_softmax(1)[0][c];
        };
        const auto at_point = autodiff::gradient(x.encoder().layout(), log_p, theta);
        sum.add_(at_point.gradient.square(), std::exp(at_point.value) / merged_batch);
      }
    }
    const auto diagonal = run->part_file.tensors.at("fisher").to(sum.device(), at::kDouble);
    return relative(diagonal, sum);
  };
  work.results = [&x, run] {
    const auto& layout = x.encoder().layout();
    const auto views = layout.parameter_views(run->part_file.tensors.at("fisher"));
    store::TensorFile file;
    for (std::size_t i = 0; i < views.size(); ++i)
      file.tensors["fisher/" + layout.parameters()[i].name] = views[i];
    return file;
  };
  return work;
}

/// Numbers off the tape in double: XᵀX/rows of each linear layer, by its block; and in all layers rows·in².
std::pair<std::map<std::string, at::Tensor>, double> whole_grams(const Fixture& x, const MergingRun& run) {
  const models::Given given{models::pictures(run.pictures().inputs.to(at::kDouble))};
  const auto& layout = x.encoder().layout();
  const auto tape = autodiff::record_uses(
      layout,
      [&](const models::Blocks<autodiff::Recorded>& p) {
        return x.encoder().visit<autodiff::Recorded>(p, given, [](int, const autodiff::Recorded&) {});
      },
      run.theta().to(at::kDouble));
  std::pair<std::map<std::string, at::Tensor>, double> all;
  for (const auto& use : tape.uses) {
    const auto& block = layout.blocks()[static_cast<std::size_t>(use.block)];
    if (use.form != autodiff::Use::Form::product || block.shape.size() != 2) continue;
    const auto rows = use.input.reshape({-1, use.input.size(-1)});
    all.first["gram." + std::to_string(use.block)] =
        at::mm(rows.t(), rows) / static_cast<double>(rows.size(0));
    all.second += static_cast<double>(rows.size(0) * rows.size(1) * rows.size(1));
  }
  return all;
}

Work regmean(const Fixture& x) {
  const auto run = std::make_shared<MergingRun>(x, "regmean", 1, batch,
                                                fmt::format("[merging.regmean]\npoints = {}\n", batch));
  Work work;
  work.run = [&x, run] {
    auto context = run->context(x);
    run->part_file = run->method->part({run->study, merged_regime, 0}, context);
  };
  work.flops = batch * x.forward_flops() + whole_grams(x, *run).second;
  work.bytes = 4 * static_cast<double>(x.theta0().numel());
  work.items = batch;
  work.unit = "images";
  work.tolerance = 1e-4;
  work.error = [&x, run] {
    double worst = 0;
    std::size_t seen = 0;
    const auto expected = whole_grams(x, *run).first;
    for (const auto& [name, gram] : run->part_file.tensors) {
      if (!name.starts_with("gram.")) continue;
      worst = std::max(worst, relative(gram, expected.at(name).cpu()));
      ++seen;
    }
    return seen > 0 ? worst : 1.0;
  };
  return work;
}

/// The pass that RegMean's Gram matrices are accumulated in, without them: all tokens in all layers.
Work regmean_pass(const Fixture& x) {
  constexpr std::int64_t chunk = 64;  // as the method's own
  const auto run = std::make_shared<MergingRun>(x, "regmean", 1, batch,
                                                fmt::format("[merging.regmean]\npoints = {}\n", batch));
  const auto theta = run->theta();
  const auto outputs = std::make_shared<at::Tensor>();
  const auto pass = [&x](const at::Tensor& of, const at::Tensor& pixels) {
    const models::Given given{models::pictures(pixels)};
    at::Tensor output;
    autodiff::record_uses(
        x.encoder().layout(),
        [&](const models::Blocks<autodiff::Recorded>& p) {
          const auto z =
              x.encoder().visit<autodiff::Recorded>(p, given, [](int, const autodiff::Recorded& h) {
                h.tape->uses.clear();
                h.tape->outputs.clear();
              });
          output = z.value;
          return z;
        },
        of);
    return output;
  };
  Work work;
  work.run = [=, pixels = run->pictures().inputs] {
    std::vector<at::Tensor> parts;
    for (std::int64_t i = 0; i < batch; i += chunk) parts.push_back(pass(theta, pixels.narrow(0, i, chunk)));
    *outputs = at::cat(parts).detach();
  };
  work.flops = batch * x.forward_flops();
  work.bytes = 4 * static_cast<double>(x.theta0().numel());
  work.items = batch;
  work.unit = "images";
  work.tolerance = 1e-5;
  work.error = [=, pixels = run->pictures().inputs] {
    return relative(*outputs, pass(theta.to(at::kDouble), pixels.to(at::kDouble)).detach());
  };
  return work;
}

std::shared_ptr<MergingRun> adamerging_run(const Fixture& x) {
  return std::make_shared<MergingRun>(
      x, "adamerging", merged_tasks, merged_batch,
      fmt::format("[merging.adamerging]\nsteps = {}\nbatch = {}\nstart = {}\ncheckpoint_seconds = 0\n",
                  merged_steps, merged_batch, merged_start));
}

/// A term a task, its whole test split: what each step takes, in another order.
std::vector<training::Term> entropies(const MergingRun& run, const models::Readout& head,
                                      at::ScalarType type) {
  std::vector<training::Term> terms;
  for (std::size_t t = 0; t < run.all.size(); ++t) {
    terms.push_back({models::pictures(run.pictures().inputs.to(type)), {}, &head, 1.0 / merged_batch});
    terms.back().entropy = true;
  }
  return terms;
}

double exact_entropy(const Fixture& x, const MergingRun& run) {
  const models::State start{run.study.model.theta0().to(at::kDouble), {}};
  auto theta = start.theta.clone();
  for (const auto& tau : run.vectors) theta.add_(tau, merged_start);
  const auto head = x.head().to(at::kDouble);
  const training::TrainingLoss loss(x.encoder(), study::regime(merged_regime), start, {});
  at::Tensor gradient;
  return loss(theta, entropies(run, head, at::kDouble), gradient).sum();
}

/// Counts passes of so many batches, and two over the vectors.
void count_passes(const Fixture& x, Work& work, const MergingRun& run) {
  const double steps = merged_steps, each = merged_tasks, p = static_cast<double>(x.theta0().numel());
  const auto an_input =
      training::step_flops_an_input(study::regime(merged_regime), {}, run.study.model.cost());
  work.flops = steps * each * (merged_batch * an_input + 4 * p);
  work.bytes = steps * 4 * (2 * each + 4) * p;
  work.items = steps;
  work.unit = "steps";
  work.tolerance = 1e-5;
}

Work adamerging(const Fixture& x) {
  const auto run = adamerging_run(x);
  Work work;
  work.run = [&x, run] {
    auto context = run->context(x);
    run->merge_result = run->method->merge({run->study, merged_regime, run->all}, {}, context);
  };
  count_passes(x, work, *run);
  work.error = [&x, run] {
    const auto entropy = run->merge_result.more.at("entropy");
    const double first = entropy[0].item<double>(), expected = exact_entropy(x, *run);
    const bool falls = entropy[-1].item<double>() < first;
    return falls ? std::abs(first - expected) / expected : 1.0;
  };
  return work;
}

Work adamerging_passes(const Fixture& x) {
  struct State {
    std::shared_ptr<MergingRun> run;
    std::vector<training::Term> terms;
    std::unique_ptr<training::TrainingLoss> loss;
    at::Tensor theta, gradient;
    double entropy = 0, slopes = 0;
  };
  const auto s = std::make_shared<State>();
  s->run = adamerging_run(x);
  s->terms = entropies(*s->run, x.head(), at::kFloat);
  s->loss = std::make_unique<training::TrainingLoss>(x.encoder(), study::regime(merged_regime), x.start(),
                                                     std::vector<bool>{});
  s->theta = at::empty({1, x.theta0().numel()}, x.theta0().options());
  const auto lambda = at::full({1, merged_tasks}, merged_start, at::kDouble);
  Work work;
  work.run = [&x, s, lambda] {
    for (std::int64_t i = 0; i < merged_steps; ++i) {
      weights::combine(x.theta0(), s->run->vectors, lambda, s->theta);
      s->entropy = (*s->loss)(s->theta[0], s->terms, s->gradient).sum();
      s->slopes = 0;
      for (const auto& tau : s->run->vectors) s->slopes += weights::inner_product(s->gradient, tau);
    }
  };
  count_passes(x, work, *s->run);
  work.error = [&x, s] {
    const double expected = exact_entropy(x, *s->run);
    return std::isfinite(s->slopes) ? std::abs(s->entropy - expected) / expected : 1.0;
  };
  return work;
}

}  // namespace

std::vector<Case> merging_cases(const Fixture& x) {
  return {{"fisher", [&x] { return fisher(x); }},
          {"regmean", [&x] { return regmean(x); }},
          {"regmean/pass", [&x] { return regmean_pass(x); }},
          {"adamerging/passes", [&x] { return adamerging_passes(x); }},
          {"adamerging/step", [&x] { return adamerging(x); }}};
}

}  // namespace taugrid::bench
