// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The methods of elementwise.hpp: which parameters each has. Where public implementations differ, a parameter
// names their choices.
#include <memory>

#include "suite/merging/table.hpp"
#include "suite/merging/vectors/elementwise.hpp"

namespace taugrid::merging {
namespace {

using weights::MergeRule;

constexpr config::Meaning of_trimming = "The share of each vector's numbers that trimming leaves";

void read_normalize(Elementwise& method, config::Section& parameters) {
  if (parameters.flag("normalize", "Whether the sum is divided by the weights' sum", false))
    method.divisor = Divisor::sum_of_weights;
}

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
  trim.density.all = density;
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

void read_space(Elementwise& method, config::Section& parameters) {
  const auto space = parameters.word(
      "space",
      "full: of the matrices' own numbers; knots: of what matrices are in one basis of all tasks' columns, "
      "in "
      "which shares are counted and what is merged is lifted back (KnOTS, Stoica et al. 2025)",
      "full", {"full", "knots"});
  const auto as_they_are = parameters.words("knots_exclude",
                                            "With space = \"knots\": tensors whose names have one of these "
                                            "parts stay as they are, as those without "
                                            "two dimensions do",
                                            {"embed", "wte", "wpe", "shared", "lm_head"});
  if (space == "knots") method.knots = as_they_are;
}

std::uint64_t read_seed(config::Section& parameters) {
  return static_cast<std::uint64_t>(parameters.integer(
      "seed", "Of the draws; they depend on it, the model's number and the place alone", 0, {0, 1e9}));
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
  method.rescales = rescales && !method.keeps_norm;
  if (method.rescales) drop.scale = {static_cast<float>(1 / drop.density)};
  drop.seed = read_seed(parameters);
  method.rule.drop = drop;
}

std::shared_ptr<const VectorMethod> make_linear(config::Section) {
  auto method = std::make_shared<Elementwise>();
  method->divisor = Divisor::sum_of_weights;
  method->mean_of_models = true;
  return method;
}

std::shared_ptr<const VectorMethod> make_task_arithmetic(config::Section parameters) {
  auto method = std::make_shared<Elementwise>();
  read_normalize(*method, parameters);
  method->rule.rounds_products = true;
  return method;
}

std::shared_ptr<const VectorMethod> make_ties(config::Section parameters) {
  auto method = std::make_shared<Elementwise>();
  method->trims = true;
  method->trim = read_trim(parameters, read_density(parameters, 0.2));
  read_election(*method, parameters, "mean");
  read_space(*method, parameters);
  return method;
}

std::shared_ptr<const VectorMethod> make_dare_linear(config::Section parameters) {
  auto method = std::make_shared<Elementwise>();
  read_drop(*method, parameters);
  read_normalize(*method, parameters);
  method->trim.by_tensor = by_tensor(
      parameters, "What norms are of: the whole vector, or each tensor of the model by itself (mergekit)");
  if (method->trim.by_tensor && !method->keeps_norm)
    parameters.refuse("scope", "is \"tensor\"; expected rescale_by = \"l1\" with it, which alone has norms");
  return method;
}

std::shared_ptr<const VectorMethod> make_dare_ties(config::Section parameters) {
  auto method = std::make_shared<Elementwise>();
  read_drop(*method, parameters);
  const auto left = parameters.real("trim", of_trimming, 1, config::some_share);
  method->trim = read_trim(parameters, left,
                           "What a share and norms are of: the whole vector, or each tensor of the model by "
                           "itself (mergekit)");
  read_election(*method, parameters, "mean");
  read_space(*method, parameters);
  return method;
}

std::shared_ptr<const VectorMethod> make_top_k(config::Section parameters) {
  auto method = std::make_shared<Elementwise>();
  method->trims = true;
  method->trim = read_trim(parameters, read_density(parameters, 0.05));
  const auto by =
      parameters.word("divide",
                      "By what the sum is divided: the number of vectors (paper 2), or at each place by the "
                      "weights of those that stay there (Localize-and-Stitch)",
                      "vectors", {"vectors", "overlap"});
  method->divisor = by == "overlap" ? Divisor::voters : Divisor::vectors;
  return method;
}

/// Reads the shares of a vector that breadcrumbs are made of.
std::shared_ptr<Elementwise> read_breadcrumbs(config::Section& parameters) {
  auto method = std::make_shared<Elementwise>();
  method->trims = true;
  method->trim.cut = "exact";
  method->trim.density.all = read_density(parameters, 0.14);
  method->trim.gamma = PerVector{
      parameters.real("gamma",
                      "The share of the largest numbers, which do not stay; fewer where they and those that "
                      "stay would be more than all (mergekit). The authors' code searches densities around "
                      "0.144 beside a gamma around 0.006",
                      0.01, {0, 1})};
  method->trim.by_tensor =
      parameters.word("scope",
                      "What shares are of: each tensor of the model by itself (the paper, mergekit), or the "
                      "whole vector",
                      "tensor", {"tensor", "vector"}) == "tensor";
  return method;
}

std::shared_ptr<const VectorMethod> make_breadcrumbs(config::Section parameters) {
  auto method = read_breadcrumbs(parameters);
  read_normalize(*method, parameters);
  return method;
}

std::shared_ptr<const VectorMethod> make_breadcrumbs_ties(config::Section parameters) {
  auto method = read_breadcrumbs(parameters);
  read_election(*method, parameters, "sum");
  return method;
}

std::shared_ptr<Elementwise> read_ranked_drop(config::Section& parameters) {
  auto method = std::make_shared<Elementwise>();
  RankedDrop drop;
  drop.density.all =
      parameters.real("density", "The mean probability with which a number is kept", 0.5, config::some_share);
  drop.epsilon.all =
      parameters.real("epsilon",
                      "What is taken from it for the smallest number of a row, and added for the "
                      "largest; with a density of 1 all stay",
                      0.15, {0, 1});
  const auto by =
      parameters.word("rescale_by",
                      "What a number that is kept is multiplied by: 1/its probability (the paper), "
                      "the ratio of each tensor's L1 "
                      "norms before and after dropping (mergekit), or nothing",
                      "probability", {"probability", "l1", "nothing"});
  drop.rescales = by == "probability";
  drop.seed = read_seed(parameters);
  method->ranked = drop;
  method->keeps_norm = by == "l1";
  method->trim.by_tensor = true;
  if (method->keeps_norm) method->rule.drop = weights::Drop{};
  return method;
}

std::shared_ptr<const VectorMethod> make_della_linear(config::Section parameters) {
  auto method = read_ranked_drop(parameters);
  read_normalize(*method, parameters);
  return method;
}

std::shared_ptr<const VectorMethod> make_della(config::Section parameters) {
  auto method = read_ranked_drop(parameters);
  read_election(*method, parameters, "mean");
  return method;
}

}  // namespace

Elementwise read_claims(config::Section& parameters, bool of_ties) {
  Elementwise method;
  if (of_ties) {
    method.trims = true;
    method.trim = read_trim(parameters, read_density(parameters, 0.2));
    read_election(method, parameters, "sum");
  }
  method.rule.claims =
      parameters.integer("least_tasks", "How many tasks must claim a number that stays", 2, {1, 1e6});
  return method;
}

}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(linear, 10, make_linear, nullptr, "The weighted mean of the models: Σ w θ / Σ w",
                       false)
