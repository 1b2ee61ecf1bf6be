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

Json entry_of(const MappedTensors::Info& info, std::uint64_t begin, std::uint64_t end) {
  return {{"dtype", *detail::safetensors_type(info.scalar)},
          {"shape", info.shape},
          {"data_offsets", {begin, end}}};
}

/// Throws InputError where a text is not UTF-8.
std::string dumped(const std::filesystem::path& path, const Json& header) {
  try {
    return header.dump();
  } catch (const Json::exception&) {
    throw InputError("cannot write " + path.string() + ": a name or the metadata is not UTF-8");
  }
}

/// A header's length, as it stands before it: the lowest byte first.
std::array<char, 8> as_bytes(std::uint64_t length) {
  std::array<char, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(length >> 8 * i & 0xff);
  return bytes;
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
    header[name] = entry_of(info, offset, end);
    offset = end;
  }
  auto text = dumped(path, header);
  text.append((8 - text.size() % 8) % 8, ' ');
  const auto length = as_bytes(text.size());
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

SafetensorsAppender::SafetensorsAppender(const std::filesystem::path& path,
                                         const std::vector<std::string>& names,
                                         std::map<std::string, std::string> metadata)
    : path_(path), metadata_(std::move(metadata)), file_(path) {
  constexpr std::size_t of_entry = 64, of_number = 21, numbers = 10;  // two offsets, eight sizes
  room_ = dumped(path, {{"__metadata__", metadata_}}).size() + 8;
  for (const auto& name : names) room_ += dumped(path, name).size() + of_entry + numbers * of_number;
  room_ += (8 - room_ % 8) % 8;
  if (room_ > detail::header_limit)
    throw InputError("cannot write " + path.string() + ": a header for " + std::to_string(names.size()) +
                     " tensors would have " + std::to_string(room_) + " bytes; expected at most " +
                     std::to_string(detail::header_limit) + ", the format's limit");
  file_.write(std::string(as_bytes(room_).size() + room_, ' '));
}

void SafetensorsAppender::append(const std::string& name, const at::Tensor& tensor) {
  const auto plain = tensor.detach().cpu().contiguous();
  const MappedTensors::Info info = {plain.scalar_type(), plain.sizes().vec()};
  require_known(path_, {{name, info}});
  if (!placed_.emplace(name, Placed{info, end_, end_ + plain.nbytes()}).second)
    throw std::logic_error("tensor " + name + " is written twice");
  file_.write(plain.const_data_ptr(), plain.nbytes());
  end_ += plain.nbytes();
}

void SafetensorsAppender::commit() {
  Json header = Json::object();
  if (!metadata_.empty()) header["__metadata__"] = metadata_;
  for (const auto& [name, placed] : placed_) header[name] = entry_of(placed.info, placed.begin, placed.end);
  auto text = dumped(path_, header);
  if (text.size() > room_) throw std::logic_error("a header of safetensors has tensors that nobody named");
  text.append(room_ - text.size(), ' ');
  const auto length = as_bytes(room_);
  file_.write_at(0, length.data(), length.size());
  file_.write_at(length.size(), text.data(), text.size());
  file_.commit();
}

}  // namespace taugrid::store
