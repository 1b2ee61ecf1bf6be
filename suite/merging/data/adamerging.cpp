// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// AdaMerging (Yang et al. 2024, equations 4 and 5): θ = θ0 + Σ_t λ_t τ_t, with one λ a task, or one a task
// and tensor of the model, that minimise the summed entropy of the model's own predictions on unlabelled
// inputs, by Adam. λ is clamped to [0, 1] in θ, as the authors' code does it: outside, its gradient is zero.
//
// The gradient in λ is that in θ at the merged model, times the vectors: ∂L/∂λ_t = ⟨∇L(θ), τ_t⟩ by tensor. So
// no graph goes through the merge, and a step is two passes over the vectors beside the models' own passes.
//
// Bases have a λ each, as tasks' vectors have; the entropy is that of all their tasks' inputs.
//
// The authors take two batches of 16 a task and add their means; here the mean over one of 32, half of that,
// to which Adam is blind. Batches are permutations of the whole split, laid end to end.
#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/weights/weights.hpp"
#include "suite/merging/data/data_method.hpp"
#include "suite/study/batches.hpp"
#include "suite/study/refusals.hpp"
#include "suite/training/adamw.hpp"
#include "suite/training/loop.hpp"
#include "suite/training/loss.hpp"

namespace taugrid::merging {
namespace {

std::vector<ledger::Output> adamerging_outputs() {
  return {
      {"parameter", "parameter", "", "the tensors that have a λ each; `all` where tasks have one",
       With{.text = true, .scale = "merged_tensor_R", .when = "adamerging"}},
      {"lambda", "task parameter", "1", "λ as the merged model has it", With{.when = "adamerging"}},
      {"entropy", "merging_step", "nat", "summed over tasks, before each step", With{.when = "adamerging"}},
      {"@inputs", "", "", "the split whose inputs the method takes"},
      {"@granularity", "", "", "layer or task", With{.when = "adamerging"}}};
}

struct AdaMergingSettings {
  bool layer_wise, clamp;
  Split inputs;
  std::int64_t steps, batch;
  double learning_rate, start, epsilon, checkpoint_seconds;
};

/// The coefficients while they are learnt.
class Coefficients {
 public:
  Coefficients(const Study& study, const ModelsToMerge& models, const AdaMergingSettings& settings)
      : study_(study),
        models_(models),
        settings_(settings),
        segments_(trained_segments(study, models.regime())),
        lambda_(at::full({rows() * columns()}, settings.start, at::kDouble)) {
    layout_.add(autodiff::Kind::embedding, {"lambda"}, {lambda_.numel()});
    adam_.emplace(lambda_, layout_, std::vector<bool>{}, training::AdamWSettings{.weight_decay = 0});
  }

  /// [T,S], as θ has them, of T models.
  at::Tensor used() const {
    const auto all = lambda_.view({rows(), columns()});
    return settings_.clamp ? all.clamp(0, 1) : all.clone();
  }

  /// `start` [P] + Σ λ τ, in one pass over the vectors.
  at::Tensor merged(const at::Tensor& start) const {
    auto sum = start.clone();
    const auto lambda = used();
    for (const auto& segment : segments_) {
      const auto alpha = lambda.select(1, column(segment)).unsqueeze(0).contiguous();
      models_.visit(segment.range, segment.range.count,
                    [&](std::int64_t begin, std::span<const at::Tensor> tau) {
                      const auto n = tau.front().numel();
                      auto out = sum.narrow(0, begin, n).view({1, n});
                      weights::combine(start.narrow(0, begin, n), tau, alpha, out);
                    });
    }
    return sum;
  }

  /// ∂L/∂λ [T·S] of the gradient in the trained blocks, in one pass.
  at::Tensor slope(const at::Tensor& gradient) const {
    auto slopes = at::zeros({rows(), columns()}, gradient.options().dtype(at::kDouble));
    for (const auto& segment : segments_) {
      const auto g = gradient.narrow(0, segment.gradient, segment.range.count);
      models_.visit(segment.range, segment.range.count, [&](std::int64_t, std::span<const at::Tensor> tau) {
        slopes.select(1, column(segment)).add_(weights::inner_products(g, tau));
      });
    }
    return slopes.cpu().view({-1});
  }

  void step(const at::Tensor& slope) {
    const auto inside = lambda_.ge(0).logical_and(lambda_.le(1));
    adam_->step(settings_.clamp ? at::where(inside, slope, 0.0) : slope, settings_.learning_rate);
  }

  void save(store::TensorFile& file) const {
    file.tensors["lambda"] = lambda_;
    adam_->save(file);
  }
  std::int64_t columns() const {
    return settings_.layer_wise ? static_cast<std::int64_t>(study_.model.layout().parameters().size()) : 1;
  }

