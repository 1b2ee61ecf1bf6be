// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/sink.hpp"

#include <ATen/ATen.h>

namespace taugrid::merging {

at::Tensor Sink::place(std::int64_t begin, std::int64_t n, at::Tensor& buffer) const {
  if (whole_.defined()) return whole_.narrow(0, begin, n);
  if (!buffer.defined() || buffer.numel() < n) buffer = at::empty({n}, at::kFloat);
  return buffer.narrow(0, 0, n);
}

void Sink::put(std::int64_t begin, const at::Tensor& tau) const {
  if (whole_.defined()) {
    const auto there = whole_.narrow(0, begin, tau.numel());
    if (there.const_data_ptr() != tau.const_data_ptr()) there.copy_(tau);
  }
  see_(begin, tau);
}

void Sink::put(const at::Tensor& tau, const Counted& counted) const {
  put(counted.range.begin, tau);
  if (journal_ != nullptr) journal_->finish(counted);
}

}  // namespace taugrid::merging
