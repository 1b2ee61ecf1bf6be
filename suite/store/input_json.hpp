// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace taugrid::store {

enum class JsonKind { object, list };

struct JsonBounds {
  std::size_t deepest;  ///< objects and lists within each other
  std::size_t most_values;
  bool once = false;  ///< whether each key may stand in its object once only; else the last counts
};

/// Parses a text whose depth and number of values are looked at before memory is taken for them: a parsed
/// value takes many times its text's. `refuse` throws, and is given the problem.
nlohmann::json bounded_json(const std::string& text, const JsonBounds& bounds,
                            const std::function<void(const std::string&)>& refuse);

/// The object or list in an input file of at most 64 MiB and a million values, 32 deep. Throws InputError,
/// which says what was `expected`.
nlohmann::json input_json(const std::filesystem::path& path, const std::string& expected,
                          JsonKind kind = JsonKind::object);

/// The same of a text that was read from there already.
nlohmann::json json_of(const std::string& text, const std::string& where, const std::string& expected,
                       JsonKind kind = JsonKind::object);

}  // namespace taugrid::store
