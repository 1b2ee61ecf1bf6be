// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The kernel's documents say how its counters are named and opened: ABI/testing/
// sysfs-bus-event_source-devices-{events,format}, and perf_event_open(2). AMD's numbers of events stand in
// the Processor Programming Reference of family 19h, models 10h (UMC performance monitors).
#include "suite/machine/memory_traffic.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <regex>
#include <string_view>

#include "suite/machine/sysfs.hpp"

namespace taugrid::machine {
namespace {

namespace fs = std::filesystem;
using sysfs::Unreadable;

/// What a controller counts: an event as perf writes it ("event=0x04,umask=0x03"), and a count's bytes.
struct Event {
  std::string terms;
  double bytes;
};

std::uint64_t whole(std::string_view text, const fs::path& file) {
  const int base = text.starts_with("0x") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size())
    throw Unreadable(fmt::format("{} holds no number", file.string()));
  return value;
}

/// Calls see() with each part between commas.
template <class See>
void each_part(std::string_view text, const See& see) {
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    see(std::string(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
}

/// The number that opens an event: each term's value at the bits that the controller's format/TERM names,
/// "config:8-15".
std::uint64_t config_of(const fs::path& controller, const std::string& terms) {
  static const std::regex bits("config:([0-9]{1,2})(-([0-9]{1,2}))?");
  std::uint64_t config = 0;
  each_part(terms, [&](const std::string& term) {
    const auto equals = std::min(term.find('='), term.size());
    const auto file = controller / "format" / term.substr(0, equals);
    const auto place = sysfs::first_line(file);
    std::smatch match;
    if (!std::regex_match(place, match, bits))
      throw Unreadable(fmt::format("{} holds no bits of config", file.string()));
    const auto first = whole(match[1].str(), file);
    const auto last = match[3].matched ? whole(match[3].str(), file) : first;
    const auto value = equals == term.size() ? 1 : whole(term.substr(equals + 1), file);
    if (first > last || last > 63 || (last - first < 63 && value >> (last - first + 1) != 0))
      throw Unreadable(fmt::format("{} leaves {} no room", file.string(), term));
    config |= value << first;
  });
  return config;
}

/// Bytes of a count, of an event that says so in MiB.
double bytes_of_a_count(const fs::path& event) {
  const fs::path unit_file = event.string() + ".unit", scale_file = event.string() + ".scale";
  const auto unit = sysfs::first_line(unit_file), scale = sysfs::first_line(scale_file);
  if (unit != "MiB") throw Unreadable(fmt::format("{} says {}; expected MiB", unit_file.string(), unit));
  double mebibytes = 0;
  const auto [end, error] = std::from_chars(scale.data(), scale.data() + scale.size(), mebibytes);
  if (error != std::errc{} || end != scale.data() + scale.size() || !(mebibytes > 0))
    throw Unreadable(fmt::format("{} holds no number", scale_file.string()));
  return mebibytes * 1048576;
}

/// Reads and writes of one of Intel's controllers, of those names that the kernel gives them.
std::vector<Event> named_events(const fs::path& controller) {
  static const std::regex name("(cas_count_(read|write)(_sch[01])?|data_(reads?|writes?))");
  std::vector<Event> events;
  for (const auto& file : sysfs::entries_of(controller / "events")) {
    if (!std::regex_match(file.filename().string(), name)) continue;
    events.push_back({sysfs::first_line(file), bytes_of_a_count(file)});
  }
  return events;
}

/// The processors on which a controller's counters are opened, one a socket: "0,28" or "0-1".
std::vector<int> processors_of(const fs::path& controller) {
  const auto file = controller / "cpumask";
  const auto mask = sysfs::first_line(file);
  if (mask.empty()) throw Unreadable(fmt::format("{} holds no processors", file.string()));
  std::vector<int> all;
  each_part(mask, [&](const std::string& part) {
    const auto dash = std::min(part.find('-'), part.size());
    const auto first = whole(part.substr(0, dash), file);
    const auto last = dash == part.size() ? first : whole(part.substr(dash + 1), file);
    if (last < first || last > 1'000'000)
      throw Unreadable(fmt::format("{} holds no processors", file.string()));
    for (auto processor = first; processor <= last; ++processor) all.push_back(static_cast<int>(processor));
  });
  return all;
}

/// The controllers of one kind that this host has, each with its events.
struct Kind {
  std::string name;
  std::vector<std::pair<fs::path, std::vector<Event>>> controllers;
};

/// Servers of Intel have both counters of column accesses and free-running ones, which count the same.
Kind kind_of(const fs::path& sys) {
  Kind accesses{"uncore_imc", {}}, free_running{"uncore_imc", {}}, amd{"amd_umc", {}};
  for (const auto& entry : sysfs::entries_of(sys / "bus/event_source/devices")) {
    const auto name = entry.filename().string();
    if (name.starts_with("uncore_imc_free_running")) {
      free_running.controllers.emplace_back(entry, named_events(entry));
    } else if (name.starts_with("uncore_imc")) {
      accesses.controllers.emplace_back(entry, named_events(entry));
    } else if (name.starts_with("amd_umc")) {
      amd.controllers.emplace_back(
          entry, std::vector<Event>{{"event=0x0a,rdwrmask=1", 64}, {"event=0x0a,rdwrmask=2", 64}});
    }
  }
  for (auto* kind : {&accesses, &free_running, &amd}) {
    std::erase_if(kind->controllers, [](const auto& controller) { return controller.second.empty(); });
    if (!kind->controllers.empty()) return *kind;
  }
  throw Unreadable("this host shows no counters of memory controllers (uncore_imc, amd_umc)");
}

/// One counter, as the kernel opens it, and a count's bytes.
struct Place {
  std::uint32_t type;
  std::uint64_t config;
  int processor;
  double bytes;
};

std::vector<Place> places_of(const Kind& kind) {
  std::vector<Place> places;
  for (const auto& [controller, events] : kind.controllers) {
    const auto type = static_cast<std::uint32_t>(sysfs::number_in(controller / "type"));
    const auto processors = processors_of(controller);
    for (const auto& event : events) {
      const auto config = config_of(controller, event.terms);
      for (const int processor : processors) places.push_back({type, config, processor, event.bytes});
    }
  }
  return places;
}

/// Returns the descriptor of a counter that counts from now on.
int opened(const Place& place) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = place.type;
  attributes.config = place.config;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  const auto descriptor = static_cast<int>(
      syscall(SYS_perf_event_open, &attributes, -1, place.processor, -1, PERF_FLAG_FD_CLOEXEC));
  if (descriptor < 0 && (errno == EACCES || errno == EPERM))
    throw Unreadable("perf_event_open takes root, or sysctl kernel.perf_event_paranoid=0");
  if (descriptor < 0) throw Unreadable(fmt::format("perf_event_open: {}", std::strerror(errno)));
  return descriptor;
}

/// A counter's number since it was opened; where more were opened than the controller has, it counted a part
/// of the time, and stands for all of it.
std::optional<double> read(int descriptor) {
  std::array<std::uint64_t, 3> numbers{};  // count, time enabled, time running
  if (::read(descriptor, numbers.data(), sizeof numbers) != static_cast<ssize_t>(sizeof numbers)) return {};
  const auto [count, enabled, running] = numbers;
  if (running == 0) return count == 0 && enabled == 0 ? std::optional(0.0) : std::nullopt;
  return static_cast<double>(count) * static_cast<double>(enabled) / static_cast<double>(running);
}

}  // namespace

MemoryTraffic::MemoryTraffic(const fs::path& sys) {
  try {
    const auto kind = kind_of(sys);
    for (const auto& place : places_of(kind)) counters_.push_back({opened(place), place.bytes});
    line_ = kind.name + "; what others do on this host counts too";
  } catch (const std::exception& reason) {
    for (const auto& counter : counters_) close(counter.descriptor);
    counters_.clear();
    line_ = fmt::format("none: {}", reason.what());
  }
}

MemoryTraffic::~MemoryTraffic() {
  for (const auto& counter : counters_) close(counter.descriptor);
}

double MemoryTraffic::bytes() const {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  double sum = counters_.empty() ? none : 0;
  for (const auto& counter : counters_) sum += read(counter.descriptor).value_or(none) * counter.bytes;
  return sum;
}

}  // namespace taugrid::machine
