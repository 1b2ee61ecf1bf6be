// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Fisher merging (Matena and Raffel 2022): θ = Σ_t w_t F_t θ_t / Σ_t w_t F_t number by number, with the
// diagonal Fisher information of each model on its own task's inputs,
//   F = mean over x of Σ_c p(c|x) (∂ log p(c|x))²     (their equation 3; fisher = "all"), or
//   F = mean over x of (∂ log p(ĉ|x))², ĉ = argmax p   (fisher = "predicted"),
// of single samples; or, as public codes have it (squares = "batch"), with the squared gradient of a batch's
// sum of Σ_c √p(c|x) log p(c|x), √p a constant, or of log p(ĉ|x), over the number of samples: this depends on
// the batch's size. With fisher = "entropy" the squared gradient is that of Σ_c p(c|x) log p(c|x), p with its
// own slope. This is no Fisher information, but what paper 2's code squares of a batch (squares = "batch",
// normalize = false, and no floor). w_t = 1/‖F_t‖₂, or 1. Where F is below `floor`, the floor takes its
// place: in every model (MergeLM, FusionBench, which add it), or in the first alone (the reference), so that
// what no data tell of is the first task's. The norm is taken before that.
//
// In a linear regime p is that of f(x; θ0) + J(x)τ, whose derivative in θ is J(x) everywhere. Of a basis the
// mean is over all inputs of its tasks, each through its own task's head; a batch is of one task.
#include "kernels/tangent/fisher.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "kernels/autodiff/products.hpp"
#include "kernels/full_products.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/merging/data/data_method.hpp"
#include "suite/study/refusals.hpp"
#include "suite/training/rehearsal.hpp"

namespace taugrid::merging {
namespace {

std::vector<ledger::Output> fisher_outputs() {
  return together({{{"floored", "task", "1", "the share of F below the floor", With{.when = "fisher"}},
                    {"norm", "task", "1", "‖F‖₂", With{.when = "fisher"}}},
                   input_outputs()});
}

struct FisherSettings {
  enum class Of { all, predicted, entropy } of;
  bool of_batches, normalise, floor_of_first;
  Split inputs;
  std::int64_t points, batch, chunk;
  double floor;
};

class Fisher final : public DataMerge {
 public:
  Fisher(const Place& place, const FisherSettings& settings) : DataMerge(place), settings_(settings) {}

  bool has_parts() const override { return true; }

  void count_parts(Tally& tally, const std::string& name,
                   const std::vector<std::size_t>& tasks) const override {
    tally.holds(8.0 * static_cast<double>(study_.model.layout().size()));
    for (const auto t : tasks) {
      const auto n = study_.samples.size(t, settings_.inputs, settings_.points);
      tally.sample(t, settings_.inputs, n, at_once())
          .passes("fisher", n, at_once(), 1, flops(name, backward_passes(t)),
                  study_.model.cost().alive_on_tape(),
                  [this, name](const comm::Communicator&, std::int64_t inputs, std::int64_t) {
                    return rehearse(name, inputs);
                  });
    }
  }
  std::int64_t part_bytes(std::size_t) const override { return 4 * (study_.model.layout().size() + 2); }

  store::TensorFile part(const ModelToMerge& of, schedule::UnitContext& context) const override {
    const FullProducts full;
    const RegimeModel model(study_, of);
    auto sum = at::zeros_like(model.state().theta);
    double inputs = 0, backward = 0;
    for (const auto t : of.tasks()) {
      const auto n = add_task(of.regime(), model, t, sum, context);
      inputs += static_cast<double>(n);
      backward += static_cast<double>(n * backward_passes(t));
    }
    if (context.group.size() > 1) context.group.all_reduce_sum(sum, "Fisher information");
    store::TensorFile file;
    file.tensors["fisher"] = sum.div_(inputs).cpu();
    file.tensors["passes"] = at::tensor({inputs, backward}, at::kDouble);
    return file;
  }

  void count_merged(Tally& tally, const std::string&, std::size_t models, std::size_t) const override {
    const auto length = static_cast<double>(study_.model.layout().size());
    tally.reads(4 * length * static_cast<double>(models)).holds(24 * length);
  }

