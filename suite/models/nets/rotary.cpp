// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/nets/rotary.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string_view>

namespace taugrid::models {
namespace {

/// A scaling's positive number; `fallback` where there is none, 0 meaning that it must be there.
double number(const nlohmann::json& parameters, const Keys& keys, const char* key, double fallback = 0) {
  const auto entry = parameters.find(key);
  if (entry == parameters.end() || entry->is_null()) {
    if (fallback > 0) return fallback;
    keys.refuse(std::string("its rotary scaling has no ") + key + "; expected a positive number");
  }
  if (!entry->is_number() || !(entry->get<double>() > 0) || entry->get<double>() > 1e12)
    keys.refuse(std::string("its rotary scaling has ") + key + " " + entry->dump().substr(0, 80) +
                "; expected a positive number");
  return entry->get<double>();
}

/// Llama 3.1: long waves become slower by `factor`, short ones stay, between them both are mixed.
at::Tensor llama3(const at::Tensor& frequencies, const nlohmann::json& parameters, const Keys& keys,
                  double places) {
  const auto factor = number(parameters, keys, "factor"), low = number(parameters, keys, "low_freq_factor"),
             high = number(parameters, keys, "high_freq_factor"),
             before = number(parameters, keys, "original_max_position_embeddings", places);
  if (!(high > low)) keys.refuse("its rotary scaling has high_freq_factor below low_freq_factor");
  const auto wave = 2 * std::numbers::pi / frequencies;
  const auto slow = at::where(wave > before / low, frequencies / factor, frequencies);
  const auto share = (before / wave - low) / (high - low);
  const auto mixed = (1 - share) * slow / factor + share * slow;
  const auto is_between = wave.lt(before / high).logical_or(wave.gt(before / low)).logical_not();
  return at::where(is_between, mixed, slow);
}

/// YaRN (Peng et al., 2023), section 3.2: pairs that turn often keep their frequency, others become slower.
RotaryFrequencies yarn(const at::Tensor& powers, const nlohmann::json& parameters, const Keys& keys,
                       double theta, double places) {
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    if (parameters.contains(key) && !parameters[key].is_null())
      keys.refuse(std::string("its rotary scaling has ") + key + "; expected YaRN without it");
  }
  const auto before = number(parameters, keys, "original_max_position_embeddings", places);
  const auto factor = number(parameters, keys, "factor", places / before);
  const auto pairs = powers.size(0), width = 2 * pairs;
  const auto pair_of = [&](double turns) {
    return static_cast<double>(width) * std::log(before / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  auto low = pair_of(number(parameters, keys, "beta_fast", 32)),
       high = pair_of(number(parameters, keys, "beta_slow", 1));
  const auto truncate = parameters.find("truncate");
  if (truncate == parameters.end() || *truncate != false) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(width - 1));
  if (low == high) high += 0.001;
  const auto ramp = ((at::arange(pairs, at::kFloat) - low) / (high - low)).clamp(0, 1), kept = 1 - ramp;
  const auto usual = factor <= 1 ? 1.0 : 0.1 * std::log(factor) + 1;
  return {1 / (factor * powers) * (1 - kept) + 1 / powers * kept,
          number(parameters, keys, "attention_factor", usual)};
}

std::string kind_of(const nlohmann::json& parameters, const Keys& keys) {
  if (parameters.is_null()) return "default";
  if (!parameters.is_object())
    keys.refuse("its rotary parameters are " + parameters.dump().substr(0, 80) + "; expected an object");
  for (const char* key : {"rope_type", "type"}) {
    if (!parameters.contains(key) || parameters[key].is_null()) continue;
    if (!parameters[key].is_string()) keys.refuse(std::string("its rotary ") + key + " is no text");
    return parameters[key].get<std::string>();
  }
  return "default";
}

}  // namespace

RotaryFrequencies rotary_frequencies(const nlohmann::json& parameters, const Keys& keys, double theta,
                                     std::int64_t width, std::int64_t places) {
  const auto kind = kind_of(parameters, keys);
  constexpr std::array<std::string_view, 5> known = {"default", "linear", "dynamic", "llama3", "yarn"};
  if (std::find(known.begin(), known.end(), kind) == known.end())
    keys.refuse("its rotary positions are scaled by '" + kind.substr(0, 80) +
                "'; expected default, linear, dynamic, llama3 or yarn");
  if (!parameters.is_null()) {
    theta = number(parameters, keys, "rope_theta", theta);
    if (number(parameters, keys, "partial_rotary_factor", 1) != 1)
      keys.refuse("partial_rotary_factor is not 1; expected positions for whole heads");
  }
  // Step by step in float32 as transformers computes them, so that both round alike.
  const auto exponents = at::arange(0, width, 2, at::kLong).to(at::kFloat) / width;
  const auto powers = at::pow(theta, exponents), plain = 1.0 / powers;
  RotaryFrequencies rotary{plain};  // a dynamic scaling changes texts beyond max_position_embeddings alone
  if (kind == "linear") rotary.frequencies = plain / number(parameters, keys, "factor");
  if (kind == "llama3") rotary.frequencies = llama3(plain, parameters, keys, static_cast<double>(places));
  if (kind == "yarn") rotary = yarn(powers, parameters, keys, theta, static_cast<double>(places));
  rotary.unscaled = plain;
  if (!at::isfinite(rotary.frequencies).all().item<bool>())
    keys.refuse(
        "its rotary positions turn by angles that are not finite; expected another rope_theta or scaling");
  return rotary;
}

autodiff::Rotation rotation_at(const RotaryFrequencies& rotary, const at::Tensor& places,
                               const at::TensorOptions& options) {
  const auto angles =
      places.to(at::kFloat).unsqueeze(1) * rotary.frequencies.to(places.device(), /*non_blocking=*/true);
  const auto ready = [&](const at::Tensor& x) {
    return (x * rotary.factor).to(options, /*non_blocking=*/true);
  };
  return {ready(angles.cos()), ready(angles.sin())};
}

}  // namespace taugrid::models
