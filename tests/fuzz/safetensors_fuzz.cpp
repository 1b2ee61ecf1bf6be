// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Input: a safetensors file. Both of its readers: the whole file, and a committed unit's header alone.
#include <ATen/core/Tensor.h>

#include "suite/schedule/detail/unit_file.hpp"
#include "suite/store/safetensors.hpp"
#include "tests/fuzz/hold.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace taugrid;
  const fuzz::MemoryFile file({reinterpret_cast<const char*>(data), size});
  // A parsed header takes a multiple of its text: a node of JSON, an entry and a tensor for some ten bytes.
  const std::size_t limit = (std::size_t{1} << 17) + 64 * size;
  std::map<std::string, std::string> metadata;
  const bool whole = fuzz::accepted(limit, [&] {
    const auto read = store::read_safetensors(file.path());
    std::size_t bytes = 0;
    for (const auto& entry : read.tensors) bytes += entry.second.nbytes();
    if (bytes > size) fuzz::fail("more tensor bytes than the file has");
    metadata = read.metadata;
    store::require_finite(read, file.path());
  });
  fuzz::accepted(limit, [&] {
    const auto header = schedule::detail::read_header(file.path());
    if (whole && header != metadata) fuzz::fail("a whole file's header is not read");
  });
  return 0;
}
