// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/nets/text_line.hpp"

#include <ATen/ATen.h>

#include <limits>

namespace taugrid::models {

at::Tensor last_places(const Batch& batch) {
  return (batch.lengths - 1).to(batch.held().device(), /*non_blocking=*/true);
}

at::Tensor line_of(const Batch& batch) {
  if (batch.in_line() == 0) return batch.inputs;
  const auto last = batch.inputs.gather(1, last_places(batch).unsqueeze(1));
  return at::cat({last, batch.decoder.narrow(1, 1, batch.in_line() - 1), batch.inputs}, 1);
}

autodiff::Packing with_places(autodiff::Packing packing, std::int64_t places) {
  if (!packing) return packing;
  for (auto& length : packing.lengths) length += places;
  packing.tokens += places;
  return packing;
}

at::Tensor positions_of(const Batch& batch) {
  const auto depth = batch.sees.sum(2) - 1;
  const auto of_text = at::arange(batch.tokens(), depth.options()).expand({batch.size(), batch.tokens()});
  return at::cat({last_places(batch).unsqueeze(1) + depth, of_text}, 1);
}

at::Tensor by_rows(const at::Tensor& positions, const autodiff::Packing& packing) {
  if (!packing || !positions.defined()) return positions.defined() ? positions.flatten() : positions;
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < positions.size(0); ++i)
    rows.push_back(positions[i].narrow(0, 0, packing.lengths[static_cast<std::size_t>(i)]));
  return at::cat(rows);
}

at::Tensor mask_of_answers(const Batch& batch, const at::Tensor& positions, std::int64_t window,
                           bool of_places, const at::TensorOptions& options) {
  const auto n = batch.size(), places = batch.in_line(), tokens = batch.tokens();
  const auto text = at::arange(tokens, positions.options());
  const auto before_last = text.unsqueeze(0).lt(last_places(batch).unsqueeze(1)).unsqueeze(1);
  auto sees = at::cat({batch.sees, before_last.expand({n, places, tokens})}, 2);
  if (!of_places) {
    const auto causal = text.unsqueeze(0).le(text.unsqueeze(1)).expand({n, tokens, tokens});
    const auto never = at::zeros({n, tokens, places}, causal.options());
    sees = at::cat({sees, at::cat({never, causal}, 2)}, 1);
  }
  if (window > 0) {
    const auto of_queries = of_places ? positions.narrow(1, 0, places) : positions;
    sees = sees.logical_and((of_queries.unsqueeze(2) - positions.unsqueeze(1)).lt(window));
  }
  return at::zeros(sees.sizes(), options)
      .masked_fill_(sees.logical_not(), -std::numeric_limits<double>::infinity());
}

at::Tensor mask_of_all(std::int64_t tokens, std::int64_t window, const at::TensorOptions& options) {
  const auto never = at::full({tokens, tokens}, -std::numeric_limits<double>::infinity(), options);
  const auto behind = never.triu(1);
  return window > 0 && window < tokens ? behind + never.tril(-window) : behind;
}

at::Tensor mask_of_last(const Batch& batch, std::int64_t window, const at::TensorOptions& options) {
  const auto place = at::arange(batch.tokens(), at::kLong).unsqueeze(0);
  const auto last = batch.lengths.unsqueeze(1) - 1;
  auto hidden = place > last;
  if (window > 0) hidden = hidden.logical_or(place <= last - window);
  return at::zeros(hidden.sizes(), options.device(at::kCPU))
      .masked_fill_(hidden, -std::numeric_limits<double>::infinity())
      .unsqueeze(1)
      .to(options.device(), /*non_blocking=*/true);
}

}  // namespace taugrid::models
