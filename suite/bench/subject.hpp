// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A model and a batch that cases of its derivative products are about.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "suite/bench/fixture.hpp"

namespace taugrid::bench {

/// An image tower with cosine heads, and pictures for it. Whoever makes it keeps `encoder`, or gives it to
/// `owned`.
struct Subject {
  const models::Encoder* encoder = nullptr;
  models::State start = {};   ///< θ0 [P], without buffers
  at::Tensor tau = {};        ///< [P]
  at::Tensor pixels = {};     ///< float32 [images, 3, height, width]
  at::Tensor labels = {};     ///< int64 [images]
  models::Readout head = {};  ///< [classes, features]
  std::unique_ptr<models::Encoder> owned = nullptr;

  std::int64_t images() const { return pixels.size(0); }
};

/// The fixture's encoder and its batch.
std::shared_ptr<const Subject> subject_of(const Fixture& fixture);
/// The fixture's encoder for the NTK, and the first ntk_points of its batch.
std::shared_ptr<const Subject> ntk_subject_of(const Fixture& fixture);
/// CLIP ViT-B/32's image tower in Hugging Face's default shape, 87,849,216 numbers, random by seed, with so
/// many random pictures of 224×224.
std::shared_ptr<const Subject> clip_b32(const Fixture& fixture, std::int64_t images);

}  // namespace taugrid::bench
