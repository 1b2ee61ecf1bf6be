// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "suite/error.hpp"
#include "suite/models/nets/nets.hpp"
#include "suite/store/input_json.hpp"

namespace taugrid::models {
namespace {

std::map<std::string, Factory>& factories() {
  static std::map<std::string, Factory> all = {{"bert", make_bert},
                                               {"clip", make_clip_vision},
                                               {"clip_vision_model", make_clip_vision},
                                               {"convnext", make_convnext},
                                               {"gemma2", make_decoder},
                                               {"gemma3_text", make_decoder},
                                               {"gpt2", make_gpt2},
                                               {"llama", make_decoder},
                                               {"mistral", make_decoder},
                                               {"mlp", make_mlp},
                                               {"open_clip", make_open_clip},
                                               {"qwen2", make_decoder},
                                               {"qwen3", make_decoder},
                                               {"roberta", make_bert},
                                               {"t5", make_t5},
                                               {"torchvision_resnet", make_resnet},
                                               {"vit", make_vit}};
  return all;
}

}  // namespace

void register_architecture(const std::string& model_type, Factory factory) {
  factories()[model_type] = factory;
}

std::vector<std::string> architectures() {
  std::vector<std::string> all;
  for (const auto& [name, factory] : factories()) all.push_back(name);
  return all;
}

std::unique_ptr<Encoder> make_encoder(const std::string& text, const std::string& where,
                                      const std::filesystem::path& folder) {
  const auto json = store::json_of(text, where, "the configuration of a Hugging Face checkpoint");
  const auto type = Keys(json, where).word("model_type", "");
  const auto entry = factories().find(type);
  if (entry == factories().end()) {
    const bool of_timm = type.empty() && json.contains("architecture");
    const auto problem = of_timm        ? std::string("has no model_type, as timm writes it")
                         : type.empty() ? std::string("has no model_type")
                                        : "model_type is '" + type + "'";
    throw InputError(where + ": " + problem + "; expected one of " +
                     fmt::format("{}", fmt::join(architectures(), ", ")));
  }
  try {
    return entry->second(json, where, folder);
  } catch (const std::length_error& error) {
    throw InputError(where + ": " + error.what());
  }
}

void Keys::refuse(const std::string& problem) const { throw InputError(where_ + ": " + problem); }

bool Keys::has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

std::int64_t Keys::from_zero(const char* key, std::int64_t most) const {
  return json_[key] == 0 ? 0 : integer(key, 0, most);
}

std::int64_t Keys::integer(const char* key, std::int64_t fallback, std::int64_t most) const {
  if (!json_.contains(key)) return fallback;
  const auto& value = json_[key];
  if (!value.is_number_integer() || value.get<double>() < 1 ||
      value.get<double>() > static_cast<double>(most))
    refuse(std::string(key) + " is " + value.dump() + "; expected an integer from 1 to " +
           std::to_string(most));
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> Keys::integers(const char* key, std::vector<std::int64_t> fallback,
                                         std::size_t longest, std::int64_t most) const {
  if (!json_.contains(key)) return fallback;
  const auto& list = json_[key];
  const auto is_right = [&](const nlohmann::json& value) {
    return value.is_number_integer() && value.get<double>() >= 1 &&
           value.get<double>() <= static_cast<double>(most);
  };
  if (!list.is_array() || list.empty() || list.size() > longest ||
      !std::all_of(list.begin(), list.end(), is_right))
    refuse(std::string(key) + " is " + list.dump().substr(0, 80) + "; expected a list of 1 to " +
           std::to_string(longest) + " integers from 1 to " + std::to_string(most));
  return list.get<std::vector<std::int64_t>>();
}

double Keys::real(const char* key, double fallback, double most) const {
  if (!json_.contains(key)) return fallback;
  const auto& value = json_[key];
  if (!value.is_number() || !(value.get<double>() > 0) || value.get<double>() > most)
    refuse(std::string(key) + " is " + value.dump() + "; expected a positive number of at most " +
           nlohmann::json(most).dump());
  return value.get<double>();
}

void Keys::require_zero(const char* key, const std::string& reason) const {
  if (!json_.contains(key) || (json_[key].is_number() && json_[key].get<double>() == 0)) return;
  refuse(std::string(key) + " is " + json_[key].dump() + "; expected 0: " + reason);
}

bool Keys::flag(const char* key, bool fallback) const {
  if (!json_.contains(key)) return fallback;
  if (!json_[key].is_boolean())
    refuse(std::string(key) + " is " + json_[key].dump() + "; expected true or false");
  return json_[key].get<bool>();
}

std::string Keys::word(const char* key, const std::string& fallback) const {
  if (!json_.contains(key)) return fallback;
  if (!json_[key].is_string()) refuse(std::string(key) + " is " + json_[key].dump() + "; expected text");
  return json_[key].get<std::string>();
}

}  // namespace taugrid::models
