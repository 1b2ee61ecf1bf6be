// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/spectral/detail/reached.hpp"

#include <ATen/ATen.h>

namespace taugrid::spectral::detail {
namespace {

constexpr std::int64_t run = 128;

at::Tensor by_runs(const at::Tensor& x, std::int64_t runs) {
  return x.narrow(0, 0, runs * run).view({runs, run});
}

}  // namespace

Reached::Reached(const at::Tensor& image)
    : length_(image.numel()),
      runs_(length_ / run),
      reached_(by_runs(image, runs_).ne(0).any(1).nonzero().squeeze(1)) {}

bool Reached::leaves_out_much() const { return reached_.numel() > 0 && 4 * reached_.numel() <= 3 * runs_; }

at::Tensor Reached::narrowed(const at::Tensor& whole) const {
  const auto rest = length_ - runs_ * run, some = reached_.numel();
  auto part = at::empty({some * run + rest}, whole.options());
  auto runs = by_runs(part, some);
  at::index_select_out(runs, by_runs(whole, runs_), 0, reached_);
  part.narrow(0, some * run, rest).copy_(whole.narrow(0, runs_ * run, rest));
  return part;
}

const at::Tensor& Reached::widened(const at::Tensor& part) {
  if (!whole_.defined()) whole_ = at::zeros({length_}, part.options());
  const auto rest = length_ - runs_ * run, some = reached_.numel();
  by_runs(whole_, runs_).index_copy_(0, reached_, by_runs(part, some));
  whole_.narrow(0, runs_ * run, rest).copy_(part.narrow(0, some * run, rest));
  return whole_;
}

}  // namespace taugrid::spectral::detail
