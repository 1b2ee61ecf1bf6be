// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Local smoothness: λ_max, the eigenvalue of largest magnitude of the Hessian of the training loss at θt, by
// Lanczos or power iteration. It is stored with its sign, and is negative where negative curvature is the
// stronger one; L in the task addition bound of paper 2 is |λ_max|. Iterations stop on ‖Hv − λv‖/|λ|, not on
// the change of λ, which can stop early. Lanczos starts near the loss's gradient; of a linear regime, whose
// products have no graph that holds it, at random, as power iteration does.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "kernels/full_products.hpp"
#include "kernels/spectral/spectral.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/frozen_below.hpp"
#include "suite/ledger/results.hpp"
#include "suite/study/refusals.hpp"
#include "suite/training/curvature.hpp"
#include "suite/training/rehearsal.hpp"

namespace taugrid::experiments {
namespace {

std::string smoothness_key(const std::string& regime, const std::string& task) {
  return key::of("smoothness", regime, task);
}

std::vector<OutputGroup> smoothness_outputs() {
  return {{"/smoothness/R",
           "curvature of the training loss at θ*; or at θ0 of f(x; θ), R being its name (`start`)",
           {{"lambda_max", "task", "", "the Hessian's eigenvalue of largest magnitude, with its sign"},
            {"residual", "task", "1", "‖Hv − λv‖/|λ|"},
            {"hvp_count", "task", "1", "Hessian products taken", With{.element = Element::int64}},
            {"@method", "", "", "lanczos or power"},
            {"@tolerance", "", "", "the residual that ends the iteration"},
            frozen_below(),
            sample_rows("train", "smoothness_point")},
           "[smoothness]"}};
}

using autodiff::Dual;

class Smoothness final : public Experiment {
 public:
  Smoothness(const Study& study, const std::vector<std::string>& regimes, std::int64_t points,
             std::int64_t chunk, bool lanczos, bool start, spectral::EigenOptions options)
      : Experiment(study), points_(points), chunk_(chunk), lanczos_(lanczos), options_(options) {
    for (const auto& name : regimes) models_.push_back({name, regime(name).linear});
    if (start) models_.push_back({study_.model.name(), false, true});
  }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    for (const auto& model : models_) {
      for (const auto t : study_.tasks.all()) {
        if (model.start && study_.tasks.first_alike(t) != t) continue;
        const auto n = study_.samples.size(t, Split::train, points_);
        auto tally = Tally(study_).sample(t, Split::train, n, chunk_).stores(3);
        if (!model.start) tally.vectors(model.name, {t});
        tally
            .hessian(model.linear, n, chunk_, products(model), near_gradient(model),
                     lanczos_ ? options_.max_basis : 3,
                     [this, &model, t](const comm::Communicator&, std::int64_t inputs, std::int64_t) {
                       return rehearse(model, t, inputs);
                     })
            .sums(study_.free_parameters(), products(model) + (near_gradient(model) ? 1 : 0));
        units.push_back(
            unit(smoothness_key(model.name, study_.tasks.name(t)), tally,
                 model.start ? std::vector<std::string>{} : study_.vectors.needs(model.name, {t}),
                 [this, &model, t](schedule::UnitContext& context) { return compute(model, t, context); }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    std::vector<std::string> names;
    for (const auto& model : models_) names.push_back(model.name);
    return groups_of("/smoothness", names, {{"smoothness_point", points_}});
  }

  void write(Results& out, const Finished& done) const override {
    for (const auto& model : models_) {
      const auto group = "/smoothness/" + model.name;
      std::vector<Box> boxes;
      for (const auto t : study_.tasks.all()) {
        const auto whose = model.start ? study_.tasks.first_alike(t) : t;
        boxes.push_back(
            {smoothness_key(model.name, study_.tasks.name(whose)), {static_cast<std::int64_t>(t)}});
      }
      out.place(done, group + "/lambda_max", boxes, "lambda_max");
      out.place(done, group + "/residual", boxes, "residual");
      out.place(done, group + "/hvp_count", boxes, "hvp_count");
      out.attribute(group, "method", std::string(lanczos_ ? "lanczos" : "power"));
      out.attribute(group, "tolerance", options_.tolerance);
      write_frozen_below(out, group, study_);
      out.put(group + "/sample_index", study_.samples.index(Split::train, points_));
    }
  }

 private:
  struct Model {
    std::string name;  ///< a regime, or θ0's
    bool linear, start = false;
  };

  bool near_gradient(const Model& model) const { return lanczos_ && !model.linear; }

  /// How many products the tolerance takes, from experience: Lanczos 8 for 1e-2, 10 for 1e-3, and one less
  /// near the gradient.
  std::int64_t products(const Model& model) const {
    const double at_random = (lanczos_ ? 1 : 3) * (3.2 - 2.2 * std::log10(options_.tolerance));
    const double wanted = at_random - (near_gradient(model) ? 1 : 0);
    return std::clamp<std::int64_t>(std::llround(wanted), 2,
                                    std::max<std::int64_t>(2, options_.max_products));
  }

  store::TensorFile compute(const Model& model, std::size_t t, schedule::UnitContext& context) const {
    const FullProducts full;
    const auto& group = context.group;
    const auto sample = study_.free_sample(t, points_);
    const auto n = sample.labels.size(0);
    const auto state = study_.edits.state(model.start ? Edit::start() : Edit::fine_tuned(model.name, t));
    const auto tau = model.start ? at::Tensor() : study_.vectors.vector(model.name, t);

    // This rank's points in chunks. The graph of ∇L is kept where one chunk holds all, and made anew for each
    // product otherwise: half as dear again, and never more than one in memory.
    const auto share = group.share_of(n);
    const auto items = study_.readouts.of(t).loss_items(sample.labels);
    std::vector<Part> parts;
    for (auto i = share.begin; i < share.end(); i += chunk_) {
      const auto m = std::min(chunk_, share.end() - i);
      const auto part = [=, this, &model, &sample, &state, outputs = std::make_shared<at::Tensor>()] {
        return part_of(model.linear, state, tau, t, sample.points.part(i, m), sample.labels.narrow(0, i, m),
                       items, *outputs);
      };
      if (share.count <= chunk_) {
        parts.push_back(part());
      } else {
        parts.push_back({[part](const at::Tensor& v) { return part().product(v); },
                         [part] { return part().gradient(); }});
      }
    }
    const auto like = at::empty({study_.free_parameters()}, state.theta.options());
    const auto sum_of = [&](const auto& of_part, const char* operation) {
      context.stop_if_requested();
      at::Tensor sum;
      for (const auto& part : parts) sum = sum.defined() ? sum.add_(of_part(part)) : of_part(part);
      if (!sum.defined()) sum = at::zeros_like(like);  // another rank has all points
      if (group.size() > 1) group.all_reduce_sum(sum, operation);
      return sum;
    };
    std::int64_t count = 0;
    const spectral::LinearOperator hessian = [&](const at::Tensor& v) {
      const auto sum = sum_of([&](const Part& part) { return part.product(v); }, "Hessian-vector product");
      ++count;
      context.progress(std::min(0.95, 0.05 * static_cast<double>(count)), "product " + std::to_string(count));
      return sum;
    };
    auto options = options_;
    options.seed = study::seed_for(study_.settings.seed, "hessian/" + study_.tasks.name(t));
    const auto near = near_gradient(model)
                          ? sum_of([](const Part& part) { return part.gradient(); }, "gradient of the loss")
                          : at::Tensor();
    const auto estimate = lanczos_ ? spectral::lanczos(hessian, like, options, near)
                                   : spectral::power_iteration(hessian, like, options);
    store::TensorFile file;
    file.tensors["lambda_max"] = at::full({}, estimate.value, at::kDouble);
    file.tensors["residual"] = at::full({}, estimate.residual, at::kDouble);
    file.tensors["hvp_count"] = at::full({}, estimate.products, at::kLong);
    return file;
  }

  /// What some points add to v ↦ H v and to ∇L, both of Study::free_blocks().
  struct Part {
    spectral::LinearOperator product;
    std::function<at::Tensor()> gradient = {};  ///< a linear regime's has none
  };

  /// The loss is that of some points of task t, of `whole`, at a model, or at a linear regime's τ, whose
  /// outputs are made where they are not there yet.
  Part part_of(bool linear, const models::State& at, const at::Tensor& tau, std::size_t t,
               const models::Batch& batch, const at::Tensor& labels, double whole,
               at::Tensor& outputs) const {
    const auto& layout = study_.model.layout();
    const training::PointsLoss loss{study_.readouts.of(t), labels, whole};
    if (!linear) {
      const auto product =
          std::make_shared<autodiff::HessianVectorProduct>(training::hessian(study_, at, batch, loss));
      return {[product](const at::Tensor& v) { return (*product)(v); },
              [product] { return product->gradient(); }};
    }
    const auto encode = [this, &readout = loss.readout, batch](const models::Blocks<Dual>& p) {
      const auto& encoder = study_.model.encoder();
      return readout.output(encoder, p, encoder.encode(p, {batch, study_.model.start_buffers()}), batch);
    };
    if (!outputs.defined()) {
      const auto f = autodiff::jvp(layout, encode, study_.model.theta0(), tau);
      outputs = (f.value + f.tangent).requires_grad_(true);
    }
    return {[this, &layout, encode, loss, z = outputs](const at::Tensor& v) {
      const auto blocks = autodiff::leaves(layout, study_.model.theta0(), study_.free_blocks());
      const auto jv = autodiff::linearised(blocks, autodiff::trained_views(blocks, v), encode);
      return autodiff::pull_back(blocks, jv.value, loss.curved(z, jv.tangent), v.scalar_type());
    }};
  }

  /// The graph and two products; of a linear regime one product.
  schedule::Rehearsal rehearse(const Model& model, std::size_t t, std::int64_t n) const {
    const auto term = training::random_term(study_, n);
    const bool linear = model.linear;
    const double f = static_cast<double>(n) * study_.model.cost().forward();
    const auto direction =
        autodiff::trained_part(study_.model.layout(), study_.free_blocks(), study_.model.theta0());
    const auto operate = [this, linear, t, term, n] {
      const auto& start = study_.model.start();
      at::Tensor outputs;
      return part_of(linear, start, 1e-3 * start.theta, t, term.batch, term.labels, static_cast<double>(n),
                     outputs)
          .product;
    };
    if (!linear)
      return {[operate, direction] {
                const FullProducts full;
                const auto apply = operate();
                apply(apply(direction));
              },
              15 * f};
    return {[direction, apply = operate()] {
              const FullProducts full;
              apply(direction);
            },
            5 * f};
  }

  std::int64_t points_, chunk_;
  bool lanczos_;
  spectral::EigenOptions options_;
  std::vector<Model> models_;
};

std::unique_ptr<Experiment> make_smoothness(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "smoothness", "The eigenvalue of largest magnitude of the Hessian of each task's training loss at θ*");
  if (!section) return nullptr;
  const auto regimes = section->words("regimes",
                                      {"Regimes at whose θ* it is taken; [] for none, with start",
                                       {.fallback = "all of finetune.regimes that have task vectors",
                                        .values = "a list of some of finetune.regimes"}},
                                      study.settings.vector_regimes, study.settings.vector_regimes);
  spectral::EigenOptions options;
  options.tolerance = section->real(
      "tolerance", "Residual ‖Hv − λv‖ / |λ| at which an eigenvalue counts as found", 1e-3, {1e-12, 1});
  options.max_products = section->integer("max_products", "Hessian products a task, at most", 100, {1, 1e6});
  options.max_basis = section->integer(
      "max_basis", "Lanczos vectors that are kept until it restarts; each is as long as θ", 24, {2, 1e4});
  const bool lanczos = section->word("method", "Lanczos iteration, or power iteration as the field uses it",
                                     "lanczos", {"lanczos", "power"}) == "lanczos";
  const auto points =
      section->integer("points", "Training points a task that the loss is taken over", 512, {1, 1e7});
  const auto chunk =
      section->integer("chunk", "Points that a product takes at once: fewer take less memory", 256, {1, 1e6});
  const bool start =
      section->flag("start", "Whether that of θ0 is taken as well, for each task's loss", false);
  if (!regimes.empty() || !start) study::require_vectors(study, "smoothness");
  if (regimes.empty() && !start) section->refuse("regimes", "is empty; expected one, or start = true");
  return std::make_unique<Smoothness>(study, regimes, points, chunk, lanczos, start, options);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(smoothness, 70, make_smoothness, smoothness_outputs)
