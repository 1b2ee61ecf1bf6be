// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The kernel's documents say what the files hold: power/powercap/powercap (RAPL), hwmon/acpi_power_meter and
// hwmon/sysfs-interface; Cray's XC Series documents pm_counters, and NVML's reference its counter.
#include "suite/machine/energy.hpp"

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <regex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "suite/comm/clock.hpp"
#include "suite/comm/sharing.hpp"
#include "suite/machine/sysfs.hpp"

namespace taugrid::machine {
namespace {

namespace fs = std::filesystem;
using sysfs::entries_of, sysfs::first_line, sysfs::number_in, sysfs::there, sysfs::Unreadable;

}  // namespace

/// One counter, asked under a lock.
class JouleCounter {
 public:
  virtual ~JouleCounter() = default;
  /// Joules since it was made. Throws Unreadable.
  virtual double joules() = 0;
};

namespace {

using Counters = std::vector<std::unique_ptr<JouleCounter>>;

/// A zone of RAPL: microjoules up to a largest number, after which it begins again at 0.
class RaplZone : public JouleCounter {
 public:
  explicit RaplZone(const fs::path& zone)
      : file_(zone / "energy_uj"), range_(number_in(zone / "max_energy_range_uj")), last_(number_in(file_)) {}
  double joules() override {
    const double now = number_in(file_);
    sum_ += now >= last_ ? now - last_ : range_ - last_ + now;
    last_ = now;
    return 1e-6 * sum_;
  }

 private:
  fs::path file_;
  double range_, last_, sum_ = 0;
};

/// pm_counters/energy: "123456 J 1700000000000000 us" of the node since it was started.
class CrayNode : public JouleCounter {
 public:
  explicit CrayNode(fs::path file) : file_(std::move(file)), first_(number_in(file_)) {}
  double joules() override {
    const double now = number_in(file_);
    if (now < first_) throw Unreadable(fmt::format("{} began again", file_.string()));
    return now - first_;
  }

 private:
  fs::path file_;
  double first_;
};

/// A power meter of hwmon: microwatts, an average over the interval before it is read.
class PowerMeter : public JouleCounter {
 public:
  PowerMeter(fs::path file, std::function<double()> clock)
      : file_(std::move(file)), clock_(std::move(clock)) {
    static_cast<void>(number_in(file_));
  }
  double joules() override {
    const double power = 1e-6 * number_in(file_), now = clock_();
    sum_ += power * (now - last_);
    last_ = now;
    return sum_;
  }

