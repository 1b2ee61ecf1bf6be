// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Input: a file as it is, where it begins with HDF5's signature; or else, bytes that say how a nearly right
// one is built: the first, of which kind, the others, what is wrong with it.
#include <ATen/core/Tensor.h>
#include <hdf5.h>

#include "suite/data/packed.hpp"
#include "tests/fuzz/hold.hpp"
#include "tests/fuzz/packed_builder.hpp"

namespace {

using namespace taugrid;

// HDF5's caches and buffers; deflate's factor is 1032, and labels are widened eightfold.
std::size_t limit(const std::string& file) { return (std::size_t{8} << 20) + 2 * 1100 * file.size(); }

void read_task(const std::string& bytes) {
  const fuzz::MemoryFile file(bytes);
  fuzz::accepted(limit(bytes), [&] {
    const auto task = data::read_task(file.path());
    for (const auto* split : {&task.train, &task.validation, &task.test}) {
      if (split->inputs.size(0) != split->labels.size(0)) fuzz::fail("rows differ");
      if (split->labels.max().item<std::int64_t>() >= task.classes())
        fuzz::fail("a label without a class");
    }
  });
}

void read_pairs(const std::string& bytes) {
  const fuzz::MemoryFile file(bytes);
  fuzz::accepted(limit(bytes), [&] {
    const auto pairs = data::read_pairs(file.path());
    if (pairs.images.size(0) != pairs.caption.size(0)) fuzz::fail("rows differ");
    if (pairs.caption.max().item<std::int64_t>() >= pairs.text_embedding.size(0))
      fuzz::fail("no such caption");
  });
}

}  // namespace

// HDF5 asks the allocator for what a file declares, and takes its no; it keeps what it has for the next file.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1:detect_leaks=0"; }

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  H5set_free_list_limits(-1, -1, 1 << 20, 1 << 16, 32 << 20, 8 << 20);  // caches are not faulted in anew
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with("\x89HDF")) {
    read_task(std::string(input));
    read_pairs(std::string(input));
  } else if (size > 0) {
    FuzzedDataProvider bytes(data + 1, size - 1);
    data[0] % 4 == 3 ? read_pairs(fuzz::build_pairs(bytes)) : read_task(fuzz::build_task(bytes));
  }
  return 0;
}
