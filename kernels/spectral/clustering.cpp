// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/spectral/clustering.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <utility>

namespace taugrid::spectral {
namespace {

constexpr int starts = 64;
constexpr int rounds = 200;  // of Lloyd's algorithm, which ends long before

at::Tensor affinity(const at::Tensor& similarity) {
  if (similarity.dim() != 2 || similarity.size(0) != similarity.size(1) || similarity.size(0) < 1 ||
      similarity.scalar_type() != at::kDouble || !similarity.is_cpu())
    throw std::invalid_argument("similarities: expected float64 [T,T] on the host");
  if (!at::isfinite(similarity).all().item<bool>())
    throw std::invalid_argument("similarities: expected finite numbers");
  return similarity.abs().fill_diagonal_(0);
}

/// D^−½ W D^−½, 0 where a task resembles none.
at::Tensor scaled(const at::Tensor& w) {
  const auto degree = w.sum(1);
  const auto root = at::where(degree > 0, degree.rsqrt(), at::zeros_like(degree));
  return w * root.outer(root);
}

struct Found {
  std::vector<std::int64_t> labels;
  double distance = std::numeric_limits<double>::infinity();
};

/// Points are rows of x, [T,d] contiguous.
class KMeans {
 public:
  KMeans(at::Tensor x, std::int64_t k) : x_(std::move(x)), t_(x_.size(0)), d_(x_.size(1)), k_(k) {}

  Found from(std::mt19937_64& random) {
    seed(random);
    Found partition;
    partition.labels.assign(static_cast<std::size_t>(t_), -1);
    for (int round = 0; round < rounds; ++round) {
      const auto before = partition.labels;
      partition.distance = assign(partition.labels);
      if (partition.labels == before) break;
      move(partition.labels);
    }
    partition.distance = refine(partition.labels);
    return partition;
  }

 private:
  const double* row(std::int64_t t) const { return x_.const_data_ptr<double>() + t * d_; }
  double distance(std::int64_t t, std::int64_t c) const {
    double sum = 0;
    for (std::int64_t j = 0; j < d_; ++j) {
      const double difference = row(t)[j] - centres_[static_cast<std::size_t>(c * d_ + j)];
      sum += difference * difference;
    }
    return sum;
  }

  /// k-means++ (Arthur and Vassilvitskii 2007).
  void seed(std::mt19937_64& random) {
    const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    centres_.assign(static_cast<std::size_t>(k_ * d_), 0);
    std::vector<double> nearest(static_cast<std::size_t>(t_), std::numeric_limits<double>::infinity());
    for (std::int64_t c = 0; c < k_; ++c) {
      double all = 0;
      for (const auto each : nearest) all += each;
      auto chosen = static_cast<std::int64_t>(unit() * static_cast<double>(t_));
      if (c > 0 && all > 0) {
        double left = unit() * all;
        for (chosen = 0; chosen < t_ - 1; ++chosen) {
          left -= nearest[static_cast<std::size_t>(chosen)];
          if (left < 0) break;
        }
      }
      std::copy_n(row(chosen), d_, centres_.begin() + c * d_);
      for (std::int64_t t = 0; t < t_; ++t) {
        auto& least = nearest[static_cast<std::size_t>(t)];
        least = std::min(least, distance(t, c));
      }
    }
  }

  double assign(std::vector<std::int64_t>& labels) const {
    double all = 0;
    for (std::int64_t t = 0; t < t_; ++t) {
      double least = std::numeric_limits<double>::infinity();
      for (std::int64_t c = 0; c < k_; ++c) {
        const double there = distance(t, c);
        if (there >= least) continue;
        least = there;
        labels[static_cast<std::size_t>(t)] = c;
      }
      all += least;
    }
    return all;
  }

  /// A centre without points takes the one that lies farthest from its own.
  void move(const std::vector<std::int64_t>& labels) {
    std::vector<double> sums(centres_.size(), 0);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(k_), 0);
    for (std::int64_t t = 0; t < t_; ++t) {
      const auto c = labels[static_cast<std::size_t>(t)];
      ++counts[static_cast<std::size_t>(c)];
      for (std::int64_t j = 0; j < d_; ++j) sums[static_cast<std::size_t>(c * d_ + j)] += row(t)[j];
    }
    for (std::int64_t c = 0; c < k_; ++c) {
      const auto count = counts[static_cast<std::size_t>(c)];
      const auto at = static_cast<std::size_t>(c * d_);
      if (count == 0) {
        std::int64_t farthest = 0;
        for (std::int64_t t = 1; t < t_; ++t) {
          if (distance(t, labels[static_cast<std::size_t>(t)]) >
              distance(farthest, labels[static_cast<std::size_t>(farthest)]))
            farthest = t;
        }
        std::copy_n(row(farthest), d_, sums.begin() + static_cast<std::ptrdiff_t>(at));
      }
      for (std::int64_t j = 0; j < d_; ++j)
        centres_[at + static_cast<std::size_t>(j)] =
            sums[at + static_cast<std::size_t>(j)] / static_cast<double>(std::max<std::int64_t>(count, 1));
    }
  }

