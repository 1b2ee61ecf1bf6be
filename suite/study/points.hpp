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
  /// `read(begin, count)` gives the same numbers whatever the parts.
  using Read = std::function<models::Batch(std::int64_t begin, std::int64_t count)>;

  Points() = default;
  Points(models::Batch held) : held_(std::move(held)), size_(held_.size()) {}  // NOLINT: a batch is points
  Points(std::int64_t size, Read read) : read_(std::move(read)), size_(size) {}

  std::int64_t size() const { return size_; }
  models::Batch part(std::int64_t begin, std::int64_t count) const {
    return read_ ? read_(begin, count) : held_.narrow(begin, count);
  }
  models::Batch whole() const { return part(0, size_); }
  /// The first `count`.
  Points first(std::int64_t count) const {
    return read_ ? Points(count, read_) : Points(held_.narrow(0, count));
  }
  /// Bytes that are held.
  std::size_t bytes() const { return read_ || size_ == 0 ? 0 : held_.held().nbytes(); }

 private:
  models::Batch held_;
  Read read_;
  std::int64_t size_ = 0;
};

}  // namespace taugrid::study
