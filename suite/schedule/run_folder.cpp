// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "suite/comm/operation.hpp"
#include "suite/config/config.hpp"
#include "suite/error.hpp"
#include "suite/schedule/detail/unit_file.hpp"
#include "suite/store/atomic_file.hpp"

namespace taugrid::schedule {

namespace fs = std::filesystem;

namespace {

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string who_am_i() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const char* job = std::getenv("SLURM_JOB_ID");
  const std::time_t now = std::time(nullptr);
  std::array<char, 32> since{};
  std::tm utc{};
  std::strftime(since.data(), since.size(), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  return fmt::format("process {} on {}{}{}, since {}", getpid(), host.data(),
                     job != nullptr ? ", Slurm job " : "", job != nullptr ? job : "", since.data());
}

void create_folders(const fs::path& run) {
  for (const char* part : {"units", "log", "checkpoints", "scratch"}) {
    std::error_code error;
    fs::create_directories(run / part, error);
    if (error) {
      throw InputError(
          fmt::format("cannot create the run folder {}: {}", (run / part).string(), error.message()));
    }
  }
}

/// What the first start keeps in RUN/`name`, each later one must repeat. `what`: for the message.
void require_same(const fs::path& run, const char* name, const std::string& text, const char* what) {
  const auto path = run / name;
  if (!fs::exists(path)) {
    store::write_atomically(path, text);
    return;
  }
  const auto old = read_text(path);
  const auto lines = old == text ? std::vector<std::string>{} : config::difference(old, text);
  if (!lines.empty()) {
    throw InputError(fmt::format("{} was started with {} ({}): choose another --run-dir, or undo the change",
                                 run.string(), what, fmt::join(lines, "; ")));
  }
}

// Names as store::temporary_name() gives them: only a killed run leaves any.
void remove_leftovers(const fs::path& run) {
  const auto leftover = [](const fs::directory_entry& entry) {
    const auto name = entry.path().filename().string();
    return entry.is_regular_file() && name.starts_with('.') && name.find(".partial") != std::string::npos;
  };
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(run)) {
    if (leftover(entry)) found.push_back(entry.path());
  }
  for (const char* part : {"units", "checkpoints", "scratch"}) {
    for (const auto& entry : fs::recursive_directory_iterator(run / part)) {
      if (leftover(entry)) found.push_back(entry.path());
    }
  }
  for (const auto& path : found) {
    fs::remove(path);
  }
}

std::string file_name(std::string_view key) {
  std::string name;
  for (const char c : key) {
    c == '/' ? name += "__" : name += c;
  }
  return name;
}

}  // namespace

void on_first_rank(const comm::Communicator& world, const char* what, const std::function<void()>& action) {
  std::string problem;
  if (world.rank() == 0) {
    try {
      action();
    } catch (const std::exception& error) {  // file-system errors too: all are the folder's
      problem = error.what();
    }
  }
  world.broadcast(problem, 0, what);
  if (!problem.empty()) {
    throw InputError(problem);
  }
}

// Held by an open file, so that the system lets go of it however the process ends.
class RunFolder::Lock {
 public:
  explicit Lock(const fs::path& run) {
    const auto path = run / ".lock";
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) {
      throw InputError(fmt::format("cannot write {}: {}; choose a folder that you may write to",
                                   path.string(), std::generic_category().message(errno)));
    }
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (fcntl(file_, F_OFD_SETLK, &whole) != 0) {
      const int error = errno;
      if (error == EAGAIN || error == EACCES) {
        ::close(std::exchange(file_, -1));
        throw InputError(fmt::format("{} is in use by {}: wait for its end, or choose another --run-dir",
                                     run.string(), read_text(path)));
      }
      fmt::print(stderr, "# warning: this file system locks no files ({}): start no second run in {}\n",
                 std::generic_category().message(error), run.string());
    }
    // Says who for the one who is refused; whatever an earlier run left is overwritten.
    const auto text = who_am_i();
    if (ftruncate(file_, 0) != 0 || pwrite(file_, text.data(), text.size(), 0) < 0) {
      const int error = errno;
      ::close(std::exchange(file_, -1));
      throw InputError(
          fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(error)));
    }
  }
  ~Lock() {
    if (file_ >= 0) {
      ::close(file_);
    }
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_ = -1;
};

RunFolder::RunFolder(const comm::Communicator& world, fs::path path, const std::string& config)
    : path_(fs::absolute(std::move(path)).lexically_normal()) {
  const comm::Doing doing("open the run folder");
  on_first_rank(world, "outcome of opening the run folder", [&] {
    create_folders(path_);
    lock_ = std::make_unique<Lock>(path_);
    require_same(path_, "config.toml", config, "another configuration");
    remove_leftovers(path_);
  });
}

void RunFolder::require_same_inputs(const comm::Communicator& world, const std::string& inputs) const {
  const comm::Doing doing("compare the inputs with the run's");
  on_first_rank(world, "outcome of comparing the inputs",
                [&] { require_same(path_, "inputs.toml", inputs, "other contents of its inputs"); });
}

RunFolder::RunFolder() = default;
RunFolder RunFolder::none() { return RunFolder(); }
RunFolder::RunFolder(RunFolder&&) noexcept = default;
RunFolder& RunFolder::operator=(RunFolder&&) noexcept = default;
RunFolder::~RunFolder() = default;

fs::path RunFolder::unit_path(std::string_view key) const {
  return path_ / "units" / (file_name(key) + ".safetensors");
}

fs::path RunFolder::scratch_path(std::string_view key) const { return path_ / "scratch" / file_name(key); }

bool RunFolder::committed(std::string_view key) const {
  const auto path = unit_path(key);
  if (!fs::exists(path)) {
    return false;
  }
  if (detail::read_header(path)) {
    return true;
  }
  auto aside = path;
  aside += ".broken";
  fmt::print(stderr, "# warning: {} is broken: set aside as *.broken, the unit is computed again\n",
             path.string());
  fs::rename(path, aside);
  return false;
}

namespace {

template <class Read>
auto reading(std::string_view key, const Read& read) {
  const comm::Doing doing(fmt::format("read unit {}", key));
  try {
    return read();
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("unit {} cannot be read: {}", key, error.what()));
  }
}

}  // namespace

store::TensorFile RunFolder::read_unit(std::string_view key) const {
  return reading(key, [&] { return store::read_safetensors(unit_path(key)); });
}

at::Tensor RunFolder::read_tensor(std::string_view key, const std::string& name) const {
  return reading(key, [&] { return store::read_tensor(unit_path(key), name); });
}

std::map<std::string, std::string> RunFolder::read_metadata(std::string_view key) const {
  if (auto header = detail::read_header(unit_path(key))) {
    return *std::move(header);
  }
  throw std::runtime_error(fmt::format("unit {}: {} is absent or broken", key, unit_path(key).string()));
}

void RunFolder::commit(std::string_view key, const store::TensorFile& file) const {
  const comm::Doing doing("commit");
  store::write_safetensors(unit_path(key), file);
}

}  // namespace taugrid::schedule