 private:
  std::int64_t rows() const { return static_cast<std::int64_t>(models_.size()); }
  std::int64_t column(const Segment& segment) const { return settings_.layer_wise ? segment.parameter : 0; }

  const Study& study_;
  const ModelsToMerge& models_;
  const AdaMergingSettings& settings_;
  std::vector<Segment> segments_;
  at::Tensor lambda_;
  autodiff::Layout layout_;  // of λ alone
  std::optional<training::AdamW> adam_;
};

class AdaMerging final : public DataMerge {
 public:
  AdaMerging(const Place& place, const AdaMergingSettings& settings)
      : DataMerge(place), settings_(settings) {}

  bool trains() const override { return true; }

  void count_merged(Tally& tally, const std::string& name, std::size_t models,
                    std::size_t with_data) const override {
    const auto& cost = study_.model.cost();
    const auto& r = regime(name);
    const auto theta = static_cast<double>(study_.model.layout().size());
    const auto rows = static_cast<std::int64_t>(models), tasks = static_cast<std::int64_t>(with_data);
    tally
        .passes("entropy/" + name, tasks * settings_.batch, tasks_at_once(with_data) * settings_.batch,
                settings_.steps, training::step_flops_an_input(r, study_.trained_blocks(name), cost),
                r.linear ? cost.alive_in_linear_step() : cost.alive_in_step(),
                [this, name](const comm::Communicator&, std::int64_t inputs, std::int64_t) {
                  return rehearse(name, inputs);
                })
        .holds(16 * theta)
        .stores(rows * 512 + settings_.steps);
    if (models > study_.vectors.kept())  // each pass reads again
      tally.reads(2 * static_cast<double>(settings_.steps) * 4 * theta * static_cast<double>(rows));
  }

  MergeResult merged(const ModelsToMerge& models, const Part&,
                     schedule::UnitContext& context) const override {
    const auto& name = models.regime();
    const auto all = models.tasks();
    Coefficients lambda(study_, models, settings_);
    // The merged model's buffers, which no λ is for; of a linear regime those of θ0, where J is taken.
    const auto start =
        regime(name).linear
            ? study_.model.start()
            : models::State{
                  study_.model.theta0(),
                  study_.edits.state(Edit::along(name, all, {1}, at::zeros_like(study_.model.theta0())))
                      .buffers};
    const training::TrainingLoss loss(study_.model.encoder(), regime(name), start,
                                      study_.trained_blocks(name), study_.evaluation.compute_type());
    std::vector<study::Batches> batches;
    for (const auto t : all) {
      const auto purpose = std::string("adamerging/") + study::split_name(settings_.inputs) + "/";
      batches.emplace_back(study_.tasks.data(t).split(settings_.inputs).labels.size(0), settings_.batch,
                           study::seed_for(study_.settings.seed, purpose + study_.tasks.name(t)));
    }
    auto entropy = at::zeros({settings_.steps}, at::kDouble);
    training::Steps steps;
    steps.what = "adamerging/" + name;
    steps.steps = settings_.steps;
    steps.checkpoint_seconds = settings_.checkpoint_seconds;
    steps.losses = {entropy};
    steps.save_last = true;  // one of several clusters, of one unit
    steps.state = [&] {
      store::TensorFile file;
      lambda.save(file);
      file.tensors["entropy"] = entropy;
      return file;
    };
    steps.step = [&](std::int64_t number) {
      auto entropy_and_slope = slope(name, all, loss, lambda, batches, number, context.group);
      lambda.step(entropy_and_slope.second);
      entropy[number].copy_(entropy_and_slope.first);
      return entropy_and_slope.first;
    };
    training::run(steps, context);

    MergeResult result;
    result.merged.tau = lambda.merged(at::zeros_like(study_.model.theta0())).cpu();
    const auto nonzero = at::count_nonzero(result.merged.tau).item<std::int64_t>();
    const auto taken = static_cast<double>(settings_.steps);
    result.merged.stats = {static_cast<double>(nonzero) / static_cast<double>(result.merged.tau.numel()),
                           2 * taken + 1};
    result.inputs.forward = result.inputs.backward =
        taken * static_cast<double>(settings_.batch) * static_cast<double>(all.size());
    result.more = {{"lambda", lambda.used()}, {"entropy", entropy}};
    return result;
  }

  Lengths lengths(const std::string&) const override {
    return {{"parameter", settings_.layer_wise ? length_of(study_.model.layout().parameters()) : 1},
            {"merging_step", settings_.steps}};
  }
  void write(Results& out, const Finished& done, const std::string& group, const std::string&,
             const std::string& key) const override {
    const auto file = done.folder.read_unit(done.world, key).tensors;
    std::vector<std::string> names = {"all"};
    if (settings_.layer_wise) {
      names.clear();
      for (const auto& parameter : study_.model.layout().parameters()) names.push_back(parameter.name);
    }
    out.put(group + "/parameter", names);
    out.put(group + "/lambda", file.at("lambda"));
    out.put(group + "/entropy", file.at("entropy"));
    out.attribute(group, "inputs", std::string(study::split_name(settings_.inputs)));
    out.attribute(group, "granularity", std::string(settings_.layer_wise ? "layer" : "task"));
  }

