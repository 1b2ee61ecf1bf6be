// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/tangent/ntk.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "kernels/tangent/detail/gram_of_uses.hpp"

namespace taugrid::tangent {
namespace {

void mirror(at::Tensor& kernels) {  // [C, n, n], right of the diagonal → left
  const auto upper = kernels.triu(1);
  kernels.triu_().add_(upper.transpose(1, 2));
}

}  // namespace

at::Tensor ntk_gram(const autodiff::Layout& layout, const autodiff::Function<autodiff::Recorded>& logits,
                    const at::Tensor& theta, const std::vector<std::int64_t>& which, Range rows,
                    std::int64_t workspace, const std::vector<bool>& trained) {
  autodiff::Recording recording;
  autodiff::record(layout, logits, theta, recording);
  const auto& output = recording.output;  // [N, classes]
  const auto n = output.size(0), count = static_cast<std::int64_t>(which.size());
  auto gram = at::zeros({count, rows.count, n}, output.options().requires_grad(false));
  const detail::Window window{n, rows.begin, rows.end()};
  std::vector<detail::GramOfUses> shares;
  std::vector<std::vector<std::size_t>> shares_of(recording.tape.outputs.size());
  for (const auto& uses : autodiff::uses_by_block(recording.tape)) {
    const at::NoGradGuard no_grad;
    const auto number = static_cast<std::size_t>(uses.front()->block);
    if (!trained.empty() && !trained[number]) continue;
    const auto& block = layout.blocks()[number];
    for (const auto* use : uses) shares_of[use->output].push_back(shares.size());
    shares.emplace_back(uses, block, recording.tape, window, count, workspace);
  }
  for (std::int64_t c = 0; c < count; ++c) {
    auto cotangent = at::zeros_like(output).detach();
    cotangent.select(1, which[static_cast<std::size_t>(c)]).fill_(1);
    auto kernel = gram.select(0, c);
    std::vector<at::Tensor> gradients(shares_of.size());  // of blocks with several uses
    autodiff::each_output_gradient(recording, cotangent, c + 1 < count,
                                   [&](std::size_t i, const at::Tensor& gradient) {
                                     for (const auto share : shares_of[i]) {
                                       if (shares[share].of_one_output()) {
                                         shares[share].add(kernel, gradient);
                                       } else {
                                         gradients[i] = gradient;
                                       }
                                     }
                                   });
    const at::NoGradGuard no_grad;
    for (const auto& share : shares) {
      if (!share.of_one_output()) share.add_all(kernel, gradients);
    }
  }
  if (window.symmetric()) mirror(gram);
  return gram;
}

double ntk_work_space(const autodiff::Layout& layout, const std::vector<autodiff::Meter::MatrixUse>& uses,
                      std::int64_t rows, std::int64_t n, std::int64_t logits, std::int64_t workspace) {
  std::map<int, int> times;
  for (const auto& use : uses) ++times[use.block];
  const detail::Window window{n, 0, rows};
  double kept = 0, multiplied_out = 0;
  for (const auto& use : uses) {
    const auto size = static_cast<double>(layout.blocks()[static_cast<std::size_t>(use.block)].count);
    const auto left = workspace - static_cast<std::int64_t>(kept);
    if (times[use.block] == 1 &&
        detail::by_sides_is_better(use.tokens, use.out, use.in, size, window, logits, left)) {
      const auto needed = static_cast<double>(rows * n) * use.tokens * use.tokens;
      if (needed <= static_cast<double>(left)) kept += needed;
    } else {
      multiplied_out = std::max(multiplied_out, static_cast<double>(n) * size);
    }
  }
  return kept + std::min(multiplied_out, static_cast<double>(workspace));
}

LocalEnergy local_energy(const at::Tensor& kernel) {
  const auto [u, s, vh] = at::linalg_svd(kernel.to(at::kDouble), /*full_matrices=*/false);
  const auto kept = s > s.max() * energy_cut_off;
  return {(vh.square() * kept.unsqueeze(1)).sum(0), kept.sum().item<std::int64_t>()};
}

}  // namespace taugrid::tangent
