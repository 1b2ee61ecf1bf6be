// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/vectors/elementwise.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "kernels/weights/masks.hpp"
#include "suite/config/canonical.hpp"
#include "suite/error.hpp"
#include "suite/merging/vectors/aligned.hpp"

namespace taugrid::merging {
namespace {

using weights::MergeRule;

/// In what was visited, here or, when counted together, by all ranks.
struct Found {
  std::int64_t nonzero = 0, undecided = 0, balance = 0;
  std::vector<weights::Undecided> parts = {};  ///< of stretches that have undecided places

  void add(const Counted& counted, const weights::Undecided& part) {
    nonzero += counted.nonzero;
    undecided += counted.undecided;
    balance += counted.balance;
    if (counted.undecided > 0) parts.push_back(part);
  }
  void count_together(const Team& team) {
    const auto sums = team.sums({nonzero, undecided, balance});
    nonzero = sums[0];
    undecided = sums[1];
    balance = sums[2];
  }
};

/// Gathers the undecided numbers of all ranks, in order.
std::vector<weights::Undecided> together(const std::vector<weights::Undecided>& mine, const Team& team) {
  std::vector<std::int64_t> numbers;
  for (const auto& part : mine)
    numbers.insert(numbers.end(), {part.range.begin, part.range.count, part.nonzero});
  numbers = team.joined(numbers);
  std::vector<weights::Undecided> all;
  for (std::size_t i = 0; i < numbers.size(); i += 3)
    all.push_back({{numbers[i], numbers[i + 1]}, numbers[i + 2]});
  std::sort(all.begin(), all.end(),
            [](const auto& x, const auto& y) { return x.range.begin < y.range.begin; });
  return all;
}

/// Calls see(range) for what of the parts lies in `whole`, neighbours as one; `next` is what is left of them,
/// by place.
template <class See>
void each_range(std::span<weights::Undecided>& next, Range whole, const See& see) {
  Range range{};
  while (!next.empty() && next.front().range.begin < whole.end()) {
    auto& part = next.front().range;
    const auto end = std::min(part.end(), whole.end());
    if (range.count > 0 && range.end() != part.begin) {
      see(range);
      range = {};
    }
    if (range.count == 0) range.begin = part.begin;
    range.count = end - range.begin;
    part = {end, part.end() - end};
    if (part.count > 0) break;  // the journal's parts may go on in the next
    next = next.subspan(1);
  }
  if (range.count > 0) see(range);
}

Range common(Range a, Range b) {
  const auto begin = std::max(a.begin, b.begin);
  return {begin, std::max<std::int64_t>(std::min(a.end(), b.end()) - begin, 0)};
}

/// Visits a range, part of one that is merged alike, and puts it into the sink stretch by stretch; of a team
/// each rank makes its part of a stretch or, where numbers stay with who makes them, of all of `alike`.
/// `again`: numbers that were put before, here or in an earlier start.
void pass(const TaskVectors& vectors, Range range, Range alike, bool again, const MergeRule& each,
          const Sink& sink, const Team& team, Found& all) {
  at::Tensor memory;
  const auto visit = [&](Range part,
                         const std::function<at::Tensor(std::int64_t begin, std::int64_t n)>& place,
                         const std::function<void(const at::Tensor& tau, const Counted& counted)>& see) {
    vectors.visit_stretches(vectors.all(), part, [&](std::int64_t begin, const weights::Stretches& tau) {
      auto out = place(begin, tau.x.front().numel());
      const auto count = weights::merge(each, begin, tau, out);
      const Counted counted{{begin, out.numel()}, count.nonzero, count.undecided, count.balance};
      all.add(counted, count.part);
      if (count.finite) see(out, counted);
      return count.finite;
    });
  };
  if (team.size() == 1 || team.keeps_apart()) {
    const auto mine = common(range, team.share_of(alike));
    for (const auto& part : again ? std::vector<Range>{mine} : sink.left(mine))
      visit(
          part, [&](std::int64_t begin, std::int64_t n) { return sink.place(begin, n, memory); },
          [&](const at::Tensor& tau, const Counted& counted) {
            again ? sink.put(counted.range.begin, tau) : sink.put(tau, counted);
          });
    return;
  }
  const auto share = std::min(Team::gathered_at_once, comm::rows_a_rank(range.count, team.size()));
  memory = at::zeros({share}, at::kFloat);
  for (auto begin = range.begin; begin < range.end(); begin += share * team.size()) {
    const auto first = std::min(range.end(), begin + share * team.rank());
    visit(
        {first, std::min(range.end(), first + share) - first},
        [&](std::int64_t at, std::int64_t n) { return memory.narrow(0, at - first, n); },
        [](const at::Tensor&, const Counted&) {});
    sink.put(begin, team.gathered(memory).narrow(0, 0, std::min(share * team.size(), range.end() - begin)));
  }
}

/// Calls see(begin, stretch, before) with vector t as it is after dropping, and before.
template <class See>
void see_dropped(const TaskVectors& vectors, std::size_t t, Range range,
                 const std::optional<weights::Drop>& drop, const See& see) {
  at::Tensor memory;
  vectors.visit({t}, range, 1, [&](std::int64_t begin, std::span<const at::Tensor> tau) {
    const auto& x = tau.front();
    if (!drop) return see(begin, x, x);
    if (!memory.defined()) memory = at::empty_like(x);
    auto kept = memory.narrow(0, 0, x.numel());
    weights::drop(*drop, static_cast<std::int64_t>(t), begin, x, kept);
    see(begin, kept, x);
  });
}

/// Searches vectors `which`, as they are after dropping, side by side; kth[i] of which[i]. Ranks that hold
/// parts of the range, each its own, search together.
void search(const TaskVectors& vectors, const std::vector<std::size_t>& which, Range range,
            const std::optional<weights::Drop>& drop, const Team& holders,
            std::vector<weights::KthMagnitude>& kth) {
  const weights::KthMagnitude::Holders together = {
      [&](const std::vector<std::int64_t>& mine) { return holders.sums(mine); },
      [&](const std::vector<float>& mine) { return holders.joined(mine); }};
  std::vector<std::size_t> left(which.size());  // of `which`
  std::iota(left.begin(), left.end(), 0);
  while (!left.empty()) {
    std::vector<std::size_t> now;
    for (const auto i : left) now.push_back(which[i]);
    if (drop) {
      for (const auto i : left)
        see_dropped(vectors, which[i], range, drop,
                    [&](std::int64_t, const at::Tensor& x, const at::Tensor&) { kth[i].add(x); });
    } else {
      vectors.visit_stretches(
          now, range,
          [&](std::int64_t, const weights::Stretches& tau) {
            for (std::size_t j = 0; j < left.size(); ++j) kth[left[j]].add(tau.x[j], tau.start);
            return true;  // whoever merges says whether
          },
          kth[left.front()].share());
    }
    std::erase_if(left, [&](std::size_t i) {
      if (holders.size() > 1) kth[i].combine(together);
      return !kth[i].next();
    });
  }
}

/// The place of the n-th number (from 1) of this magnitude in vector t, of which each holder has a part.
std::int64_t place_of(const TaskVectors& vectors, std::size_t t, Range part,
                      const std::optional<weights::Drop>& drop, float magnitude, std::int64_t n,
                      const Team& holders) {
  constexpr auto all = std::numeric_limits<std::int64_t>::max();
  std::int64_t left = 0, place = -1;
  const auto look = [&](std::int64_t begin, const at::Tensor& x, const at::Tensor&) {
    if (left == 0) return;
    const auto in_stretch = weights::find_magnitude(x, magnitude, left);
    if (in_stretch >= 0) place = begin + in_stretch;
  };
  std::vector<std::int64_t> counts(static_cast<std::size_t>(holders.size()));
  if (holders.size() > 1) {
    left = all;
    see_dropped(vectors, t, part, drop, look);
    counts[static_cast<std::size_t>(holders.rank())] = all - left;
    counts = holders.sums(counts);
  }
  const auto here = counts.begin() + holders.rank();
  const auto before = std::accumulate(counts.begin(), here, std::int64_t{0});
  if (holders.size() == 1 || (before < n && n <= before + *here)) {
    left = n - before;
    see_dropped(vectors, t, part, drop, look);
  }
  return holders.sums({place + 1}).front() - 1;  // one of them has it
}

}  // namespace

std::optional<double> Elementwise::factor(std::size_t count) const {
  if (trim.cuts() || rule.drop || ranked || rule.vote != MergeRule::Vote::none || !claim.empty() ||
      divisor == Divisor::voters)
    return std::nullopt;
  return divisor == Divisor::one ? 1 : 1 / static_cast<double>(count);
}

std::shared_ptr<const VectorMethod> Elementwise::with(const std::string& parameter,
                                                      const std::vector<double>& values) const {
  auto other = std::make_shared<Elementwise>(*this);
  if (parameter == "normalize" && mean_of_models) {
    other->divisor = values.front() != 0 ? Divisor::sum_of_weights : Divisor::one;
  } else if (parameter == "density" && ranked) {
    other->ranked->density.set(values);
  } else if (parameter == "epsilon" && ranked) {
    other->ranked->epsilon.set(values);
  } else if (parameter == "density" && rule.drop) {
    other->rule.drop->densities = values.size() > 1 ? values : std::vector<double>{};
    other->rule.drop->density = values.front();
    if (rescales) {
      other->rule.drop->scale.clear();
      for (const double density : values) other->rule.drop->scale.push_back(static_cast<float>(1 / density));
    }
  } else if (parameter == "density" && trims) {
    other->trim.density.set(values);
  } else if (parameter == "gamma" && trim.gamma) {
    other->trim.gamma->set(values);
  } else {
    return nullptr;
  }
  return other;
}

void Elementwise::check(const std::string& what, const std::vector<double>& w) const {
  if (claim.size() > 1 && claim.size() != w.size())
    throw InputError(what + ": tall_lambda has " + std::to_string(claim.size()) +
                     " numbers; expected one, or one for each of " + std::to_string(w.size()) + " models");
  if (!claim.empty() && rule.claims > std::max<std::int64_t>(2, std::ssize(w)))
    throw InputError(what + ": least_tasks is " + std::to_string(rule.claims) +
                     ", after which nothing stays; expected at most the " + std::to_string(w.size()) +
                     " models");
  if (divisor == Divisor::sum_of_weights) require_sum(what, w);
  if (divisor != Divisor::voters) return;
  for (const auto weight : w) {
    if (!(weight >= 0)) throw InputError(what + ": a mean of those that agree needs weights of at least 0");
  }
}

RecipeNote Elementwise::recipe_note(const std::string&, const std::vector<std::size_t>&) const {
  RecipeNote note;
  if (rule.drop || ranked)  // draws depend on a number's place
    note.comments =
        "# Draws follow the order of the tensors, which is that of names in a folder: others are drawn "
        "here.\n";
  if (claim.size() == 1) note.parameters["tall_lambda"] = config::canonical(claim.front());
  return note;
}

std::vector<Range> Elementwise::ranges_of(const std::vector<NamedTensor>& tensors) const {
  std::vector<Range> ranges;
  if (trim.by_tensor && (trim.cuts() || keeps_norm)) {
    for (const auto& tensor : tensors)
      if (tensor.range.count > 0) ranges.push_back(tensor.range);
  } else {
    const auto begin = tensors.empty() ? 0 : tensors.front().range.begin;
    ranges.push_back({begin, tensors.empty() ? 0 : tensors.back().range.end() - begin});
  }
  return ranges;
}

void Elementwise::check_values(const std::string& what, std::size_t count) const {
  for (std::size_t t = 0; t < count && ranked; ++t) {
    const double density = ranked->density.of(t), epsilon = ranked->epsilon.of(t);
    if (density < 1 && (density - epsilon <= 0 || density + epsilon >= 1))
      throw InputError(
          what + ": density " + config::canonical(density) + " and epsilon " + config::canonical(epsilon) +
          " give probabilities of 0 or 1 and beyond; expected 0 < density - epsilon and density + "
          "epsilon < 1: a smaller epsilon");
  }
}

MergeWork Elementwise::work(const std::vector<NamedTensor>& tensors, std::size_t count) const {
  double seen = 0, all = 0, sorted = 0, searched = 0;
  for (const auto& range : ranges_of(tensors)) {
    const auto n = static_cast<double>(range.count);
    all += n;
    seen += n * (1 + (keeps_norm ? 1 : 0));
    if (!trim.cuts()) continue;
    searched = std::max(searched, weights::KthMagnitude::most_bytes(range.count));
    seen += n * (trim.gamma ? 2 : 1) * (1 + weights::KthMagnitude::first_share(range.count));
  }
  // Numbers are sorted within their rows, at each pass: an order, its inverse, and probabilities.
  double longest_row = 0, largest_gram = 0, largest_matrix = 0, aligned = 0;
  for (const auto& tensor : tensors) {
    if (knots && is_aligned(tensor, *knots)) {
      const auto m = static_cast<double>(tensor.shape[0]), n = static_cast<double>(tensor.shape[1]);
      largest_gram = std::max(largest_gram, m * m);
      largest_matrix = std::max(largest_matrix, m * n);
      aligned += m * (m + n);
      // A Gram matrix, its eigenvectors (Golub and Van Loan, section 8.3: 9m³), a product a pass, and one
      // back.
      sorted +=
          (2 * m * m * n * (2 + 1 / static_cast<double>(count)) + 9 * m * m * m / static_cast<double>(count));
    } else if (knots) {
      aligned += static_cast<double>(tensor.range.count);  // τ of all tensors is made as one
    }
    const auto n = static_cast<double>(tensor.range.count);
    if (!ranked || n == 0) continue;
    const double row = tensor.shape.size() < 2 ? n : n / static_cast<double>(tensor.shape.front());
    longest_row = std::max(longest_row, row);
    sorted += n * std::log2(1 + row);
  }
  const double passes = all > 0 ? seen / all : 0;
  return {.passes = passes + (knots ? 1 : 0),
          .flops = passes * static_cast<double>(count) * sorted,
          .bytes = 64 * longest_row + 16 * largest_gram + 4 * (aligned + largest_matrix) +
                   static_cast<double>(count) * searched,
          .at_once = std::max(longest_row, largest_matrix)};
}

std::int64_t Elementwise::run(const TaskVectors& whole, const std::vector<double>& w, const Sink& sink,
                              const Team& all_ranks) const {
  if (knots) {
    const AlignedVectors aligned(whole, *knots);
    auto plain = *this;
    plain.knots.reset();
    const auto tau = at::zeros({aligned.length()}, at::kFloat);
    plain.run(aligned, w, Sink(tau), {});
    return aligned.lift(tau, sink);
  }
  const Team team = is_shared() ? all_ranks : Team();
  std::optional<RankDropped> dropped;
  if (ranked) dropped.emplace(whole, *ranked);
  const TaskVectors& vectors = dropped ? *dropped : whole;
  auto each = rule;
  each.weight.assign(w.begin(), w.end());
  if (divisor == Divisor::sum_of_weights)
    each.divisor = std::accumulate(each.weight.begin(), each.weight.end(), 0.0F);  // as mergekit sums them
  if (divisor == Divisor::vectors) each.divisor = static_cast<float>(w.size());
  if (divisor == Divisor::voters) each.divide = MergeRule::Divide::voters;
  for (std::size_t t = 0; t < w.size() && !claim.empty(); ++t)
    each.claim.push_back(static_cast<float>(claim[claim.size() == 1 ? 0 : t]));
  const auto ranges = ranges_of(vectors.tensors());
  std::vector<std::vector<weights::Cut>> cuts(ranges.size()), outliers(ranges.size());
  std::vector<std::optional<weights::Drop>> drops(ranges.size(), rule.drop);
  Found all;
  const auto merge_part = [&](std::size_t r, Range part, bool again) {
    each.cut = cuts[r];
    each.outliers = outliers[r];
    each.drop = drops[r];
    pass(vectors, part, ranges[r], again, each, sink, team, all);
  };
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    if (keeps_norm) drops[r]->scale = scales_of(whole, ranges[r], team);
    if (trim.cuts()) {
      cuts[r] = cuts_of(vectors, ranges[r], drops[r], &Ranks::kept, team);
      if (trim.gamma) outliers[r] = cuts_of(vectors, ranges[r], drops[r], &Ranks::outliers, team);
    }
    merge_part(r, ranges[r], /*again=*/false);
  }
  std::int64_t of_earlier = 0;  // which the caller counts
  for (const auto& counted : majority ? sink.earlier() : std::vector<Counted>{}) {
    of_earlier += counted.nonzero;
    if (team.rank() == 0) all.add(counted, {counted.range, counted.nonzero});
  }
  all.count_together(team);
  all.nonzero -= of_earlier;
  // The majority is that of the whole vector, whatever a share is of.
  if (!majority || all.undecided == 0 || all.balance > 0) return all.nonzero;
  each.vote = MergeRule::Vote::negative;
  auto parts = together(all.parts, team);
  auto nonzero = all.nonzero;
  for (const auto& part : parts) nonzero -= part.nonzero;
  all = {};
  std::span<weights::Undecided> next = parts;
  for (std::size_t r = 0; r < ranges.size(); ++r)
    each_range(next, ranges[r], [&](Range part) { merge_part(r, part, /*again=*/true); });
  all.count_together(team);
  return nonzero + all.nonzero;
}

