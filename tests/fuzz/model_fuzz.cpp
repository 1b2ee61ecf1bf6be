// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Input: a model's config.json; behind a line "--modules" its modules.json, behind "--pooling"
// 1_Pooling/config.json, as sentence-transformers has them. What is accepted makes the same model again from
// its own text.
#include <nlohmann/json.hpp>

#include "suite/models/registry.hpp"
#include "tests/fuzz/hold.hpp"

namespace {

using namespace taugrid;

std::string_view up_to(std::string_view& input, std::string_view mark) {
  const auto end = std::min(input.find(mark), input.size());
  const auto part = input.substr(0, end);
  input.remove_prefix(std::min(input.size(), end + mark.size()));
  return part;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFolder folder;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string config(up_to(rest, "\n--modules\n"));
  folder.put("modules.json", up_to(rest, "\n--pooling\n"));
  folder.put("1_Pooling/config.json", rest);
  // Ten thousand layers, the most that are read, have names of some 32 MiB.
  const std::size_t limit = (std::size_t{256} << 20) + 256 * size;
  fuzz::accepted(limit, [&] {
    const auto encoder = models::make_encoder(config, "config.json", folder.path());
    const auto again = models::make_encoder(encoder->config_json(), "its own text", folder.path());
    if (again->layout().size() != encoder->layout().size() || again->config_json() != encoder->config_json())
      fuzz::fail("a model's own text makes another one", encoder->config_json());
  });
  return 0;
}
