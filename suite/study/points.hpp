// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a model takes of a sample's points: all of them in memory, or read anew part by part. The 50,000
// pictures of ImageNet's validation split take 30 GB in float32 and 7.5 GB in the file, which is mapped.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "suite/models/batch.hpp"

namespace taugrid::study {

class Points {
 public:
  /// Points of these numbers, int64 on the host: the same whichever come together.
  using Read = std::function<models::Batch(const at::Tensor& which)>;

  Points() = default;
  Points(models::Batch held)  // NOLINT: a batch is points
      : held_(std::move(held)), lengths_(held_.lengths), size_(held_.size()) {}
  /// `lengths` [size] of texts, on the host; undefined for pictures.
  Points(std::int64_t size, Read read, at::Tensor lengths)
      : lengths_(std::move(lengths)), read_(std::move(read)), size_(size) {}

  std::int64_t size() const { return size_; }
  models::Batch part(std::int64_t begin, std::int64_t count) const {
    return read_ ? read_(numbers(begin, count)) : held_.narrow(begin, count);
  }
  /// Points of these numbers, int64 on the host.
  models::Batch some(const at::Tensor& which) const { return read_ ? read_(which) : held_.select(which); }
  /// The numbers begin … begin + count of texts, the shorter ones first: batches of like lengths are padded
  /// least. Undefined for pictures.
  at::Tensor by_length(std::int64_t begin, std::int64_t count) const;
  models::Batch whole() const { return part(0, size_); }
  /// The first `count`.
  Points first(std::int64_t count) const {
    if (!read_) return {held_.narrow(0, count)};
    return {count, read_, lengths_.defined() ? lengths_.narrow(0, 0, count) : lengths_};
  }
  /// Bytes that are held.
  std::size_t bytes() const {
    if (read_ || size_ == 0) return 0;
    // Each row has places of its own where there are choices; else all share them.
    return held_.held().nbytes() + (held_.scored.defined() ? held_.sees.nbytes() + held_.scored.nbytes() : 0);
  }

 private:
  static at::Tensor numbers(std::int64_t begin, std::int64_t count);

  models::Batch held_;
  at::Tensor lengths_;
  Read read_;
  std::int64_t size_ = 0;
};

}  // namespace taugrid::study
