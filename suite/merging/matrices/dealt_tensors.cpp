// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/matrices/dealt_tensors.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace taugrid::merging {
namespace {

using Round = std::vector<std::vector<NamedTensor>>;  ///< of each rank

/// The dearest first, each dealt to the rank that has least. What a rank has of a round is no dearer than
/// the round's dearest tensor: so no rank waits long, and all hear of each other after every round.
std::vector<Round> rounds_of(std::vector<NamedTensor> left, std::size_t count, std::size_t ranks,
                             const TensorFlops& flops) {
  const auto cost = [&](const NamedTensor& tensor) {
    return flops(tensor) +
           flops_of_reading * static_cast<double>(count) * static_cast<double>(tensor.range.count);
  };
  const auto room = most_of_a_round(left);
  std::erase_if(left, [](const NamedTensor& tensor) { return tensor.range.count == 0; });
  std::stable_sort(left.begin(), left.end(), [&](const auto& x, const auto& y) { return cost(x) > cost(y); });
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

std::int64_t numbers_of(const std::vector<NamedTensor>& tensors) {
  std::int64_t all = 0;
  for (const auto& tensor : tensors) all += tensor.range.count;
  return all;
}

/// Puts what every rank made of a round, its tensors end to end, on all ranks.
void exchange(const Round& round, const at::Tensor& numbers, const Team& team, const Sink::See& put) {
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

}  // namespace

std::int64_t most_of_a_round(const std::vector<NamedTensor>& tensors) {
  auto most = Team::gathered_at_once;
  for (const auto& tensor : tensors) most = std::max(most, tensor.range.count);
  return most;
}

std::int64_t put_tensors(const TaskVectors& vectors, const TensorFlops& flops, const MakeTensor& make,
                         const Sink& sink, const Team& team) {
  std::int64_t nonzero = 0;
  const auto put = [&](std::int64_t begin, const at::Tensor& merged) {
    nonzero += at::count_nonzero(merged).item<std::int64_t>();
    sink.put(begin, merged);
  };
  if (team.size() == 1) {
    for (const auto& tensor : vectors.tensors()) make(tensor, put);
    return nonzero;
  }
  for (const auto& round :
       rounds_of(vectors.tensors(), vectors.count(), static_cast<std::size_t>(team.size()), flops)) {
    const auto& tensors = round[static_cast<std::size_t>(team.rank())];
    const auto numbers = at::empty({numbers_of(tensors)}, at::kFloat);
    std::int64_t first = 0;  // of a tensor, in what was made
    for (const auto& tensor : tensors) {
      make(tensor, [&](std::int64_t begin, const at::Tensor& merged) {
        numbers.narrow(0, first + begin - tensor.range.begin, merged.numel()).copy_(merged);
      });
      first += tensor.range.count;
    }
    exchange(round, numbers, team, put);
  }
  return nonzero;
}

}  // namespace taugrid::merging
