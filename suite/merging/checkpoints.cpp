// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/checkpoints.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/weights/subtract.hpp"
#include "suite/error.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

using Info = store::MappedTensors::Info;
using store::quoted;

/// The files that the index names.
std::set<std::string> parts_in(const std::filesystem::path& index) {
  const auto refuse = [&](const std::string& problem) { throw InputError(index.string() + ": " + problem); };
  const auto json =
      nlohmann::json::parse(store::input_text(index, "an index of safetensors"), nullptr, false);
  std::set<std::string> files;
  if (json.is_object() && json.contains("weight_map") && json["weight_map"].is_object()) {
    for (const auto& entry : json["weight_map"].items()) {
      const auto file = entry.value().is_string() ? entry.value().get<std::string>() : "";
      if (file.empty() || std::filesystem::path(file).filename() != file || !file.ends_with(".safetensors"))
        refuse("names a part that is not the name of a safetensors file in this folder");
      files.insert(file);
    }
  }
  if (files.empty()) refuse("has no weight_map; expected the parts' names by tensor");
  return files;
}

std::string shown(const Info& info) {
  return fmt::format("{} [{}]", at::toString(info.scalar), fmt::join(info.shape, ","));
}

void require_same(const Weights& start, const Weights& model) {
  const auto refuse = [&](const std::string& problem) {
    throw InputError(model.folder().string() + ": " + problem +
                     "; models that are merged have the same tensors");
  };
  for (const auto& [name, info] : start.tensors()) {
    const auto found = model.tensors().find(name);
    if (found == model.tensors().end())
      refuse("has no tensor " + quoted(name) + ", which " + start.folder().string() + " has");
    if (found->second.scalar != info.scalar || found->second.shape != info.shape)
      refuse(fmt::format("{} is {}, and in {} it is {}", quoted(name), shown(found->second),
                         start.folder().string(), shown(info)));
  }
  for (const auto& entry : model.tensors()) {
    if (!start.tensors().contains(entry.first))
      refuse("has a tensor " + quoted(entry.first) + ", which " + start.folder().string() + " lacks");
  }
}

}  // namespace

Weights::Weights(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder_, ignored))
    throw InputError(folder_.string() + ": is no folder; expected one with model.safetensors");
  const auto index = folder_ / "model.safetensors.index.json";
  if (store::is_there(folder_ / "model.safetensors")) {
    add("model.safetensors");
  } else if (store::is_there(index)) {
    in_parts_ = true;
    for (const auto& file : parts_in(index)) add(file);
  } else {
    throw InputError(folder_.string() + ": has neither model.safetensors nor model.safetensors.index.json");
  }
}

void Weights::add(const std::string& file) {
  parts_.push_back({file, store::MappedTensors(folder_ / file)});
  for (const auto& [name, info] : parts_.back().tensors.tensors()) {
    if (!tensors_.emplace(name, info).second)
      throw InputError((folder_ / file).string() + ": has a tensor " + quoted(name) +
                       ", as another part has");
    part_of_[name] = parts_.size() - 1;
  }
}

at::Tensor Weights::numbers(const std::string& name, std::int64_t begin, std::int64_t count,
                            at::Tensor& own) const {
  return parts_[part_of_.at(name)].tensors.numbers(name, begin, count, own);
}

double Weights::bytes() const {
  double all = 0;
  for (const auto& part : parts_) all += static_cast<double>(std::filesystem::file_size(folder_ / part.file));
  return all;
}

std::string Weights::start() const {
  for (const auto& part : parts_) {
    if (auto start = models::start_of(part.tensors); !start.empty()) return start;
  }
  return "";
}

CheckpointVectors::CheckpointVectors(const Weights& theta0_weights, const std::vector<Weights>& models)
    : start_(theta0_weights), models_(models) {
  for (const auto& model : models) require_same(start_, model);
  std::int64_t length = 0;
  for (const auto& [name, info] : start_.tensors()) {
    if (!at::isFloatingType(info.scalar)) continue;
    if (info.scalar != at::kFloat && info.scalar != at::kHalf && info.scalar != at::kBFloat16)
      throw InputError(fmt::format("{}: {} is {}; expected float32, float16 or bfloat16",
                                   start_.folder().string(), quoted(name), shown(info)));
    std::int64_t count = 1;
    for (const auto size : info.shape) count *= size;
    tensors_.push_back({name, info.shape, {length, count}});
    length += count;
  }
  if (length == 0) throw InputError(start_.folder().string() + ": has no floating-point numbers to merge");
}

void CheckpointVectors::require_one_start() const {
  const Weights* first = nullptr;
  for (const auto& model : models_) {
    const auto start = model.start();
    if (start.empty()) continue;
    if (first == nullptr) first = &model;
    if (start != first->start())
      throw InputError(
          fmt::format("{}: was fine-tuned from another θ0 ({}) than {} ({}); expected models of one",
                      model.folder().string(), start, first->folder().string(), first->start()));
  }
}

