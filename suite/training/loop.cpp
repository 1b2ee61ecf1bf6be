// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/training/loop.hpp"

#include <ATen/ATen.h>

#include <filesystem>

#include "suite/comm/clock.hpp"
#include "suite/error.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/mapped_file.hpp"

namespace taugrid::training {
namespace {

constexpr const char* steps_done = "loop.steps";
constexpr const char* seconds_taken = "loop.seconds";

/// Looks for losses that are not finite. That makes the host wait for a GPU: due each second there, at each
/// step on a CPU.
class Watch {
 public:
  Watch(const Steps& steps, std::int64_t step)
      : steps_(steps),
        every_(steps.device.is_cpu() ? 0 : 1),
        looked_(comm::steady_seconds()),
        finite_(step) {}
  bool due() const { return comm::steady_seconds() - looked_ >= every_; }
  /// Looks at the sums of the losses from the step of the last look to before `step`.
  void look(std::int64_t step) {
    const auto recent = [&](const at::Tensor& each) { return each.narrow(0, finite_, step - finite_); };
    auto sum = recent(steps_.losses[0]);
    for (std::size_t i = 1; i < steps_.losses.size(); ++i) sum = sum + recent(steps_.losses[i]);
    const auto wrong = at::isfinite(sum).logical_not().nonzero();
    if (wrong.size(0) != 0) {
      const auto at = finite_ + wrong[0].item<std::int64_t>();
      throw std::runtime_error(
          "the training loss is not finite at step " + std::to_string(at) +
          (at > 0 ? "; a smaller learning_rate may help"
                  : ", before anything is learnt: look at the model's weights and the head"));
    }
    finite_ = step;
    looked_ = comm::steady_seconds();
  }

 private:
  const Steps& steps_;
  double every_, looked_;
  std::int64_t finite_;
};

struct Progress {
  std::int64_t step = 0;
  double seconds = 0;
};

/// What a killed run saved, the same on all ranks of the group.
Progress resume(const Steps& steps, const schedule::UnitContext& context, const std::filesystem::path& path) {
  const auto& group = context.group;
  auto progress = at::full({2}, -1.0, at::kDouble);  // steps and seconds; below 0: nothing is there
  store::TensorFile saved;
  if (group.rank() == 0 && store::is_there(path)) {
    saved = store::read_safetensors(path);
    progress[0] = std::stod(saved.metadata.at(steps_done));
    progress[1] = std::stod(saved.metadata.at(seconds_taken));
  }
  if (group.size() > 1) group.broadcast(progress, 0, "a saved state's step");
  if (progress[0].item<double>() < 0) return {};
  auto state = steps.state();
  for (auto& [name, tensor] : state.tensors) {
    if (group.rank() == 0) tensor.copy_(saved.tensors.at(name));
    if (group.size() > 1) group.broadcast(tensor, 0, "a saved state");
  }
  return {static_cast<std::int64_t>(progress[0].item<double>()), progress[1].item<double>()};
}

}  // namespace

double run(const Steps& steps, schedule::UnitContext& context) {
  const double began = comm::steady_seconds();
  const auto since = [began] { return comm::steady_seconds() - began; };
  const auto path = context.scratch / "state.safetensors";
  auto [step, seconds_before] = resume(steps, context, path);
  steps.after(step);
  double saved = 0;
  Watch watch(steps, step);
  const auto save = [&, seconds_before = seconds_before, &step = step] {
    watch.look(step);
    store::require_unchanged();
    if (context.group.rank() != 0) return;
    auto state = steps.state();
    state.metadata[steps_done] = std::to_string(step);
    state.metadata[seconds_taken] = std::to_string(seconds_before + since());
    store::write_safetensors(path, state);
  };
  while (step < steps.steps) {
    if (context.stop.requested(context.group)) {
      save();
      throw Interrupted(steps.what + ": stopped by " + context.stop.reason());
    }
    if (steps.checkpoint_seconds > 0 && since() - saved > steps.checkpoint_seconds) {
      save();
      saved = since();
    }
    const auto loss = steps.step(step);
    ++step;
    steps.after(step);
    if (!watch.due() && step < steps.steps) continue;
    watch.look(step);
    context.progress(static_cast<double>(step) / static_cast<double>(steps.steps),
                     "loss " + std::to_string(loss.item<double>()).substr(0, 5));
    if (steps.save_last && step == steps.steps) save();
  }
  return seconds_before + since();
}

}  // namespace taugrid::training
