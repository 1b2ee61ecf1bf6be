// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/plan/profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "suite/config/config.hpp"
#include "suite/error.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/hdf5.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/input_json.hpp"

namespace taugrid::plan {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int schema_version = 1;

/// An object of the file; refusals name the file and the key.
class Table {
 public:
  Table(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) refuse("", "an object");
  }

  bool has(const char* key) const { return json_.contains(key); }
  /// Finite and at least `least`; above it where `above`.
  double number(const std::string& key, double least, bool above = false) const {
    const auto& value = find(key);
    const double x = value.is_number() ? value.get<double>() : std::nan("");
    if (!std::isfinite(x) || x < least || (above && x == least))
      refuse(key, fmt::format("a number {} {}", above ? "above" : "of at least", least));
    return x;
  }
  std::int64_t integer(const std::string& key, std::int64_t least) const {
    const auto& value = find(key);
    if (!value.is_number_integer() || value.get<double>() < static_cast<double>(least) ||
        value.get<double>() > 1e15)
      refuse(key, fmt::format("an integer of at least {}", least));
    return value.get<std::int64_t>();
  }
  /// A number of ranks, cores or threads.
  int count(const std::string& key) const {
    return static_cast<int>(std::min<std::int64_t>(integer(key, 1), 1 << 20));
  }
  std::string text(const std::string& key) const {
    const auto& value = find(key);
    if (!value.is_string()) refuse(key, "text");
    return value.get<std::string>();
  }
  Table table(const std::string& key) const { return {find(key), where_ + ": " + key}; }
  const std::string& where() const { return where_; }
  std::vector<std::string> keys() const {
    std::vector<std::string> all;
    for (const auto& [key, value] : json_.items()) all.push_back(key);
    return all;
  }

 private:
  const Json& find(const std::string& key) const {
    const auto entry = json_.find(key);
    if (entry == json_.end())
      throw InputError(fmt::format("{}: {} is missing; make the profile with --save-profile", where_, key));
    return *entry;
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const {
    auto value = key.empty() ? json_.dump() : json_.at(key).dump();
    if (value.size() > 40) value = value.substr(0, 40) + "…";
    throw InputError(
        fmt::format("{}: {}is {}; expected {}", where_, key.empty() ? "" : key + " ", value, expected));
  }

  const Json& json_;
  std::string where_;
};

/// Calls of these seconds by their bytes: of a case "…/all_reduce_4KiB" what its rate says.
double seconds_of(const Together::Calls& calls, double bytes) {
  const auto above = calls.lower_bound(bytes);
  if (above == calls.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == calls.end()) return below->second * bytes / below->first;
  const double part = (bytes - below->first) / (above->first - below->first);
  return below->second + part * (above->second - below->second);
}

/// How much more of its bytes crosses each link of a ring of `ranks` than of `measured`.
double ring(int ranks, int measured) {
  const auto part = [](int n) { return (n - 1.0) / n; };
  return part(ranks) / part(measured);
}

Together::Calls calls_of(const Table& all, const std::string& key) {
  Together::Calls calls;
  const auto table = all.table(key);
  for (const auto& bytes : table.keys()) {
    double number = 0;
    const auto* const end = bytes.data() + bytes.size();
    if (const auto [stop, error] = std::from_chars(bytes.data(), end, number);
        error != std::errc() || stop != end || !(number > 0) || !std::isfinite(number))
      throw InputError(fmt::format("{}: {} is no number of bytes", table.where(), bytes.substr(0, 40)));
    calls[number] = table.number(bytes, 0, true);
  }
  return calls;
}

Json as_json(const Together::Calls& calls) {
  auto json = Json::object();
  for (const auto& [bytes, seconds] : calls) json[fmt::format("{:.0f}", bytes)] = seconds;
  return json;
}

Together together_of(const Table& table) {
  Together together;
  together.ranks = table.count("ranks");
  if (together.ranks < 2)
    throw InputError(fmt::format("{}: ranks is {}; expected two or more", table.where(), together.ranks));
  together.sums = calls_of(table, "sum_seconds");
  together.gathers = calls_of(table, "gather_seconds");
  if (together.sums.empty())
    throw InputError(
        fmt::format("{}: sum_seconds is empty; expected seconds of one call at least", table.where()));
  together.write_bytes_per_second = table.number("write_bytes_per_second", 0);
  together.read_bytes_per_second = table.number("read_bytes_per_second", 0);
  together.results_bytes_per_second = table.number("results_bytes_per_second", 0);
  return together;
}

}  // namespace

