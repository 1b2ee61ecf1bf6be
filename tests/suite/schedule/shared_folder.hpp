// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A folder that all ranks share for one test; gone afterwards.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "suite/comm/communicator.hpp"

namespace taugrid::test {

/// Collective over `world`, to make and to destroy.
class SharedFolder {
 public:
  explicit SharedFolder(const comm::Communicator& world) : world_(world) {
    auto name = (std::filesystem::temp_directory_path() / "taugrid-XXXXXX").string();
    if (world.rank() == 0) {
      mkdtemp(name.data());
    }
    world.broadcast(name, 0, "test folder");
    path_ = name;
  }
  ~SharedFolder() {
    world_.barrier("end of the test");
    if (world_.rank() == 0) {
      std::filesystem::remove_all(path_);
    }
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  const comm::Communicator& world_;
  std::filesystem::path path_;
};

/// What `work` throws as an Exception, in words; empty where it throws nothing.
template <class Exception, class Work>
std::string message_of(const Work& work) {
  try {
    work();
    return "";
  } catch (const Exception& error) {
    return error.what();
  }
}

}  // namespace taugrid::test
