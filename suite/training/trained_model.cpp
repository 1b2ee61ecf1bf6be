// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/training/trained_model.hpp"

#include <ATen/ATen.h>

#include "suite/error.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::training {

std::string verify_checkpoint(const std::filesystem::path& folder,
                              const std::map<std::string, std::string>& header,
                              const std::string& fingerprint) {
  const auto expected = header.find(fingerprint);
  if (expected == header.end()) return "";
  for (const auto* part : {"config.json", "model.safetensors"}) {
    if (!store::wait_if_listed(folder / part))
      return "its checkpoint " + (folder / part).string() + " is gone";
    const store::InputFile readable(folder / part);
  }
  try {
    if (models::fingerprint(models::read_checkpoint(folder).state) == expected->second) return "";
  } catch (const InputError& error) {
    return std::string("its checkpoint is wrong (") + error.what() + ")";
  }
  return "its checkpoint " + folder.string() + " is another one";
}

Steps steps_with_losses(const study::Study& study, Trainer& trainer, const Training& how,
                        const std::string& what, const at::Tensor& losses) {
  Steps steps;
  steps.what = what;
  steps.steps = losses.size(0);
  steps.checkpoint_seconds = how.checkpoint_seconds;
  steps.device = study.device;
  steps.losses = {losses};
  steps.step = [&trainer, losses](std::int64_t number) {
    const auto value = trainer.step(number);
    losses[number] = value.loss;
    return value.loss;
  };
  steps.state = [&trainer, losses] {
    store::TensorFile state;
    trainer.save(state);
    state.tensors["loss"] = losses;
    return state;
  };
  return steps;
}

store::TensorFile train_and_write(const study::Study& study, Trainer& trainer, const Training& how,
                                  const std::string& what, const std::filesystem::path& folder,
                                  const std::string& start, schedule::UnitContext& context) {
  const auto losses = study.sums({how.steps});
  run(steps_with_losses(study, trainer, how, what, losses), context);
  if (context.group.rank() == 0)
    models::write_checkpoint(folder, study.model.encoder(), trainer.state(), start);
  store::TensorFile file;
  file.tensors["loss"] = losses.to(at::kFloat);
  file.metadata["fingerprint"] = models::fingerprint(trainer.state());
  return file;
}

}  // namespace taugrid::training
