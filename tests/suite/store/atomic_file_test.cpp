// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/atomic_file.hpp"

#include <stdexcept>

#include "tests/suite/store/scratch.hpp"

namespace {

using taugrid::store::AtomicFile;
using taugrid::store::write_atomically;
using namespace taugrid::testing;

std::size_t entries(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

TEST(AtomicFile, ReplacesTheOldFileOnlyWhenComplete) {
  const Scratch scratch("atomic");
  write_atomically(scratch / "f", "old");
  EXPECT_THROW(write_atomically(scratch / "f",
                                [](AtomicFile& file) {
                                  file.write("half");
                                  throw std::runtime_error("stop");
                                }),
               std::runtime_error);
  EXPECT_EQ(read_bytes(scratch / "f"), "old");
  EXPECT_EQ(entries(scratch / ""), 1U);
  write_atomically(scratch / "f", [](AtomicFile& file) { file.write("new"); });
  EXPECT_EQ(read_bytes(scratch / "f"), "new");
  EXPECT_EQ(entries(scratch / ""), 1U);
}

TEST(AtomicFile, SaysWhyItCannotWrite) {
  const Scratch scratch("atomic");
  const auto missing = message_of([&] { write_atomically(scratch / "no/f", "x"); });
  expect_contains(missing, "cannot write " + (scratch / "no/f").string() + ": No such file or directory; ");
  std::filesystem::create_directories(scratch / "d/x");
  expect_contains(message_of([&] { write_atomically(scratch / "d", "x"); }), "Is a directory");
  EXPECT_EQ(entries(scratch / ""), 1U);
  if (::geteuid() != 0) {
    std::filesystem::permissions(scratch / "d", std::filesystem::perms::owner_read);
    expect_contains(message_of([&] { write_atomically(scratch / "d/f", "x"); }), "Permission denied; choose");
    std::filesystem::permissions(scratch / "d", std::filesystem::perms::owner_all);
  }
}

TEST(AtomicFile, ReportsAFullDisk) {
  // A device that is always full, through a link of the temporary file's name.
  if (!std::filesystem::exists("/dev/full")) {
    GTEST_SKIP();
  }
  const Scratch scratch("atomic");
  std::filesystem::create_symlink("/dev/full", taugrid::store::temporary_name(scratch / "f"));
  expect_contains(message_of([&] { write_atomically(scratch / "f", "x"); }),
                  "No space left on device; free space");
  EXPECT_EQ(entries(scratch / ""), 0U);
}

}  // namespace
