// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/frozen_stages.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace taugrid::study {

const models::Batch& FrozenStages::chunk_of(const Name& name, std::int64_t count) {
  if (const auto entry = index_.find(name); entry != index_.end()) {
    kept_.splice(kept_.begin(), kept_, entry->second);
    return entry->second->second;
  }
  const at::NoGradGuard no_grad;
  const auto [t, split, from, number] = name;
  const auto begin = number * chunk_;
  auto batch = raw_(t, split, at::arange(begin, std::min(count, begin + chunk_), at::kLong));
  const auto& layout = model_.layout();
  const models::Given given{batch, model_.start_buffers()};
  batch.hidden = model_.encoder().run_to(from - 1, layout.views(model_.theta0()), given);
  batch.from = from;
  const auto& encoder = model_.encoder();
  batch.before_text = encoder.answers_in_line()   ? batch.in_line()
                      : encoder.decodes(from - 1) ? batch.decoded()
                                                  : 0;
  batch.inputs.reset();
  batch.types.reset();
  held_ += batch.hidden.nbytes();
  kept_.emplace_front(name, std::move(batch));
  index_[name] = kept_.begin();
  while (held_ > bytes_ && kept_.size() > 1) {
    held_ -= kept_.back().second.hidden.nbytes();
    index_.erase(kept_.back().first);
    kept_.pop_back();
  }
  return kept_.front().second;
}

models::Batch FrozenStages::run(std::size_t t, data::Split split, std::int64_t count, const at::Tensor& rows,
                                int from) {
  std::vector<models::Batch> parts;
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const auto row = rows[i].item<std::int64_t>();
    parts.push_back(chunk_of({t, split, from, row / chunk_}, count).narrow(row % chunk_, 1));
  }
  if (parts.empty()) parts.push_back(chunk_of({t, split, from, 0}, count).narrow(0, 0));
  return models::joined(parts);
}

}  // namespace taugrid::study
