// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A model is a pure function f(θ, x) of one flat parameter vector θ.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/autodiff/layout.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::models {

class Encoder {
 public:
  virtual ~Encoder() = default;

  virtual const autodiff::Layout& layout() const = 0;
  /// Name of the architecture as in config.json ("CLIPVisionModelWithProjection").
  virtual std::string architecture() const = 0;
  /// The text of config.json, as Hugging Face writes it.
  virtual std::string config_json() const = 0;
  virtual std::int64_t features() const = 0;  ///< width of the output
  virtual std::int64_t image_size() const = 0;
  virtual std::int64_t channels() const = 0;
  virtual std::int64_t tokens() const = 0;  ///< that one input becomes

  /// The encoder's output [n, features] for pixels float32 [n, c, h, w], θ given by its blocks.
  virtual at::Tensor encode(const std::vector<at::Tensor>& theta, const at::Tensor& pixels) const = 0;
  virtual autodiff::Dual encode(const std::vector<autodiff::Dual>& theta, const at::Tensor& pixels) const = 0;
  virtual autodiff::Recorded encode(const std::vector<autodiff::Recorded>& theta,
                                    const at::Tensor& pixels) const = 0;

  /// θ at random, as Hugging Face initialises this architecture; the same on every platform for one seed.
  virtual at::Tensor random_theta(std::uint64_t seed) const = 0;
  /// Multiplications and additions of one forward pass over one input.
  virtual double forward_flops() const = 0;
  /// Numbers that one input's forward pass leaves for a backward pass, about.
  virtual double kept_numbers() const = 0;
  /// Numbers alive at once, at most, where nothing is left, about.
  virtual double passing_numbers() const = 0;
};

/// The frozen classification head: logits = scale · cos(encoder output, class embedding) (papers 1 to 4).
struct Head {
  at::Tensor weight;  ///< [classes, features], rows of unit length
  double scale = 1;   ///< exp of CLIP's logit scale

  /// z [n, features], the encoder's output (for a linearised model: of the linearised encoder) → [n, classes]
  template <class T>
  T logits(const T& z) const {
    return autodiff::cosine_logits(autodiff::normalise_rows(z), weight, scale);
  }
};

/// The encoder that a config.json describes. Throws InputError naming the file and key.
std::unique_ptr<Encoder> make_encoder(const std::string& config_json, const std::string& where);

}  // namespace taugrid::models
