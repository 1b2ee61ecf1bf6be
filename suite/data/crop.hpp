// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The random resized crops that CLIP's models are trained on (papers 1, 3 and 4, by open_clip: at least 0.9
// of the area).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace taugrid::data {

/// Boxes of n pictures, int64 [n, 4]: top, left, height, width, in pixels, on the host. As torchvision's
/// RandomResizedCrop: a share of the area uniform in [least, 1], a ratio of width to height whose logarithm
/// is uniform in that of [3/4, 4/3], any place; of ten draws the first that fits, or else the whole picture.
/// The boxes follow from the seed alone, and those of n pictures begin those of more.
at::Tensor random_boxes(std::int64_t n, std::int64_t height, std::int64_t width, double least,
                        std::uint64_t seed);

/// Each picture's box, resized to the picture's size and rounded: uint8 [n,h,w,c], on the pictures' device.
/// Bicubic with a = −0.5 and antialiasing, as Pillow resizes, which open_clip uses; a box is no larger than
/// its picture, so that antialiasing changes nothing.
at::Tensor resized_crops(const at::Tensor& pictures, const at::Tensor& boxes);

}  // namespace taugrid::data
