// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The figures of `taugrid bench`: rows for people, JSON for programs.
#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "suite/bench/case.hpp"
#include "suite/machine/machine.hpp"

namespace taugrid::bench {

struct Row {
  std::string name;
  double warm_up;                   ///< seconds of the first run, with all that is paid once
  std::vector<double> seconds;      ///< one a repetition
  std::vector<double> cpu_seconds;  ///< the same, of all threads together
  double flops, bytes, items;
  std::string unit;
  double error, tolerance;
  bool bf16 = false;  ///< measured against that peak
  Bound bound = {};   ///< in place of the peaks, where it has a name
  Transfer transfer = {};
  std::string failure;                                       ///< an exception's text; empty: none
  double joules = std::numeric_limits<double>::quiet_NaN();  ///< of a run; NaN where nothing counts them

  /// What memory controllers counted of a run; NaN where nothing counts.
  double memory_bytes = std::numeric_limits<double>::quiet_NaN();

  bool valid() const { return failure.empty() && error <= tolerance; }  // false for NaN
  double median() const;
  double fastest() const;
  double slowest() const;
  /// The least time that the machine's peaks allow, whichever bounds, or the case's own bound, over the
  /// median. NaN of a case that measures the network, which the machine's memory does not bound.
  double share(const machine::Peaks& peaks) const;
  /// The same of each ceiling: model flops at the peak of products, bytes at that of the triad.
  double share_of_products(const machine::Peaks& peaks) const {
    return of_machine(flops / flops_peak(peaks) / median());
  }
  double share_of_triad(const machine::Peaks& peaks) const {
    return of_machine(bytes / peaks.bytes / median());
  }
  /// What share() is of: "products", "triad", or the name of the case's own bound; "network" where it is NaN.
  std::string bound_by(const machine::Peaks& peaks) const;
  /// Seconds of a call, and B/s of its algorithm and on the bus; of cases that have a transfer.
  double latency() const { return median() / items; }
  double algorithm_bandwidth() const { return transfer.bytes / latency(); }
  double bus_bandwidth() const { return transfer.bus * algorithm_bandwidth(); }
  /// Joules an item, and the unit: "J/image"; of merges and files, which move bytes, "J/GB".
  std::pair<double, std::string> energy() const;
  double flops_peak(const machine::Peaks& peaks) const { return bf16 ? peaks.bf16_flops : peaks.flops; }
  bool of_network() const { return transfer.bytes > 0; }
  /// A share of a peak of the machine, NaN where the case is the network's.
  double of_machine(double share_of_peak) const {
    return of_network() ? std::numeric_limits<double>::quiet_NaN() : share_of_peak;
  }
};

using Context = std::vector<std::pair<std::string, std::string>>;

void print_peaks(const machine::Peaks& peaks);
void print_header(const Context& context, const machine::Peaks& peaks);
void print_row(const Row& row, const machine::Peaks& peaks);
/// The roofline of Williams et al. (2009) in rows: each case's flops a byte, its two rates as shares of the
/// two ceilings, the one that bounds it, and the traffic that was counted over the bytes of the model.
void print_roofline(const machine::Peaks& peaks, const std::vector<Row>& rows);
/// Figures of merit: the machine's peaks, and of every valid row its rate, its share of the peak that bounds
/// or its times and bandwidths on the network, and its energy, where something counts joules.
void print_figures(const machine::Peaks& peaks, const std::vector<Row>& rows);
/// "# verdict: …"; true if all rows are valid.
bool print_verdict(const std::vector<Row>& rows);
/// google/benchmark's form: context, and a raw row a repetition besides the median. docs/bench.schema.json
/// describes it; its schema_version changes with it. `energy_source`: what counts joules, empty: nothing.
void write_json(const std::filesystem::path& path, const Context& context, const std::string& energy_source,
                const machine::Peaks& peaks, const std::vector<Row>& rows);

}  // namespace taugrid::bench
