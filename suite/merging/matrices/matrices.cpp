// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Methods on the singular vectors of each tensor with two dimensions, Δ_t = w_t·τ_t [m,n], r = min(m,n);
// embeddings and stacked projections count as matrices. All other tensors, and those named in `exclude`, are
// averaged: Σ Δ_t / T.
//
//   tsv_m    the leading ⌊r/T⌋ triples of each task; Û and V̂ the polar factors of the concatenated singular
//            vectors: Δ = Û Σ V̂ᵀ (Gargiulo et al. 2025, algorithm 1)
//   iso_c    Σ Δ_t = U Σ Vᵀ, Δ = σ̄ U Vᵀ, σ̄ the mean singular value (Marczak et al. 2025, algorithm 1)
//   iso_cts  the leading k triples of Σ Δ_t, and the leading (r − k)/T of each (I − U_k U_kᵀ) Δ_t,
//            concatenated, made orthogonal by their polar factors, with the mean of their singular values
//            (algorithm 2)
//
// Matrices of low rank, as adapters make them, have singular vectors that nothing determines. With space =
// "core" the factors are those of Uᵀ Δ_t V, where U and V are orthonormal bases of all the tasks' columns and
// rows, and the result is lifted by U and V (Core Space, Panariello et al. 2025): nothing is lost, r is the
// rank of all tasks together, and of a task no more triples are taken than its own rank.
//
// Factors are computed in double, of one Δ_t after another: beside the float vectors' own matrices, two or
// three matrices in double are held, whatever T is. Of a team each rank makes other tensors.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "suite/merging/table.hpp"

