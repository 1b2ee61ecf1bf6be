// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/operation.hpp"

#include <exception>

#include "suite/comm/detail/board.hpp"

namespace taugrid::comm {

namespace {
// Where the last exception came from: by the time it is caught, the slot has been cut back.
std::string& failed_operation() {
  static std::string text;
  return text;
}
}  // namespace

Doing::Doing(std::string_view what)
    : length_before_(detail::my_slot().length.load()), exceptions_before_(std::uncaught_exceptions()) {
  if (exceptions_before_ == 0) {
    failed_operation().clear();
  }
  auto& slot = detail::my_slot();
  const auto before = static_cast<std::uint32_t>(length_before_);
  if (before == 0) {
    slot.write(0, what);
  } else {
    slot.write(before, std::string(": ").append(what));
  }
}

Doing::~Doing() {
  auto& slot = detail::my_slot();
  if (std::uncaught_exceptions() > exceptions_before_ && failed_operation().empty()) {
    failed_operation() = slot.operation();
  }
  slot.length.store(static_cast<std::uint32_t>(length_before_), std::memory_order_release);
}

std::string current_operation() {
  return failed_operation().empty() ? detail::my_slot().operation() : failed_operation();
}

}  // namespace taugrid::comm
