// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/pairs/pair_units.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "suite/comm/clock.hpp"
#include "suite/error.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::experiments {
namespace {

constexpr double save_every = 10;  // seconds

/// The pairs of a tile that are finished, each tensor stacked along a new first dimension.
class Finishing {
 public:
  Finishing(const Range& tile, const schedule::UnitContext& context)
      : tile_(tile), group_(context.group), path_(context.scratch / "pairs.safetensors") {
    std::int64_t count = 0;
    if (group_.rank() == 0 && store::is_there(path_)) {
      for (auto& [name, rows] : store::read_safetensors(path_).tensors) {
        count = rows.size(0);
        rows_[name] = rows.unbind(0);
      }
    }
    done_ = group_.size() > 1 ? group_.patient_broadcast(count, 0, "a saved tile") : count;
  }

  std::int64_t next() const { return tile_.begin + done_; }
  bool complete() const { return done_ == tile_.count; }
  void add(const store::TensorFile& pair) {
    for (const auto& [name, tensor] : pair.tensors) rows_[name].push_back(tensor.cpu());
    ++done_;
  }
  store::TensorFile file() const {
    store::TensorFile all;
    for (const auto& [name, rows] : rows_) all.tensors[name] = at::stack(rows);
    return all;
  }
  void save() {
    saved_ = comm::steady_seconds();
    if (group_.rank() == 0 && done_ > 0) store::write_safetensors(path_, file());
  }
  bool due() const { return comm::steady_seconds() - saved_ > save_every; }

 private:
  Range tile_;
  const comm::Communicator& group_;
  std::filesystem::path path_;
  std::map<std::string, std::vector<at::Tensor>> rows_;
  std::int64_t done_ = 0;
  double saved_ = comm::steady_seconds();
};

}  // namespace

PairUnits::NeedsOf PairUnits::needs(const Study& study, const std::string& regime,
                                    std::string (*task_key)(const std::string&, const std::string&)) {
  return [&study, regime, task_key](std::size_t p) {
    const auto [i, j] = study.tasks.pairs()[p];
    std::vector<std::string> keys;
    for (const auto t : {i, j}) {
      for (auto& each : Edit::together(regime, {i, j}, {1}).needs(study, t)) keys.push_back(std::move(each));
      keys.push_back(task_key(regime, study.tasks.name(t)));
    }
    return keys;
  };
}

PairUnits::PairUnits(const Study& study, std::string kind) : study_(study), kind_(std::move(kind)) {}

std::vector<Range> PairUnits::tiles() const {
  const auto pairs = static_cast<std::int64_t>(study_.tasks.pairs().size());
  const auto size = std::max<std::int64_t>(1, (pairs + most_units - 1) / most_units);
  std::vector<Range> all;
  for (std::int64_t begin = 0; begin < pairs; begin += size)
    all.push_back({begin, std::min(size, pairs - begin)});
  return all;
}

std::string PairUnits::key_of(const Range& tile) const {
  const auto pairs = static_cast<std::int64_t>(study_.tasks.pairs().size());
  if (pairs <= most_units) return kind_ + "/" + study_.tasks.pair_name(static_cast<std::size_t>(tile.begin));
  return fmt::format("{}/pairs-{:05}-{:05}", kind_, tile.begin, tile.end() - 1);
}

store::TensorFile PairUnits::compute_tile(const Range& tile, const Compute& compute,
                                          schedule::UnitContext& context) const {
  Finishing pairs(tile, context);
  const auto report = context.progress;
  while (!pairs.complete()) {
    const auto share = [&](double of_pair) {
      return (static_cast<double>(pairs.next() - tile.begin) + of_pair) / static_cast<double>(tile.count);
    };
    schedule::UnitContext pair_context{
        context.group, context.stop, context.scratch,
        [&](double fraction, std::string_view detail) { report(share(fraction), detail); }};
    try {
      context.stop_if_requested();
      pairs.add(compute(static_cast<std::size_t>(pairs.next()), pair_context));
    } catch (const Interrupted&) {
      pairs.save();
      throw;
    }
    if (pairs.due()) pairs.save();
  }
  return pairs.file();
}

void PairUnits::add(std::vector<schedule::WorkUnit>& units, const TallyOf& tally, const NeedsOf& needs,
                    const Compute& compute) const {
  for (const auto& tile : tiles()) {
    const auto first = static_cast<std::size_t>(tile.begin);
    auto all = tally(first);
    auto wanted = needs(first);
    for (std::size_t p = first + 1; p < static_cast<std::size_t>(tile.end()); ++p) {
      all += tally(p);
      const auto more = needs(p);
      wanted.insert(wanted.end(), more.begin(), more.end());
    }
    std::set<std::string> seen;
    std::erase_if(wanted, [&](const auto& key) { return !seen.insert(key).second; });
    const bool single = static_cast<std::int64_t>(study_.tasks.pairs().size()) <= most_units;
    units.push_back(unit(key_of(tile), all, wanted,
                         [tile, compute, single, self = *this](schedule::UnitContext& context) {
                           if (single) return compute(static_cast<std::size_t>(tile.begin), context);
                           return self.compute_tile(tile, compute, context);
                         }));
  }
}

std::vector<Box> PairUnits::boxes() const {
  std::vector<Box> all;
  for (const auto& tile : tiles()) all.push_back({key_of(tile), {tile.begin}});
  return all;
}

}  // namespace taugrid::experiments
