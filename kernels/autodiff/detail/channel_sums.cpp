// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/autodiff/detail/channel_sums.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "kernels/lanes.hpp"

namespace taugrid::autodiff::detail {

at::Tensor channel_sums(const at::Tensor& x, const at::Tensor& y) {
  constexpr auto last = at::MemoryFormat::ChannelsLast;
  const auto n = x.size(0), channels = x.size(1), places = x.size(2) * x.size(3);
  const bool here = x.is_cpu() && x.scalar_type() == at::kFloat && y.scalar_type() == at::kFloat &&
                    x.is_contiguous(last) && y.is_contiguous(last) && channels % lanes == 0;
  if (!here) return (x * y).flatten(2).sum(2);
  auto all = at::empty({n, channels}, x.options().requires_grad(false));
  const float *left = x.const_data_ptr<float>(), *right = y.const_data_ptr<float>();
  float* sums = all.mutable_data_ptr<float>();
  at::parallel_for(0, n * (channels / lanes), 1, [&](std::int64_t begin, std::int64_t end) {
    constexpr int apart = 8;  // sums beside each other: none waits for another, and rounding stays small
    for (auto block = begin; block < end; ++block) {
      const auto i = block / (channels / lanes), c = block % (channels / lanes) * lanes;
      const auto at = [&](std::int64_t p) { return (i * places + p) * channels + c; };
      Lanes part[apart] = {};
      std::int64_t p = 0;
      for (; p + apart <= places; p += apart)
        for (int k = 0; k < apart; ++k) part[k] += read(left + at(p + k)) * read(right + at(p + k));
      for (; p < places; ++p) part[0] += read(left + at(p)) * read(right + at(p));
      for (int step = apart / 2; step > 0; step /= 2)
        for (int k = 0; k < step; ++k) part[k] += part[k + step];
      write(sums + i * channels + c, part[0]);
    }
  });
  return all;
}

}  // namespace taugrid::autodiff::detail
