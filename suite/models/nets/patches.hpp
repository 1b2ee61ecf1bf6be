// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What models of pictures begin with.
#pragma once

#include <ATen/ATen.h>

#include <stdexcept>
#include <string>

#include "suite/models/encoder.hpp"

namespace taugrid::models {

/// The batch's pictures. Throws std::invalid_argument where they are not of the size that the model takes.
inline const at::Tensor& pictures_of(const Given& x, const Takes& takes) {
  const auto& pixels = x.batch.inputs;
  if (pixels.dim() != 4 || pixels.size(1) != takes.channels || pixels.size(2) != takes.image_size ||
      pixels.size(3) != takes.image_size) {
    const auto side = std::to_string(takes.image_size);
    throw std::invalid_argument("pixels: expected [n, " + std::to_string(takes.channels) + ", " + side +
                                ", " + side + "]");
  }
  return pixels;
}

/// [n, c, h, w] → [n, patches, c·p·p]: a convolution of p×p with stride p is one matrix product of these.
inline at::Tensor patches_of(const Given& x, const Takes& takes, std::int64_t p) {
  const auto& pixels = pictures_of(x, takes);
  const auto n = pixels.size(0), c = takes.channels, g = takes.image_size / p;
  return pixels.view({n, c, g, p, g, p}).permute({0, 2, 4, 1, 3, 5}).reshape({n, g * g, c * p * p});
}

}  // namespace taugrid::models
