// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The methods of elementwise.hpp: which parameters each has. Where public implementations differ, a parameter
// names their choices.
#include <memory>

#include "suite/merging/elementwise.hpp"
#include "suite/merging/methods.hpp"

namespace taugrid::merging {
namespace {

using weights::MergeRule;

constexpr config::Meaning of_trimming = "The share of each vector's numbers that trimming leaves";

double read_density(config::Section& parameters, double fallback) {
  return parameters.real("density", of_trimming, fallback, config::some_share);
}

bool by_tensor(config::Section& parameters, const config::Meaning& meaning) {
  return parameters.word("scope", meaning, "vector", {"vector", "tensor"}) == "tensor";
}

constexpr config::Meaning of_scope =
    "What a share is of: the whole vector (ties-merging), or each tensor of the model by itself (mergekit)";

Trim read_trim(config::Section& parameters, double density, const config::Meaning& scope = of_scope) {
  Trim trim;
  trim.density = density;
  trim.by_tensor = by_tensor(parameters, scope);
  trim.cut = parameters.word(
      "cut",
      "Of n numbers and s = ⌊density·n⌋, which stay: magnitudes of at least the (s + 1)-th largest "
      "(ties-merging: s + 1 numbers and those that equal it), exactly s, the earlier of equal ones "
      "(mergekit, where chance chooses), or those above the s-th (Localize-and-Stitch)",
      "at_least", {"at_least", "exact", "above"});
  return trim;
}

void read_election(Elementwise& method, config::Section& parameters, const char* fallback) {
  const auto merge =
      parameters.word("merge",
                      "What becomes of the numbers that agree: their mean (ties-merging, mergekit), or "
                      "their sum (AdaMerging's code, TALL masks)",
                      fallback, {"mean", "sum"});
  method.divisor = merge == "mean" ? Divisor::voters : Divisor::one;
  const auto zero =
      parameters.word("zero_sign",
                      "The sign of a place whose numbers cancel: that of most places, − where these "
                      "are as many (ties-merging), + (mergekit), or none: it stays 0",
                      "majority", {"majority", "positive", "nobody"});
  method.majority = zero == "majority";
  method.rule.vote = zero == "nobody" ? MergeRule::Vote::nobody : MergeRule::Vote::positive;
}

void read_drop(Elementwise& method, config::Section& parameters) {
  weights::Drop drop;
  drop.density = parameters.real("density", "The probability with which a number is kept: 1 − p", 0.5,
                                 config::some_share);
  const bool rescales = parameters.flag("rescale", "Whether what is kept is rescaled", true);
  method.keeps_norm =
      parameters.word(
          "rescale_by",
          "By what: 1/density, after which each number's expectation is as before (the paper, "
          "MergeLM, FusionBench), or the ratio of the L1 norms before and after dropping (mergekit)",
          "density", {"density", "l1"}) == "l1";
  if (method.keeps_norm && !rescales)
    parameters.refuse("rescale_by", "is \"l1\"; expected none where rescale = false");
  if (rescales && !method.keeps_norm) drop.scale = {static_cast<float>(1 / drop.density)};
  drop.seed = static_cast<std::uint64_t>(parameters.integer(
      "seed", "Of the draws; they depend on it, the model's number and the place alone", 0, {0, 1e9}));
  method.rule.drop = drop;
}

constexpr config::Meaning of_tall_lambda = {
    "λ of the masks: a task claims numbers with |τ_t| > λ|τ − τ_t|; more gives sparser masks; one number is "
    "the λ of all models, a list has each its own, in their order",
    {.values = "a number from 0 to 100, or a list of one a model"}};

/// One λ for all, or one a model.
std::vector<double> read_tall_lambda(config::Section& parameters) {
  constexpr config::Range range = {0, 100};
  if (!parameters.is_list("tall_lambda")) return {parameters.real("tall_lambda", of_tall_lambda, 0.4, range)};
  auto lambda = parameters.reals("tall_lambda", of_tall_lambda, {}, range);
  if (lambda.empty())
    parameters.refuse("tall_lambda", "is empty; expected a number, or a list of one a model");
  return lambda;
}

/// All but the claims' λ.
Elementwise read_consensus(const std::string& name, config::Section& parameters) {
  Elementwise method;
  if (name == "consensus_ties") {
    method.trim = read_trim(parameters, read_density(parameters, 0.2));
    read_election(method, parameters, "sum");
  }
  method.rule.claims =
      parameters.integer("least_tasks", "How many tasks must claim a number that stays", 2, {1, 1e6});
  return method;
}

std::unique_ptr<const Method> claimed(Elementwise method, std::vector<double> lambda) {
  method.claim = std::move(lambda);
  return std::make_unique<Elementwise>(std::move(method));
}

}  // namespace

std::unique_ptr<const Method> make_linear(config::Section) {
  auto method = std::make_unique<Elementwise>();
  method->divisor = Divisor::sum_of_weights;
  method->mean_of_models = true;
  return method;
}

std::unique_ptr<const Method> make_task_arithmetic(config::Section parameters) {
  auto method = std::make_unique<Elementwise>();
  if (parameters.flag("normalize", "Whether the sum is divided by the weights' sum", false))
    method->divisor = Divisor::sum_of_weights;
  return method;
}

std::unique_ptr<const Method> make_ties(config::Section parameters) {
  auto method = std::make_unique<Elementwise>();
  method->trim = read_trim(parameters, read_density(parameters, 0.2));
  read_election(*method, parameters, "mean");
  return method;
}

std::unique_ptr<const Method> make_dare_linear(config::Section parameters) {
  auto method = std::make_unique<Elementwise>();
  read_drop(*method, parameters);
  method->trim.by_tensor = by_tensor(
      parameters, "What norms are of: the whole vector, or each tensor of the model by itself (mergekit)");
  if (method->trim.by_tensor && !method->keeps_norm)
    parameters.refuse("scope", "is \"tensor\"; expected rescale_by = \"l1\" with it, which alone has norms");
  return method;
}

std::unique_ptr<const Method> make_dare_ties(config::Section parameters) {
  auto method = std::make_unique<Elementwise>();
  read_drop(*method, parameters);
  const auto left = parameters.real("trim", of_trimming, 1, config::some_share);
  method->trim = read_trim(parameters, left,
                           "What a share and norms are of: the whole vector, or each tensor of the model by "
                           "itself (mergekit)");
  read_election(*method, parameters, "mean");
  return method;
}

std::unique_ptr<const Method> make_top_k(config::Section parameters) {
  auto method = std::make_unique<Elementwise>();
  method->trim = read_trim(parameters, read_density(parameters, 0.05));
  const auto by =
      parameters.word("divide",
                      "By what the sum is divided: the number of vectors (paper 2), or at each place by the "
                      "weights of those that stay there (Localize-and-Stitch)",
                      "vectors", {"vectors", "overlap"});
  method->divisor = by == "overlap" ? Divisor::voters : Divisor::vectors;
  return method;
}

std::unique_ptr<const Method> make_consensus_ta(config::Section parameters) {
  auto lambda = read_tall_lambda(parameters);
  return claimed(read_consensus("consensus_ta", parameters), std::move(lambda));
}

std::unique_ptr<const Method> make_consensus_ties(config::Section parameters) {
  auto method = read_consensus("consensus_ties", parameters);
  return claimed(std::move(method), read_tall_lambda(parameters));
}

bool is_consensus(const std::string& name) { return name == "consensus_ta" || name == "consensus_ties"; }

Consensus make_consensus(const std::string& name, config::Section parameters) {
  return [method = read_consensus(name, parameters)](std::vector<double> lambda) {
    return claimed(method, std::move(lambda));
  };
}

}  // namespace taugrid::merging