namespace taugrid::merging {
namespace {

using Matrices = std::vector<at::Tensor>;

/// The tasks' matrices, made in double when they are asked for.
struct Deltas {
  std::size_t count;
  std::function<at::Tensor(std::size_t t)> at;
  bool low_rank = false;  ///< singular values that are zero but for rounding count as none
};

std::tuple<at::Tensor, at::Tensor, at::Tensor> thin_svd(const at::Tensor& matrix) {
  return at::linalg_svd(matrix, /*full_matrices=*/false);
}

/// The nearest matrix with orthonormal columns (or rows): U Vᵀ of the SVD.
at::Tensor polar_factor(const at::Tensor& matrix) {
  const auto [u, s, vh] = thin_svd(matrix);
  return at::mm(u, vh);
}

/// U diag(s) Vᵀ of orthogonalised factors: u [m,k], s [k], vh [k,n].
at::Tensor orthogonalised(const Matrices& u, const at::Tensor& s, const Matrices& vh) {
  return at::mm(polar_factor(at::cat(u, 1)) * s, polar_factor(at::cat(vh, 0)));
}

at::Tensor sum_of(const Deltas& deltas) {
  auto sum = deltas.at(0);
  for (std::size_t t = 1; t < deltas.count; ++t) sum.add_(deltas.at(t));
  return sum;
}

/// How many singular values are more than float32's rounding of a matrix' numbers may have made.
std::int64_t numerical_rank(const at::Tensor& values, const at::Tensor& matrix) {
  if (values.numel() == 0) return 0;
  const auto least = static_cast<double>(std::max(matrix.size(0), matrix.size(1))) *
                     std::numeric_limits<float>::epsilon() * values.max().item<double>();
  return values.gt(least).sum().item<std::int64_t>();
}

/// The leading triples of one task, `most` at most: u [m,k], s [k], vh [k,n].
std::tuple<at::Tensor, at::Tensor, at::Tensor> leading(const Deltas& deltas, const at::Tensor& delta,
                                                       std::int64_t most) {
  const auto [u, s, vh] = thin_svd(delta);
  const auto k = deltas.low_rank ? std::min(most, numerical_rank(s, delta)) : most;
  return {u.narrow(1, 0, k).clone(), s.narrow(0, 0, k).clone(), vh.narrow(0, 0, k).clone()};
}

at::Tensor tsv_m(const Deltas& deltas) {
  auto delta = deltas.at(0);
  const auto rank = std::min(delta.size(0), delta.size(1)) / static_cast<std::int64_t>(deltas.count);
  // Published code leaves nothing of matrices with fewer singular vectors than tasks.
  if (rank == 0) return at::zeros_like(delta);
  Matrices u, s, vh;
  for (std::size_t t = 0; t < deltas.count; ++t) {
    if (t > 0) delta = deltas.at(t);
    const auto [left, values, right] = leading(deltas, delta, rank);
    u.push_back(left);
    s.push_back(values);
    vh.push_back(right);
  }
  return orthogonalised(u, at::cat(s), vh);
}

at::Tensor iso_c(const Deltas& deltas) {
  const auto [u, s, vh] = thin_svd(sum_of(deltas));
  return at::mm(u, vh) * s.mean();
}

at::Tensor iso_cts(const Deltas& deltas, double common) {
  const auto [all_u, all_s, all_vh] = thin_svd(sum_of(deltas));
  const auto r = all_s.size(0), tasks = static_cast<std::int64_t>(deltas.count);
  const auto specific = static_cast<double>(r - static_cast<std::int64_t>(static_cast<double>(r) * common));
  // nearbyint: half to even, as Python's round. Never more than there are.
  const auto each =
      std::min(static_cast<std::int64_t>(std::nearbyint(specific / static_cast<double>(tasks))), r / tasks);
  const auto k = r - each * tasks;
  const auto common_u = all_u.narrow(1, 0, k);
  Matrices u, s, vh;
  for (std::size_t t = 0; t < deltas.count && each > 0; ++t) {
    const auto delta = deltas.at(t);
    const auto [left, values, right] =
        leading(deltas, delta - at::mm(common_u, at::mm(common_u.t(), delta)), each);
    u.push_back(left);
    s.push_back(values);
    vh.push_back(right);
  }
  u.push_back(common_u);
  s.push_back(all_s.narrow(0, 0, k));
  vh.push_back(all_vh.narrow(0, 0, k));
  const auto values = at::cat(s);
  return orthogonalised(u, at::full_like(values, values.mean().item<double>()), vh);
}

using Formula = std::function<at::Tensor(const Deltas&)>;

/// Orthonormal bases [m,r] and [n,r] of a matrix' columns and rows, r its numerical rank. By the Gram matrix
/// of its shorter side: spans need no more digits than the rank is judged by, and an SVD takes five times as
/// long.
std::pair<at::Tensor, at::Tensor> spans_of(const at::Tensor& matrix) {
  const bool wide = matrix.size(0) <= matrix.size(1);
  const auto flat = wide ? matrix : matrix.t();
  const auto [squares, vectors] = at::linalg_eigh(at::mm(flat, flat.t()));  // ascending
  const auto values = squares.clamp_min(0).sqrt();
  const auto rank = numerical_rank(values, matrix), dropped = values.size(0) - rank;
  const auto shorter = vectors.narrow(1, dropped, rank);
  const auto longer = at::mm(flat.t(), shorter) / values.narrow(0, dropped, rank);
  return wide ? std::pair{shorter, longer} : std::pair{longer, shorter};
}

/// An orthonormal basis [m,k] of the space that all these orthonormal columns [m,r] span; undefined where
/// that is everything.
at::Tensor basis_of(const Matrices& columns) {
  const auto m = columns.front().size(0);
  auto gram = at::zeros({m, m}, at::kDouble);
  std::int64_t total = 0;
  for (const auto& of_task : columns) {
    if (of_task.size(1) == m) return {};
    gram.addmm_(of_task, of_task.t());
    total += of_task.size(1);
  }
  // No square exceeds the number of tasks, so a sum of projections that stays positive without this much of
  // each has full rank. That takes a tenth of what its eigenvectors do.
  const double least = static_cast<double>(std::max(m, total)) * std::numeric_limits<float>::epsilon();
  const auto shifted = gram - least * least * static_cast<double>(columns.size()) * at::eye(m, at::kDouble);
  if (total >= m && std::get<1>(at::linalg_cholesky_ex(shifted)).item<std::int64_t>() == 0) return {};
  const auto [squares, vectors] = at::linalg_eigh(gram);
  const auto rank = squares.gt(least * least * squares[-1].item<double>()).sum().item<std::int64_t>();
  return vectors.narrow(1, m - rank, rank);
}

/// U · formula(Uᵀ Δ_t V) · Vᵀ.
at::Tensor in_core(const Deltas& deltas, const Formula& formula) {
  Matrices columns, rows;
  std::int64_t total = 0;
  for (std::size_t t = 0; t < deltas.count; ++t) {
    auto [of_columns, of_rows] = spans_of(deltas.at(t));
    total += of_columns.size(1);
    columns.push_back(std::move(of_columns));
    rows.push_back(std::move(of_rows));
  }
  if (total == 0) return at::zeros_like(deltas.at(0));
  const auto u = basis_of(columns), v = basis_of(rows);
  const auto core = [&](std::size_t t) {
    auto delta = deltas.at(t);
    if (v.defined()) delta = at::mm(delta, v);
    return u.defined() ? at::mm(u.t(), delta) : delta;
  };
  auto merged = formula({deltas.count, core, /*low_rank=*/true});
  if (u.defined()) merged = at::mm(u, merged);
  return v.defined() ? at::mm(merged, v.t()) : merged;
}

class OnMatrices final : public VectorMethod {
 public:
  /// `each_factored`: whether every task's matrix is, beside the sum or the result.
  OnMatrices(config::Section& parameters, Formula formula, bool each_factored)
      : exclude_(
            parameters.words("exclude",
                             "Tensors whose names have one of these parts are averaged, as those without "
                             "two dimensions are",
                             {"text_projection"})),
        core_(parameters.word("space",
                              "full: factors of the matrices themselves; core: of what they are in the space "
                              "that all tasks' columns and rows span, which low ranks need, as adapters have "
                              "them (Panariello et al. 2025)",
                              "full", {"full", "core"}) == "core"),
        formula_(std::move(formula)),
        each_factored_(each_factored) {}

