// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/input_json.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "suite/error.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/other_format.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::store {
namespace {

using Json = nlohmann::json;

/// Sees a text's parts as they pass, and keeps nothing but the keys that may not come again.
class Watch : public nlohmann::json_sax<Json> {
 public:
  Watch(const JsonBounds& bounds, const std::function<void(const std::string&)>& refuse)
      : bounds_(bounds), refuse_(refuse) {}

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return count(); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (bounds_.once && !keys_.back().insert(name).second)
      refuse_("has the key " + store::quoted(name) + " twice");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    refuse_("is not JSON: " + store::quoted(error.what()));
    return false;
  }

 private:
  bool count() {
    if (++values_ > bounds_.most_values)
      refuse_("holds more than " + std::to_string(bounds_.most_values) + " values");
    return true;
  }
  bool open() {
    if (keys_.size() == bounds_.deepest)
      refuse_("is nested more than " + std::to_string(bounds_.deepest) + " deep");
    keys_.emplace_back();
    return count();
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  const JsonBounds& bounds_;
  const std::function<void(const std::string&)>& refuse_;
  std::size_t values_ = 0;
  std::vector<std::set<std::string>> keys_;  ///< of each object that is open
};

}  // namespace

Json bounded_json(const std::string& text, const JsonBounds& bounds,
                  const std::function<void(const std::string&)>& refuse) {
  Watch watch(bounds, refuse);
  Json::sax_parse(text, &watch);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Json json_of(const std::string& text, const std::string& where, const std::string& expected, JsonKind kind) {
  const auto refuse = [&](const std::string& problem) {
    throw InputError(where + ": " + problem + "; expected " + expected);
  };
  if (const auto format = other_format(text); !format.empty()) refuse("is " + format);
  auto json = bounded_json(text, {.deepest = 32, .most_values = 1'000'000}, refuse);
  if (kind == JsonKind::object && !json.is_object()) refuse("is not a JSON object");
  if (kind == JsonKind::list && !json.is_array()) refuse("is not a JSON list");
  return json;
}

Json input_json(const std::filesystem::path& path, const std::string& expected, JsonKind kind) {
  return json_of(input_text(path, expected), path.string(), expected, kind);
}

}  // namespace taugrid::store
