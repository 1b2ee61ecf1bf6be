// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Stitching (paper 5, section 4.2): features of edited models at a block ℓ, and θ0 above, always:
//   addition   ½f(θ0 + λτᵢ) + ½f(θ0 + λτⱼ)   beside each edit's features alone,
//   negation   2f(θ0) − f(θ0 + λτᵢ)           beside f(θ0 − λτᵢ),
// f being the output of block ℓ, of a linearised model f(θ0) + λJ(x)τ. On the test points of the pair's tasks
// and of the control. A unit is one data set with all edits that are seen on it, so that each model passes
// once a λ.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/autodiff/products.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/ledger/results.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

/// `data`: the task, or the control, on whose points models are stitched.
std::string stitching_key(const std::string& regime, const std::string& data) {
  return key::of("stitching", regime, data);
}

std::vector<OutputGroup> stitching_outputs() {
  const std::string control = "a control task";
  return {
      {"/stitching/R",
       "accuracy of stitched features at a block, and of edits beside them",
       {{"lambda", "lambda", "1", "λ of edits", With{.scale = "lambda_stitching_R"}},
        {"block", "block", "", "the numbers of blocks",
         With{.element = Element::int64, .scale = "block_stitching_R"}},
        {"pair", "pair side lambda block", "1",
         "of ½f(θ0 + λτᵢ) + ½f(θ0 + λτⱼ) on test points of either task"},
        {"single", "task task lambda block", "1",
         "of f(θ0 + λτ), τ of the first task, on points of the second; NaN where they are no pair"},
        {"negated", "task lambda block", "1", "of 2f(θ0) − f(θ0 + λτ) on τ's own task"},
        {"edited", "task lambda block", "1", "of f(θ0 − λτ) on τ's own task"},
        {"pair_control", "pair lambda block", "1", "as pair, on the control", With{.when = control}},
        {"single_control", "task lambda block", "1", "as single, on the control", With{.when = control}},
        {"negated_control", "task lambda block", "1", "as negated, on the control", With{.when = control}},
        {"edited_control", "task lambda block", "1", "as edited, on the control", With{.when = control}},
        sample_rows("test", "stitching_point"),
        {"control_sample_index", "stitching_control_point", "", "rows of the control's test points",
         With{.element = Element::int64, .when = control}}},
       "[stitching]",
       2}};
}

using States = std::vector<at::Tensor>;  // of the chosen blocks

