// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfenv>

namespace taugrid {

/// While it lives, the processor stops the program where this thread, or one that it starts, divides by zero or
/// makes a NaN (0/0, ∞ − ∞), instead of letting it run through to the results.
class Traps {
 public:
  Traps() : before_(feenableexcept(FE_DIVBYZERO | FE_INVALID)) {}
  ~Traps() {
    std::feclearexcept(FE_ALL_EXCEPT);
    fedisableexcept(FE_ALL_EXCEPT);
    feenableexcept(before_);
  }
  Traps(const Traps&) = delete;
  Traps& operator=(const Traps&) = delete;

 private:
  int before_;
};

}  // namespace taugrid
