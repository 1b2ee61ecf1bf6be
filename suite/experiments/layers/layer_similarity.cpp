// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Where in the model task vectors lie, and where they meet: with τ_t[p] the numbers of τ_t that belong to
// parameter p of the model,
//
//   G[p,s,t] = ⟨τ_s[p], τ_t[p]⟩.
//
// Its sums over the parameters of a stage, over those of a kind and over all are Gram matrices, too; norms
// and cosines of layers follow from them.
#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/weights/weights.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

std::string layer_similarity_key(const std::string& regime) { return key::of("layer_similarity", regime); }

std::vector<OutputGroup> layer_similarity_outputs() {
  return {{"/layer_similarity/R",
           "inner products of task vectors, parameter by parameter",
           {{"parameter", "parameter", "", "the parameter's name in the checkpoint",
             With{.text = true, .scale = "parameter_R"}},
            {"gram", "parameter task task", "", "⟨τ_s, τ_t⟩ over the parameter's numbers"},
            {"start", "parameter", "", "‖θ0‖² over the same numbers"},
            {"numbers", "parameter", "1", "how many these are", With{.element = Element::int64}},
            {"stage", "parameter", "",
             "the first stage of the model that uses the parameter: 0 the embedding, 1 … L the layers, L + 1 "
             "what comes behind them",
             With{.element = Element::int64}},
            {"kind", "parameter", "", "the parameter's kind, a place in `kinds`",
             With{.element = Element::int64}},
            {"@kinds", "", "", "the names of the kinds, between commas"}},
           "[layer_similarity]",
           2}};
}

class LayerSimilarity final : public Experiment {
 public:
  using Experiment::Experiment;

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    const auto every = study_.tasks.all();
    const auto count = length_of(every);
    for (const auto& name : study_.settings.vector_regimes) {
      auto tally = Tally(study_).visit(name, every).stores(length_of(parameters()) * count * count);
      tally.computes(static_cast<double>(count * (count + 1) * study_.model.layout().size()));
      units.push_back(unit(layer_similarity_key(name), tally, study_.vectors.needs(name, every),
                           [this, name](schedule::UnitContext& context) { return compute(name, context); }));
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/layer_similarity", study_.settings.vector_regimes,
                     {{"parameter", length_of(parameters())}});
  }

  void write(Results& out, const Finished& done) const override {
    std::vector<std::string> names;
    std::vector<double> start;
    std::vector<std::int64_t> numbers, stages, kinds;
    for (const auto& parameter : parameters()) {
      const auto norm = weights::norm(study_.model.theta0().narrow(0, parameter.offset, parameter.count));
      names.push_back(parameter.name);
      start.push_back(norm * norm);
      numbers.push_back(parameter.count);
      stages.push_back(stage_of(parameter));
      kinds.push_back(static_cast<std::int64_t>(parameter.kind));
    }
    std::string names_of_kinds;
    for (int kind = 0; kind <= static_cast<int>(autodiff::last_kind); ++kind)
      names_of_kinds += (kind > 0 ? ", " : "") + std::string(name_of(static_cast<autodiff::Kind>(kind)));
    for (const auto& regime_name : study_.settings.vector_regimes) {
      const auto group = "/layer_similarity/" + regime_name;
      const auto file = done.folder.read_unit(done.world, layer_similarity_key(regime_name));
      out.put(group + "/parameter", names);
      out.put(group + "/gram", file.tensors.at("gram"));
      out.put(group + "/start", start);
      out.put(group + "/numbers", at::tensor(numbers, at::kLong));
      out.put(group + "/stage", at::tensor(stages, at::kLong));
      out.put(group + "/kind", at::tensor(kinds, at::kLong));
      out.attribute(group, "kinds", names_of_kinds);
    }
  }

 private:
  const std::vector<autodiff::Parameter>& parameters() const { return study_.model.layout().parameters(); }

  int stage_of(const autodiff::Parameter& parameter) const {
    const auto& blocks = study_.model.layout().blocks();
    const auto behind =
        std::upper_bound(blocks.begin(), blocks.end(), parameter.offset,
                         [](std::int64_t offset, const auto& block) { return offset < block.offset; });
    return std::prev(behind)->stage;
  }

  /// The ranks of the group share out the parameters.
  store::TensorFile compute(const std::string& regime_name, schedule::UnitContext& context) const {
    const auto every = study_.tasks.all();
    const auto ranks = context.group.size();
    const auto all = length_of(parameters());
    auto gram = at::zeros({all, length_of(every), length_of(every)}, at::kDouble);
    for (std::int64_t p = 0; p < all; ++p) {
      context.stop_if_requested();
      if (p % ranks == context.group.rank())
        gram[p] = gram_of(parameters()[static_cast<std::size_t>(p)], regime_name, every);
      context.progress(static_cast<double>(p + 1) / static_cast<double>(all), "parameters");
    }
    if (ranks > 1) context.group.all_reduce_sum(gram, "inner products of parameters");
    store::TensorFile file;
    file.tensors["gram"] = gram;
    return file;
  }

  at::Tensor gram_of(const autodiff::Parameter& parameter, const std::string& regime_name,
                     const std::vector<std::size_t>& tasks) const {
    weights::GramSum sum(length_of(tasks), parameter.count);
    study_.vectors.visit(regime_name, tasks, {parameter.offset, parameter.count}, sum.step(),
                         [&](std::int64_t begin, std::span<const at::Tensor> tau) {
                           sum.add(begin - parameter.offset, {tau});
                         });
    return sum.gram();
  }
};

std::unique_ptr<Experiment> make_layer_similarity(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "layer_similarity",
      "Where task vectors lie and meet: their norms and inner products, parameter by parameter");
  if (!section) return nullptr;
  study::require_vectors(study, "layer_similarity");
  return std::make_unique<LayerSimilarity>(study);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(layer_similarity, 46, make_layer_similarity, layer_similarity_outputs)