  MergeResult merged(const ModelsToMerge& models, const Part& part,
                     schedule::UnitContext& context) const override {
    const auto length = study_.model.layout().size();
    constexpr std::int64_t stretch = std::int64_t{1} << 18;
    const auto count = static_cast<std::int64_t>(models.size());
    auto above = at::zeros({length}, at::kDouble), below = at::zeros_like(above);
    auto floored = at::zeros({count}, at::kDouble), norms = at::zeros_like(floored);
    MergeResult result;
    for (std::int64_t t = 0; t < count; ++t) {
      context.stop_if_requested();
      context.progress(static_cast<double>(t) / static_cast<double>(count), "fisher");
      const auto place = static_cast<std::size_t>(t);
      const auto fisher = part(place, "fisher");
      const auto tau = models[place].vector().cpu();
      const double norm = weights::norm(fisher);
      const double weight = settings_.normalise && norm > 0 ? 1 / norm : 1;
      const bool has_floor = !settings_.floor_of_first || t == 0;
      std::int64_t low = 0;
      for (std::int64_t i = 0; i < length; i += stretch) {
        const auto m = std::min(stretch, length - i);
        auto each = fisher.narrow(0, i, m).to(at::kDouble);
        low += at::count_nonzero(each < settings_.floor).item<std::int64_t>();
        if (has_floor) each.clamp_min_(settings_.floor);
        each.mul_(weight);
        below.narrow(0, i, m).add_(each);
        above.narrow(0, i, m).addcmul_(each, tau.narrow(0, i, m).to(at::kDouble));
      }
      floored[t] = static_cast<double>(low) / static_cast<double>(length);
      norms[t] = norm;
      const auto passes = part(place, "passes");
      result.inputs.forward += passes[0].item<double>();
      result.inputs.backward += passes[1].item<double>();
    }
    result.merged.tau = above.div_(below).to(at::kFloat);
    const auto nonzero = at::count_nonzero(result.merged.tau).item<std::int64_t>();
    // Each model is read where its information is taken and here, with that.
    result.merged.stats = {static_cast<double>(nonzero) / static_cast<double>(length), 3};
    result.more = {{"floored", floored}, {"norm", norms}};
    return result;
  }

  Lengths lengths(const std::string&) const override { return {{"merging_point", settings_.points}}; }
  void write(Results& out, const Finished& done, const std::string& group, const std::string&,
             const std::string& key) const override {
    const auto file = done.folder.read_unit(done.world, key).tensors;
    for (const auto* what : {"floored", "norm"}) out.put(group + "/" + what, file.at(what));
    put_inputs(out, study_, group, settings_.inputs, settings_.points);
  }

 private:
  std::int64_t backward_passes(std::size_t t) const {
    const bool each = settings_.of == FisherSettings::Of::all && !settings_.of_batches;
    return each ? study_.readouts.of(t).classes() : 1;
  }
  std::int64_t at_once() const { return settings_.of_batches ? settings_.batch : settings_.chunk; }

  /// What one input takes: what is recorded, the tangent, and for each backward pass the gradients of
  /// activations and weights, squared.
  double flops(const std::string& name, std::int64_t backward) const {
    const double f = study_.model.cost().forward();
    return f * (regime(name).linear ? 4 : 1) +
           static_cast<double>(backward) * (2 * f + 2 * static_cast<double>(study_.model.layout().size()));
  }

  /// Adds n F of this rank's share of task t's n inputs; n.
  std::int64_t add_task(const std::string& name, const RegimeModel& model, std::size_t t, at::Tensor& sum,
                        schedule::UnitContext& context) const {
    const auto sample = study_.sample(name, t, settings_.inputs, settings_.points);
    const auto n = sample.labels.size(0);
    if (settings_.of_batches) {  // each wholly one rank's
      const auto size = settings_.batch;
      each_chunk((n + size - 1) / size, 1, context, [&](std::int64_t number, std::int64_t) {
        const auto begin = number * size;
        add_square_of_sum(model, t, sample.points.part(begin, std::min(size, n - begin)), sum);
      });
    } else {
      each_chunk(n, settings_.chunk, context, [&](std::int64_t begin, std::int64_t count) {
        add(model, t, sample.points.part(begin, count), backward_passes(t), sum);
      });
    }
    return n;
  }

  /// Adds the batch's part of n F, of `backward` of the classes.
  void add(const RegimeModel& model, std::size_t t, const models::Batch& batch, std::int64_t backward,
           at::Tensor& sum) const {
    const auto& encoder = study_.model.encoder();
    const auto& readout = study_.readouts.of(t);
    const models::Given x{batch, study_.model.buffers(model.state(), at::kFloat)};
    autodiff::Recording recording;
    autodiff::record(
        study_.model.layout(),
        [&](const models::Blocks<autodiff::Recorded>& p) {
          return readout.output(encoder, p, encoder.encode(p, x), batch);
        },
        model.state().theta, recording);
    const auto z = model.output(t, recording.output, batch).requires_grad_(true);
    const auto log_p = readout.logits(z).log_softmax(1);
    for (std::int64_t c = 0; c < backward; ++c) {
      const bool all = settings_.of == FisherSettings::Of::all;
      const auto chosen = all ? log_p.select(1, c) : squared_of_all_classes(log_p);
      auto slope = torch::autograd::grad({chosen.sum()}, {z}, {}, c + 1 < backward)[0];
      // √p times the gradient, so that its square is p times the gradient's.
      if (all) slope = slope * chosen.detach().div(2).exp().unsqueeze(1);
      tangent::add_squared_gradients(study_.model.layout(), recording, slope, c + 1 < backward, sum);
    }
  }