double Together::sum_seconds(double bytes, int of) const { return seconds_of(sums, bytes) * ring(of, ranks); }
double Together::gather_seconds(double bytes, int of) const {
  return seconds_of(gathers.empty() ? sums : gathers, bytes) * ring(of, ranks);
}

Profile read_profile(const fs::path& path) {
  const auto where = path.string();
  const auto json = store::input_json(path, "a profile, or a run's results.h5");
  const Table all(json, where);
  if (const auto version = all.integer("schema_version", 1); version != schema_version)
    throw InputError(fmt::format("{}: schema_version is {}; expected {}", where, version, schema_version));
  Profile p;
  const auto host = all.table("host");
  p.host = host.text("name");
  p.processor = host.text("processor");
  if (host.has("device")) p.device = host.text("device");
  p.cores = host.count("cores");
  p.memory_bytes = host.number("memory_bytes", 0, true);
  p.threads_per_rank = all.count("threads_per_rank");
  p.model_parameters = all.integer("model_parameters", 1);
  const auto rates = all.table("rates");
  for (const auto& kind : rates.keys()) {
    const auto rate = rates.table(kind);
    p.rates[kind] = {rate.number("call_seconds", 0), rate.number("flops_per_second", 0, true)};
  }
  p.crowding = all.number("crowding", 1);
  p.start_seconds = all.number("start_seconds", 0);
  p.unit_seconds = all.number("unit_seconds", 0);
  p.open_seconds = all.number("open_seconds", 0);
  p.read_bytes_per_second = all.number("read_bytes_per_second", 0, true);
  p.write_bytes_per_second = all.number("write_bytes_per_second", 0, true);
  p.process_bytes = all.number("process_bytes", 0);
  if (all.has("together")) p.together = together_of(all.table("together"));
  const auto versions = all.table("versions");
  for (const auto& name : versions.keys()) p.versions[name] = versions.text(name);
  if (!all.has("units")) return p;
  const auto units = all.table("units");
  for (const auto& key : units.keys()) p.trace.seconds[key] = units.number(key, 0);
  p.trace.ranks_per_host = all.count("units_ranks_per_host");
  if (all.has("units_groups")) p.trace.groups = all.count("units_groups");
  if (all.has("units_ranks_per_unit")) p.trace.ranks_per_unit = all.count("units_ranks_per_unit");
  if (all.has("units_config")) p.trace.config = all.text("units_config");
  return p;
}

void write_profile(const fs::path& path, const Profile& p) {
  nlohmann::ordered_json json;
  json["schema_version"] = schema_version;
  json["host"] = {{"name", p.host},
                  {"processor", p.processor},
                  {"device", p.device},
                  {"cores", p.cores},
                  {"memory_bytes", p.memory_bytes}};
  json["threads_per_rank"] = p.threads_per_rank;
  json["model_parameters"] = p.model_parameters;
  json["rates"] = Json::object();
  for (const auto& [kind, rate] : p.rates)
    json["rates"][kind] = {{"call_seconds", rate.call_seconds}, {"flops_per_second", rate.flops_per_second}};
  json["crowding"] = p.crowding;
  json["start_seconds"] = p.start_seconds;
  json["unit_seconds"] = p.unit_seconds;
  json["open_seconds"] = p.open_seconds;
  json["read_bytes_per_second"] = p.read_bytes_per_second;
  json["write_bytes_per_second"] = p.write_bytes_per_second;
  json["process_bytes"] = p.process_bytes;
  if (const auto& t = p.together; t.ranks > 0)
    json["together"] = {{"ranks", t.ranks},
                        {"sum_seconds", as_json(t.sums)},
                        {"gather_seconds", as_json(t.gathers)},
                        {"write_bytes_per_second", t.write_bytes_per_second},
                        {"read_bytes_per_second", t.read_bytes_per_second},
                        {"results_bytes_per_second", t.results_bytes_per_second}};
  json["versions"] = Json(p.versions);
  if (!p.trace.seconds.empty()) {
    json["units"] = Json(p.trace.seconds);
    json["units_ranks_per_host"] = p.trace.ranks_per_host;
    json["units_groups"] = p.trace.groups;
    json["units_ranks_per_unit"] = p.trace.ranks_per_unit;
    if (!p.trace.config.empty()) json["units_config"] = p.trace.config;
  }
  store::write_atomically(path, json.dump(1) + "\n");
}

