// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A folder that may take several starts: it is built beside its place, under a name that the next start
// finds.
#pragma once

#include <filesystem>
#include <string>

namespace taugrid::store {

/// For one process at a time, which a lock ensures; others may write files into it.
class UnfinishedFolder {
 public:
  /// `what`: everything that the folder's content depends on. What an earlier start left is taken up where it
  /// was of the same, and removed where it was of something else. Throws InputError where another process
  /// builds it, something else has its name, or it cannot be made.
  UnfinishedFolder(std::filesystem::path final_path, std::string what);
  /// Leaves it to the next start, unless begin() was not called.
  ~UnfinishedFolder();
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  /// Where the folder of this final place is built: .NAME.partial beside it.
  static std::filesystem::path place(const std::filesystem::path& final_path);
  const std::filesystem::path& path() const { return path_; }
  /// The first of the folders above it that were made for it; empty: all were there.
  const std::filesystem::path& first_made() const { return first_made_; }
  /// Whether an earlier start came as far as begin().
  bool goes_on() const { return goes_on_; }
  /// All that a later start relies on is there: from now on it may go on.
  void begin();
  /// Removes all that an earlier start left.
  void start_anew();
  /// Removes a folder that is built, and those above it that were made for it, as long as nobody else has put
  /// anything there. Another process than that which holds the folder may call it.
  static void remove(const std::filesystem::path& path, const std::filesystem::path& first_made) noexcept;
  void discard() noexcept;
  /// All is there: a start after this one, if it does not come to commit(), begins anew.
  void end();
  /// Gives the folder its final name, which must be free or an empty folder's. Throws InputError.
  void commit();

 private:
  struct Named {};
  UnfinishedFolder(Named, std::filesystem::path final_path, std::string what);
  void open();

  std::filesystem::path final_path_, path_, first_made_;
  std::string what_;
  bool goes_on_ = false, is_begun_ = false;
  bool is_made_here_ = false;  ///< else it was there, whosever it is
  int lock_ = -1;              ///< at least 0: the folder is this object's
};

}  // namespace taugrid::store
