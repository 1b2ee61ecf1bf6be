// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The stages that no regime trains give the same output for a sample in every step, at every α: they run once
// a sample, and what they give is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "suite/data/packed.hpp"
#include "suite/study/model.hpp"

namespace taugrid::study {

class FrozenStages {
 public:
  /// `raw(t, split, rows)`: what the model takes for these rows. `order(t, split)`: int64, every row of the
  /// split. Rows are run `chunk` neighbours of that order at a time, always the same ones together, so that a
  /// sample's output depends neither on who asks for it nor on what is kept.
  using Raw = std::function<models::Batch(std::size_t t, data::Split split, const at::Tensor& rows)>;
  using Order = std::function<at::Tensor(std::size_t t, data::Split split)>;
  FrozenStages(const Model& model, std::int64_t chunk, std::size_t bytes, Raw raw, Order order)
      : model_(model), chunk_(chunk), bytes_(bytes), raw_(std::move(raw)), order_(std::move(order)) {}

  /// What the stages before `from` (above 0) make of these rows at θ0, on the device.
  models::Batch run(std::size_t t, data::Split split, const at::Tensor& rows, int from);
  /// The same of what the model takes.
  models::Batch through(models::Batch batch, int from) const;

 private:
  using Name = std::tuple<std::size_t, data::Split, int, std::int64_t>;  // task, split, from, chunk
  struct Ordered {
    at::Tensor rows, places;  // int64 [n]: the rows in their order, and each row's place in it
  };
  const Ordered& ordered(std::size_t t, data::Split split);
  const models::Batch& chunk_of(const Name& name);

  const Model& model_;
  std::int64_t chunk_;
  std::size_t bytes_, held_ = 0;
  Raw raw_;
  Order order_;
  std::map<std::pair<std::size_t, data::Split>, Ordered> ordered_;
  std::list<std::pair<Name, models::Batch>> kept_;  // newest first
  std::map<Name, std::list<std::pair<Name, models::Batch>>::iterator> index_;
};

/// The rows, int64 [n], of texts with these lengths [n], so that those which run together are padded least:
/// each `group` neighbours among themselves, the shorter ones first.
at::Tensor shorter_first(const at::Tensor& rows, const at::Tensor& lengths, std::int64_t group);

}  // namespace taugrid::study
