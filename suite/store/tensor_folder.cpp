// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/tensor_folder.hpp"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "suite/error.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/input_json.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::store {
namespace {

/// As is_there(): what cannot be looked at, such as a loop of links, is the user's to mend.
bool is_listed(const std::filesystem::path& path) {
  try {
    return is_there(path);
  } catch (const ReadFailure& failure) {
    throw InputError(failure.what());
  }
}

/// The index's file of each tensor.
std::map<std::string, std::string> places_in(const std::filesystem::path& index, const nlohmann::json& json) {
  const auto refuse = [&](const std::string& problem) { throw InputError(index.string() + ": " + problem); };
  const auto listed = json.find("weight_map");
  if (listed == json.end() || !listed->is_object() || listed->empty())
    refuse("has no weight_map; expected the parts' names by tensor");
  std::map<std::string, std::string> places;
  for (const auto& [name, place] : listed->items()) {
    const auto file = place.is_string() ? place.get<std::string>() : "";
    if (std::filesystem::path(file).filename() != file || file.starts_with('.') ||
        !file.ends_with(".safetensors"))
      refuse("names a part that is not the name of a safetensors file in this folder");
    places[name] = file;
  }
  return places;
}

/// What a folder without our weights has instead, and what to do about it.
std::string advice(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) { return is_listed(folder / name); };
  if (has("pytorch_model.bin") || has("pytorch_model.bin.index.json"))
    return "; pytorch_model.bin is a pickle, which is not read: python jobs/prepare convert-model --from " +
           folder.string() + " --out FOLDER makes safetensors of it";
  if (has("adapter_model.safetensors") || has("adapter_model.bin"))
    return "; it holds an adapter, which taugrid merge takes among its models, and else is to be merged into "
           "its base first";
  if (has("open_clip_model.safetensors")) return "; rename open_clip_model.safetensors to model.safetensors";
  if (has("tf_model.h5") || has("flax_model.msgpack"))
    return "; weights of TensorFlow and Flax are not read: transformers converts them (from_tf, from_flax)";
  return "";
}

}  // namespace

bool TensorFolder::is_in(const std::filesystem::path& folder) {
  return is_listed(folder / "model.safetensors") || is_listed(folder / "model.safetensors.index.json");
}

TensorFolder::TensorFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder_, ignored))
    throw InputError(folder_.string() + ": is no folder; expected one with model.safetensors");
  const auto index = folder_ / "model.safetensors.index.json";
  if (is_listed(folder_ / "model.safetensors")) {
    add("model.safetensors");
  } else if (is_listed(index)) {
    in_parts_ = true;
    const auto json = input_json(index, "an index of safetensors");
    const auto places = places_in(index, json);
    std::set<std::string> files;
    for (const auto& [name, file] : places) files.insert(file);
    for (const auto& file : files) add(file);
    require_as_listed(index, places);
    // Nothing is placed by it, and transformers does not look at it: a model that was converted may keep the
    // old one.
    const auto metadata = json.find("metadata");
    const auto total =
        metadata != json.end() && metadata->is_object() ? metadata->find("total_size") : json.end();
    if (metadata != json.end() && metadata->is_object() && total != metadata->end() && *total != of_tensors())
      note(index.string() + ": metadata.total_size is " + total->dump() + ", and the parts' tensors have " +
           std::to_string(of_tensors()) + " bytes: it is not used");
  } else {
    throw InputError(folder_.string() + ": has neither model.safetensors nor model.safetensors.index.json" +
                     advice(folder_));
  }
}

void TensorFolder::add(const std::string& file) {
  parts_.push_back({file, MappedTensors(folder_ / file)});
  for (const auto& [name, info] : parts_.back().tensors.tensors()) {
    if (!tensors_.emplace(name, info).second)
      throw InputError((folder_ / file).string() + ": has a tensor " + quoted(name) +
                       ", as another part has");
    places_[name] = {parts_.size() - 1, name, nullptr};
  }
}

