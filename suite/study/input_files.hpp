// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What becomes of the files that a study reads: a run needs each, a dry run lists what it finds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "suite/error.hpp"

namespace taugrid::study {

/// A file that a study reads, for lists of what is there and what is missing.
struct InputFile {
  std::string name;  ///< "model", the task, or the regime
  std::filesystem::path path;
  std::string state;     ///< what was found there
  bool missing = false;  ///< or wrong; `state` is the error, then
};

class InputFiles {
 public:
  enum class Mode {
    run,     ///< a file that is missing or wrong is an error
    dry_run  ///< it is listed, and a stand-in takes its place: enough to count work, not to compute
  };
  explicit InputFiles(Mode mode) : mode_(mode) {}

  bool is_dry_run() const { return mode_ == Mode::dry_run; }
  void list(InputFile file) {
    if (is_dry_run()) files_.push_back(std::move(file));
  }
  /// Calls `read()`, which returns what was found in the file, and lists it. False where a dry run found it
  /// missing or wrong: a stand-in is needed, as `instead` says. A run throws InputError.
  template <class Read>
  bool read(const std::string& name, const std::filesystem::path& path, Read&& read,
            const std::string& instead = {}) {
    InputFile file{name, path, {}};
    try {
      file.state = read();
    } catch (const InputError& error) {
      if (!is_dry_run()) throw;
      file.state = error.what() + instead;
      file.missing = true;
    }
    const bool there = !file.missing;
    list(std::move(file));
    return there;
  }
  const std::vector<InputFile>& files() const { return files_; }

 private:
  Mode mode_;
  std::vector<InputFile> files_;  // of a dry run
};

}  // namespace taugrid::study
