// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/run_folder.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "suite/comm/operation.hpp"
#include "suite/config/config.hpp"
#include "suite/error.hpp"
#include "suite/schedule/detail/hold.hpp"
#include "suite/schedule/detail/unit_file.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::schedule {

namespace fs = std::filesystem;

namespace {

void create_folders(const fs::path& run) {
  for (const char* part : {"units", "log", "checkpoints", "scratch"}) store::create_folders(run / part);
}

/// What the first start keeps in RUN/`name`, each later one must repeat. `what`: for the message.
/// `as_before`: the same in the words of earlier programs.
void require_same(const fs::path& run, const char* name, const std::string& text, const char* what,
                  const std::string& as_before) {
  const auto path = run / name;
  const auto old = store::InputFile::text(path);
  if (old == text) return;
  if (!old || *old == as_before) {
    store::write_atomically(path, text);
    return;
  }
  const auto lines = config::difference(*old, text);
  if (!lines.empty()) {
    throw InputError(fmt::format("{} was started with {} ({}): choose another --run-dir, or undo the change",
                                 run.string(), what, fmt::join(lines, "; ")));
  }
}

// Names as store::temporary_name() gives them: only a killed run leaves any.
void remove_leftovers(const fs::path& run) {
  const auto leftover = [](const fs::directory_entry& entry) {
    const auto name = entry.path().filename().string();
    return (entry.is_symlink() || entry.is_regular_file()) && name.starts_with('.') &&
           (store::is_temporary_name(name) || name.starts_with(".owner."));
  };
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(run)) {
    if (leftover(entry)) leftovers.push_back(entry.path());
  }
  for (const char* part : {"units", "checkpoints", "scratch", "data"}) {
    if (!fs::exists(run / part)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(run / part)) {
      if (leftover(entry)) leftovers.push_back(entry.path());
    }
  }
  for (const auto& path : leftovers) {
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
  world.patient_barrier(what);  // the others sleep: it may take minutes
  world.broadcast(problem, 0, what);
  if (!problem.empty()) {
    throw InputError(problem);
  }
}

std::string first_problem(const comm::Communicator& world, std::string problem, const char* what) {
  const auto mine = at::full({1}, problem.empty() ? 0 : 1, at::kLong);
  const auto all = world.all_gather(mine, what);
  const auto first = all.argmax().item<std::int64_t>();
  if (all[first].item<std::int64_t>() == 0) return "";
  world.broadcast(problem, static_cast<int>(first), what);
  return world.size() == 1 ? problem : fmt::format("rank {}: {}", first, problem);
}

RunFolder::RunFolder(const comm::Communicator& world, fs::path path, const std::string& config, Care care)
    : path_(fs::absolute(std::move(path)).lexically_normal()), unseen_(care.unseen) {
  const comm::Doing doing("open the run folder");
  auto first = config;
  world.broadcast(first, 0, "configuration");
  if (const auto problem = first_problem(
          world,
          first == config
              ? ""
              : fmt::format("reads another configuration than rank 0 ({}): the ranks see different files",
                            fmt::join(config::difference(first, config), "; ")),
          "configuration");
      !problem.empty())
    throw InputError(problem);
  on_first_rank(world, "outcome of opening the run folder", [&] {
    create_folders(path_);
    hold_ = std::make_unique<detail::Hold>(path_, care.hold, care.lost);
    require_same(path_, "config.toml", config, "another configuration", config);
    remove_leftovers(path_);
  });
}

void RunFolder::require_same_inputs(const comm::Communicator& world, const std::string& inputs,
                                    const std::string& as_before) const {
  const comm::Doing doing("compare the inputs with the run's");
  on_first_rank(world, "outcome of comparing the inputs", [&] {
    require_same(path_, "inputs.toml", inputs, "other contents of its inputs", as_before);
  });
}

void RunFolder::end_job(const std::string& problem) {
  fmt::print(stderr, "taugrid: {}\n", problem);
  std::_Exit(static_cast<int>(ExitCode::failed));
}

RunFolder::RunFolder() = default;
RunFolder RunFolder::none() { return RunFolder(); }
RunFolder::RunFolder(RunFolder&&) noexcept = default;
RunFolder& RunFolder::operator=(RunFolder&&) noexcept = default;
RunFolder::~RunFolder() = default;

fs::path RunFolder::unit_path(const fs::path& run, std::string_view key) {
  return run / "units" / (file_name(key) + ".safetensors");
}

fs::path RunFolder::scratch_path(std::string_view key) const { return path_ / "scratch" / file_name(key); }

bool RunFolder::committed(std::string_view key) const { return find_metadata(key).has_value(); }

std::vector<bool> RunFolder::committed(const std::vector<std::string>& keys) const {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_ / "units"))
    names.insert(entry.path().filename().string());
  std::vector<bool> flags;
  for (const auto& key : keys) {
    const auto path = unit_path(key);
    const bool listed = names.contains(path.filename().string());
    flags.push_back(listed && store::wait_for(path, unseen_) && committed(key));
  }
  return flags;
}

