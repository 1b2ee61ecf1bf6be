// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/autodiff/layout.hpp"
#include "kernels/autodiff/numbers.hpp"

namespace taugrid::autodiff {

struct Meter::Storage {
  Storage(Meter& of, double size, bool with_tangent)
      : meter(of), numbers(size), tangent(with_tangent ? size : 0) {}
  ~Storage() { meter.live_ -= (kept ? 0 : numbers) + tangent; }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Meter& meter;
  double numbers, tangent;
  bool kept = false;
};

void Meter::hold(double numbers) {
  live_ += numbers;
  peak_ = std::max(peak_, live_);
}

std::shared_ptr<Meter::Storage> Meter::allocate(double numbers, bool constant) {
  const bool both = tangents() && !constant;
  hold(both ? 2 * numbers : numbers);
  return std::make_shared<Storage>(*this, numbers, both);
}

void Meter::multiply(double flops, int block) {
  flops_ += flops;
  if (block < 0) return;
  const auto index = static_cast<std::size_t>(block);
  if (by_block_.size() <= index) by_block_.resize(index + 1, 0);
  by_block_[index] += flops;
}

void Meter::keep(const std::shared_ptr<Storage>& storage) {
  if (!keeps() || storage == nullptr || storage->kept) return;
  storage->kept = true;  // and so it never leaves
  kept_ += storage->numbers;
}

void Meter::keep(double numbers) {
  if (!keeps()) return;
  kept_ += numbers;
  hold(numbers);
}

void Meter::record(const std::shared_ptr<Storage>& storage) {
  if (pass_ != Pass::recording || storage == nullptr) return;
  keep(storage);
  keep(storage->numbers);
}

void Meter::record(double numbers) {
  if (pass_ == Pass::recording) keep(numbers);
}

void Meter::pass(double beside_value, double beside_tangent) {
  peak_ = std::max(peak_, live_ + beside_value + (tangents() ? beside_tangent : 0));
}

Meter count(const Layout& layout, const Function<Counted>& f, Meter::Pass pass) {
  Meter meter(pass);
  std::vector<Counted> blocks;
  for (std::size_t i = 0; i < layout.blocks().size(); ++i)
    blocks.push_back({layout.blocks()[i].shape, nullptr, &meter, static_cast<int>(i)});
  f(blocks);
  return meter;
}

}  // namespace taugrid::autodiff