void CheckpointVectors::each_tensor(Range range,
                                    const std::function<void(const NamedTensor&, Range)>& see) const {
  auto next = std::upper_bound(tensors_.begin(), tensors_.end(), range.begin,
                               [](std::int64_t at, const auto& tensor) { return at < tensor.range.end(); });
  for (; next != tensors_.end() && next->range.begin < range.end(); ++next) {
    const auto begin = std::max(range.begin, next->range.begin);
    const auto count = std::min(range.end(), next->range.end()) - begin;
    if (count > 0) see(*next, {begin, count});
  }
}

void CheckpointVectors::do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                                 const Visitor& visitor) const {
  const auto size = std::min(stretch(which.size(), align), range.count);
  const auto memory = at::empty({static_cast<std::int64_t>(which.size()) + 1, size}, at::kFloat);
  std::vector<at::Tensor> stretches(which.size());
  for (auto begin = range.begin; begin < range.end(); begin += size) {
    const auto n = std::min(size, range.end() - begin);
    each_tensor({begin, n}, [&](const NamedTensor& tensor, Range part) {
      // One copy of θ0 and one of a model at a time, gone before the visitor begins: a stretch may be a whole
      // matrix.
      at::Tensor copy_of_start, copy_of_model;
      const auto from = part.begin - tensor.range.begin, to = part.begin - begin;
      const auto piece = [&](const Weights& weights, std::int64_t row, at::Tensor& own) {
        const auto there = weights.numbers(tensor.name, from, part.count, own);
        return there.scalar_type() == at::kFloat ? there : memory[row].narrow(0, to, part.count).copy_(there);
      };
      const auto start = piece(start_, static_cast<std::int64_t>(which.size()), copy_of_start);
      for (std::size_t i = 0; i < which.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i);
        auto out = memory[row].narrow(0, to, part.count);
        if (which[i] == theta0) {
          out.copy_(start);
          continue;
        }
        const auto theta = piece(models_[which[i]], row, copy_of_model);
        const auto* tuned = theta.const_data_ptr<float>();
        auto* tau = out.mutable_data_ptr<float>();
        if (!weights::subtract({&tuned, 1}, start.const_data_ptr<float>(), {&tau, 1}, part.count))
          refuse_not_finite(models_[which[i]], tensor, start);
      }
    });
    for (std::size_t i = 0; i < which.size(); ++i)
      stretches[i] = memory[static_cast<std::int64_t>(i)].narrow(0, 0, n);
    visitor(begin, stretches);
  }
}

void CheckpointVectors::do_visit_stretches(const std::vector<std::size_t>& which, Range range,
                                           const StretchVisitor& visitor) const {
  constexpr auto most = weights::stretch_on_files;
  std::vector<at::Tensor> theta(which.size()), own(which.size() + 1);
  for (auto begin = range.begin; begin < range.end(); begin += most) {
    each_tensor({begin, std::min(most, range.end() - begin)}, [&](const NamedTensor& tensor, Range part) {
      const auto piece = [&](const Weights& weights, at::Tensor& copy) {
        return weights.numbers(tensor.name, part.begin - tensor.range.begin, part.count, copy);
      };
      const auto start = piece(start_, own.back());
      if (start.scalar_type() != at::kFloat) return TaskVectors::do_visit_stretches(which, part, visitor);
      for (std::size_t i = 0; i < which.size(); ++i) theta[i] = piece(models_[which[i]], own[i]);
      if (visitor(part.begin, {theta, start})) return;
      for (std::size_t i = 0; i < which.size(); ++i) {
        if (!at::isfinite(theta[i] - start).all().item<bool>())
          refuse_not_finite(models_[which[i]], tensor, start);
      }
    });
  }
}

void CheckpointVectors::refuse_not_finite(const Weights& model, const NamedTensor& tensor,
                                          const at::Tensor& start) const {
  const bool other = at::isfinite(start).all().item<bool>();
  throw InputError((other ? model : start_).folder().string() + ": " + quoted(tensor.name) +
                   " holds NaN or infinity");
}

void CheckpointVectors::add_to_theta0(
    std::int64_t begin, const at::Tensor& tau, double lambda,
    const std::function<void(const std::string&, std::int64_t, const at::Tensor&)>& see) const {
  at::Tensor own;
  each_tensor({begin, tau.numel()}, [&](const NamedTensor& tensor, Range part) {
    const auto from = part.begin - tensor.range.begin;
    const auto start = start_.numbers(tensor.name, from, part.count, own);
    auto sum = at::add(start.to(at::kFloat), tau.narrow(0, part.begin - begin, part.count), lambda);
    if (tensor.name.ends_with("running_var"))
      sum.clamp_min_(0);  // a sum of batch norm's statistics: still variances
    const auto merged = sum.to(start.scalar_type());
    if (!std::isfinite(merged.sum(at::kDouble).item<double>()))
      throw InputError(fmt::format("{}: the merged {} has numbers that {} cannot hold",
                                   start_.folder().string(), quoted(tensor.name),
                                   at::toString(start.scalar_type())));
    see(tensor.name, from, merged);
  });
}

}  // namespace taugrid::merging