std::vector<float> Elementwise::scales_of(const TaskVectors& vectors, Range range, const Team& team) const {
  std::vector<std::int64_t> scales(vectors.count());  // bits
  for (std::size_t t = 0; t < vectors.count(); ++t) {
    if (!team.is_mine(t)) continue;
    weights::MagnitudeSum whole, kept;
    const auto add = [&](std::int64_t, const at::Tensor& stays, const at::Tensor& before) {
      whole.add(before);
      kept.add(stays);
    };
    if (ranked) {
      RankDropped(vectors, *ranked)
          .see({t}, range,
               [&](std::int64_t begin, std::span<const at::Tensor> stays,
                   std::span<const at::Tensor> before) { add(begin, stays.front(), before.front()); });
    } else {
      see_dropped(vectors, t, range, rule.drop, add);
    }
    const float scale = kept.sum() > 0 ? static_cast<float>(whole.sum() / kept.sum()) : 1;
    scales[t] = std::bit_cast<std::int32_t>(scale);
  }
  std::vector<float> factors;
  for (const auto bits : team.sums(scales))
    factors.push_back(std::bit_cast<float>(static_cast<std::int32_t>(bits)));
  return factors;
}

Elementwise::Ranks Elementwise::ranks_of(std::size_t t, std::int64_t count) const {
  const double density = trim.density.of(t);
  if (density >= 1) return {.kept = std::nullopt, .outliers = 0};
  const auto share_of = [&](double share) {
    return static_cast<std::int64_t>(share * static_cast<double>(count));
  };
  if (trim.gamma) {  // where both shares are more than all, the density has it
    const auto kept = share_of(density), outliers = std::min(share_of(trim.gamma->of(t)), count - kept);
    return {.kept = kept + outliers, .outliers = outliers};
  }
  return {.kept = trim.cut == "at_least" ? weights::ties_rank(density, count)
                                         : std::min(count, std::max<std::int64_t>(share_of(density), 1)),
          .outliers = 0};
}

