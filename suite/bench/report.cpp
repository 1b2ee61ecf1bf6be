// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/bench/report.hpp"

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "suite/machine/figure_of_merit.hpp"
#include "suite/machine/versions.hpp"
#include "suite/store/atomic_file.hpp"

namespace taugrid::bench {
namespace {

/// 1234567 → "1.23 M": four figures are more than a timing holds.
std::string short_number(double value) {
  constexpr std::array<const char*, 5> suffix = {"", "k", "M", "G", "T"};
  std::size_t i = 0;
  for (; value >= 1000 && i + 1 < suffix.size(); ++i) value /= 1000;
  return fmt::format("{:.3g} {}", value, suffix[i]);
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S+00:00", gmtime_r(&now, &utc));
  return text.data();
}

}  // namespace

double Row::median() const { return median_of(seconds); }
double Row::fastest() const {
  return seconds.empty() ? 0 : *std::min_element(seconds.begin(), seconds.end());
}
double Row::slowest() const {
  return seconds.empty() ? 0 : *std::max_element(seconds.begin(), seconds.end());
}

double Row::share(const machine::Peaks& peaks) const {
  if (seconds.empty()) return 0;
  return of_machine(
      (bound.name.empty() ? std::max(flops / flops_peak(peaks), bytes / peaks.bytes) : bound.seconds) /
      median());
}

std::string Row::bound_by(const machine::Peaks& peaks) const {
  if (of_network()) return "network";
  if (!bound.name.empty()) return bound.name;
  return flops / flops_peak(peaks) > bytes / peaks.bytes ? "products" : "triad";
}

std::pair<double, std::string> Row::energy() const {
  if (unit == "numbers" || unit == "B") return {joules / (1e-9 * bytes), "J/GB"};
  const auto without = [this](std::string_view end) { return unit.substr(0, unit.size() - end.size()); };
  const auto item = unit.ends_with("ies")    ? without("ies") + "y"
                    : unit.ends_with("sses") ? without("es")
                                             : without("s");
  return {joules / items, "J/" + item};
}

void print_peaks(const machine::Peaks& peaks) {
  fmt::print("# peak: matrix product {:.1f} Gflop/s{}, triad {:.1f} GB/s\n", peaks.flops / 1e9,
             peaks.bf16_flops > 0 ? fmt::format(" ({:.1f} in bfloat16)", peaks.bf16_flops / 1e9) : "",
             peaks.bytes / 1e9);
}

void print_header(const Context& context, const machine::Peaks& peaks) {
  for (const auto& [name, value] : context) fmt::print("# {}: {}\n", name, value);
  print_peaks(peaks);
  fmt::print(
      "# times in ms; share: of the peak that bounds, by model flops and bytes; error: relative, against "
      "another "
      "computation\n");
  fmt::print("# {:<18} {:>10} {:>10} {:>10} {:>10} {:>4}  {:>20} {:>9} {:>9} {:>6} {:<8} {:>8}  {}\n", "case",
             "median", "min", "max", "warm-up", "runs", "throughput", "flop", "byte", "share", "of", "error",
             "result");
  std::fflush(stdout);
}

void print_row(const Row& row, const machine::Peaks& peaks) {
  if (!row.failure.empty()) {
    fmt::print("{:<20} INVALID: {}\n", row.name, row.failure);
    return;
  }
  fmt::print(
      "{:<20} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>4}  {:>20} {:>9} {:>9} {:>6} {:<8} {:>8.1e}  "
      "{}\n",
      row.name, 1e3 * row.median(), 1e3 * row.fastest(), 1e3 * row.slowest(), 1e3 * row.warm_up,
      row.seconds.size(), short_number(row.items / row.median()) + row.unit + "/s", short_number(row.flops),
      short_number(row.bytes), row.of_network() ? "-" : fmt::format("{:.1f}%", 100 * row.share(peaks)),
      row.bound_by(peaks), row.error,
      row.valid() ? "ok" : fmt::format("INVALID (above {:.0e})", row.tolerance));
  std::fflush(stdout);
}

void print_roofline(const machine::Peaks& peaks, const std::vector<Row>& rows) {
  const auto percent = [](double share) { return fmt::format("{:.1f}%", 100 * share); };
  fmt::print(
      "# roofline: {:.1f} Gflop/s of products, {:.1f} GB/s of triad; a case of fewer than {:.1f} flop/byte "
      "is "
      "bound by memory\n"
      "# shares: of either ceiling; traffic: what the memory controllers counted, over the bytes of the "
      "model\n"
      "# {:<28} {:>10} {:>10} {:>8} {:>10} {:>8}  {:<8} {:>8}\n",
      peaks.flops / 1e9, peaks.bytes / 1e9, peaks.flops / peaks.bytes, "case", "flop/byte", "Gflop/s",
      "share", "GB/s", "share", "bound", "traffic");
  for (const auto& row : rows) {
    if (!row.valid() || row.of_network()) continue;
    fmt::print("  {:<28} {:>10.3g} {:>10.3g} {:>8} {:>10.3g} {:>8}  {:<8} {:>8}\n", row.name,
               row.flops / row.bytes, row.flops / row.median() / 1e9, percent(row.share_of_products(peaks)),
               row.bytes / row.median() / 1e9, percent(row.share_of_triad(peaks)), row.bound_by(peaks),
               std::isnan(row.memory_bytes) ? "-" : fmt::format("{:.2f}", row.memory_bytes / row.bytes));
  }
  std::fflush(stdout);
}

void print_figures(const machine::Peaks& peaks, const std::vector<Row>& rows) {
  machine::print_figure_of_merit("peak/products", peaks.flops, "flop/s");
  if (peaks.bf16_flops > 0) machine::print_figure_of_merit("peak/products_bf16", peaks.bf16_flops, "flop/s");
  machine::print_figure_of_merit("peak/triad", peaks.bytes, "B/s");
  for (const auto& row : rows) {
    if (!row.valid()) continue;
    machine::print_figure_of_merit(row.name + "/rate", row.items / row.median(), row.unit + "/s");
    if (row.of_network()) {
      machine::print_figure_of_merit(row.name + "/latency", 1e6 * row.latency(), "us");
      machine::print_figure_of_merit(row.name + "/algbw", row.algorithm_bandwidth(), "B/s");
      machine::print_figure_of_merit(row.name + "/busbw", row.bus_bandwidth(), "B/s");
    } else {
      machine::print_figure_of_merit(row.name + "/share", row.share(peaks), "1");
    }
    if (std::isnan(row.joules)) continue;
    const auto [joules, unit] = row.energy();
    machine::print_figure_of_merit(row.name + "/energy", joules, unit);
  }
}

bool print_verdict(const std::vector<Row>& rows) {
  std::string wrong;
  for (const auto& row : rows) {
    if (!row.valid()) wrong += (wrong.empty() ? "" : ", ") + row.name;
  }
  if (wrong.empty()) {
    fmt::print("# verdict: VALID, {} case{}\n", rows.size(), rows.size() == 1 ? "" : "s");
  } else {
    fmt::print("# verdict: INVALID: {}\n", wrong);
  }
  return wrong.empty();
}

void write_json(const std::filesystem::path& path, const Context& context, const std::string& energy_source,
                const machine::Peaks& peaks, const std::vector<Row>& rows) {
  nlohmann::ordered_json json;
  json["schema_version"] = 2;
  auto& head = json["context"];
  head["date"] = utc_now();
  for (const auto& [name, value] : context) {
    const bool whole = name == "cores" || name == "threads" || name == "ranks";
    auto& place = head[name == "host" ? "host_name" : name == "cores" ? "num_cpus" : name];
    if (whole) {
      place = std::stoi(value);
    } else {
      place = value;
    }
  }
  head["energy_source"] = nullptr;
  if (!energy_source.empty()) head["energy_source"] = energy_source;
  head["peak_flops"] = peaks.flops;
  head["peak_bytes"] = peaks.bytes;
  if (peaks.bf16_flops > 0) head["peak_bf16_flops"] = peaks.bf16_flops;
  for (const auto& [name, value] : machine::versions()) json["versions"][name] = value;
  json["benchmarks"] = nlohmann::ordered_json::array();
  for (const auto& row : rows) {
    const auto entry = [&](double seconds, double cpu_seconds) {
      nlohmann::ordered_json e;
      e["name"] = row.name;
      e["run_name"] = row.name;
      e["run_type"] = "iteration";
      e["repetitions"] = row.seconds.size();
      e["threads"] = at::get_num_threads();
      e["iterations"] = 1;
      e["real_time"] = 1e3 * seconds;
      e["cpu_time"] = 1e3 * cpu_seconds;
      e["time_unit"] = "ms";
      e["items_per_second"] = row.items / seconds;
      return e;
    };
    for (std::size_t i = 0; i < row.seconds.size(); ++i) {
      auto e = entry(row.seconds[i], row.cpu_seconds[i]);
      e["repetition_index"] = i;
      json["benchmarks"].push_back(std::move(e));
    }
    auto e = entry(row.median(), median_of(row.cpu_seconds));
    e["name"] = row.name + "_median";
    e["run_type"] = "aggregate";
    e["aggregate_name"] = "median";
    e["warm_up_time"] = 1e3 * row.warm_up;
    e["unit"] = row.unit;
    e["flops"] = row.flops;
    e["bytes"] = row.bytes;
    e["share_of_peak"] = row.share(peaks);  // null, as the two of the ceilings, of the network's cases
    e["bound"] = row.bound_by(peaks);
    e["share_of_products"] = row.share_of_products(peaks);
    e["share_of_triad"] = row.share_of_triad(peaks);
    e["relative_error"] = row.error;
    e["tolerance"] = row.tolerance;
    e["valid"] = row.valid();
    e["joules"] = row.joules;              // null where nothing counts them
    e["memory_bytes"] = row.memory_bytes;  // as well
    if (row.of_network()) {
      e["transfer_bytes"] = row.transfer.bytes;
      e["latency_us"] = 1e6 * row.latency();
      e["algorithm_bandwidth"] = row.algorithm_bandwidth();
      e["bus_bandwidth"] = row.bus_bandwidth();
    }
    if (!row.failure.empty()) {
      e["error_occurred"] = true;
      e["error_message"] = row.failure;
    }
    json["benchmarks"].push_back(std::move(e));
  }
  store::write_atomically(path, json.dump(2) + "\n");
}

}  // namespace taugrid::bench
