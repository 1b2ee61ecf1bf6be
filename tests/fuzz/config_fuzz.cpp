// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Input: an experiment file, then its overrides, each after a line that begins with "--set ". Every typed
// reader asks for keys with limits; what is accepted must load again from its resolved text.
#include <functional>
#include <vector>

#include "suite/config/config.hpp"
#include "tests/fuzz/hold.hpp"

namespace {

using namespace taugrid;
using config::Config;
constexpr config::Meaning a_key = "A key of this test", a_section = "A section of this test";

/// Asks for everything; the first complaint is thrown after all were asked.
void read_all(Config& config) {
  std::string complaint;
  const auto ask = [&](const std::string& name, const std::function<void(config::Section&)>& read) {
    try {
      auto section = config.section(name, a_section);
      read(section);
    } catch (const InputError& error) {
      fuzz::check_message(error.what());
      if (complaint.empty()) complaint = error.what();
    }
  };
  ask("run", [](auto& s) { s.word("name", a_key, "tiny"); });
  ask("run", [](auto& s) { s.integer("seed", a_key, 0, {0, 1e15}); });
  ask("run", [](auto& s) { s.required_integer("steps", a_key, {1, 1e6}); });
  ask("run", [](auto& s) { s.integer("any", a_key, -1); });
  ask("model", [](auto& s) { s.path("path", a_key, ""); });
  ask("model", [](auto& s) { s.word("init", a_key, "pretrained", {"pretrained", "random"}); });
  ask("data", [](auto& s) { s.words("tasks", a_key, {}); });
  ask("finetune", [](auto& s) { s.words("regimes", a_key, {"standard"}, {"standard", "linear", "tau_jp"}); });
  ask("finetune", [](auto& s) { s.real("learning_rate", a_key, 1e-3, {0, 1}); });
  ask("finetune", [](auto& s) { s.real("any", a_key, 0.5); });
  ask("finetune", [](auto& s) { s.flag("cosine", a_key, true); });
  ask("finetune.linear", [](auto& s) { s.real("learning_rate", a_key, 1e-3, {0, 1}); });
  ask("addition", [](auto& s) { s.alpha_grid("alpha", a_key, {0.0, 0.5, 1.0}, {0, 4}); });
  ask("disentanglement", [](auto& s) { s.alpha_grid("alpha", a_key, {-1.0, 1.0}); });
  ask("negation", [](auto& s) { s.reals("wide", a_key, {1.0, 2.0}, {-10, 10}); });
  ask("names", [](auto& s) {
    for (const auto& key : s.keys()) {
      if (s.has(key)) s.word(key, a_key, "");
    }
  });
  if (!complaint.empty()) throw InputError(complaint);
  config.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view mark = "\n--set ";
  const auto end = std::min(input.find(mark), size);
  std::vector<std::string> overrides;
  for (auto begin = end; begin < size;) {
    begin += mark.size();
    const auto next = std::min(input.find(mark, begin), size);
    // As an argument of a program, it ends at a zero.
    overrides.emplace_back(std::string(input.substr(begin, next - begin)).c_str());
    begin = next;
  }
  const fuzz::MemoryFile file(input.substr(0, end));
  // A node of toml++ with its place takes some hundred bytes, and may have two of text.
  // A grid is declared by its count, ten thousand at most.
  const std::size_t limit = (std::size_t{4} << 20) + 512 * size;
  std::string resolved;
  const bool read = fuzz::accepted(limit, [&] {
    auto config = Config::load(file.path(), overrides);
    read_all(config);
    resolved = config.resolved();
  });
  if (read) {
    const fuzz::MemoryFile copy(resolved);
    std::string again;
    const bool loaded = fuzz::accepted(2 * limit, [&] {
      auto config = Config::load(copy.path());
      read_all(config);
      again = config.resolved();
    });
    if (!loaded || again != resolved) fuzz::fail("the resolved text does not load to itself", resolved);
    if (!config::difference(resolved, again).empty()) fuzz::fail("a text differs from itself", resolved);
  }
  return 0;
}
