// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/detail/owner.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

namespace taugrid::schedule::detail {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_of(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::read_symlink(path, error).string();
}

}  // namespace

// Field 22 of proc(5)'s stat; the name before it may hold blanks.
std::string start_of_process(int pid) {
  auto line = first_line(fmt::format("/proc/{}/stat", pid));
  line.erase(0, line.rfind(')') + 1);
  std::istringstream fields(line);
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {
  }
  return fields ? field : "";
}

Owner this_process() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const char* job = std::getenv("SLURM_JOB_ID");
  const std::time_t now = std::time(nullptr);
  std::array<char, 32> since{};
  std::tm utc{};
  std::strftime(since.data(), since.size(), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  std::random_device random;
  Owner owner;
  owner.who = fmt::format("process {} on {}{}{}, since {}", getpid(), host.data(),
                          job != nullptr ? ", Slurm job " : "", job != nullptr ? job : "", since.data());
  owner.token = fmt::format("{:08x}{:08x}", random(), random());
  owner.machine = first_line("/proc/sys/kernel/random/boot_id");
  owner.pids = link_of("/proc/self/ns/pid");
  owner.pid = getpid();
  owner.started = start_of_process(getpid());
  return owner;
}

std::string text_of(const Owner& owner) {
  return nlohmann::json{{"who", owner.who},
                        {"token", owner.token},
                        {"machine", owner.machine},
                        {"pids", owner.pids},
                        {"pid", owner.pid},
                        {"started", owner.started},
                        {"beat", fmt::format("{:012}", owner.beat)}}
             .dump(1) +
         "\n";
}

std::optional<Owner> parse_owner(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    Owner owner;
    json.at("who").get_to(owner.who);
    json.at("token").get_to(owner.token);
    json.at("machine").get_to(owner.machine);
    json.at("pids").get_to(owner.pids);
    json.at("pid").get_to(owner.pid);
    json.at("started").get_to(owner.started);
    owner.beat = std::stol(json.at("beat").get<std::string>());
    return owner;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace taugrid::schedule::detail
