// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/tensor_names.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace taugrid::models {
namespace {

struct Tied {
  std::string_view double_of, name;
};
constexpr std::array<Tied, 9> tied = {{
    {"model.embed_tokens.weight", "lm_head.weight"},
    {"transformer.wte.weight", "lm_head.weight"},
    {"shared.weight", "encoder.embed_tokens.weight"},
    {"shared.weight", "decoder.embed_tokens.weight"},
    {"shared.weight", "lm_head.weight"},
    {"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
    {"cls.predictions.bias", "cls.predictions.decoder.bias"},
    {"roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"},
    {"lm_head.bias", "lm_head.decoder.bias"},
}};

/// What transformers puts before the names of an encoder in a larger model.
constexpr std::array<std::string_view, 6> prefixes = {"bert.",     "roberta.",     "vit.",
                                                      "convnext.", "transformer.", "model."};

std::set<std::string> names_of(const autodiff::Layout& layout) {
  std::set<std::string> names;
  for (const auto& parameter : layout.parameters()) names.insert(parameter.name);
  return names;
}

/// The prefix that all of the layout's names have, or none.
std::string prefix_of(const std::set<std::string>& names) {
  for (const auto prefix : prefixes) {
    if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return name.starts_with(prefix); }))
      return std::string(prefix);
  }
  return "";
}

}  // namespace

std::string current_name(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> renamed = {
      {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}}};
  for (const auto& [old, current] : renamed) {
    if (name.ends_with(old)) return name.substr(0, name.size() - old.size()).append(current);
  }
  return name;
}

std::string_view doubled_name(const std::string& name, const autodiff::Layout& layout) {
  std::string_view first;
  for (const auto& each : tied) {
    if (each.name != name) continue;
    if (first.empty()) first = each.double_of;
    const auto is_it = [&](const auto& parameter) { return parameter.name == each.double_of; };
    if (std::any_of(layout.parameters().begin(), layout.parameters().end(), is_it)) return each.double_of;
  }
  return first;
}

bool counts_up(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false) &&
         tensor.flatten().eq(at::arange(tensor.numel(), at::kLong)).all().item<bool>();
}

void rename_as_in(store::TensorFolder& weights, const autodiff::Layout& layout) {
  const auto wanted = names_of(layout);
  const auto is_complete = [&] {
    return std::all_of(wanted.begin(), wanted.end(), [&](const auto& name) { return weights.has(name); });
  };
  if (is_complete()) return;
  weights.rename(current_name);
  if (is_complete()) return;
  if (const auto wanted_prefix = prefix_of(wanted); !wanted_prefix.empty()) {
    weights.rename([&](const std::string& name) {
      return wanted.contains(wanted_prefix + name) ? wanted_prefix + name : name;
    });
  } else {
    for (const auto prefix : prefixes) {
      weights.rename([&](const std::string& name) {
        return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
      });
    }
  }
  for (const auto& [double_of, name] : tied) {
    const std::string missing(double_of);
    if (wanted.contains(missing) && !weights.has(missing) && !wanted.contains(std::string(name)) &&
        weights.has(std::string(name)))
      weights.rename([&, from = name](const std::string& each) { return each == from ? missing : each; });
  }
}

}  // namespace taugrid::models
