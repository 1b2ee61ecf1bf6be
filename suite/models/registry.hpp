// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Which architectures there are: by the model_type that a config.json says.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "suite/models/encoder.hpp"

namespace taugrid::models {

/// The encoder that a config.json describes, and what stands beside it in `folder`, where there is one.
/// Throws InputError naming the file and key.
std::unique_ptr<Encoder> make_encoder(const std::string& config_json, const std::string& where,
                                      const std::filesystem::path& folder = {});

/// Makes an encoder from a parsed config.json; `where` names the file in errors.
using Factory = std::unique_ptr<Encoder> (*)(const nlohmann::json& config, const std::string& where,
                                             const std::filesystem::path& folder);

/// Adds an architecture, or replaces it; before the first make_encoder(). For programs that bring their own.
void register_architecture(const std::string& model_type, Factory factory);

/// The model_types that are known, ascending.
std::vector<std::string> architectures();

/// A config.json's keys, read with checks: InputError naming file and key.
class Keys {
 public:
  Keys(const nlohmann::json& json, std::string where) : json_(json), where_(std::move(where)) {}
  const std::string& where() const { return where_; }
  /// Whether the key is there and not null.
  bool has(const char* key) const;
  /// 1 … `most`
  std::int64_t integer(const char* key, std::int64_t fallback, std::int64_t most = 1'000'000) const;
  /// 0 … `most`, of a key that is there.
  std::int64_t from_zero(const char* key, std::int64_t most = 1'000'000) const;
  /// 1 … `longest` integers, each 1 … `most`; `fallback` where there is no such key.
  std::vector<std::int64_t> integers(const char* key, std::vector<std::int64_t> fallback, std::size_t longest,
                                     std::int64_t most = 1'000'000) const;
  /// Above 0, at most `most`.
  double real(const char* key, double fallback, double most = 1e6) const;
  std::string word(const char* key, const std::string& fallback) const;
  bool flag(const char* key, bool fallback) const;
  /// 0 or absent, for the reason given.
  void require_zero(const char* key, const std::string& reason) const;
  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  const nlohmann::json& json_;
  std::string where_;
};

}  // namespace taugrid::models
