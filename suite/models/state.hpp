// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// All that distinguishes one model of an architecture from another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "suite/hash.hpp"

namespace taugrid::models {

/// θ and what is neither a parameter nor to be lost: batch norm's statistics.
struct State {
  at::Tensor theta;    ///< [P] float32
  at::Tensor buffers;  ///< [B] float32; undefined where the architecture has none

  State to(at::Device device) const {
    return {theta.defined() ? theta.to(device) : theta, buffers.defined() ? buffers.to(device) : buffers};
  }
};

/// A short text that differs whenever the state does (64-bit FNV-1a of its bytes, hexadecimal).
std::string fingerprint(const State& state);

/// The same of numbers that come part by part.
class Fingerprint {
 public:
  void add(const at::Tensor& numbers);
  std::string text() const;

 private:
  std::uint64_t hash_ = fnv_start;
};

}  // namespace taugrid::models
