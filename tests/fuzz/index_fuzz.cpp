// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Input: the index of a folder in parts. Its two parts, 1.safetensors with a and b and 2.safetensors with c,
// are whole, so that what is read is what they hold.
#include <ATen/ATen.h>

#include "suite/store/safetensors.hpp"
#include "suite/store/tensor_folder.hpp"
#include "tests/fuzz/hold.hpp"

namespace {

using namespace taugrid;

void write_part(const std::filesystem::path& path, const std::vector<std::string>& names) {
  store::TensorFile file;
  for (const auto& name : names) file.tensors[name] = at::full({2}, static_cast<double>(name[0]), at::kFloat);
  store::write_safetensors(path, file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFolder folder;
  static const bool written = [] {
    write_part(folder.path() / "1.safetensors", {"a", "b"});
    write_part(folder.path() / "2.safetensors", {"c"});
    return true;
  }();
  static_cast<void>(written);
  folder.put("model.safetensors.index.json", {reinterpret_cast<const char*>(data), size});
  const std::size_t limit = (std::size_t{1} << 18) + 256 * size;  // a node of JSON for two bytes
  fuzz::accepted(limit, [&] {
    const store::TensorFolder read(folder.path());
    // An index may list one part alone; of a part it lists all tensors.
    if (read.tensors().empty() || read.has("a") != read.has("b")) fuzz::fail("another folder is read");
    for (const auto& entry : read.tensors()) {
      if (read.tensor(entry.first)[1].item<float>() != static_cast<float>(entry.first[0]))
        fuzz::fail("other numbers are read");
    }
    for (const auto& note : read.notes()) fuzz::check_message(as_line(note));
  });
  return 0;
}
