// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/adapter_writer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "suite/store/atomic_file.hpp"

namespace taugrid::store {
namespace {

const std::string behind_peft = "base_model.model.";

std::vector<std::string> names_in(const AdapterWriter::Room& room) {
  std::vector<std::string> names;
  for (const auto& module : room.modules) {
    names.push_back(behind_peft + module + ".lora_embedding_A");  // the longest that it may have
    names.push_back(behind_peft + module + ".lora_embedding_B");
  }
  for (const auto& name : room.whole) names.push_back(behind_peft + name + ".base_layer");
  return names;
}

const std::filesystem::path& created(const std::filesystem::path& folder) {
  create_folders(folder);
  return folder;
}

}  // namespace

AdapterWriter::AdapterWriter(const std::filesystem::path& folder, std::string base, Scale scale,
                             const Room& room)
    : folder_(created(folder)),
      base_(std::move(base)),
      scale_(scale),
      file_(folder / "adapter_model.safetensors", names_in(room), {{"format", "pt"}}) {}

void AdapterWriter::place(const std::string& module, std::int64_t rank) {
  ranks_.emplace_back(module, rank);
  with_product_.insert(module);
}

void AdapterWriter::add(const std::string& module, const at::Tensor& a, const at::Tensor& b) {
  place(module, a.size(0));
  file_.append(behind_peft + module + ".lora_A.weight", a);
  file_.append(behind_peft + module + ".lora_B.weight", b);
}

void AdapterWriter::add_embedding(const std::string& module, const at::Tensor& a, const at::Tensor& b) {
  place(module, a.size(0));
  file_.append(behind_peft + module + ".lora_embedding_A", a);
  file_.append(behind_peft + module + ".lora_embedding_B", b);
}

void AdapterWriter::add_bias(const std::string& module, const at::Tensor& bias) {
  has_biases_ = true;
  file_.append(behind_peft + module + (with_product_.contains(module) ? ".base_layer.bias" : ".bias"), bias);
}

void AdapterWriter::add_module(const std::string& module, const std::map<std::string, at::Tensor>& tensors) {
  saved_.insert(module);
  for (const auto& [name, tensor] : tensors) file_.append(behind_peft + module + "." + name, tensor);
}

void AdapterWriter::commit() {
  std::int64_t most = 1;
  for (const auto& entry : ranks_) most = std::max(most, entry.second);
  const auto alpha_of = [&](std::int64_t rank) {
    return scale_.alpha * static_cast<double>(rank) / scale_.rank;
  };
  nlohmann::ordered_json targets = nlohmann::ordered_json::array(), ranks = nlohmann::ordered_json::object(),
                         alphas = nlohmann::ordered_json::object();
  // PEFT takes a name for the end of others, too; behind ^ it is the whole.
  const auto is_end_of_another = [&](const std::string& module) {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [&](const auto& other) { return other.first.ends_with("." + module); });
  };
  for (const auto& [module, rank] : ranks_) {
    targets.push_back(module);
    if (rank == most) continue;
    const auto pattern = (is_end_of_another(module) ? "^" : "") + module;
    ranks[pattern] = rank;
    alphas[pattern] = alpha_of(rank);
  }
  nlohmann::ordered_json config = {{"peft_type", "LORA"},
                                   {"base_model_name_or_path", base_},
                                   {"r", most},
                                   {"lora_alpha", alpha_of(most)},
                                   {"lora_dropout", 0.0},
                                   {"bias", has_biases_ ? "all" : "none"},
                                   {"fan_in_fan_out", transposed_},
                                   {"use_rslora", false},
                                   {"inference_mode", true},
                                   {"target_modules", targets}};
  if (!ranks.empty()) config["rank_pattern"] = ranks;
  if (!alphas.empty()) config["alpha_pattern"] = alphas;
  if (!saved_.empty()) config["modules_to_save"] = saved_;
  file_.commit();
  write_atomically(folder_ / "adapter_config.json", config.dump(2) + "\n");
}

}  // namespace taugrid::store
