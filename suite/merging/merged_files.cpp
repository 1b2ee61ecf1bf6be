// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/merged_files.hpp"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/weights/bfloat16.hpp"
#include "suite/error.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {

namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> metadata() { return {{"format", "pt"}}; }

}  // namespace

MergedFiles::MergedFiles(const Recipe& recipe, const std::vector<std::unique_ptr<Stage>>& stages,
                         const std::function<void()>& go_on)
    : dtype_(recipe.type()), go_on_(go_on) {
  place_all(recipe, stages);
  for (const auto& [key, place] : places_) {
    const auto& info = key.first->start().tensors().at(key.second);
    files_[place.file][place.name] = {written_as(info.scalar), info.shape};
  }
  in_parts_ = files_.size() > 1 || stages.front()->start().in_parts();
}

void MergedFiles::create(const fs::path& folder) const {
  nlohmann::json places;
  for (const auto& entry : places_) places[entry.second.name] = entry.second.file;
  for (const auto& [file, contents] : files_)
    store::SharedSafetensors::create(folder / file, contents, metadata());
  if (in_parts_)
    store::write_atomically(
        folder / "model.safetensors.index.json",
        nlohmann::json{{"metadata", {{"total_size", bytes()}}}, {"weight_map", places}}.dump(2) + "\n");
}

bool MergedFiles::stand_in(const fs::path& folder) const {
  return std::all_of(files_.begin(), files_.end(), [&](const auto& file) {
    return store::SharedSafetensors::stands(folder / file.first, file.second, metadata());
  });
}

void MergedFiles::open(const fs::path& folder, bool others) {
  std::map<std::string, store::SharedSafetensors*> writers;
  for (const auto& [file, contents] : files_)
    writers[file] = &writers_.emplace_back(folder / file, contents, metadata(), others);
  for (auto& entry : places_) entry.second.writer = writers.at(entry.second.file);
  behind_.emplace();
}

void MergedFiles::write(const Stage& stage, const std::string& name, std::int64_t begin,
                        const at::Tensor& numbers) {
  put(stage, name, begin, numbers, /*merged=*/true);
  const auto [first, last] = stage.vectors().matched().doubles.equal_range(name);
  for (auto twin = first; twin != last; ++twin) put(stage, twin->second, begin, numbers, /*merged=*/true);
}

void MergedFiles::carry_over(const Stage& stage, const Team& team) {
  constexpr std::int64_t at_once = std::int64_t{1} << 20;
  const auto& matched = stage.vectors().matched();
  std::set<std::string> merged(matched.merged.begin(), matched.merged.end());
  for (const auto& [other, name] : matched.doubles) merged.insert(name);
  std::size_t piece = 0;
  for (const auto& [name, info] : stage.start().tensors()) {
    const auto count = c10::multiply_integers(info.shape);
    for (std::int64_t begin = 0; begin < count && !merged.contains(name); begin += at_once) {
      if (!team.is_mine(piece++)) continue;
      at::Tensor buffer;  // a new one each time: it is written later
      put(stage, name, begin, stage.start().numbers(name, begin, std::min(at_once, count - begin), buffer),
          /*merged=*/false);
    }
  }
}

void MergedFiles::flush() {
  behind_->wait();
  for (auto& writer : writers_) writer.flush();
}

std::uint64_t MergedFiles::bytes() const {
  std::uint64_t all = 0;
  for (const auto& entry : places_)
    all += bytes_of(entry.first.first->start().tensors().at(entry.first.second));
  return all;
}

at::ScalarType MergedFiles::written_as(at::ScalarType scalar) const {
  const bool is_merged_type = scalar == at::kFloat || scalar == at::kHalf || scalar == at::kBFloat16;
  return dtype_ && is_merged_type ? *dtype_ : scalar;
}

std::uint64_t MergedFiles::bytes_of(const store::MappedTensors::Info& info) const {
  return static_cast<std::uint64_t>(c10::multiply_integers(info.shape)) *
         c10::elementSize(written_as(info.scalar));
}

void MergedFiles::place_all(const Recipe& recipe, const std::vector<std::unique_ptr<Stage>>& stages) {
  const auto most = static_cast<std::uint64_t>(std::llround(1e9 * recipe.max_shard_size));
  if (!recipe.is_sliced) {
    const auto& base = stages.front()->start();
    std::map<std::string, std::uint64_t> sizes;
    bool fits = true;
    for (const auto& [name, info] : base.tensors()) {
      const auto file = base.file_of(name).filename().string();
      places_[{stages.front().get(), name}] = {base.stored_name(name), file, nullptr};
      fits = fits && (sizes[file] += bytes_of(info)) <= most;
    }
    if (fits) return;
  }
  std::vector<std::vector<Key>> parts(1);
  std::uint64_t bytes = 0;
  for (const auto& stage : stages)
    for (const auto& [name, info] : stage->start().tensors()) {
      if (bytes > 0 && bytes + bytes_of(info) > most) {
        parts.emplace_back();
        bytes = 0;
      }
      bytes += bytes_of(info);
      parts.back().emplace_back(stage.get(), name);
    }
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto file = parts.size() == 1
                          ? std::string("model.safetensors")
                          : fmt::format("model-{:05}-of-{:05}.safetensors", p + 1, parts.size());
    for (auto& key : parts[p])
      places_[key] = {recipe.is_sliced ? key.second : key.first->start().stored_name(key.second), file,
                      nullptr};
  }
}

void MergedFiles::put(const Stage& stage, const std::string& name, std::int64_t begin,
                      const at::Tensor& numbers, bool merged) {
  go_on_();
  const auto type = written_as(stage.start().tensors().at(name).scalar);
  at::Tensor written;
  bool finite = true;
  if (type == at::kBFloat16 && numbers.scalar_type() == at::kFloat) {
    const auto plain = numbers.contiguous();
    written = at::empty(plain.sizes(), type);
    finite = weights::narrow(plain.const_data_ptr<float>(),
                             static_cast<std::uint16_t*>(written.mutable_data_ptr()), plain.numel());
  } else {
    written = numbers.to(type, /*non_blocking=*/false, /*copy=*/merged);
    if (merged || type != numbers.scalar_type())
      finite = std::isfinite(written.sum(at::kDouble).item<double>());
  }
  if (!finite && (merged || !at::isfinite(written).eq(at::isfinite(numbers)).all().item<bool>()))
    throw InputError(fmt::format("{}: {} {} has numbers that {} cannot hold", stage.start().folder().string(),
                                 merged ? "the merged" : "the base's", store::quoted(name),
                                 at::toString(type)));
  const auto& place = places_.at({&stage, name});
  written_ += static_cast<std::int64_t>(written.nbytes());
  behind_->put(*place.writer, place.name, begin, std::move(written));
}

}  // namespace taugrid::merging
