// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/frozen_stages.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "suite/study/points.hpp"

namespace taugrid::study {

const FrozenStages::Ordered& FrozenStages::ordered(std::size_t t, data::Split split) {
  auto [entry, is_new] = ordered_.try_emplace({t, split});
  auto& [rows, places] = entry->second;
  if (is_new) {
    rows = order_(t, split);
    places = at::empty_like(rows).index_copy_(0, rows, at::arange(rows.size(0), at::kLong));
  }
  return entry->second;
}

models::Batch FrozenStages::through(models::Batch batch, int from) const {
  const at::NoGradGuard no_grad;
  const auto& encoder = model_.encoder();
  const models::Given given{batch, model_.start_buffers()};
  batch.hidden = encoder.run_to(from - 1, model_.layout().views(model_.theta0()), given);
  batch.from = from;
  batch.before_text = encoder.answers_in_line()   ? batch.in_line()
                      : encoder.decodes(from - 1) ? batch.decoded()
                                                  : 0;
  batch.inputs.reset();
  batch.types.reset();
  return batch;
}

const models::Batch& FrozenStages::chunk_of(const Name& name) {
  if (const auto entry = index_.find(name); entry != index_.end()) {
    kept_.splice(kept_.begin(), kept_, entry->second);
    return entry->second->second;
  }
  const auto [t, split, from, number] = name;
  const auto& rows = ordered(t, split).rows;
  const auto begin = number * chunk_;
  auto batch = through(raw_(t, split, rows.narrow(0, begin, std::min(chunk_, rows.size(0) - begin))), from);
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

at::Tensor shorter_first(const at::Tensor& rows, const at::Tensor& lengths, std::int64_t group) {
  const Points texts(rows.size(0), {}, lengths);  // of which nothing but lengths is asked
  std::vector<at::Tensor> groups;
  for (std::int64_t begin = 0; begin < texts.size(); begin += group) {
    const auto sorted = texts.by_length(begin, std::min(group, texts.size() - begin));
    groups.push_back(rows.index_select(0, sorted));
  }
  return groups.empty() ? rows : at::cat(groups);
}

models::Batch FrozenStages::run(std::size_t t, data::Split split, const at::Tensor& rows, int from) {
  const auto places = ordered(t, split).places.index_select(0, rows);
  std::vector<models::Batch> parts;
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const auto place = places[i].item<std::int64_t>();
    parts.push_back(chunk_of({t, split, from, place / chunk_}).narrow(place % chunk_, 1));
  }
  if (parts.empty()) parts.push_back(chunk_of({t, split, from, 0}).narrow(0, 0));
  return models::joined(parts);
}

}  // namespace taugrid::study