void TensorFolder::require_as_listed(const std::filesystem::path& index,
                                     const std::map<std::string, std::string>& places) const {
  const auto refuse = [&](const std::string& name, const std::string& problem) {
    throw InputError(index.string() + ": " + quoted(name) + " " + problem +
                     "; expected the index of these parts");
  };
  for (const auto& [name, file] : places) {
    if (!has(name)) refuse(name, "is listed in " + file + ", and no part has it");
    if (part_of(name) != file) refuse(name, "is listed in " + file + ", and lies in " + part_of(name));
  }
  for (const auto& entry : tensors_) {
    if (!places.contains(entry.first))
      refuse(entry.first, "lies in " + part_of(entry.first) + ", and is not listed");
  }
}

void TensorFolder::rename(const std::function<std::string(const std::string&)>& renamed) {
  std::map<std::string, MappedTensors::Info> tensors;
  std::map<std::string, Place> places;
  for (auto& [name, info] : tensors_) {
    const auto current = renamed(name);
    if (current.empty()) continue;
    if (!tensors.emplace(current, std::move(info)).second)
      throw InputError(file_of(name).string() + ": has " + quoted(current) +
                       " under two names; expected one of them");
    places.emplace(current, std::move(places_.at(name)));
  }
  tensors_ = std::move(tensors);
  places_ = std::move(places);
}

void TensorFolder::arrange(const std::string& name, Rows rows) {
  tensors_.at(name).shape.front() = std::ssize(rows.index);
  places_.at(name).rows = std::make_shared<const Rows>(std::move(rows));
}

std::uint64_t TensorFolder::bytes_of_rows(const std::string& name) const {
  const auto& rows = places_.at(name).rows;
  return rows == nullptr ? 0 : rows->further.nbytes();
}

at::Tensor TensorFolder::tensor(const std::string& name) const {
  if (places_.at(name).rows == nullptr) return mapped(name).tensor(stored_name(name));
  const auto& shape = tensors_.at(name).shape;
  at::Tensor unused;
  return numbers(name, 0, c10::multiply_integers(shape), unused).view(shape);
}

at::Tensor TensorFolder::numbers(const std::string& name, std::int64_t begin, std::int64_t count,
                                 at::Tensor& buffer) const {
  const auto& place = places_.at(name);
  const auto& part = mapped(name);
  if (place.rows == nullptr) return part.numbers(place.stored, begin, count, buffer);
  const auto& further = place.rows->further;
  const auto width = further.size(1), first = begin / width, end = (begin + count + width - 1) / width;
  const auto of = [&](std::int64_t row) { return place.rows->index[static_cast<std::size_t>(row)]; };
  const auto elsewhere = [&](std::int64_t i) { return i < further.size(0) ? further[i] : place.rows->last; };
  const auto numbers = at::empty({(end - first) * width}, at::kFloat);
  at::Tensor copy;
  for (auto row = first; row < end;) {
    std::int64_t together = 1;  // rows that lie side by side in the file, too
    while (of(row) >= 0 && row + together < end && of(row + together) == of(row) + together) ++together;
    numbers.narrow(0, (row - first) * width, together * width)
        .copy_(of(row) < 0 ? elsewhere(-1 - of(row))
                           : part.numbers(place.stored, of(row) * width, together * width, copy));
    row += together;
  }
  return numbers.narrow(0, begin - first * width, count);
}

std::string TensorFolder::metadata(const std::string& key) const {
  for (const auto& part : parts_) {
    if (const auto entry = part.tensors.metadata().find(key); entry != part.tensors.metadata().end())
      return entry->second;
  }
  return "";
}

std::uint64_t TensorFolder::of_tensors() const {
  std::uint64_t all = 0;
  for (const auto& [name, info] : tensors_)
    all += static_cast<std::uint64_t>(c10::multiply_integers(info.shape)) * c10::elementSize(info.scalar);
  return all;
}

std::uint64_t TensorFolder::bytes() const {
  std::uint64_t all = 0;
  for (const auto& part : parts_) all += std::filesystem::file_size(folder_ / part.file);
  return all;
}

bool TensorFolder::current() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.tensors.current(); });
}

}  // namespace taugrid::store
