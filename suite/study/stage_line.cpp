// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/stage_line.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

namespace taugrid::study {
namespace {

constexpr std::int64_t most_dimensions = 7;

int parts_of(const models::Encoder& encoder) { return encoder.stages() + 2; }

}  // namespace

std::int64_t StageLine::parameters(const models::Encoder& encoder, int part) {
  std::int64_t numbers = 0;
  for (const auto& block : encoder.layout().blocks())
    if (block.stage == part) numbers += block.count;
  return numbers;
}

std::vector<StageLine::Stretch> StageLine::stretches(const models::Encoder& encoder, int ranks) {
  const int parts = parts_of(encoder), with_parts = std::min(ranks, parts);
  std::vector<Stretch> all;
  std::int64_t before = 0;
  for (int r = 0, part = 0; r < with_parts; ++r) {
    const auto to = static_cast<double>(r + 1) / with_parts * static_cast<double>(encoder.layout().size());
    const int begin = part, last = parts - (with_parts - r - 1);  // one is left for each that follows
    do {
      before += parameters(encoder, part++);
      // A part goes where more than half of it lies.
    } while (part < last &&
             static_cast<double>(before) + static_cast<double>(parameters(encoder, part)) / 2 <= to);
    if (r + 1 == with_parts) part = parts;
    all.push_back({begin, part});
  }
  all.resize(static_cast<std::size_t>(ranks), {parts, parts});
  return all;
}

StageLine::StageLine(const models::Encoder& encoder) : mine_{0, parts_of(encoder)} {}

StageLine::StageLine(const models::Encoder& encoder, const comm::Communicator& group) : StageLine(encoder) {
  if (group.size() == 1) return;
  group_ = &group;
  const auto all = stretches(encoder, group.size());
  const int rank = group.rank();
  mine_ = all[static_cast<std::size_t>(rank)];
  last_ = std::min(group.size(), parts_of(encoder)) - 1;
  sends_ = rank < last_;
  if (rank > 0) before_ = group.among({rank - 1, rank}, rank - 1, "a line of ranks");
  if (rank + 1 < group.size()) after_ = group.among({rank, rank + 1}, rank, "a line of ranks");
}

at::Tensor StageLine::received(at::Device device, at::ScalarType type) const {
  auto sizes = at::empty({1 + most_dimensions}, at::kLong);
  before_->broadcast(sizes, 0, "the shape of a stage's output");
  const auto* size = sizes.const_data_ptr<std::int64_t>();
  auto state = at::empty(at::IntArrayRef(size + 1, static_cast<std::size_t>(*size)),
                         at::TensorOptions(type).device(device));
  before_->broadcast(state, 0, "a stage's output");
  return state;
}

void StageLine::send(const at::Tensor& state) const {
  if (state.dim() > most_dimensions) throw std::logic_error("a stage's output has too many dimensions");
  auto sizes = at::zeros({1 + most_dimensions}, at::kLong);
  auto* size = sizes.mutable_data_ptr<std::int64_t>();
  *size = state.dim();
  std::copy(state.sizes().begin(), state.sizes().end(), size + 1);
  after_->broadcast(sizes, 0, "the shape of a stage's output");
  auto whole = state.contiguous();
  after_->broadcast(whole, 0, "a stage's output");
}

std::int64_t StageLine::least(std::int64_t mine) const {
  if (group_ == nullptr) return mine;
  return group_->all_gather(at::full({1}, mine, at::kLong), "bounds of a line of ranks")
      .min()
      .item<std::int64_t>();
}

bool StageLine::word_of_first(bool word) const {
  auto sent = at::full({1}, word ? 1 : 0, at::kLong);
  if (before_) before_->broadcast(sent, 0, "the first rank's word");
  if (after_) after_->broadcast(sent, 0, "the first rank's word");
  return sent.item<std::int64_t>() != 0;
}

void StageLine::share_last(at::Tensor& features) const {
  if (group_ != nullptr) group_->broadcast(features, last_, "outputs of the last stretch");
}

}  // namespace taugrid::study
