// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/vectors/aligned.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "suite/error.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

constexpr std::int64_t most_rows = std::int64_t{1} << 15;  // their Gram matrix takes 9 GB

/// U [m, k] of the tasks' matrices [m, n], the largest singular value first. Columns whose singular value is
/// below float32's rounding of σ_1 are left out.
at::Tensor common_columns(std::span<const at::Tensor> tau, const std::vector<std::int64_t>& shape) {
  auto gram = at::zeros({shape[0], shape[0]}, at::kDouble);
  for (const auto& vector : tau) {
    const auto delta = vector.view(shape).to(at::kDouble);
    gram.addmm_(delta, delta.t());
  }
  const auto [squares, vectors] = at::linalg_eigh(gram);  // the least first
  const auto longest = std::max<double>(static_cast<double>(shape[0]),
                                        static_cast<double>(shape[1]) * static_cast<double>(tau.size()));
  const double least = std::sqrt(longest) * std::numeric_limits<float>::epsilon();
  const auto rank = squares.gt(least * least * squares[-1].item<double>()).sum().item<std::int64_t>();
  return vectors.narrow(1, shape[0] - rank, rank).flip(1).to(at::kFloat).contiguous();
}

bool any_changes(const TaskVectors& whole, const NamedTensor& tensor) {
  bool changes = false;
  whole.visit(whole.all(), tensor.range, 1, [&](std::int64_t, std::span<const at::Tensor> tau) {
    for (const auto& vector : tau) changes = changes || vector.any().item<bool>();
  });
  return changes;
}

}  // namespace

bool is_aligned(const NamedTensor& tensor, const std::vector<std::string>& exclude) {
  return tensor.shape.size() == 2 && tensor.range.count > 0 &&
         std::none_of(exclude.begin(), exclude.end(),
                      [&](const std::string& part) { return tensor.name.find(part) != std::string::npos; });
}

AlignedVectors::AlignedVectors(const TaskVectors& whole, const std::vector<std::string>& exclude)
    : whole_(whole) {
  std::int64_t length = 0;
  for (const auto& tensor : whole.tensors()) {
    NamedTensor aligned = {tensor.name, tensor.shape, {length, tensor.range.count}};
    at::Tensor basis;
    if (is_aligned(tensor, exclude)) {
      if (tensor.shape[0] > most_rows)
        throw InputError("space = \"knots\": " + store::quoted(tensor.name) + " has " +
                         std::to_string(tensor.shape[0]) +
                         " rows, of which the bases are taken; expected at most " +
                         std::to_string(most_rows) + ", or a part of its name in knots_exclude");
      whole.visit(
          whole.all(), tensor.range, tensor.range.count,
          [&](std::int64_t, std::span<const at::Tensor> tau) { basis = common_columns(tau, tensor.shape); });
      aligned.shape[0] = basis.size(1);
      aligned.range.count = basis.size(1) * tensor.shape[1];
    } else if (!any_changes(whole, tensor)) {
      aligned.range.count = 0;
    }
    length += aligned.range.count;
    tensors_.push_back(std::move(aligned));
    bases_.push_back(std::move(basis));
  }
}

void AlignedVectors::visit_tensor(const std::vector<std::size_t>& which, std::size_t i, Range part,
                                  const Visitor& see) const {
  const auto& tensor = whole_.tensors()[i];
  if (!bases_[i].defined()) {
    whole_.visit(which, {tensor.range.begin + part.begin, part.count}, 1, see);
    return;
  }
  whole_.visit(which, tensor.range, tensor.range.count, [&](std::int64_t, std::span<const at::Tensor> tau) {
    std::vector<at::Tensor> aligned(which.size());
    for (std::size_t t = 0; t < which.size(); ++t)
      aligned[t] =
          at::mm(bases_[i].t(), tau[t].view(tensor.shape)).flatten().narrow(0, part.begin, part.count);
    see(part.begin, aligned);
  });
}

void AlignedVectors::do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                              const Visitor& visitor) const {
  if (align != 1 || std::find(which.begin(), which.end(), theta0) != which.end())
    throw std::logic_error("aligned vectors are visited number by number, and without θ0");
  const auto size = std::min(stretch(which.size(), align), range.count);
  const auto memory = at::empty({static_cast<std::int64_t>(which.size()), size}, at::kFloat);
  std::vector<at::Tensor> stretches(which.size());
  auto begin = range.begin;
  std::int64_t filled = 0;
  const auto see = [&] {
    for (std::size_t t = 0; t < which.size(); ++t)
      stretches[t] = memory[static_cast<std::int64_t>(t)].narrow(0, 0, filled);
    visitor(begin, stretches);
    begin += filled;
    filled = 0;
  };
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto& tensor_range = tensors_[i].range;
    const auto until = std::min(range.end(), tensor_range.end());
    if (std::max(range.begin, tensor_range.begin) >= until) continue;
    const auto from = std::max(range.begin, tensor_range.begin);
    visit_tensor(
        which, i, {from - tensor_range.begin, until - from},
        [&](std::int64_t, std::span<const at::Tensor> numbers) {
          const auto count = numbers.empty() ? 0 : numbers.front().numel();
          for (std::int64_t at = 0; at < count;) {
            const auto n = std::min(size - filled, count - at);
            for (std::size_t t = 0; t < which.size(); ++t)
              memory[static_cast<std::int64_t>(t)].narrow(0, filled, n).copy_(numbers[t].narrow(0, at, n));
            at += n;
            filled += n;
            if (filled == size) see();
          }
        });
  }
  if (filled > 0) see();
}

std::int64_t AlignedVectors::lift(const at::Tensor& tau, const Sink& sink) const {
  std::int64_t nonzero = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto& range = whole_.tensors()[i].range;
    if (range.count == 0) continue;
    const auto part = tau.narrow(0, tensors_[i].range.begin, tensors_[i].range.count);
    if (bases_[i].defined()) {
      const auto lifted = at::mm(bases_[i], part.view(tensors_[i].shape)).flatten().contiguous();
      nonzero += at::count_nonzero(lifted).item<std::int64_t>();
      sink.put(range.begin, lifted);
      continue;
    }
    const auto size = stretch(1, 1);
    for (std::int64_t begin = 0; begin < range.count; begin += size) {
      const auto n = std::min(size, range.count - begin);
      const auto lifted = part.numel() > 0 ? part.narrow(0, begin, n) : at::zeros({n}, at::kFloat);
      nonzero += at::count_nonzero(lifted).item<std::int64_t>();
      sink.put(range.begin + begin, lifted);
    }
  }
  return nonzero;
}

}  // namespace taugrid::merging
