// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the bench's cases computed on the machine where they were recorded. Inputs are drawn by seed on the
// host, so that every machine and device has the same.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace taugrid::bench {

struct Recorded {
  std::string_view name;
  double norm, projection;  ///< ‖x‖ and Σ xᵢ cos(i) of the first run's result x
  double tolerance;         ///< relative to the norm
};

/// One processor rounds otherwise than another, and LibTorch's random numbers differ in the last digit: 1e-4.
/// λ_max ends by a residual. A prediction near a tie may fall to another class: one point of 64 (2e-2), or of
/// 16 (9e-2).
inline constexpr std::array recorded_values = {
    Recorded{"combine", 663.545593, 556.445678, 1e-4},
    Recorded{"combine/16_rows", 2439.45188, 461.286465, 1e-4},
    Recorded{"gram", 28288268.4, 10087757.6, 1e-4},
    Recorded{"merge/linear", 250.461568, 224.377599, 1e-4},
    Recorded{"merge/task_arithmetic", 2003.69254, 1795.02079, 1e-4},
    Recorded{"merge/dare_linear", 2825.86513, -515.894269, 1e-4},
    Recorded{"merge/consensus_ta", 1560.31941, 525.93379, 1e-4},
    Recorded{"merge/top_k", 132.452519, 124.716884, 1e-4},
    Recorded{"merge/ties", 1185.15021, 1184.13845, 1e-4},
    Recorded{"forward", 224.432156, -12.2948029, 1e-4},
    Recorded{"jvp", 42.4003241, 11.1599571, 1e-4},
    Recorded{"step/standard", 2.72943163, 2.72943163, 1e-4},
    Recorded{"step/linear", 2.73294592, 2.73294592, 1e-4},
    Recorded{"step/attention", 2.72943163, 2.72943163, 1e-4},
    Recorded{"step/tau_jp", 2.73439817, 2.73439817, 1e-4},
    Recorded{"step/tau_jp_strict", 2.7441821, 2.7441821, 1e-4},
    Recorded{"ntk", 264150.745, 6851.90994, 1e-4},
    Recorded{"hvp/first", 0.642175343, -0.155815545, 1e-4},
    Recorded{"hvp/further", 0.642175343, -0.155815545, 1e-4},
    Recorded{"lambda_max/lanczos", 464.33818, 464.33818, 2e-2},
    Recorded{"lambda_max/power", 464.345107, 464.345107, 2e-2},
    Recorded{"resnet/step", 2.93464231, 2.93464231, 1e-4},
    Recorded{"resnet/ntk", 693645.835, 23526.8555, 1e-4},
    Recorded{"convnext/step", 3.3256011, 3.3256011, 1e-4},
    Recorded{"vit/step", 2.69393563, 2.69393563, 1e-4},
    Recorded{"mlp/step", 2.32184052, 2.32184052, 1e-4},
    Recorded{"text/forward", 50.4917294, -0.113921896, 1e-4},
    Recorded{"text/step", 3.01825619, 3.01825619, 1e-4},
    Recorded{"text/step_linear", 3.04539752, 3.04539752, 1e-4},
    Recorded{"text/lambda_max", 2157.09796, 2157.09796, 2e-2},
    Recorded{"text/ntk", 94648.64, 12613.6529, 1e-4},
    Recorded{"text/full_forward", 50.1981969, -3.09683715, 1e-4},
    Recorded{"text/full_step", 3.09499264, 3.09499264, 1e-4},
    Recorded{"text/full_lambda_max", 2207.50795, 2207.50795, 2e-2},
    Recorded{"text/full_ntk", 95949.6961, 12718.3347, 1e-4},
    Recorded{"decoder/forward", 15.8746659, -10.0814043, 1e-4},
    Recorded{"decoder/step", 2.44384003, 2.44384003, 1e-4},
    Recorded{"decoder/step_linear", 2.48313022, 2.48313022, 1e-4},
    Recorded{"decoder/lambda_max", 10667.9619, 10667.9619, 2e-2},
    Recorded{"decoder/ntk", 184044.671, -21799.7779, 1e-4},
    Recorded{"decoder/sweep_linear_21", 0.859232943, 0.288676606, 9e-2},
    Recorded{"grid/nonlinear_7x7", 4.16780583, -0.472751915, 2e-2},
    Recorded{"grid/linear_20x20", 10.9264788, 1.564237, 2e-2},
    Recorded{"sweep/linear_21", 0.576433336, 0.198827353, 2e-2},
    Recorded{"linearity/vit12_16", 11.2216115, 0.329969959, 1e-4},
    Recorded{"fisher", 31.1270252, -10.1118966, 1e-4},
};

inline const Recorded* find_recorded(std::string_view name) {
  const auto* entry = std::find_if(recorded_values.begin(), recorded_values.end(),
                                   [&](const Recorded& each) { return each.name == name; });
  return entry == recorded_values.end() ? nullptr : entry;
}

}  // namespace taugrid::bench