class Stitching final : public Experiment {
 public:
  Stitching(const Study& study, std::vector<double> lambda, std::vector<int> blocks, std::int64_t points)
      : Experiment(study), lambda_(std::move(lambda)), blocks_(std::move(blocks)), points_(points) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      for (std::size_t b = 0; b < study_.tasks.with_control(); ++b) {
        units.push_back(
            unit(stitching_key(name, study_.tasks.name(b)), tally(name, b),
                 study_.vectors.needs(name, seen_on(b).models),
                 [this, name, b](schedule::UnitContext& context) { return compute(name, b, context); }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of(
        "/stitching", study_.settings.vector_regimes,
        {{"lambda", a()}, {"block", b()}, {"stitching_point", points_}, {"stitching_control_point", points_}},
        study_.tasks.has_control() ? Names{}
                                   : Names{"pair_control", "single_control", "negated_control",
                                           "edited_control", "control_sample_index"});
  }

  void write(Results& out, const Finished& done) const override {
    const auto t = static_cast<std::int64_t>(study_.tasks.size()),
               p = static_cast<std::int64_t>(study_.tasks.pairs().size());
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/stitching/" + name;
      out.put(group + "/lambda", lambda_);
      out.put(group + "/block", at::tensor(blocks_, at::kInt).to(at::kLong));
      std::map<std::string, at::Tensor> all;
      const auto unknown = [&](std::vector<std::int64_t> shape) {
        shape.insert(shape.end(), {a(), b()});
        return at::full(shape, std::nan(""), at::kDouble);
      };
      all["single"] = unknown({t, t});
      all["negated"] = unknown({t});
      all["edited"] = unknown({t});
      if (p > 0) all["pair"] = unknown({p, 2});
      for (std::size_t data = 0; data < study_.tasks.with_control(); ++data) {
        const auto file =
            done.folder.read_unit(done.world, stitching_key(name, study_.tasks.name(data))).tensors;
        const auto seen = seen_on(data);
        if (study_.tasks.has_control() && data == study_.tasks.control()) {
          for (const auto* what : {"single", "negated", "edited", "pair"})
            if (file.contains(what)) all[std::string(what) + "_control"] = file.at(what);
          continue;
        }
        const auto place = static_cast<std::int64_t>(data);
        for (std::size_t k = 0; k < seen.models.size(); ++k)
          all["single"][static_cast<std::int64_t>(seen.models[k])][place] =
              file.at("single")[static_cast<std::int64_t>(k)];
        for (const auto* what : {"negated", "edited"}) all[what][place] = file.at(what)[0];
        for (std::size_t k = 0; k < seen.pairs.size(); ++k) {
          const auto side = study_.tasks.pairs()[seen.pairs[k]].first == data ? 0 : 1;
          all["pair"][static_cast<std::int64_t>(seen.pairs[k])][side] =
              file.at("pair")[static_cast<std::int64_t>(k)];
        }
      }
      for (const auto& [what, values] : all) out.put(group + "/" + what, values);
      out.put(group + "/sample_index", study_.samples.index(Split::test, points_));
      if (study_.tasks.has_control())
        out.put(group + "/control_sample_index",
                study_.samples.rows(study_.tasks.control(), Split::test, points_));
    }
  }

 private:
  std::int64_t a() const { return static_cast<std::int64_t>(lambda_.size()); }
  std::int64_t b() const { return static_cast<std::int64_t>(blocks_.size()); }

  /// What passes over one data set: on a task's, its own model first, and those of its pairs; on the
  /// control's, all.
  struct Seen {
    std::vector<std::size_t> models, pairs;
    std::size_t negated;  ///< how many of the models, the first ones, are negated, too
  };
  Seen seen_on(std::size_t data) const {
    Seen seen;
    const bool control = study_.tasks.has_control() && data == study_.tasks.control();
    if (control) {
      seen.models = study_.tasks.all();
      seen.pairs.resize(study_.tasks.pairs().size());
      std::iota(seen.pairs.begin(), seen.pairs.end(), std::size_t{0});
    } else {
      seen.models = {data};
      seen.pairs = study_.tasks.pairs_of(data);
      for (const auto p : seen.pairs) seen.models.push_back(study_.tasks.partner(p, data));
    }
    seen.negated = control ? seen.models.size() : 1;
    return seen;
  }

  Tally tally(const std::string& name, std::size_t data) const {
    const auto seen = seen_on(data);
    const auto& cost = study_.model.cost();
    const auto n = study_.samples.size(data, Split::test, points_), batch = study_.settings.evaluation_batch;
    const bool linear = regime(name).linear;
    const auto models = static_cast<std::int64_t>(seen.models.size()),
               pairs = static_cast<std::int64_t>(seen.pairs.size()),
               negated = static_cast<std::int64_t>(seen.negated);
    // Half of the blocks lie above a cut, on the average.
    const auto above = a() * (models + pairs + 2 * negated) * b() / 2;
    const auto below = 1 + (linear ? 3 * models : a() * (models + negated));
    const auto kept = ((linear ? 2 : 1) * models + 3) * std::min(n, batch) * b();
    Tally tally(study_);
    tally.sample(data, Split::test, n).vectors(name, seen.models).forward_apart(data, n, above + below);
    tally.statistics(name, {seen.models.front()}, linear ? 0 : a() * (models + negated));
    const double state = cost.passing() / 4;  // of a transformer's pass, a state or less
    tally.holds(4 *
                (static_cast<double>(kept) * state + 2 * static_cast<double>(study_.model.layout().size())));
    const auto numbers = a() * b() * (models + pairs + 2 * negated);
    return tally.stores(numbers);
  }

  /// The chosen blocks' outputs f(θ), or with a τ the tangents J(x)τ at θ0.
  States states(const models::State& state, const at::Tensor& tau, const models::Given& x) const {
    const auto& encoder = study_.model.encoder();
    const auto& layout = study_.model.layout();
    const auto type = study_.evaluation.compute_type();
    States outputs;
    const auto keep = [&](int l, const at::Tensor& h) {
      if (std::find(blocks_.begin(), blocks_.end(), l) != blocks_.end()) outputs.push_back(h);
    };
    const auto theta = state.theta.to(type);
    if (!tau.defined()) {
      encoder.visit(layout.views(theta), x, std::function<void(int, const at::Tensor&)>(keep));
      return outputs;
    }
    const auto blocks = autodiff::duals(layout.views(theta), layout.views(tau.to(type)));
    encoder.visit(blocks, x,
                  std::function<void(int, const autodiff::Dual&)>(
                      [&](int l, const autodiff::Dual& h) { keep(l, autodiff::tangent_or_zeros(h)); }));
    return outputs;
  }

  /// Counts, int64: what compute() divides by n.
  struct Counts {
    at::Tensor single, pair, negated, edited;
  };

  void count(const std::string& name, std::size_t data, const Seen& seen, const models::Batch& batch,
             const at::Tensor& labels, Counts& counts, const std::function<void()>& stop) const {
    const auto& encoder = study_.model.encoder();
    const auto& readout = study_.readouts.of(data);
    const auto type = study_.evaluation.compute_type();
    const auto& start = study_.model.start();
    const models::Given x{batch.to(type), study_.model.buffers(start, type)};
    const auto theta0 = start.theta.to(type);
    const auto blocks0 = study_.model.layout().views(theta0);
    const bool linear = regime(name).linear;
    /// Adds to a row [B] how many points are right with these features, block by block, and θ0 above.
    const auto above = [&](const States& features, at::Tensor row) {
      for (std::size_t k = 0; k < features.size(); ++k) {
        const auto z = encoder.go_on(blocks_[k] + 1, blocks0, features[k], x);
        const auto output = readout.output(encoder, blocks0, z, batch).to(at::kFloat);
        row[static_cast<std::int64_t>(k)].add_(readout.correct(readout.logits(output), labels).sum());
      }
    };
    const auto mixed = [](double first, const States& f, double second, const States& g) {
      States sum;
      for (std::size_t k = 0; k < f.size(); ++k) sum.push_back((first * f[k]).add_(g[k], second));
      return sum;
    };
    const auto base = states(start, {}, x);
    std::map<std::size_t, States> tangents;
    if (linear)
      for (const auto k : seen.models) tangents[k] = states(start, study_.vectors.vector(name, k), x);
    const auto edited = [&](std::size_t k, double lambda) {
      if (linear) return mixed(1, base, lambda, tangents.at(k));
      States features;
      study_.edits.each(Edit::single(name, k, {lambda}), [&](std::int64_t, const models::State& state) {
        features = states(state, {}, {x.batch, study_.model.buffers(state, type)});
      });
      return features;
    };
    for (std::int64_t l = 0; l < a(); ++l) {
      const double lambda = lambda_[static_cast<std::size_t>(l)];
      std::map<std::size_t, States> features;
      for (std::size_t k = 0; k < seen.models.size(); ++k) {
        stop();
        const auto row = static_cast<std::int64_t>(k);
        const auto& single = features[seen.models[k]] = edited(seen.models[k], lambda);
        above(single, counts.single[row][l]);
        if (k >= seen.negated) continue;
        above(mixed(2, base, -1, single), counts.negated[row][l]);
        above(edited(seen.models[k], -lambda), counts.edited[row][l]);
      }
      for (std::size_t k = 0; k < seen.pairs.size(); ++k) {
        const auto [i, j] = study_.tasks.pairs()[seen.pairs[k]];
        above(mixed(0.5, features.at(i), 0.5, features.at(j)), counts.pair[static_cast<std::int64_t>(k)][l]);
      }
    }
  }

  store::TensorFile compute(const std::string& name, std::size_t data, schedule::UnitContext& context) const {
    const at::NoGradGuard no_grad;
    const auto sample = study_.samples.of(data, Split::test, points_);
    const auto n = sample.labels.size(0), size = study_.settings.evaluation_batch;
    const auto share = context.group.share_of(n);
    const auto rounds = (comm::rows_a_rank(n, context.group.size()) + size - 1) / size;
    const auto seen = seen_on(data);
    const auto zeros = [&](std::size_t rows) {
      return at::zeros({static_cast<std::int64_t>(rows), a(), b()},
                       at::TensorOptions(at::kLong).device(study_.device));
    };
    Counts counts{zeros(seen.models.size()), zeros(seen.pairs.size()), zeros(seen.negated),
                  zeros(seen.negated)};
    for (std::int64_t round = 0; round < rounds; ++round) {
      const auto begin = round * size, m = std::clamp<std::int64_t>(share.count - begin, 0, size);
      if (context.group.size() > 1 || m == 0)
        context.stop_if_requested();  // every rank, also one without a point
      if (m > 0)
        count(name, data, seen, sample.points.part(share.begin + begin, m),
              sample.labels.narrow(0, share.begin + begin, m), counts, [&] {
                if (context.group.size() == 1) context.stop_if_requested();
              });
      context.progress(static_cast<double>(round + 1) / static_cast<double>(rounds), "batch");
    }
    store::TensorFile file;
    const auto put = [&](const char* what, at::Tensor& sum) {
      if (sum.numel() == 0) return;
      if (context.group.size() > 1) context.group.all_reduce_sum(sum, "counts of stitched models");
      file.tensors[what] = sum.to(at::kDouble).div_(static_cast<double>(n));
    };
    put("single", counts.single);
    put("pair", counts.pair);
    put("negated", counts.negated);
    put("edited", counts.edited);
    return file;
  }

  std::vector<double> lambda_;
  std::vector<int> blocks_;
  std::int64_t points_;
};

std::unique_ptr<Experiment> make_stitching(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "stitching", "Features of edited models averaged, or negated, at a block, with θ0 above it");
  if (!section) return nullptr;
  study::require_vectors(study, "stitching");
  study::require_classes(study, "stitching");
  std::vector<double> papers;  // paper 5, figures 9 and 10
  for (int k = 1; k <= 20; ++k) papers.push_back(0.05 * k);
  auto lambda =
      section->alpha_grid("lambda", {"Coefficients λ of the edits θ0 + λτ", {.fallback = "0.05, 0.1, … 1"}},
                          papers, coefficients);
  const int last = study.model.encoder().stages();
  auto blocks =
      numbered(*section, "blocks",
               {"Blocks at whose output models are stitched",
                {.fallback = "all", .values = "a list of ascending integers from 1 to L"}},
               1, last, study.model.is_stand_in(), fmt::format("the model's blocks are 1 to {}", last));
  const auto points =
      section->integer("points",
                       {"Test points a task, and of the control",
                        {.fallback = "data.evaluation_points", .values = "an integer from 1 to 1000000000"}},
                       study.settings.evaluation_points, {1, 1e7});
  return std::make_unique<Stitching>(study, std::move(lambda), std::move(blocks), points);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(stitching, 99, make_stitching, stitching_outputs)
