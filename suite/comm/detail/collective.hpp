// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Which collectives this rank has entered and not left: what the watchdog looks at.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "suite/comm/clock.hpp"
#include "suite/comm/operation.hpp"

namespace taugrid::comm::detail {

/// A group as all its ranks know it.
struct Group {
  std::uint64_t id = 0;    ///< the same on its ranks, another for each group
  std::vector<int> ranks;  ///< their numbers in MPI_COMM_WORLD
  std::atomic<std::uint64_t> calls{0};
};

/// A collective that has been entered.
struct Entered {
  std::string what;
  std::shared_ptr<const Group> group;
  std::uint64_t number = 0;        ///< among the collectives of its group
  double since = 0;                ///< running_seconds()
  std::function<bool()> finished;  ///< on a device: whether it is over
};

/// Marks this rank as in a collective for as long as it lives; any thread may end it. A collective that goes
/// on on a device is watched until the device has finished it.
class Entry {
 public:
  Entry(const std::shared_ptr<Group>& group, std::string_view what);
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  void goes_on(std::function<bool()> finished) { finished_ = std::move(finished); }

 private:
  std::list<Entered>::iterator entry_;
  std::function<bool()> finished_;
};

/// An Entry of the main thread, said in messages.
class Collective {
 public:
  Collective(const std::shared_ptr<Group>& group, std::string_view what)
      : waiting_(what), entry_(group, what) {}
  void goes_on(std::function<bool()> finished) { entry_.goes_on(std::move(finished)); }

 private:
  Waiting waiting_;
  Entry entry_;
};

/// The oldest collective that is not over and was entered before `since`, in running_seconds(). Forgets those that are over.
std::optional<Entered> entered_before(double since);

}  // namespace taugrid::comm::detail