 private:
  fs::path file_;
  std::function<double()> clock_;
  double last_ = clock_(), sum_ = 0;
};

/// NVML's counter of a GPU: millijoules since its driver was loaded. The library is found at run time.
class Nvml : public JouleCounter {
 public:
  Nvml(const std::string& library, const std::string& uuid) : library_(dlopen(library.c_str(), RTLD_NOW)) {
    if (library_ == nullptr) throw Unreadable(fmt::format("{} is not there", library));
    const auto start = find<int()>("nvmlInit_v2");
    const auto by_uuid = find<int(const char*, void**)>("nvmlDeviceGetHandleByUUID");
    total_ = find<int(void*, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
    if (const int code = start(); code != 0)
      throw Unreadable(fmt::format("nvmlInit_v2 gives error {}", code));
    if (uuid.size() != 32) throw Unreadable("the GPU has no UUID");
    const auto digits = [&uuid](std::size_t from, std::size_t count) { return uuid.substr(from, count); };
    const auto name = fmt::format("{}-{}-{}-{}-{}", digits(0, 8), digits(8, 4), digits(12, 4), digits(16, 4),
                                  digits(20, 12));
    if (by_uuid(("GPU-" + name).c_str(), &device_) != 0) {  // a part of one, by MIG, has a name of its own
      if (const int code = by_uuid(("MIG-" + name).c_str(), &device_); code != 0)
        throw Unreadable(fmt::format("nvmlDeviceGetHandleByUUID gives error {}", code));
    }
    first_ = read();
  }
  double joules() override { return 1e-3 * (read() - first_); }

 private:
  template <class Function>
  Function* find(const char* name) const {
    auto* function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (function == nullptr) throw Unreadable(fmt::format("NVML lacks {}", name));
    return function;
  }
  double read() const {
    unsigned long long total = 0;
    if (const int code = total_(device_, &total); code != 0)
      throw Unreadable(fmt::format("nvmlDeviceGetTotalEnergyConsumption gives error {}", code));
    return static_cast<double>(total);
  }

  void* library_;  // stays: LibTorch may have loaded it, too
  void* device_ = nullptr;
  int (*total_)(void*, unsigned long long*) = nullptr;
  double first_ = 0;
};

/// A source: counters that add up, and how often they are to be read.
struct Source {
  std::string name;
  Counters counters;
  double interval = 0;  ///< seconds after which they go on
  double look = 0;      ///< seconds after which they are read at the latest; 0: whenever they are asked
};

Source pm_counters(const EnergyPlaces& places) {
  Source source{"pm_counters", {}, 0.1, 0};
  if (const auto file = places.sys / "cray/pm_counters/energy"; there(file))
    source.counters.push_back(std::make_unique<CrayNode>(file));
  return source;
}

/// Packages, and the memory that is none of theirs: cores are in their package, and psys is all of a platform
/// again, as are the zones of other drivers (intel-rapl-mmio).
Source rapl(const EnergyPlaces& places) {
  Source source{"rapl", {}, 0.001, 10};
  static const std::regex zone("intel-rapl:[0-9]+(:[0-9]+)?");
  for (const auto& entry : entries_of(places.sys / "class/powercap")) {
    const auto number = entry.filename().string();
    if (!std::regex_match(number, zone)) continue;
    const bool inner = std::count(number.begin(), number.end(), ':') == 2;
    const auto name = first_line(entry / "name");
    if (inner ? name == "dram" : name.starts_with("package"))
      source.counters.push_back(std::make_unique<RaplZone>(entry));
  }
  return source;
}

/// Seconds over which a power meter takes its average. One of many seconds would miss what a unit does.
double interval_of(const fs::path& meter) {
  constexpr double most = 1;
  const auto file = meter / "power1_average_interval";
  const double seconds = there(file) ? 1e-3 * number_in(file) : most;
  if (seconds > most)
    throw Unreadable(
        fmt::format("{} says {:.0f} ms; expected at most {:.0f}", file.string(), 1e3 * seconds, 1e3 * most));
  return seconds;
}

/// Grace's sockets, memory in them; firmware that names no such meter has one of their cores. Each rank looks
/// every tenth of a second, however many share the host: Linux asks the firmware once in a meter's interval,
/// and answers all others from what it keeps.
Source hwmon(const EnergyPlaces& places) {
  Source source{"hwmon", {}, 0, 0.1};
  for (const auto* socket : {"Grace Power Socket", "CPU Power Socket"}) {
    for (const auto& entry : entries_of(places.sys / "class/hwmon")) {
      const auto meter = entry / "device";
      if (!there(meter / "power1_oem_info") || !first_line(meter / "power1_oem_info").starts_with(socket))
        continue;
      source.counters.push_back(std::make_unique<PowerMeter>(meter / "power1_average", places.clock));
      source.interval = std::max(source.interval, interval_of(meter));
    }
    if (!source.counters.empty()) break;
  }
  return source;
}

}  // namespace

struct EnergyMeter::Parts {
  std::mutex lock;
  Counters host, gpu;
  double ranks_on_host = 1, ranks_on_gpu = 1;
  bool failed = false;  ///< a counter was lost on the way
  std::condition_variable over;
  bool ends = false;
  std::thread reader;