  /// What is squared of each input after one backward pass for all classes together.
  at::Tensor squared_of_all_classes(const at::Tensor& log_p) const {
    switch (settings_.of) {
      case FisherSettings::Of::all:
        return log_p.detach().div(2).exp().mul(log_p).sum(1);
      case FisherSettings::Of::entropy:
        return log_p.exp().mul(log_p).sum(1);
      case FisherSettings::Of::predicted:
        break;
    }
    return std::get<0>(log_p.max(1));
  }

  /// Adds the square of the batch's gradient, in one backward pass for all classes.
  void add_square_of_sum(const RegimeModel& model, std::size_t t, const models::Batch& batch,
                         at::Tensor& sum) const {
    const auto& encoder = study_.model.encoder();
    const auto& readout = study_.readouts.of(t);
    const models::Given x{batch, study_.model.buffers(model.state(), at::kFloat)};
    const auto blocks = autodiff::leaves(study_.model.layout(), model.state().theta);
    const auto f = readout.output(encoder, blocks, encoder.encode(blocks, x), batch);
    const auto z = model.output(t, f, batch).requires_grad_(true);
    const auto log_p = readout.logits(z).log_softmax(1);
    const auto slope = torch::autograd::grad({squared_of_all_classes(log_p).sum()}, {z})[0];
    const auto gradient = autodiff::pull_back(blocks, f, slope, sum.scalar_type());
    sum.addcmul_(gradient, gradient);
  }

  /// Two classes.
  schedule::Rehearsal rehearse(const std::string& name, std::int64_t n) const {
    const auto batch = study_.model.random_batch(n);
    const auto backward = std::min<std::int64_t>(2, backward_passes(0));
    return {[this, name, batch, backward] {
              const FullProducts full;
              const RegimeModel model(study_, study_.model.start(),
                                      regime(name).linear ? 1e-3 * study_.model.theta0() : at::Tensor());
              auto sum = at::zeros_like(study_.model.theta0());
              add(model, 0, batch, backward, sum);
            },
            static_cast<double>(n) * flops(name, backward)};
  }

  FisherSettings settings_;
};

MakeInRun read_fisher(config::Section parameters, Scope) {
  FisherSettings settings{};
  const auto of = parameters.word(
      "fisher",
      "Of which classes: all, each as probable as the model says (the paper); the predicted one alone, a "
      "backward pass an input instead of one a class; or of Σ p log p, as paper 2's code has it",
      "all", {"all", "predicted", "entropy"});
  settings.of = of == "all"         ? FisherSettings::Of::all
                : of == "predicted" ? FisherSettings::Of::predicted
                                    : FisherSettings::Of::entropy;
  settings.of_batches =
      parameters.word(
          "squares",
          "Whose gradients are squared: each sample's (the paper), or the sum over a batch (MergeLM, "
          "FusionBench), in one backward pass an input for all classes together",
          "sample", {"sample", "batch"}) == "batch";
  settings.batch = parameters.integer("batch", "Inputs of such a batch", 16, {1, 1e6});
  settings.inputs = read_inputs(parameters, "train", {"train", "validation"});
  settings.points = parameters.integer("points", "Inputs a task that F is a mean over", 256, {1, 1e9});
  settings.normalise =
      parameters.flag("normalize", "Whether F is divided by ‖F‖₂, so that tasks count alike", true);
  settings.floor = parameters.real("floor", "The least that F counts for", 1e-6, {1e-30, 1});
  settings.floor_of_first =
      parameters.word("floor_of",
                      "Where the floor holds: in every model (MergeLM, FusionBench), or in the first alone "
                      "(the paper's code): what no data tell of is the first task's then",
                      "all", {"all", "first"}) == "first";
  settings.chunk = parameters.integer(
      "chunk", "Inputs that are recorded at once, other than batches: fewer take less memory", 64, {1, 1e6});
  return [settings](const Place& place) {
    study::require_classes(place.study, place.section);
    return std::make_shared<Fisher>(place, settings);
  };
}

}  // namespace

}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(fisher, 210, nullptr, read_fisher,
                       "Fisher merging (Matena and Raffel 2022): at each number of θ the mean of the models, "
                       "weighted by the diagonal Fisher information of each on its own task's inputs",
                       false, fisher_outputs)
