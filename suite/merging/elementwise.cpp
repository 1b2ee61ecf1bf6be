// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Methods in which a number of τ depends on the vectors' numbers at its own place, and on a cut of each
// vector: the magnitude from which its numbers count. With x_t = w_t·trim(drop(τ_t)):
//
//   linear, task_arithmetic, dare_linear, top_k   τ = Σ x_t, divided
//   ties, dare_ties                               τ = Σ over x_t of sign γ, divided;  γ = sign(Σ x_t)
//   consensus_ta, consensus_ties                  τ of the above where enough tasks have |τ_t| > λ|τ − τ_t|
//
// Where public implementations differ, a parameter names their choices.
#include <ATen/ATen.h>

#include <cmath>
#include <numeric>
#include <optional>

#include "kernels/weights/masks.hpp"
#include "kernels/weights/merging.hpp"
#include "suite/error.hpp"
#include "suite/merging/methods.hpp"

namespace taugrid::merging {
namespace {

using weights::MergeRule;

struct Trim {
  double density = 1;
  bool by_tensor = false;
  std::string cut = "at_least";
};

enum class Divisor { one, sum_of_weights, vectors, voters };

class Elementwise final : public Method {
 public:
  MergeRule rule = {};
  Trim trim = {};
  Divisor divisor = Divisor::one;
  bool majority = false;  ///< an undecided place takes the sign of most others
  std::vector<double> claim = {};  ///< λ of the claims: none, one for all vectors, or one a vector
  bool mean_of_models = false;  ///< Σ w θ / Σ w, whatever θ0 is

  bool needs_start() const override { return !mean_of_models; }

  std::optional<double> factor(std::size_t count) const override {
    if (trim.density < 1 || rule.drop || rule.vote != MergeRule::Vote::none || !claim.empty() ||
        divisor == Divisor::voters)
      return std::nullopt;
    return divisor == Divisor::one ? 1 : 1 / static_cast<double>(count);
  }

  /// Each trimming takes two passes to find the cut, an exact one a third where the cut lies among equal
  /// magnitudes, and a majority for minus another merge.
  MergeWork work(const std::vector<NamedTensor>&, std::size_t) const override {
    return {.passes = trim.density < 1 ? 3.0 : 1.0};
  }

  void check(const std::string& what, const std::vector<double>& w) const override {
    double all = 0, sizes = 0;
    for (const auto weight : w) {
      all += weight;
      sizes += std::fabs(weight);
    }
    if (divisor == Divisor::sum_of_weights &&
        (std::fabs(all) <= 1e-6 * sizes || static_cast<float>(all) == 0.0F))
      throw InputError(what + ": the weights add up to 0, and the mean divides by their sum");
    if (divisor != Divisor::voters) return;
    for (const auto weight : w) {
      if (!(weight > 0)) throw InputError(what + ": a mean of those that agree needs weights above 0");
    }
  }

 protected:
  std::int64_t run(const TaskVectors& vectors, const std::vector<double>& w,
                   const Emit& emit) const override {
    auto each = rule;
    each.weight.assign(w.begin(), w.end());
    if (divisor == Divisor::sum_of_weights)
      each.divisor = static_cast<float>(std::accumulate(w.begin(), w.end(), 0.0));
    if (divisor == Divisor::vectors) each.divisor = static_cast<float>(w.size());
    if (divisor == Divisor::voters) each.divide = MergeRule::Divide::voters;
    for (std::size_t t = 0; t < w.size() && !claim.empty(); ++t)
      each.claim.push_back(static_cast<float>(claim[claim.size() == 1 ? 0 : t]));
    std::vector<Range> ranges;  // that have cuts of their own
    if (trim.by_tensor && trim.density < 1) {
      for (const auto& tensor : vectors.tensors())
        if (tensor.range.count > 0) ranges.push_back(tensor.range);
    } else {
      ranges.push_back({0, vectors.length()});
    }
    std::vector<std::vector<weights::Cut>> cuts(ranges.size());
    weights::MergeCount all;
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      if (trim.density < 1) {
        for (std::size_t t = 0; t < vectors.count(); ++t) cuts[r].push_back(cut_of(vectors, t, ranges[r]));
      }
      each.cut = cuts[r];
      pass(vectors, ranges[r], each, emit, all);
    }
    // The majority is that of the whole vector, whatever a share is of.
    if (!majority || all.undecided == 0 || all.balance > 0) return all.nonzero;
    each.vote = MergeRule::Vote::negative;
    all = {};
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      each.cut = cuts[r];
      pass(vectors, ranges[r], each, emit, all);
    }
    return all.nonzero;
  }