namespace {

constexpr const char* measured_together =
    "what mpirun -n N taugrid bench --filter '^(network|storage)/' --json FILE wrote";

/// Whatever of it is there. `processor`: on which it has to be; empty: any.
Together read_cases(const fs::path& path, const std::string& processor) {
  const auto where = path.string();
  const std::string expected = measured_together;
  const auto json = store::input_json(path, expected);
  const Table all(json, where);
  const auto context = all.table("context");
  if (const auto on = context.text("processor"); !processor.empty() && on != processor)
    throw InputError(
        fmt::format("{}: was measured on {}; expected {}, as the profile has it", where, on, processor));
  Together together;
  together.ranks = context.count("ranks");
  const auto cases = json.find("benchmarks");
  if (cases == json.end() || !cases->is_array())
    throw InputError(fmt::format("{}: benchmarks is no list; expected {}", where, expected));
  for (const auto& item : *cases) {
    const Table entry(item, where + ": benchmarks");
    if (entry.text("run_type") != "aggregate") continue;
    const auto name = entry.text("run_name");
    const bool sums = name.starts_with("network/all_reduce_"),
               gathers = name.starts_with("network/all_gather_");
    const bool stored = name.starts_with("storage/");
    if (!sums && !gathers && !stored) continue;
    const double seconds = entry.number("real_time", 0) / 1e3, bytes = entry.number("bytes", 0);
    if (seconds == 0 || bytes == 0)
      throw InputError(fmt::format("{}: {} failed there; expected cases that did not", where, name));
    if (stored) {
      const double rate = bytes / seconds;
      if (name == "storage/checkpoint_write") together.write_bytes_per_second = rate;
      if (name == "storage/checkpoint_read") together.read_bytes_per_second = rate;
      if (name == "storage/results_write") together.results_bytes_per_second = rate;
      continue;
    }
    const double calls = entry.number("items_per_second", 0, true) * seconds;
    (sums ? together.sums : together.gathers)[std::round(bytes / calls)] = seconds / calls;
  }
  return together;
}

}  // namespace

Together read_bench(const fs::path& path, const std::string& processor) {
  auto together = read_cases(path, processor);
  if (together.ranks < 2 || together.sums.empty())
    throw InputError(fmt::format("{}: has no network/all_reduce case of two ranks or more; expected {}",
                                 path.string(), measured_together));
  return together;
}

Together read_storage(const fs::path& path) {
  auto together = read_cases(path, "");
  if (together.read_bytes_per_second == 0 || together.write_bytes_per_second == 0)
    throw InputError(fmt::format("{}: lacks storage/checkpoint_read or _write; expected {}", path.string(),
                                 measured_together));
  return together;
}

Trace read_trace(const fs::path& results) {
  const store::Hdf5File file(results);
  Trace trace;
  for (const auto& [key, seconds] : file.text_and_number("/units", "key", "seconds")) {
    if (!std::isfinite(seconds) || seconds < 0)
      file.refuse("/units",
                  fmt::format("unit {} took {} seconds; expected a number of at least 0", key, seconds));
    trace.seconds[key] = seconds;
  }
  std::map<std::string, int> ranks;
  const auto hosts = file.text_list_attribute("/provenance", "hosts");  // each rank's
  for (const auto& host : hosts) trace.ranks_per_host = std::max(trace.ranks_per_host, ++ranks[host]);
  const auto width = file.number_attribute("/provenance", "ranks_per_unit");
  if (width && width->size() == 1 && width->front() >= 1 &&
      width->front() <= static_cast<double>(hosts.size())) {
    trace.ranks_per_unit = static_cast<int>(width->front());
    trace.groups = static_cast<int>(hosts.size()) / trace.ranks_per_unit;
  }
  const auto config = results.parent_path() / "config.toml";
  if (fs::exists(config)) trace.config = store::input_text(config, "the run's configuration");
  return trace;
}

void require_same_experiment(const Trace& trace, const std::string& config, const std::string& where) {
  if (trace.config.empty()) return;
  std::vector<std::string> lines;
  for (const auto& line : config::difference(trace.config, config)) {
    const auto aside = {"run.name", "model.path", "data.folder", "finetune.checkpoints", "pretrain.pairs"};
    if (std::none_of(aside.begin(), aside.end(), [&](const char* key) { return line.starts_with(key); }))
      lines.push_back(line);
  }
  if (!lines.empty())
    throw InputError(
        fmt::format("{}: its units are of another configuration ({}): their seconds say nothing here", where,
                    fmt::join(lines, "; ")));
}

}  // namespace taugrid::plan