  bool needs_full_rank() const override { return !core_; }

  MergeWork work(const std::vector<NamedTensor>& tensors, std::size_t count) const override {
    MergeWork work;
    double matrix = 0;
    for (const auto& tensor : tensors) {
      work.flops += flops(tensor, count);
      if (is_matrix(tensor)) matrix = std::max(matrix, static_cast<double>(tensor.range.count));
    }
    // Five matrices in double, and what a team's rank has made.
    work.bytes = 8 * 5 * matrix + 4 * static_cast<double>(most_of_a_round(tensors));
    return work;
  }

 protected:
  bool is_shared() const override { return true; }

  std::int64_t run(const TaskVectors& vectors, const std::vector<double>& w, const Sink& sink,
                   const Team& team) const override {
    std::int64_t nonzero = 0;
    const auto put = [&](std::int64_t begin, const at::Tensor& merged) {
      nonzero += at::count_nonzero(merged).item<std::int64_t>();
      sink.put(begin, merged);
    };
    if (team.size() == 1) {
      for (const auto& tensor : vectors.tensors()) each_stretch(vectors, w, tensor, put);
      return nonzero;
    }
    for (const auto& round :
         rounds_of(vectors.tensors(), vectors.count(), static_cast<std::size_t>(team.size()))) {
      const auto& tensors = round[static_cast<std::size_t>(team.rank())];
      const auto numbers = at::empty({numbers_of(tensors)}, at::kFloat);
      std::int64_t first = 0;  // of a tensor, in what was made
      for (const auto& tensor : tensors) {
        each_stretch(vectors, w, tensor, [&](std::int64_t begin, const at::Tensor& merged) {
          numbers.narrow(0, first + begin - tensor.range.begin, merged.numel()).copy_(merged);
        });
        first += tensor.range.count;
      }
      exchange(round, numbers, team, put);
    }
    return nonzero;
  }

