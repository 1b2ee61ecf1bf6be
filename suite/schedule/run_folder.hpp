// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The folder of one run: locked while in use, bound to one configuration, the home of committed units.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "suite/comm/communicator.hpp"
#include "suite/schedule/detail/hold.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/safetensors.hpp"

namespace taugrid::schedule {

/// Calls `action` on rank 0, and lets all ranks know how it went: where it throws, all throw an InputError of the
/// same text. Collective.
void on_first_rank(const comm::Communicator& world, const char* what, const std::function<void()>& action);

/// The problem of the lowest rank that has one, on all ranks; empty where none has. Collective.
std::string first_problem(const comm::Communicator& world, std::string problem, const char* what);

/// RUN/{config.toml,units,log,checkpoints,scratch}. Movable; the lock lives as long as the object.
class RunFolder {
 public:
  using Metadata = std::map<std::string, std::string>;
  /// How shared file systems are met.
  struct Care {
    detail::HoldTimes hold = {};
    /// How long a unit that another host has committed may stay unseen here.
    std::chrono::duration<double> unseen = store::attributes_cached;
    /// Called by a thread of rank 0 where another job took the folder over: ends this one.
    std::function<void(const std::string&)> lost = end_job;
  };

  /// Collective over `world`: rank 0 creates, locks, checks and tidies (leftovers of unfinished writes).
  /// Throws the same InputError on all ranks where the folder is in use (naming host, process, job and since
  /// when), was started with another configuration than `config` (Config::resolved(); the difference is
  /// shown), or cannot be written.
  RunFolder(const comm::Communicator& world, std::filesystem::path path, const std::string& config, Care care);
  RunFolder(const comm::Communicator& world, std::filesystem::path path, const std::string& config)
      : RunFolder(world, std::move(path), config, Care()) {}
  /// A folder of no run, for units that are counted and not computed.
  static RunFolder none();
  RunFolder(RunFolder&&) noexcept;
  RunFolder& operator=(RunFolder&&) noexcept;
  ~RunFolder();

  /// Collective. `inputs`: what the units are computed from, as TOML; the run's first start keeps it.
  /// `as_before`: the same as earlier programs told it; a folder that has it gets `inputs`. Throws the same
  /// InputError on all ranks where another start had other inputs.
  void require_same_inputs(const comm::Communicator& world, const std::string& inputs,
                           const std::string& as_before) const;

  const std::filesystem::path& path() const { return path_; }
  /// units/KEY.safetensors with "__" for each slash.
  std::filesystem::path unit_path(std::string_view key) const { return unit_path(path_, key); }
  /// The same in any run's folder.
  static std::filesystem::path unit_path(const std::filesystem::path& run, std::string_view key);
  std::filesystem::path scratch_path(std::string_view key) const;

  /// Whether the unit's file is there and whole; a truncated one is reported, set aside as *.broken, and
  /// false. Throws store::ReadFailure where it cannot be read: that makes it no broken one. One rank.
  bool committed(std::string_view key) const;
  /// committed() of each key; a name that the folder lists and that cannot be opened yet is waited for. One rank.
  std::vector<bool> committed(const std::vector<std::string>& keys) const;
  /// The same, and the text entries of its header.
  std::optional<Metadata> find_metadata(std::string_view key) const;
  /// Why the committed unit's file is not the one that was written, by its name and its digest; empty where it
  /// is. Reads all of it. Throws store::ReadFailure where it cannot be read. Any rank.
  std::string damage(std::string_view key) const;
  /// Renames the unit's file to *.broken, and says why.
  void set_aside(std::string_view key, const std::string& problem) const;
  /// Any rank. Throws std::runtime_error naming the unit where it is broken, or absent for as long as it may stay
  /// unseen.
  store::TensorFile read_unit(std::string_view key) const;
  /// The same on all ranks, of which the first alone opens the file: of 10,000 units, 512 ranks would make
  /// five million openings. For units of a few numbers. Collective over `world`.
  store::TensorFile read_unit(const comm::Communicator& world, std::string_view key) const;
  /// One tensor of a unit, without reading the others. Throws as read_unit.
  at::Tensor read_tensor(std::string_view key, const std::string& name) const;
  /// The text entries of the unit's header alone: key, rank, seconds, device.
  Metadata read_metadata(std::string_view key) const;
  /// Atomic: afterwards the unit is there whole, or not at all. One rank.
  void commit(std::string_view key, const store::TensorFile& file) const;

 private:
  static void end_job(const std::string& problem);
  RunFolder();
  std::filesystem::path path_;
  std::chrono::duration<double> unseen_ = store::attributes_cached;
  std::unique_ptr<detail::Hold> hold_;
};

}  // namespace taugrid::schedule
