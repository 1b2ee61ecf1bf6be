// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/atomic_file.hpp"

#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "suite/store/input_file.hpp"
#include "tests/suite/store/scratch.hpp"

namespace {

using taugrid::store::AtomicFile;
using taugrid::store::write_atomically;
using namespace taugrid::testing;

/// What was flushed, in order.
std::vector<std::filesystem::path>& flushed() {
  static std::vector<std::filesystem::path> paths;
  return paths;
}

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
  expect_contains(message_of([&] { write_atomically(scratch / "d", "x"); }), "is a folder; expected a file");
  EXPECT_EQ(entries(scratch / ""), 1U);
  if (::geteuid() != 0) {
    std::filesystem::permissions(scratch / "d", std::filesystem::perms::owner_read);
    expect_contains(message_of([&] { write_atomically(scratch / "d/f", "x"); }), "Permission denied; choose");
    std::filesystem::permissions(scratch / "d", std::filesystem::perms::owner_all);
  }
}

TEST(AtomicFile, ReportsAFullDisk) {
  const Scratch scratch("atomic");
  const auto disk = scratch / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=16k") != 0) {
    GTEST_SKIP() << "a small file system needs the right to mount";
  }
  expect_contains(message_of([&] { write_atomically(disk / "f", std::string(1 << 16, 'x')); }),
                  "No space left on device; free space");
  EXPECT_EQ(entries(disk), 0U);
  ::umount(disk.c_str());
}

TEST(AtomicFile, HasATemporaryNameThatNoOtherHostOrJobHas) {
  const std::filesystem::path path = "folder/" + std::string(240, 'f');
  const auto name = taugrid::store::temporary_name(path), other = taugrid::store::temporary_name(path);
  EXPECT_NE(name, other);
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  expect_contains(name.filename().string(), ".partial." + std::string(host).substr(0, 24) + ".");
  EXPECT_LE(name.filename().string().size(), 255U);
}

TEST(AtomicFile, NewFoldersAreFlushedIntoTheirParents) {
  const Scratch scratch("atomic");
  flushed().clear();
  taugrid::store::create_folders(scratch / "a/b/c");
  EXPECT_TRUE(std::filesystem::is_directory(scratch / "a/b/c"));
  const std::vector<std::filesystem::path> parents = {scratch / "", scratch / "a", scratch / "a/b"};
  ASSERT_EQ(flushed().size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::filesystem::equivalent(flushed()[i], parents[i])) << i;
  taugrid::store::create_folders(scratch / "a/b");
  EXPECT_EQ(flushed().size(), 3U) << "nothing is new";
  write_atomically(scratch / "a/file", "x");
  expect_contains(message_of([&] { taugrid::store::create_folders(scratch / "a/file/b"); }), "File exists");
}

// A link to a file that is yet to come: the folder lists a name that cannot be opened.
TEST(InputFile, IsWaitedForWhereItsFolderListsIt) {
  using taugrid::store::wait_if_listed;
  const Scratch scratch("input");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(wait_if_listed(scratch / "gone", std::chrono::seconds(60)));
  EXPECT_FALSE(wait_if_listed(scratch / "no folder/gone", std::chrono::seconds(60)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  std::filesystem::create_symlink(scratch / "target", scratch / "late");
  EXPECT_FALSE(wait_if_listed(scratch / "late", std::chrono::milliseconds(50)));
  const std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    write_atomically(scratch / "target", "x");
  });
  EXPECT_TRUE(wait_if_listed(scratch / "late", std::chrono::seconds(60)));
}

}  // namespace

/// Stands before the system's: what is flushed is seen.
extern "C" int fsync(int descriptor) {
  flushed().push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)));
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}
