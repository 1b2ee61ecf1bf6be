// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/data/crop.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <vector>

namespace taugrid::data {
namespace {

constexpr std::int64_t draws = 10;
const double least_log_ratio = std::log(3.0 / 4), most_log_ratio = std::log(4.0 / 3);

/// One of 0 … last, for u uniform in [0, 1).
std::int64_t place(double u, std::int64_t last) {
  return static_cast<std::int64_t>(u * static_cast<double>(last + 1));
}

}  // namespace

at::Tensor random_boxes(std::int64_t n, std::int64_t height, std::int64_t width, double least,
                        std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto uniform = at::rand({n, draws, 4}, generator, at::kDouble);  // area, ratio, top, left
  const auto u = uniform.accessor<double, 3>();
  auto boxes = at::tensor({std::int64_t{0}, std::int64_t{0}, height, width}, at::kLong).repeat({n, 1});
  auto box = boxes.accessor<std::int64_t, 2>();
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t k = 0; k < draws; ++k) {
      const auto draw = u[i][k];
      const double area = static_cast<double>(height * width) * (least + (1 - least) * draw[0]);
      const double ratio = std::exp(least_log_ratio + (most_log_ratio - least_log_ratio) * draw[1]);
      const auto h = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area / ratio)));
      const auto w = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area * ratio)));
      if (h < 1 || h > height || w < 1 || w > width) continue;
      box[i][0] = place(draw[2], height - h);
      box[i][1] = place(draw[3], width - w);
      box[i][2] = h;
      box[i][3] = w;
      break;
    }
  }
  return boxes;
}

at::Tensor resized_crops(const at::Tensor& pictures, const at::Tensor& boxes) {
  const auto n = pictures.size(0), height = pictures.size(1), width = pictures.size(2);
  if (n == 0) return pictures;
  const auto box = boxes.accessor<std::int64_t, 2>();
  std::vector<at::Tensor> all;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto part = pictures[i].narrow(0, box[i][0], box[i][2]).narrow(1, box[i][1], box[i][3]);
    const auto planes = part.permute({2, 0, 1}).unsqueeze(0).to(at::kFloat).contiguous();
    all.push_back(at::_upsample_bicubic2d_aa(planes, {height, width}, /*align_corners=*/false));
  }
  return at::cat(all).round_().clamp_(0, 255).to(at::kByte).permute({0, 2, 3, 1}).contiguous();
}

}  // namespace taugrid::data