std::optional<RunFolder::Metadata> RunFolder::find_metadata(std::string_view key) const {
  try {
    auto header = detail::read_header(unit_path(key));
    if (!header) set_aside(key, "is broken");
    return header;
  } catch (const store::ReadFailure& failure) {
    if (failure.error() == ENOENT) return std::nullopt;
    throw;
  }
}

std::string RunFolder::damage(std::string_view key) const {
  const comm::Doing doing(fmt::format("verify unit {}", key));
  const auto path = unit_path(key);
  store::wait_for(path, unseen_);
  const store::InputFile readable(path);  // what cannot be opened is not damaged
  try {
    return detail::damage_of(store::read_safetensors(path), key);
  } catch (const InputError& error) {
    return fmt::format("is damaged ({})", error.what());
  }
}

void RunFolder::set_aside(std::string_view key, const std::string& problem) const {
  const auto path = unit_path(key);
  auto aside = path;
  aside += ".broken";
  fmt::print(stderr, "# warning: {} {}: set aside as *.broken, the unit is computed again\n", path.string(),
             problem);
  fs::rename(path, aside);
}

namespace {

template <class Read>
auto reading(std::string_view key, const fs::path& path, std::chrono::duration<double> unseen,
             const Read& read) {
  const comm::Doing doing(fmt::format("read unit {}", key));
  try {
    store::wait_for(path, unseen);
    try {
      return read();
    } catch (const InputError&) {
      const store::InputFile readable(path);  // says why it cannot be opened, after some patience
      return read();
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("unit {} cannot be read: {}", key, error.what()));
  }
}

}  // namespace

store::TensorFile RunFolder::read_unit(std::string_view key) const {
  const auto path = unit_path(key);
  return reading(key, path, unseen_, [&] { return store::read_safetensors(path); });
}

store::TensorFile RunFolder::read_unit(const comm::Communicator& world, std::string_view key) const {
  const comm::Doing doing(fmt::format("read unit {} on one rank", key));
  const bool first = world.rank() == 0;
  store::TensorFile file;
  nlohmann::json entries;  // what the others need before the numbers come
  if (first) {
    file = read_unit(key);
    entries["metadata"] = file.metadata;
    for (const auto& [name, tensor] : file.tensors)
      entries["tensors"][name] = {{"type", tensor.scalar_type()}, {"shape", tensor.sizes().vec()}};
  }
  auto text = entries.dump();
  world.broadcast(text, 0, "a unit's entries");
  entries = nlohmann::json::parse(text);
  entries["metadata"].get_to(file.metadata);
  for (const auto& [name, entry] : entries["tensors"].items()) {
    auto& tensor = file.tensors[name];
    if (!first) {
      const auto shape = entry["shape"].get<std::vector<std::int64_t>>();
      tensor = at::empty(shape, entry["type"].get<at::ScalarType>());
    }
    world.broadcast(tensor, 0, "a unit's tensor");
  }
  return file;
}

at::Tensor RunFolder::read_tensor(std::string_view key, const std::string& name) const {
  const auto path = unit_path(key);
  return reading(key, path, unseen_, [&] { return store::read_tensor(path, name); });
}

RunFolder::Metadata RunFolder::read_metadata(std::string_view key) const {
  const auto path = unit_path(key);
  auto header = reading(key, path, unseen_, [&] { return detail::read_header(path); });
  if (!header) throw std::runtime_error(fmt::format("unit {}: {} is broken", key, path.string()));
  return *std::move(header);
}

void RunFolder::commit(std::string_view key, const store::TensorFile& file) const {
  const comm::Doing doing("commit");
  store::write_safetensors(unit_path(key), file);
}

}  // namespace taugrid::schedule