 private:
  static void pass(const TaskVectors& vectors, Range range, const MergeRule& each, const Emit& emit,
                   weights::MergeCount& all) {
    at::Tensor memory;
    vectors.visit(vectors.all(), range, 1, [&](std::int64_t begin, std::span<const at::Tensor> tau) {
      const auto n = tau.front().numel();
      if (!memory.defined()) memory = at::empty({n}, at::kFloat);
      auto out = memory.narrow(0, 0, n);
      const auto found = weights::merge(each, begin, tau, out);
      all.nonzero += found.nonzero;
      all.undecided += found.undecided;
      all.balance += found.balance;
      emit(begin, out);
    });
  }

  /// Calls see(begin, stretch) for vector t as it is after dropping.
  template <class See>
  void see_dropped(const TaskVectors& vectors, std::size_t t, Range range, const See& see) const {
    at::Tensor memory;
    vectors.visit({t}, range, 1, [&](std::int64_t begin, std::span<const at::Tensor> tau) {
      if (!rule.drop) return see(begin, tau.front());
      if (!memory.defined()) memory = at::empty_like(tau.front());
      auto kept = memory.narrow(0, 0, tau.front().numel());
      weights::drop(*rule.drop, static_cast<std::int64_t>(t), begin, tau.front(), kept);
      see(begin, kept);
    });
  }

  weights::Cut cut_of(const TaskVectors& vectors, std::size_t t, Range range) const {
    const auto share = static_cast<std::int64_t>(trim.density * static_cast<double>(range.count));
    const bool at_least = trim.cut == "at_least";
    const auto k =
        at_least ? weights::ties_rank(trim.density, range.count) : std::max<std::int64_t>(share, 1);
    weights::KthMagnitude kth(k, range.count);
    do {
      see_dropped(vectors, t, range, [&](std::int64_t, const at::Tensor& x) { kth.add(x); });
    } while (kth.next());
    weights::Cut cut{kth.value()};
    if (trim.cut == "above") cut.limit = 0;
    if (trim.cut != "exact" || kth.above() + kth.equal() == k || kth.value() == 0) return cut;
    auto left = k - kth.above();
    see_dropped(vectors, t, range, [&](std::int64_t begin, const at::Tensor& x) {
      if (left == 0) return;
      const auto place = weights::find_magnitude(x, kth.value(), left);
      if (place >= 0) cut.limit = begin + place + 1;
    });
    return cut;
  }
};

constexpr config::Range share = {0, 1};
constexpr config::Meaning of_trimming = "The share of each vector's numbers that trimming leaves";

double read_density(config::Section& parameters, double fallback) {
  return above_zero(parameters, "density", parameters.real("density", of_trimming, fallback, share));
}

Trim read_trim(config::Section& parameters, double density) {
  Trim trim;
  trim.density = density;
  trim.by_tensor =
      parameters.word("scope",
                      "What a share is of: the whole vector (ties-merging), or each tensor of the "
                      "model by itself (mergekit)",
                      "vector", {"vector", "tensor"}) == "tensor";
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

weights::Drop read_drop(config::Section& parameters) {
  weights::Drop drop;
  drop.density = above_zero(
      parameters, "density",
      parameters.real("density", "The probability with which a number is kept: 1 − p", 0.5, share));
  drop.rescale = parameters.flag("rescale", "Whether what is kept is divided by the density", true);
  drop.seed = static_cast<std::uint64_t>(parameters.integer(
      "seed", "Of the draws; they depend on it, the model's number and the place alone", 0, {0, 1e9}));
  return drop;
}

double read_tall_lambda(config::Section& parameters) {
  return parameters.real(
      "tall_lambda",
      "λ of the masks: a task claims numbers with |τ_t| > λ|τ − τ_t|; more gives sparser masks", 0.4,
      {0, 100});
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
  method->rule.drop = read_drop(parameters);
  return method;
}

std::unique_ptr<const Method> make_dare_ties(config::Section parameters) {
  auto method = std::make_unique<Elementwise>();
  method->rule.drop = read_drop(parameters);
  method->trim =
      read_trim(parameters, above_zero(parameters, "trim", parameters.real("trim", of_trimming, 1, share)));
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
  const double lambda = read_tall_lambda(parameters);
  return claimed(read_consensus("consensus_ta", parameters), {lambda});
}

std::unique_ptr<const Method> make_consensus_ties(config::Section parameters) {
  auto method = read_consensus("consensus_ties", parameters);
  return claimed(std::move(method), {read_tall_lambda(parameters)});
}

bool is_consensus(const std::string& name) { return name == "consensus_ta" || name == "consensus_ties"; }

Consensus make_consensus(const std::string& name, config::Section parameters) {
  return [method = read_consensus(name, parameters)](std::vector<double> lambda) {
    return claimed(method, std::move(lambda));
  };
}

}  // namespace taugrid::merging
