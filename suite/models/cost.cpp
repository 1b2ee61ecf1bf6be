// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/cost.hpp"

#include <numeric>

namespace taugrid::models {

using autodiff::Counted;
using autodiff::Meter;

Cost::Cost(const Encoder& encoder, std::int64_t tokens, std::int64_t decoded) {
  Given given{random_batch(encoder, 1, tokens, decoded)};
  if (encoder.buffers().size() > 0)
    given.buffers = encoder.buffers().views(at::zeros({encoder.buffers().size()}));
  const auto count = [&](Meter::Pass pass) {
    return autodiff::count(
        encoder.layout(),
        [&](const Blocks<Counted>& p) {
          auto z = encoder.encode(p, given);
          return decoded == 0 ? z
                              : autodiff::linear(z, p[static_cast<std::size_t>(encoder.vocabulary_block())]);
        },
        pass);
  };
  const auto value = count(Meter::Pass::value);
  forward_ = value.flops();
  passing_ = value.peak();
  for (std::size_t i = 0; i < encoder.layout().blocks().size(); ++i) by_block_.push_back(value.flops_of(i));
  passing_tangent_ = count(Meter::Pass::tangent).peak();
  kept_ = count(Meter::Pass::gradient).kept();
  autodiff::BatchStatistics of_the_batch;
  if (encoder.buffers().size() > 0) given.statistics = &of_the_batch;
  alive_ = count(Meter::Pass::gradient).peak();
  passing_by_batch_ = count(Meter::Pass::value).peak();
  given.statistics = nullptr;
  alive_linear_ = count(Meter::Pass::linear).peak();
  const auto recording = count(Meter::Pass::recording);
  alive_on_tape_ = recording.peak();
  matrix_uses_ = recording.matrix_uses();
}

double Cost::weight_gradient(const std::vector<bool>& trained) const {
  double flops = forward_ - std::accumulate(by_block_.begin(), by_block_.end(), 0.0);
  for (std::size_t i = 0; i < by_block_.size(); ++i) {
    if (trained.empty() || trained[i]) flops += by_block_[i];
  }
  return flops;
}

}  // namespace taugrid::models
