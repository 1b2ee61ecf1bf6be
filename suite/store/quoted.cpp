// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/quoted.hpp"

#include <nlohmann/json.hpp>

namespace taugrid::store {

std::string quoted(const std::string& text) {
  using nlohmann::json;
  const std::string shown = json(text.substr(0, 100)).dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > 100 ? shown + "…" : shown;
}

}  // namespace taugrid::store
