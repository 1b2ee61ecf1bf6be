// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/nets/generation_config.hpp"

#include <nlohmann/json.hpp>

#include "suite/store/input_file.hpp"
#include "suite/store/input_json.hpp"

namespace taugrid::models {
namespace {

constexpr const char* name = "generation_config.json";

}  // namespace

Files generation_config(const std::filesystem::path& folder) {
  if (folder.empty() || !store::is_there(folder / name)) return {};
  return {{name, store::input_text(folder / name, "what stands beside config.json")}};
}

std::vector<std::int64_t> ends_of(const nlohmann::json& config, const Keys& keys, const Files& beside) {
  const auto named = [](const nlohmann::json& file) {
    const auto tokens = file.value("eos_token_id", nlohmann::json());
    return tokens.is_array() || tokens.is_null() ? tokens : nlohmann::json::array({tokens});
  };
  std::string file = name;
  nlohmann::json tokens;
  if (const auto found = beside.find(name); found != beside.end()) {
    tokens = named(store::json_of(found->second, keys.where() + ": " + file + " beside it",
                                  "a JSON object, or no such file"));
  }
  if (tokens.empty()) {
    file = "config.json";
    tokens = named(config);
  }
  std::vector<std::int64_t> ends;
  for (const auto& token : tokens) {
    if (!token.is_number_integer())
      keys.refuse("eos_token_id of " + file + " holds " + token.dump().substr(0, 80) + "; expected tokens");
    ends.push_back(token.get<std::int64_t>());
  }
  return ends;
}

}  // namespace taugrid::models
