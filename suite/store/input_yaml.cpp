// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/input_yaml.hpp"

#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "suite/error.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::store {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 20, deepest = 32, most_values = 10'000;

/// Builds the document from what the parser sees, and ends it where a bound is passed: aliases are copies,
/// which are counted before they are made.
class Builder final : public YAML::EventHandler {
 public:
  Builder(std::string where, std::string expected)
      : where_(std::move(where)), expected_(std::move(expected)) {}

  Yaml document() && { return std::move(root_); }
  bool has_begun() const { return documents_ > 0; }

  [[noreturn]] void refuse(std::size_t line, const std::string& problem) const {
    throw InputError(where_ + ":" + std::to_string(line) + ": " + problem + "; expected " + expected_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(line_of(mark), "has a second document");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { put(leaf(mark, "", anchor)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) refuse(line_of(mark), "has an alias of what it stands in");
    count(mark, known->second.size - 1);
    if (open_.size() + known->second.depth > deepest) refuse(line_of(mark), too_deep());
    put({known->second.value, line_of(mark), known->second.size, known->second.depth, 0});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    require_no_tag(mark, tag);
    auto scalar = leaf(mark, tag, anchor);
    scalar.value.kind = Yaml::Kind::scalar;
    scalar.value.text = text;
    scalar.value.quoted = tag == "!";
    put(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Yaml::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Yaml::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Part {
    Yaml value;
    std::size_t line = 0;             ///< where it stands: an alias elsewhere than its value
    std::size_t size = 1, depth = 0;  ///< values in it, and maps and lists within each other
    YAML::anchor_t anchor = 0;
    bool expects_value = false;  ///< a map whose last key has none as yet
  };
  struct Anchored {
    Yaml value;
    std::size_t size, depth;
  };

  static std::size_t line_of(const YAML::Mark& mark) { return static_cast<std::size_t>(mark.line) + 1; }
  static std::string too_deep() { return "is nested more than " + std::to_string(deepest) + " deep"; }

  void count(const YAML::Mark& mark, std::size_t more) {
    count_ += 1 + more;
    if (count_ > most_values)
      refuse(line_of(mark), "holds more than " + std::to_string(most_values) + " values");
  }
  void require_no_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") refuse(line_of(mark), "has the tag " + quoted(tag));
  }
  Part leaf(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    require_no_tag(mark, tag);
    count(mark, 0);
    Part part;
    part.value.line = part.line = line_of(mark);
    part.anchor = anchor;
    return part;
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Yaml::Kind kind) {
    auto part = leaf(mark, tag, anchor);
    part.value.kind = kind;
    part.depth = 1;
    if (open_.size() == deepest) refuse(line_of(mark), too_deep());
    open_.push_back(std::move(part));
  }
  void close() {
    auto part = std::move(open_.back());
    open_.pop_back();
    put(std::move(part));
  }

  /// A value that is whole: it is the document, an entry, a key or a key's value.
  void put(Part part) {
    if (part.anchor != 0) anchors_[part.anchor] = {part.value, part.size, part.depth};
    if (open_.empty()) {
      root_ = std::move(part.value);
      return;
    }
    auto& in = open_.back();
    in.size += part.size;
    in.depth = std::max(in.depth, part.depth + 1);
    if (in.value.kind == Yaml::Kind::map && !in.expects_value) {
      if (part.value.kind != Yaml::Kind::scalar)
        refuse(part.line, "has a key that is " + part.value.kind_name());
      const auto& key = part.value.text;
      if (key == "<<" && !part.value.quoted) refuse(part.line, "merges keys (<<), which is not read");
      if (in.value.find(key) != nullptr) refuse(part.line, "has the key " + quoted(key) + " twice");
      in.value.keys.push_back(key);
      in.expects_value = true;
      return;
    }
    in.value.values.push_back(std::move(part.value));
    in.expects_value = false;
  }

  std::string where_, expected_;
  Yaml root_;
  std::size_t documents_ = 0, count_ = 0;
  std::vector<Part> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
};

}  // namespace

const Yaml* Yaml::find(const std::string& key) const {
  const auto at = std::find(keys.begin(), keys.end(), key);
  const auto place = static_cast<std::size_t>(at - keys.begin());
  return at == keys.end() || place >= values.size() ? nullptr : &values[place];
}

std::string Yaml::kind_name() const {
  switch (kind) {
    case Kind::null:
      return "nothing";
    case Kind::scalar:
      return store::quoted(text);
    case Kind::list:
      return "a list";
    case Kind::map:
      return "a map";
  }
  return "";
}

Yaml yaml_of(const std::string& text, const std::string& where, const std::string& expected) {
  if (text.size() > most_bytes)
    throw InputError(where + ": has more than " + std::to_string(most_bytes) + " bytes; expected " +
                     expected);
  if (text.find('\0') != std::string::npos)
    throw InputError(where + ": holds a zero byte; expected " + expected);
  Builder builder(where, expected);
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) continue;
  } catch (const YAML::Exception& error) {
    builder.refuse(static_cast<std::size_t>(std::max(error.mark.line, 0)) + 1, "is not YAML: " + error.msg);
  }
  if (!builder.has_begun()) throw InputError(where + ": is empty; expected " + expected);
  return std::move(builder).document();
}

Yaml input_yaml(const std::filesystem::path& path, const std::string& expected) {
  return yaml_of(input_text(path, expected), path.string(), expected);
}

}  // namespace taugrid::store
