// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/input_json.hpp"

#include <nlohmann/json.hpp>

#include "suite/error.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/other_format.hpp"

namespace taugrid::store {

nlohmann::json input_json(const std::filesystem::path& path, const std::string& expected) {
  using Json = nlohmann::json;
  constexpr int deepest = 32;
  constexpr std::size_t most_values = 1'000'000;
  const auto refuse = [&](const std::string& problem) {
    throw InputError(path.string() + ": " + problem + "; expected " + expected);
  };
  std::size_t values = 0;
  const auto watch = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > deepest) refuse("is nested more than " + std::to_string(deepest) + " deep");
    if (++values > 2 * most_values) refuse("holds more than " + std::to_string(most_values) + " values");
    return true;
  };
  const auto text = input_text(path, expected);
  auto json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    if (const auto format = other_format(text); !format.empty()) refuse("is " + format);
  }
  if (!json.is_object()) refuse("is not a JSON object");
  return json;
}

}  // namespace taugrid::store
