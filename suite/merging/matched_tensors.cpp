// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/matched_tensors.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "suite/error.hpp"
#include "suite/models/tensor_names.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

using Folder = store::TensorFolder;
using Info = store::MappedTensors::Info;
using store::quoted;

constexpr const char* rule = "; models that are merged have the same tensors";

[[noreturn]] void refuse(const Folder& folder, const std::string& problem) {
  throw InputError(folder.folder().string() + ": " + problem);
}

std::string shown(const Info& info) {
  return fmt::format("{} [{}]", at::toString(info.scalar), fmt::join(info.shape, ","));
}

bool have_same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

/// Batch norm counts its batches, which no output depends on.
bool is_counter(const std::string& name) { return name.ends_with("num_batches_tracked"); }

bool is_constant(const Folder& folder, const std::string& name) {
  return !at::isFloatingType(folder.tensors().at(name).scalar) &&
         (is_counter(name) || models::counts_up(folder.tensor(name)));
}

/// The tensor of `names` that this one doubles in its folder, number by number; empty where there is none.
/// Numbers that are all alike (a norm's ones, a bias's zeros) say nothing.
std::string doubled(const Folder& folder, const std::string& name, const std::vector<std::string>& names) {
  const auto& info = folder.tensors().at(name);
  const auto tensor = folder.tensor(name);
  if (tensor.numel() < 2 || tensor.eq(tensor.flatten()[0]).all().item<bool>()) return "";
  const auto same = std::find_if(names.begin(), names.end(), [&](const std::string& other) {
    const auto& its = folder.tensors().at(other);
    return other != name && its.scalar == info.scalar && its.shape == info.shape &&
           have_same_bytes(tensor, folder.tensor(other));
  });
  return same == names.end() ? "" : *same;
}

/// "FIRST." (N), … by the first step of the names.
std::string summary(const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  std::map<std::string, int> count;
  for (const auto& name : names) ++count[name.substr(0, name.find('.'))];
  std::string text;
  std::size_t listed = 0;
  for (const auto& [step, n] : count) {
    if (listed++ == most) return text + ", …";
    text += (text.empty() ? "" : ", ") + quoted(step) + (n > 1 ? fmt::format(" ({})", n) : "");
  }
  return text;
}

std::string counted(std::size_t n) { return fmt::format("{} tensor{}", n, n == 1 ? "" : "s"); }

class Matching {
 public:
  Matching(const Folder& start, std::vector<const Folder*> models)
      : start_(start), models_(std::move(models)) {}

  MatchedTensors matched() {
    for (const auto& [name, info] : start_.tensors()) look_at(name, info);
    for (const auto* model : models_) look_at_own(*model);
    if (matched_.merged.empty()) refuse(start_, "has no floating-point numbers to merge");
    find_doubles();
    note();
    return std::move(matched_);
  }

 private:
  /// A tensor of θ0.
  void look_at(const std::string& name, const Info& info) {
    const Folder *owner = nullptr, *lacking = nullptr;
    for (const auto* model : models_) (model->has(name) ? owner : lacking) = model;
    const bool floating = at::isFloatingType(info.scalar);
    if (models_.empty() && floating && is_mergeable(info)) return matched_.merged.push_back(name);
    if (owner == nullptr) return carried_.push_back(name);
    if (lacking != nullptr && !is_constant(start_, name))
      refuse(*lacking, "has no tensor " + quoted(name) + ", which " + start_.folder().string() + " and " +
                           owner->folder().string() + " have" + rule);
    bool one_type = true;
    for (const auto* model : models_) {
      if (!model->has(name)) continue;
      const auto& its = model->tensors().at(name);
      if (floating != at::isFloatingType(its.scalar) || (floating && its.shape != info.shape))
        refuse(*model, fmt::format("{} is {}, and in {} it is {}{}", quoted(name), shown(its),
                                   start_.folder().string(), shown(info), rule));
      if (!floating) require_equal(*model, name);
      if (floating) require_mergeable(*model, name, its);
      one_type = one_type && its.scalar == info.scalar;
    }
    if (!floating) return;
    require_mergeable(start_, name, info);
    matched_.merged.push_back(name);
    of_several_types_ += one_type ? 0 : 1;
  }

  static bool is_mergeable(const Info& info) {
    return info.scalar == at::kFloat || info.scalar == at::kHalf || info.scalar == at::kBFloat16;
  }

  static void require_mergeable(const Folder& folder, const std::string& name, const Info& info) {
    if (!is_mergeable(info))
      refuse(folder,
             fmt::format("{} is {}; expected float32, float16 or bfloat16", quoted(name), shown(info)));
  }

  /// The result has θ0's numbers where none are merged: all models must have the same there.
  void require_equal(const Folder& model, const std::string& name) {
    if (have_same_bytes(model.tensor(name), start_.tensor(name))) return;
    if (is_counter(name)) {
      ++counters_;
    } else if (!is_constant(model, name) || !is_constant(start_, name)) {
      refuse(model,
             fmt::format("{} is {}, which is not merged, and holds other numbers than in {}; expected equal "
                         "ones (quantised weights are to be made floating-point numbers first)",
                         quoted(name), shown(model.tensors().at(name)), start_.folder().string()));
    }
  }

  /// Tensors that the model has and θ0 lacks.
  void look_at_own(const Folder& model) {
    for (const auto& entry : model.tensors()) {
      const auto& name = entry.first;
      if (start_.has(name)) continue;
      if (!is_constant(model, name) && doubled(model, name, matched_.merged).empty())
        refuse(model,
               "has a tensor " + quoted(name) + ", which " + start_.folder().string() + " lacks" + rule);
      left_out_.push_back(name);
    }
  }

  void find_doubles() {
    for (const auto& name : carried_) {
      const auto other = at::isFloatingType(start_.tensors().at(name).scalar)
                             ? doubled(start_, name, matched_.merged)
                             : std::string();
      if (!other.empty()) matched_.doubles.emplace(other, name);
    }
    for (const auto& [other, name] : matched_.doubles) std::erase(carried_, name);
  }

  void note() {
    auto& notes = matched_.notes;
    if (!carried_.empty() && !models_.empty())
      notes.push_back(fmt::format("no model has {} of the base, carried over as they are: {}",
                                  counted(carried_.size()), summary(carried_)));
    for (const auto& [other, name] : matched_.doubles)
      notes.push_back(fmt::format("{} doubles {} in the base, and so it does in the result", quoted(name),
                                  quoted(other)));
    if (!left_out_.empty())
      notes.push_back(
          fmt::format("the base lacks {} of models, left out as constants or doubles of others: {}",
                      counted(left_out_.size()), summary(left_out_)));
    if (of_several_types_ > 0)
      notes.push_back(fmt::format("{} of several types, merged in float32", counted(of_several_types_)));
    if (counters_ > 0)
      notes.push_back(
          fmt::format("{} counters of batches differ from the base's, which the result has", counters_));
  }

  const Folder& start_;
  std::vector<const Folder*> models_;
  MatchedTensors matched_;
  std::vector<std::string> carried_, left_out_;
  std::size_t of_several_types_ = 0, counters_ = 0;
};

}  // namespace

MatchedTensors match_tensors(const Folder& theta0, const std::vector<const Folder*>& models) {
  return Matching(theta0, models).matched();
}

}  // namespace taugrid::merging
