// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What units cost besides their work: committing each, and bringing all into one results.h5.
#include <ATen/ATen.h>
#include <fmt/core.h>

#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/ledger/results.hpp"

namespace taugrid::bench {
namespace {

std::string key_of(std::int64_t i) { return fmt::format("bench/unit/{}", i); }

store::TensorFile unit(std::int64_t i) {  // as a pair's, with its grid and other results
  store::TensorFile file;
  file.tensors["grid"] = at::full({20, 20}, static_cast<double>(i), at::kDouble);
  file.tensors["other"] = at::zeros({2, 20, 20}, at::kDouble);
  file.metadata = {{"key", key_of(i)}, {"rank", "0"}, {"seconds", "1.000000"}, {"device", "cpu"}};
  return file;
}

Work commit(const Fixture& x) {
  const auto folder = std::make_shared<schedule::RunFolder>(x.runtime().world(), x.folder() / "commit", "");
  const auto next = std::make_shared<std::int64_t>(0);
  Work work;
  work.run = [folder, next] {
    folder->commit(key_of(*next), unit(*next));
    ++*next;
  };
  work.bytes = 3 * 20 * 20 * 8;
  work.items = 1;
  work.unit = "units";
  work.error = [folder, next] {
    return folder->read_tensor(key_of(*next - 1), "grid")
                   .eq(static_cast<double>(*next - 1))
                   .all()
                   .item<bool>()
               ? 0.0
               : 1.0;
  };
  return work;
}

/// What a run does at its end: one tensor of each unit goes into a data set, each unit's row into /units.
Work consolidate(const Fixture& x, std::int64_t units) {
  const auto name = fmt::format("consolidate_{}", units);
  const auto folder = std::make_shared<schedule::RunFolder>(x.runtime().world(), x.folder() / name, "");
  for (std::int64_t i = 0; i < units; ++i) folder->commit(key_of(i), unit(i));
  const auto path = x.folder() / (name + ".h5");
  Work work;
  work.run = [folder, path, units, &x] {
    store::ResultsWriter out(path, x.runtime().world());
    std::vector<ledger::Box> boxes;
    std::vector<store::UnitRow> rows;
    for (std::int64_t i = 0; i < units; ++i) boxes.push_back({key_of(i), {i}});
    ledger::place_boxes(out, {*folder, x.runtime().world()}, "/grid", store::Element::float64,
                        {units, 20, 20}, {"unit", "row", "column"}, boxes, "grid");
    for (std::int64_t i = 0; i < units; ++i) {
      const auto metadata = folder->read_metadata(key_of(i));
      rows.push_back({key_of(i), std::stoi(metadata.at("rank")), std::stod(metadata.at("seconds")),
                      metadata.at("device")});
    }
    out.units(rows);
    out.commit();
  };
  work.bytes = static_cast<double>(units) * 20 * 20 * 8;
  work.items = static_cast<double>(units);
  work.unit = "units";
  work.error = [path, units] {
    auto read = at::empty({units, 20, 20}, at::kDouble);
    store::Hdf5File(path).read("/grid", store::Element::float64, read.data_ptr(), read.nbytes());
    return at::equal(read.select(2, 7).select(1, 3), at::arange(units, at::kDouble)) ? 0.0 : 1.0;
  };
  return work;
}

}  // namespace

std::vector<Case> unit_cases(const Fixture& x) {
  return {{"units/commit", [&x] { return commit(x); }, false, false, true},
          {"units/consolidate", [&x] { return consolidate(x, 2000); }, false, false, true},
          {"units/consolidate_100000", [&x] { return consolidate(x, 100000); }, true, false, true}};
}

}  // namespace taugrid::bench