 private:
  using Round = std::vector<std::vector<NamedTensor>>;  ///< of each rank

  /// Numbers that a rank makes before they are exchanged.
  static std::int64_t most_of_a_round(const std::vector<NamedTensor>& tensors) {
    auto most = Team::gathered_at_once;
    for (const auto& tensor : tensors) most = std::max(most, tensor.range.count);
    return most;
  }

  /// The dearest first, each dealt to the rank that has least. What a rank has of a round is no dearer than
  /// the round's dearest tensor: so no rank waits long, and all hear of each other after every round.
  std::vector<Round> rounds_of(std::vector<NamedTensor> left, std::size_t count, std::size_t ranks) const {
    constexpr double reading = 16;  // flops that take as long as one number of a vector, about
    const auto cost = [&](const NamedTensor& tensor) {
      return flops(tensor, count) +
             reading * static_cast<double>(count) * static_cast<double>(tensor.range.count);
    };
    const auto room = most_of_a_round(left);
    std::erase_if(left, [](const NamedTensor& tensor) { return tensor.range.count == 0; });
    std::stable_sort(left.begin(), left.end(),
                     [&](const auto& x, const auto& y) { return cost(x) > cost(y); });
    std::vector<Round> rounds;
    while (!left.empty()) {
      const double most = cost(left.front());
      Round round(ranks);
      std::vector<double> costs(ranks);
      std::vector<std::int64_t> numbers(ranks);
      std::vector<NamedTensor> later;
      for (auto& tensor : left) {
        const auto least =
            static_cast<std::size_t>(std::min_element(costs.begin(), costs.end()) - costs.begin());
        if (costs[least] + cost(tensor) > most || numbers[least] + tensor.range.count > room) {
          later.push_back(std::move(tensor));
          continue;
        }
        costs[least] += cost(tensor);
        numbers[least] += tensor.range.count;
        round[least].push_back(std::move(tensor));
      }
      rounds.push_back(std::move(round));
      left = std::move(later);
    }
    return rounds;
  }

  static std::int64_t numbers_of(const std::vector<NamedTensor>& tensors) {
    std::int64_t all = 0;
    for (const auto& tensor : tensors) all += tensor.range.count;
    return all;
  }

  /// Puts what every rank made of a round, its tensors end to end, on all ranks.
  template <class Put>
  static void exchange(const Round& round, const at::Tensor& numbers, const Team& team, const Put& put) {
    std::int64_t longest = 0;
    for (const auto& tensors : round) longest = std::max(longest, numbers_of(tensors));
    const auto size = std::min(Team::gathered_at_once, longest);
    const auto mine = at::zeros({size}, at::kFloat);
    for (std::int64_t at = 0; at < longest; at += size) {
      if (const auto n = std::min(size, numbers.numel() - at); n > 0)
        mine.narrow(0, 0, n).copy_(numbers.narrow(0, at, n));
      const auto all = team.gathered(mine);
      for (std::size_t rank = 0; rank < round.size(); ++rank) {
        std::int64_t first = 0;  // of the tensor, in what the rank made
        for (const auto& tensor : round[rank]) {
          const auto from = std::max(at, first), until = std::min(at + size, first + tensor.range.count);
          if (from < until)
            put(tensor.range.begin + from - first,
                all.narrow(0, static_cast<std::int64_t>(rank) * size + from - at, until - from));
          first += tensor.range.count;
        }
      }
    }
  }

