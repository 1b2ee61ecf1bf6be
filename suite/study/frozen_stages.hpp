// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The stages that no regime trains give the same output for a sample in every step, at every α: they run once a
// sample, and what they give is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <tuple>
#include <vector>

#include "suite/data/packed.hpp"
#include "suite/study/model.hpp"

namespace taugrid::study {

class FrozenStages {
 public:
  /// `raw(t, split, rows)`: what the model takes for these rows. Rows are run `chunk` neighbours at a time, always
  /// the same ones together, so that a sample's output depends neither on who asks for it nor on what is kept.
  using Raw = std::function<models::Batch(std::size_t t, data::Split split, const at::Tensor& rows)>;
  FrozenStages(const Model& model, std::int64_t chunk, std::size_t bytes, Raw raw)
      : model_(model), chunk_(chunk), bytes_(bytes), raw_(std::move(raw)) {}

  /// What the stages before `from` (above 0) make of these rows of `count` at θ0, on the device.
  models::Batch run(std::size_t t, data::Split split, std::int64_t count, const at::Tensor& rows, int from);

 private:
  using Name = std::tuple<std::size_t, data::Split, int, std::int64_t>;  // task, split, from, chunk
  const models::Batch& chunk_of(const Name& name, std::int64_t count);

  const Model& model_;
  std::int64_t chunk_;
  std::size_t bytes_, held_ = 0;
  Raw raw_;
  std::list<std::pair<Name, models::Batch>> kept_;  // newest first
  std::map<Name, std::list<std::pair<Name, models::Batch>>::iterator> index_;
};

}  // namespace taugrid::study