std::vector<weights::Cut> Elementwise::cuts_of(const TaskVectors& vectors, Range range,
                                               const std::optional<weights::Drop>& drop, Rank Ranks::*rank,
                                               const Team& team) const {
  const auto count = vectors.count();
  // Vectors that all ranks hold are dealt to them. Of those on files, each rank looks at a part of every one.
  const bool by_place = team.keeps_apart();
  const Team holders = by_place ? team : Team();
  const auto part = holders.share_of(range);
  std::vector<std::size_t> mine;              // which are searched
  std::vector<std::int64_t> ranks(count);     // the k of each k-th largest magnitude
  std::vector<std::int64_t> cuts(2 * count);  // bits of the values, then limits
  for (std::size_t t = 0; t < count; ++t) {
    if (!by_place && !team.is_mine(t)) continue;
    const auto left = ranks_of(t, range.count).*rank;
    weights::Cut cut;  // of 0 leaves all
    if (left == 0) {
      cut = {std::numeric_limits<float>::infinity(), 0};
    } else if (left) {
      ranks[t] = *left;
      mine.push_back(t);
    }
    cuts[t] = std::bit_cast<std::int32_t>(cut.value);
    cuts[count + t] = cut.limit;
  }
  std::vector<weights::KthMagnitude> kth;
  for (std::size_t from = 0; from < mine.size(); from += vectors.side_by_side()) {
    const auto end = std::min(mine.size(), from + vectors.side_by_side());
    const std::vector<std::size_t> which(&mine[from], &mine[from] + (end - from));
    for (std::size_t i = 0; i < which.size(); ++i) {
      const weights::KthMagnitude begun(ranks[which[i]], range.count);
      if (i < kth.size()) {
        kth[i] = begun;  // in the same memory
      } else {
        kth.push_back(begun);
      }
    }
    kth.resize(which.size(), kth.front());
    search(vectors, which, part, drop, holders, kth);
    for (std::size_t i = 0; i < which.size(); ++i) {
      const auto t = which[i];
      weights::Cut cut{kth[i].value()};
      if (trim.cut == "above") cut.limit = 0;
      const auto k = ranks[t];
      if (trim.cut == "exact" && kth[i].above() + kth[i].equal() != k && kth[i].value() != 0) {
        cut.limit = place_of(vectors, t, part, drop, kth[i].value(), k - kth[i].above(), holders) + 1;
      }
      cuts[t] = std::bit_cast<std::int32_t>(cut.value);
      cuts[count + t] = cut.limit;
    }
  }
  const auto all = by_place ? cuts : team.sums(cuts);
  std::vector<weights::Cut> decoded;
  for (std::size_t t = 0; t < count; ++t)
    decoded.push_back({std::bit_cast<float>(static_cast<std::int32_t>(all[t])), all[count + t]});
  return decoded;
}

}  // namespace taugrid::merging
