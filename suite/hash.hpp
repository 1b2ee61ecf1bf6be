// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// 64-bit FNV-1a (Fowler, Noll, Vo): the same on every platform. It tells contents apart, not attackers off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace taugrid {

inline constexpr std::uint64_t fnv_start = 0xcbf29ce484222325ULL;

/// Goes on from `hash`, so that several pieces give one value.
inline std::uint64_t fnv1a(const void* data, std::size_t bytes, std::uint64_t hash = fnv_start) {
  const auto* next = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ next[i]) * 0x100000001b3ULL;
  return hash;
}

inline std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = fnv_start) {
  return fnv1a(text.data(), text.size(), hash);
}

/// Sixteen hexadecimal digits.
inline std::string hexadecimal(std::uint64_t value) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, value >>= 4) *digit = "0123456789abcdef"[value & 15];
  return text;
}

}  // namespace taugrid
