// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/program/record.hpp"

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>

#include "kernels/full_products.hpp"
#include "suite/comm/processor.hpp"
#include "suite/error.hpp"
#include "suite/hash.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/digest.hpp"
#include "suite/store/hdf5.hpp"
#include "suite/store/input_file.hpp"
#include "taugrid_version.hpp"

namespace taugrid::program {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Each text that some rank has, once, in the order of the ranks. Collective.
std::vector<std::string> distinct(const comm::Communicator& world, const std::string& mine) {
  const auto hash = at::full({1}, static_cast<std::int64_t>(fnv1a(mine)), at::kLong);
  const auto all = world.all_gather(hash, "what the ranks compute with");
  std::vector<std::string> texts;
  std::set<std::int64_t> seen;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (!seen.insert(all[rank].item<std::int64_t>()).second) continue;
    auto text = mine;
    world.broadcast(text, rank, "what the ranks compute with");
    texts.push_back(text);
  }
  return texts;
}

}  // namespace

Pairs of_first_rank(const comm::Communicator& world, const Pairs& mine, const char* what) {
  std::string text;
  for (const auto& [name, value] : mine) text += name + '\0' + value + '\0';
  world.broadcast(text, 0, what);
  Pairs all;
  for (std::size_t at = 0; at < text.size();) {
    const auto middle = text.find('\0', at), end = text.find('\0', middle + 1);
    all.emplace_back(text.substr(at, middle - at), text.substr(middle + 1, end - middle - 1));
    at = end + 1;
  }
  return all;
}

std::string computed_by(const comm::Runtime& runtime) {
  const auto& device = runtime.mine().device;  // "cuda:0 NVIDIA H100": the number is a matter of this launch
  const auto name = device.find(' ') == std::string::npos ? device : device.substr(device.find(' ') + 1);
  return fmt::format("taugrid {} ({}), LibTorch {}, {}: {}, {}{}", version, git_revision, TORCH_VERSION, name,
                     comm::of_processor("model name"), at::get_cpu_capability(),
                     host_products_in_use() == HostProducts::onednn ? ", products by oneDNN" : "");
}

std::vector<std::string> admit(const comm::Runtime& runtime, const schedule::RunFolder& folder, bool mixed) {
  const auto& world = runtime.world();
  const auto now = distinct(world, computed_by(runtime));
  if (now.size() > 1 && !mixed) {
    throw InputError(
        fmt::format("the ranks compute with {}, and with {}: their numbers may differ; start on machines "
                    "of one kind, or mix them with --mixed",
                    now[0], now[1]));
  }
  std::string text;
  schedule::on_first_rank(world, "what computed here before", [&] {
    const auto path = folder.path() / "computed_by";
    const auto before = lines_of(store::InputFile::text(path).value_or(""));
    auto all = before;
    for (const auto& line : now) {
      if (std::find(before.begin(), before.end(), line) != before.end()) continue;
      if (!before.empty() && !mixed) {
        throw InputError(
            fmt::format("{} was computed by {}; this is {}: its numbers may differ; go on there, choose "
                        "another --run-dir, or mix them with --mixed",
                        folder.path().string(), before.back(), line));
      }
      all.push_back(line);
    }
    text = fmt::format("{}\n", fmt::join(all, "\n"));
    if (all != before) store::write_atomically(path, text);
  });
  world.broadcast(text, 0, "what computed here before");
  return lines_of(text);
}

Finish read_finished(const schedule::RunFolder& folder, const std::vector<schedule::WorkUnit>& units) {
  Finish finish;
  std::set<std::string> makers;
  auto hash = fnv_start;
  for (const auto& unit : units) {
    const auto header = folder.read_metadata(unit.key);
    try {
      finish.rows.push_back(
          {unit.key, std::stoi(header.at("rank")), std::stod(header.at("seconds")), header.at("device")});
      if (const auto joules = header.find("joules"); joules != header.end()) {
        finish.rows.back().joules = std::stod(joules->second);
        finish.rows.back().energy_source = header.at("energy_source");
      }
    } catch (const std::logic_error&) {  // of std::stoi() and at()
      throw InputError("unit " + unit.key +
                       ": its file says no rank, seconds and device as a unit's does; remove it from " +
                       (folder.path() / "units").string() + ", and the same command computes it again");
    }
    for (const auto& [name, value] : header) hash = fnv1a(name + '\0' + value + '\0', hash);
    if (const auto maker = header.find("computed_by"); maker != header.end()) makers.insert(maker->second);
  }
  finish.computed_by.assign(makers.begin(), makers.end());
  finish.digest = hexadecimal(hash);
  return finish;
}

namespace {

std::filesystem::path digest_file(const std::filesystem::path& results) {
  return results.parent_path() / "results.digest";
}

std::string digest_line(const std::filesystem::path& results) {
  return hexadecimal(store::digest_of(results)) + "\n";
}

}  // namespace

void keep_digest(const std::filesystem::path& results) {
  store::write_atomically(digest_file(results), digest_line(results));
}

bool made_of(const std::filesystem::path& results, const std::string& digest) {
  if (!store::is_there(results)) return false;
  try {
    if (store::Hdf5File(results).text_attribute("/", "units_digest") != digest) return false;
  } catch (const InputError&) {  // cut, or no HDF5 file: written anew
    return false;
  }
  // None in folders of early versions, or after a kill: nobody knows then whether the file is as it was
  // written.
  const auto kept = store::InputFile::text(digest_file(results));
  if (kept && *kept == digest_line(results)) return true;
  if (kept)
    fmt::print(stderr, "# warning: {} is not as it was written: it is written anew\n", results.string());
  return false;
}

}  // namespace taugrid::program