  /// With the lock held.
  double read() {
    double joules = std::numeric_limits<double>::quiet_NaN();
    if (failed || (host.empty() && gpu.empty())) return joules;
    try {
      joules = 0;
      for (const auto& counter : host) joules += counter->joules() / ranks_on_host;
      for (const auto& counter : gpu) joules += counter->joules() / ranks_on_gpu;
    } catch (const Unreadable&) {
      failed = true;
      joules = std::numeric_limits<double>::quiet_NaN();
    }
    return joules;
  }
};

EnergyMeter::EnergyMeter(const EnergyPlaces& places) : parts_(std::make_unique<Parts>()) {
  auto& self = *parts_;
  self.ranks_on_host = places.ranks_on_host;
  self.ranks_on_gpu = places.ranks_on_gpu;
  double look = 0;
  for (const auto& make : {pm_counters, rapl, hwmon}) {
    try {
      auto source = make(places);
      if (source.counters.empty()) continue;
      source_ = source.name;
      self.host = std::move(source.counters);
      interval_ = source.interval;
      look = source.look;
      problem_.clear();
      break;
    } catch (const Unreadable& error) {
      if (problem_.empty()) problem_ = error.what();
    }
  }
  if (self.host.empty() && problem_.empty())
    problem_ =
        fmt::format("{} has neither pm_counters nor RAPL nor Grace's power meters", places.sys.string());
  if (!places.gpu.empty() && source_ != "pm_counters") {
    try {
      self.gpu.push_back(std::make_unique<Nvml>(places.nvml, places.gpu));
      source_ += source_.empty() ? "nvml" : "+nvml";
      interval_ = std::max(interval_, 0.1);
    } catch (const Unreadable& error) {  // joules of the host alone would be taken for those of the work
      self.host.clear();
      source_.clear();
      problem_ = fmt::format("the GPU is not counted: {}", error.what());
    }
  }
  if (self.host.empty() || look == 0) return;
  const std::chrono::duration<double> wait(look);
  self.reader = std::thread([&self, wait] {
    std::unique_lock held(self.lock);
    while (!self.over.wait_for(held, wait, [&self] { return self.ends; })) static_cast<void>(self.read());
  });
}

EnergyMeter::~EnergyMeter() {
  if (!parts_->reader.joinable()) return;
  {
    const std::lock_guard held(parts_->lock);
    parts_->ends = true;
  }
  parts_->over.notify_all();
  parts_->reader.join();
}

double EnergyMeter::joules() const {
  const std::lock_guard held(parts_->lock);
  return parts_->read();
}

EnergyPlaces energy_places(const comm::Runtime& runtime) {
  EnergyPlaces places;
  places.ranks_on_host = runtime.ranks_on_host();
  if (runtime.device().is_cuda()) {
    const auto shared = comm::device_sharing(runtime);
    places.gpu = shared.identity;
    places.ranks_on_gpu = shared.ranks;
  }
  return places;
}

double joules_of_all(const comm::Communicator& world, double mine) {
  auto sum = at::full({1}, mine, at::kDouble);
  world.all_reduce_sum(sum, "joules");
  return sum.item<double>();
}

Counting agree_on_counters(const comm::Runtime& runtime, const EnergyMeter& meter) {
  const auto& world = runtime.world();
  constexpr auto what = "counters of joules";
  const auto without = world.all_gather(at::full({1}, meter.source().empty() ? 1 : 0, at::kInt), what);
  if (without.any().item<bool>()) {
    auto reason = fmt::format("{}: {}", runtime.mine().host, meter.problem());
    world.broadcast(reason, static_cast<int>(without.argmax().item<std::int64_t>()), what);
    return {"", "none: " + reason};
  }
  return {meter.source(),
          meter.source() +
              (meter.problem().empty() ? "" : " (the host is not counted: " + meter.problem() + ")") +
              "; what is idle, and what others do, counts too"};
}

}  // namespace taugrid::machine