TAUGRID_MERGING_METHOD(task_arithmetic, 20, make_task_arithmetic, nullptr,
                       "θ0 + λ Σ w τ (Ilharco et al. 2023)")
TAUGRID_MERGING_METHOD(
    ties, 30, make_ties, nullptr,
    "TIES (Yadav et al. 2023): trims each vector to its largest numbers, elects a sign a place, "
    "and merges those that have it")
TAUGRID_MERGING_METHOD(
    dare_linear, 40, make_dare_linear, nullptr,
    "DARE (Yu et al. 2024): drops numbers at random, rescales the others, and adds the vectors")
TAUGRID_MERGING_METHOD(dare_ties, 50, make_dare_ties, nullptr,
                       "DARE, then the election of TIES, and its trimming where that is asked for")
TAUGRID_MERGING_METHOD(top_k, 60, make_top_k, nullptr,
                       "Adds each vector's largest numbers and divides by the number of vectors")
TAUGRID_MERGING_METHOD(
    breadcrumbs, 61, make_breadcrumbs, nullptr,
    "Model Breadcrumbs (Davari and Belilovsky 2023): adds the vectors without their smallest "
    "numbers and without their largest, the outliers")
TAUGRID_MERGING_METHOD(breadcrumbs_ties, 62, make_breadcrumbs_ties, nullptr,
                       "Model Breadcrumbs, then the election of TIES")
TAUGRID_MERGING_METHOD(
    della_linear, 51, make_della_linear, nullptr,
    "DELLA's drops alone (mergekit): as DARE, where larger numbers of a row stay more probably")
TAUGRID_MERGING_METHOD(
    della, 52, make_della, nullptr,
    "DELLA (Deep et al. 2024): drops the smaller numbers of a row more probably, rescales the "
    "others, elects a sign a place, and merges those that have it")
