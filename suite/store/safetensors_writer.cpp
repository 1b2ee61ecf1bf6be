// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/safetensors_writer.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "suite/error.hpp"
#include "suite/store/quoted.hpp"
#include "suite/store/safetensors_header.hpp"

namespace taugrid::store {

using Json = nlohmann::json;

namespace {

void require_known(const std::filesystem::path& path, const SafetensorsWriter::Contents& contents) {
  for (const auto& [name, info] : contents) {
    if (!detail::safetensors_type(info.scalar) || name == "__metadata__")
      throw InputError("cannot write " + path.string() + ": tensor " + quoted(name) +
                       " has a name or type that safetensors lacks");
  }
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const Contents& contents,
                                     const std::map<std::string, std::string>& metadata)
    : contents_(contents), file_((require_known(path, contents), path)) {
  // Wide types first keeps every tensor aligned; within a width by name.
  std::vector<std::pair<std::string, std::size_t>> ordered;
  for (const auto& [name, info] : contents) ordered.emplace_back(name, c10::elementSize(info.scalar));
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, width] : ordered) {
    const auto& info = contents.at(name);
    begin_[name] = offset;
    auto end = offset + width;
    for (const auto size : info.shape) end = offset + (end - offset) * static_cast<std::uint64_t>(size);
    header[name] = {{"dtype", *detail::safetensors_type(info.scalar)},
                    {"shape", info.shape},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    throw InputError("cannot write " + path.string() + ": a name or the metadata is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>(text.size() >> 8 * i & 0xff);
  }
  file_.write(length.data(), length.size());
  file_.write(text);
  for (auto& entry : begin_) entry.second += length.size() + text.size();
}

void SafetensorsWriter::write(const std::string& name, std::int64_t begin, const at::Tensor& numbers) {
  const auto scalar = contents_.at(name).scalar;
  if (numbers.scalar_type() != scalar)
    throw std::invalid_argument("tensor " + name + " is written as another type than it has");
  const auto plain = numbers.detach().cpu().contiguous();
  file_.write_at(begin_.at(name) + static_cast<std::uint64_t>(begin) * c10::elementSize(scalar),
                 plain.const_data_ptr(), plain.nbytes());
}

}  // namespace taugrid::store