  /// Calls see(begin, numbers) with the merged tensor: a matrix at once, all else stretch by stretch.
  template <class See>
  void each_stretch(const TaskVectors& vectors, const std::vector<double>& w, const NamedTensor& tensor,
                    const See& see) const {
    const bool matrix = is_matrix(tensor);
    vectors.visit(vectors.all(), tensor.range, matrix ? tensor.range.count : 1,
                  [&](std::int64_t begin, std::span<const at::Tensor> tau) {
                    see(begin, matrix ? of_matrix(tensor, tau, w) : mean(tau, w));
                  });
  }

  /// What a matrix' factorisations take for `count` tasks; 0 where it is none. A thin SVD with both factors
  /// takes 6mn² + 20n³ flops of m ≥ n (Golub and Van Loan, table 8.6.1).
  double flops(const NamedTensor& tensor, std::size_t count) const {
    if (!is_matrix(tensor)) return 0;
    const double of_tasks = static_cast<double>(count);
    const double svds =
        (each_factored_ ? of_tasks + 2 : 1) + (core_ ? of_tasks + 2 : 0);  // the cores are small
    const auto [n, m] =
        std::minmax({static_cast<double>(tensor.shape[0]), static_cast<double>(tensor.shape[1])});
    return svds * (6 * m * n * n + 20 * n * n * n);
  }

  bool is_matrix(const NamedTensor& tensor) const {
    return tensor.shape.size() == 2 && tensor.range.count > 0 &&
           std::none_of(exclude_.begin(), exclude_.end(),
                        [&](const std::string& part) { return tensor.name.find(part) != std::string::npos; });
  }

  at::Tensor of_matrix(const NamedTensor& tensor, std::span<const at::Tensor> tau,
                       const std::vector<double>& w) const {
    // Frozen layers' matrices, which no task changes, are most of a large model's.
    if (std::none_of(tau.begin(), tau.end(),
                     [](const auto& vector) { return vector.any().template item<bool>(); }))
      return at::zeros({tensor.range.count}, at::kFloat);
    const Deltas deltas = {
        tau.size(), [&](std::size_t t) { return tau[t].view(tensor.shape).to(at::kDouble).mul_(w[t]); }};
    return (core_ ? in_core(deltas, formula_) : formula_(deltas)).to(at::kFloat).contiguous().view({-1});
  }

  static at::Tensor mean(std::span<const at::Tensor> tau, const std::vector<double>& w) {
    auto sum = at::zeros(tau.front().sizes(), at::kDouble);
    for (std::size_t t = 0; t < tau.size(); ++t) sum.add_(tau[t], w[t]);
    return sum.div_(static_cast<double>(tau.size())).to(at::kFloat);
  }

  std::vector<std::string> exclude_;
  bool core_;
  Formula formula_;
  bool each_factored_;
};

std::shared_ptr<const VectorMethod> make_tsv_m(config::Section parameters) {
  return std::make_shared<OnMatrices>(parameters, tsv_m, true);
}

std::shared_ptr<const VectorMethod> make_iso_c(config::Section parameters) {
  return std::make_shared<OnMatrices>(parameters, iso_c, false);
}

std::shared_ptr<const VectorMethod> make_iso_cts(config::Section parameters) {
  const auto common =
      parameters.real("common_space", "The common space's share of the singular vectors", 0.8, {0, 1});
  return std::make_shared<OnMatrices>(
      parameters, [common](const Deltas& deltas) { return iso_cts(deltas, common); }, true);
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    tsv_m, 100, make_tsv_m, nullptr,
    "Task singular vectors (Gargiulo et al. 2025): of each task's matrix the leading singular "
    "triples, made orthogonal among tasks")
TAUGRID_MERGING_METHOD(
    iso_c, 110, make_iso_c, nullptr,
    "Isotropic merging (Marczak et al. 2025): the summed matrix with its mean singular value")
TAUGRID_MERGING_METHOD(iso_cts, 120, make_iso_cts, nullptr,
                       "Isotropic merging in a common space and one for each task (Marczak et al. 2025)")