 private:
  /// Tasks whose batches go through the model together.
  std::int64_t tasks_at_once(std::size_t tasks) const {
    return std::clamp<std::int64_t>(study_.settings.evaluation_batch / settings_.batch, 1,
                                    static_cast<std::int64_t>(tasks));
  }

  /// The summed entropy of a step's batches, and its slope in λ [T·S]; the group's ranks share each batch.
  std::pair<at::Tensor, at::Tensor> slope(const std::string& name, const std::vector<std::size_t>& all,
                                          const training::TrainingLoss& loss, const Coefficients& lambda,
                                          std::vector<study::Batches>& batches, std::int64_t number,
                                          const comm::Communicator& group) const {
    const auto share = group.share_of(settings_.batch);
    const auto theta = lambda.merged(study_.model.theta0());
    const int from = study_.first_changed_stage(name);
    auto sum = study_.sums({});
    at::Tensor gradient;
    std::vector<training::Term> terms;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto t = all[i];
      const auto rows = batches[i].rows(number).narrow(0, share.begin, share.count);
      terms.push_back({study_.samples.batch(t, settings_.inputs, rows, from),
                       {},
                       &study_.readouts.of(t),
                       1 / static_cast<double>(settings_.batch)});
      terms.back().entropy = true;
      terms.back().epsilon = settings_.epsilon;
      if (static_cast<std::int64_t>(terms.size()) < tasks_at_once(all.size()) && i + 1 < all.size()) continue;
      at::Tensor part;
      sum.add_(loss(theta, terms, part).loss);
      gradient = gradient.defined() ? gradient.add_(part) : part;
      terms.clear();
    }
    // Linear in the gradient: ranks add up T·S numbers, not θ's.
    auto both = at::cat({lambda.slope(gradient), sum.cpu().view({1})});
    if (group.size() > 1) group.all_reduce_sum(both, "slope of the entropy");
    const auto count = both.numel() - 1;
    return {both[count].clone(), both.narrow(0, 0, count)};
  }

  schedule::Rehearsal rehearse(const std::string& name, std::int64_t n) const {
    const auto loss = std::make_shared<training::TrainingLoss>(
        study_.model.encoder(), regime(name), study_.model.start(), study_.trained_blocks(name),
        study_.evaluation.compute_type());
    training::Term term{study_.model.random_batch(n), {}, &study_.readouts.of(0), 1 / static_cast<double>(n)};
    term.entropy = true;
    term.epsilon = settings_.epsilon;
    return {[loss, term, theta = 1.001 * study_.model.theta0()] {
              at::Tensor gradient;
              (*loss)(theta, {term}, gradient);
            },
            static_cast<double>(n) * training::step_flops_an_input(regime(name), study_.trained_blocks(name),
                                                                   study_.model.cost())};
  }

  AdaMergingSettings settings_;
};

MakeInRun read_adamerging(config::Section parameters, Scope) {
  AdaMergingSettings settings{};
  settings.layer_wise =
      parameters.word("granularity", "One coefficient a task, or one a task and tensor of the model", "layer",
                      {"task", "layer"}) == "layer";
  settings.inputs = read_inputs(parameters, "test", {"validation", "test"});
  settings.steps = parameters.integer("steps", "Steps of Adam", 500, {1, 1e7});
  settings.batch = parameters.integer("batch", "Inputs of each task a step", 32, {1, 1e6});
  settings.learning_rate = parameters.real("learning_rate", "The rate of Adam, constant", 1e-3, {0, 10});
  settings.start = parameters.real("start", "The coefficients before the first step", 0.3, {-10, 10});
  settings.clamp = parameters.flag(
      "clamp", "Whether coefficients are clamped to [0, 1] (the paper's code; FusionBench does not)", true);
  settings.epsilon = parameters.real(
      "epsilon", "ε of the entropy −Σ p log(p + ε): 0 in the paper's code, 1e-8 in FusionBench's", 0, {0, 1});
  settings.checkpoint_seconds =
      parameters.real("checkpoint_seconds",
                      "Seconds between saved states; 0: one only where a stop asks for it", 60, {0, 1e6});
  return [settings](const Place& place) {
    study::require_classes(place.study, place.section);
    return std::make_shared<AdaMerging>(place, settings);
  };
}

}  // namespace

}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(adamerging, 230, nullptr, read_adamerging,
                       "AdaMerging (Yang et al. 2024): task arithmetic with coefficients that minimise the "
                       "entropy of the model's predictions on unlabelled inputs",
                       false, adamerging_outputs)
