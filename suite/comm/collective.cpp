// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/detail/collective.hpp"

#include "suite/comm/detail/board.hpp"

namespace taugrid::comm::detail {

namespace {

struct List {
  std::mutex mutex;
  std::list<Entered> entries;
};

List& list() {
  static List all;
  return all;
}

}  // namespace

Entry::Entry(const std::shared_ptr<Group>& group, std::string_view what) {
  const auto number = ++group->calls;
  auto& slot = my_slot();
  slot.sequence.store(0);  // who reads between the two stores sees no collective
  slot.group.store(group->id);
  slot.sequence.store(number);
  const std::scoped_lock lock(list().mutex);
  list().entries.push_back({std::string(what), group, number, running_seconds(), {}});
  entry_ = std::prev(list().entries.end());
}

Entry::~Entry() {
  const std::scoped_lock lock(list().mutex);
  if (finished_) {
    entry_->finished = std::move(finished_);
  } else {
    list().entries.erase(entry_);
  }
}

std::optional<Entered> entered_before(double since) {
  const std::scoped_lock lock(list().mutex);
  auto& entries = list().entries;
  for (auto entry = entries.begin(); entry != entries.end();) {
    if (entry->finished && entry->finished()) {
      entry = entries.erase(entry);
    } else if (entry->since < since) {
      return *entry;
    } else {
      ++entry;
    }
  }
  return std::nullopt;
}

}  // namespace taugrid::comm::detail
