// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How a task's logits follow from a model. It belongs to the pair of model and task, and has two parts: the
// output, a function of θ, which a linearised model linearises and whose Jacobian J is; and the logits, a fixed
// function of the output.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "suite/models/encoder.hpp"

namespace taugrid::models {

struct Readout {
  enum class Kind {
    cosine,  ///< output: the features z; logits: scale · cos(z, row) (papers 1 to 4: a frozen head)
    affine,  ///< output: z; logits: z · rowᵀ + bias, both frozen (paper 1: closed vocabulary)
    words  ///< output: the logits z · E[words]ᵀ + b[words], vocabulary E and its biases b being parts of θ
  };
  Kind kind = Kind::cosine;
  at::Tensor weight = {};  ///< rows [classes, width of the features], of cosine at unit length
  double scale = 1;        ///< of cosine: exp of CLIP's logit scale
  at::Tensor bias = {};    ///< of affine [classes]
  at::Tensor words = {};   ///< int64 [classes], rows of the vocabulary

  std::int64_t classes() const { return kind == Kind::words ? words.size(0) : weight.size(0); }
  /// Width of the output.
  std::int64_t width(const Encoder& encoder) const {
    return kind == Kind::words ? classes() : encoder.width();
  }
  /// Which space an output lies in, and so what a linearised model linearises, τJp, and distances of outputs.
  const char* space(const Encoder& encoder) const { return kind == Kind::words ? "logits" : encoder.space(); }

  /// The output [n, width] of features z [n, width of the features] of the model at `p`.
  template <class T>
  T output(const Encoder& encoder, const Blocks<T>& p, const T& z) const {
    if (kind != Kind::words) return z;
    const auto& table = p[static_cast<std::size_t>(encoder.vocabulary_block())];
    const auto biases = encoder.vocabulary_bias();
    if (biases < 0) return autodiff::word_logits(z, table, words);
    return autodiff::word_logits(z, table, p[static_cast<std::size_t>(biases)], words);
  }
  /// [n, classes] of an output [n, width]; of a linearised model's, which is normalised after it was linearised.
  template <class T>
  T logits(const T& output) const {
    switch (kind) {
      case Kind::cosine:
        return autodiff::cosine_logits(autodiff::normalise_rows(output), weight, scale);
      case Kind::affine:
        return autodiff::affine_logits(output, weight, bias);
      case Kind::words:
        return output;
    }
    return output;
  }

  Readout to(at::Device device) const;
  /// The same readout in numbers of `type`.
  Readout to(at::ScalarType type) const;
};

}  // namespace taugrid::models