  /// Moves single points as long as that lowers the sum of squared distances, which is returned (Hartigan
  /// 1975): of few points in many clusters most of Lloyd's ends are not the best.
  double refine(std::vector<std::int64_t>& labels) {
    move(labels);
    std::vector<double> counts(static_cast<std::size_t>(k_), 0);
    for (const auto c : labels) ++counts[static_cast<std::size_t>(c)];
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int64_t t = 0; t < t_; ++t) {
        auto& label = labels[static_cast<std::size_t>(t)];
        const auto here = counts[static_cast<std::size_t>(label)];
        if (here == 1) continue;
        double least = distance(t, label) * here / (here - 1) - 1e-12;
        auto to = label;
        for (std::int64_t c = 0; c < k_; ++c) {
          const auto there = counts[static_cast<std::size_t>(c)];
          if (c == label || distance(t, c) * there / (there + 1) >= least) continue;
          least = distance(t, c) * there / (there + 1);
          to = c;
        }
        if (to == label) continue;
        shift(t, label, -1, counts);
        shift(t, to, 1, counts);
        label = to;
        moved = true;
      }
    }
    double all = 0;
    for (std::int64_t t = 0; t < t_; ++t) all += distance(t, labels[static_cast<std::size_t>(t)]);
    return all;
  }

  /// The centre of c with point t, or without it.
  void shift(std::int64_t t, std::int64_t c, int sign, std::vector<double>& counts) {
    auto& count = counts[static_cast<std::size_t>(c)];
    count += sign;
    for (std::int64_t j = 0; j < d_; ++j) {
      auto& centre = centres_[static_cast<std::size_t>(c * d_ + j)];
      centre += sign * (row(t)[j] - centre) / count;
    }
  }

  at::Tensor x_;
  std::int64_t t_, d_, k_;
  std::vector<double> centres_;
};

}  // namespace

LaplacianEigenvalues laplacian_eigenvalues(const at::Tensor& similarity) {
  const auto w = affinity(similarity);
  return {at::linalg_eigvalsh(at::diag(w.sum(1)) - w),
          at::linalg_eigvalsh(at::eye(w.size(0), w.options()) - scaled(w))};
}

std::int64_t largest_gap(const at::Tensor& eigenvalues) {
  const auto t = eigenvalues.size(0);
  if (t <= 2) return t;
  const auto gaps = eigenvalues.slice(0, 2) - eigenvalues.slice(0, 1, t - 1);  // from λ_3 − λ_2 on
  return 2 + gaps.argmax().item<std::int64_t>();
}

std::vector<std::int64_t> spectral_partition(const at::Tensor& similarity, std::int64_t k,
                                             std::uint64_t seed) {
  const auto w = affinity(similarity);
  const auto t = w.size(0);
  if (k < 1 || k > t) throw std::invalid_argument("clusters: expected 1 to the number of tasks");
  const auto vectors = std::get<1>(at::linalg_eigh(scaled(w)));
  const auto leading = vectors.narrow(1, t - k, k);
  const auto norm = leading.norm(2, {1}, true);
  KMeans means(at::where(norm > 0, leading / norm, leading).contiguous(), k);
  std::mt19937_64 random(seed);
  Found best;
  std::int64_t used = 0;  // clusters of the best
  for (int start = 0; start < starts; ++start) {
    auto partition = means.from(random);
    partition.labels = in_order(partition.labels);
    const auto clusters = 1 + *std::max_element(partition.labels.begin(), partition.labels.end());
    if (clusters < used || (clusters == used && partition.distance >= best.distance - 1e-12)) continue;
    used = clusters;
    best = std::move(partition);
  }
  return best.labels;
}

std::vector<std::int64_t> split_by_sign(const at::Tensor& similarity, const std::vector<std::int64_t>& labels,
                                        double least, std::uint64_t seed) {
  affinity(similarity);  // for its checks
  if (static_cast<std::int64_t>(labels.size()) != similarity.size(0))
    throw std::invalid_argument("labels: expected one a task");
  auto parts = labels;
  const auto last = *std::max_element(labels.begin(), labels.end());
  auto next = last + 1;
  for (std::int64_t c = 0; c <= last; ++c) {
    std::vector<std::int64_t> members;
    for (std::size_t t = 0; t < labels.size(); ++t)
      if (labels[t] == c) members.push_back(static_cast<std::int64_t>(t));
    if (members.size() < 2) continue;
    const auto places = at::tensor(members, at::kLong);
    const auto inside = similarity.index_select(0, places).index_select(1, places);
    const auto smallest = inside.min().item<double>();
    if (smallest >= least || smallest >= 0) continue;
    const auto halves = spectral_partition(inside - smallest, 2, seed);
    for (std::size_t i = 0; i < members.size(); ++i)
      if (halves[i] == 1) parts[static_cast<std::size_t>(members[i])] = next;
    ++next;
  }
  return in_order(parts);
}

double adjusted_rand_index(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  if (a.size() != b.size() || a.empty())
    throw std::invalid_argument("partitions of the same tasks are expected");
  std::map<std::pair<std::int64_t, std::int64_t>, double> both;
  std::map<std::int64_t, double> of_a, of_b;
  for (std::size_t t = 0; t < a.size(); ++t) {
    ++both[{a[t], b[t]}];
    ++of_a[a[t]];
    ++of_b[b[t]];
  }
  const auto pairs = [](const auto& counts) {
    double sum = 0;
    for (const auto& [label, n] : counts) sum += n * (n - 1) / 2;
    return sum;
  };
  const auto n = static_cast<double>(a.size());
  const double together = pairs(both), in_a = pairs(of_a), in_b = pairs(of_b);
  const double by_chance = n > 1 ? in_a * in_b / (n * (n - 1) / 2) : 0, most = (in_a + in_b) / 2;
  return most == by_chance ? 1 : (together - by_chance) / (most - by_chance);
}

std::vector<std::int64_t> in_order(const std::vector<std::int64_t>& labels) {
  std::map<std::int64_t, std::int64_t> number;
  std::vector<std::int64_t> ordered;
  for (const auto label : labels)
    ordered.push_back(number.try_emplace(label, static_cast<std::int64_t>(number.size())).first->second);
  return ordered;
}

}  // namespace taugrid::spectral
