// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/model.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/weights/weights.hpp"
#include "suite/data/packed.hpp"
#include "suite/error.hpp"
#include "suite/models/registry.hpp"
#include "suite/study/memory_bound.hpp"

namespace taugrid::study {

namespace {

std::int64_t longest_of_tasks(const Settings& settings, std::int64_t (*of)(const std::filesystem::path&)) {
  std::int64_t longest = 0;
  std::set<std::string> names = {settings.control};
  for (std::size_t t = 0; t < settings.tasks.size(); ++t) names.insert(settings.data_of(t));
  for (const auto& name : names) {
    try {
      longest = std::max(longest, of(settings.data / (name + ".h5")));
    } catch (const InputError&) {  // the tasks say what is wrong with it
    }
  }
  return longest;
}

std::int64_t tokens_of(const Settings& settings, const models::Encoder& encoder) {
  if (!encoder.takes().text()) return 0;
  return std::min(longest_of_tasks(settings, data::longest_text), encoder.takes().tokens);
}

/// Costs are counted on as many places, so what no host can attend to is refused before.
std::int64_t decoded_of(const Settings& settings, const models::Encoder& encoder) {
  if (encoder.decoder_start() < 0 || settings.trains_heads) return 0;
  const auto places = longest_of_tasks(settings, data::places_to_decode);
  const auto scores = sizeof(float) * static_cast<double>(places) * static_cast<double>(places);
  if (scores > host_memory())
    throw InputError(settings.data.string() + ": answers of " + std::to_string(places) +
                     " tokens, whose attention takes " +
                     std::to_string(static_cast<std::int64_t>(scores / (1 << 30))) + " GiB; this host has " +
                     std::to_string(static_cast<std::int64_t>(host_memory() / (1 << 30))));
  return places;
}

/// Before its costs are counted. Of a model that is read, the file is as large as its shapes say.
void require_memory(const Settings& settings, const models::Encoder& encoder) {
  const auto bytes = 4.0 * static_cast<double>(encoder.layout().size());
  if (bytes > host_memory())
    throw InputError((settings.model / "config.json").string() + ": the model would take " +
                     std::to_string(static_cast<std::int64_t>(bytes / (1 << 30))) + " GiB; this host has " +
                     std::to_string(static_cast<std::int64_t>(host_memory() / (1 << 30))));
}

void require_runs_by_stages(const Settings& settings, const models::Encoder& encoder) {
  if (encoder.buffers().size() > 0 || encoder.decodes(encoder.stages()))
    throw InputError("model.in_memory is \"" + settings.in_memory + "\", and the model " +
                     settings.model.string() + " is a " + encoder.architecture() +
                     ", whose stages share what they compute with; expected \"whole\"");
}

}  // namespace

models::Checkpoint Model::read(const Settings& settings, InputFiles& files) {
  models::Checkpoint checkpoint;
  const auto read = [&] {
    const bool values = !settings.random_init && !settings.by_stages();
    checkpoint = values ? models::read_checkpoint(settings.model) : models::read_architecture(settings.model);
    if (settings.random_init) require_memory(settings, *checkpoint.encoder);
    if (settings.by_stages()) {
      // It is there or missing; a fine-tuned model may come later, and is waited for.
      models::open_weights(settings.model, *checkpoint.encoder);
      start_file_ = std::make_unique<const ThetaFile>(settings.model, *checkpoint.encoder, settings.model);
      checkpoint.notes = start_file_->notes();
    }
    std::string state = settings.random_init ? "architecture found" : "found";
    for (const auto& note : checkpoint.notes) state += "; " + note;
    return state;
  };
  std::string instead = "; work is counted as for CLIP ViT-B/32";
  if (files.is_dry_run()) {
    try {
      checkpoint = models::read_architecture(settings.model);
      instead = "; work is counted by its config.json";
    } catch (const InputError&) {  // read() says what is wrong
    }
  }
  is_there_ = files.read("model", settings.model, read, instead);
  stand_in_ = !checkpoint.encoder;
  // Hugging Face's own defaults: the shape of CLIP ViT-B/32.
  if (stand_in_)
    checkpoint.encoder = models::make_encoder(R"({"model_type": "clip_vision_model"})", "stand-in");
  return checkpoint;
}

Model::Model(const Settings& settings, InputFiles& files, at::Device device)
    : seed_(settings.seed),
      by_stages_(settings.by_stages()),
      drawn_by_open_clip_(settings.drawn_by_open_clip),
      device_(device),
      checkpoint_(read(settings, files)),
      name_(settings.random_init ? "random" : "pretrained"),
      decoded_(decoded_of(settings, encoder())),
      tokens_(tokens_of(settings, encoder())),
      cost_(encoder(), tokens_, decoded_) {
  if (by_stages_ && !stand_in_) require_runs_by_stages(settings, encoder());
  const int last = encoder().stages() + 1;
  if (settings.first_stage > last && !stand_in_)
    throw InputError("finetune.first_stage is " + std::to_string(settings.first_stage) + "; the model " +
                     settings.model.string() + " has stages 0 to " + std::to_string(last));
  first_stage_ = std::min(settings.first_stage, last);
  if (drawn_by_open_clip_ && !stand_in_ && !encoder().is_drawn_by_open_clip())
    throw InputError("model.drawn_as is \"open_clip\", and the model " + settings.model.string() + " is a " +
                     encoder().architecture() +
                     "; expected a CLIPVisionModelWithProjection, which alone is drawn so");
  auto& state = checkpoint_.state;
  if (!files.is_dry_run() && settings.random_init) state = random_state();
  if (!files.is_dry_run())
    fingerprint_ = by_stages_ ? start_file_->fingerprint(layout()) : models::fingerprint(state);
  state = state.to(device_);
}

const models::State& Model::start() const {
  if (by_stages_)
    throw InputError(
        "model.in_memory is not \"whole\", and what this run measures takes θ0 whole; expected \"whole\"");
  // A model that is only counted with is now measured: any values will do.
  if (!checkpoint_.state.theta.defined()) checkpoint_.state = random_state();
  return checkpoint_.state;
}

at::Tensor Model::start_block(std::size_t block) const {
  if (!by_stages_) return layout().views(theta0())[block];
  const auto& there = layout().blocks()[block];
  const auto numbers = at::empty({there.count}, at::kFloat);
  start_file_->read(layout(), {there.offset, there.count}, numbers);
  return numbers.view(there.shape).to(device_);
}

double Model::norm() const {
  if (!by_stages_) return weights::norm(theta0());
  weights::GramSum sum(1, layout().size());
  constexpr std::int64_t at_once = 1 << 20;
  const auto size = (at_once + sum.step() - 1) / sum.step() * sum.step();
  const auto numbers = at::empty({std::min(size, layout().size())}, at::kFloat);
  for (std::int64_t begin = 0; begin < layout().size(); begin += size) {
    const auto some = numbers.narrow(0, 0, std::min(size, layout().size() - begin));
    start_file_->read(layout(), {begin, some.size(0)}, some);
    sum.add(begin, {{&some, 1}});
  }
  return std::sqrt(sum.gram().item<double>());
}

double Model::file_bytes() const {
  return start_file_ ? static_cast<double>(start_file_->bytes()) : 2.0 * static_cast<double>(layout().size());
}

models::Batch Model::random_batch(std::int64_t n) const {
  auto batch = models::random_batch(encoder(), n, tokens_, decoded_);
  batch.inputs = batch.inputs.to(device_);
  for (auto* given : batch.further())
    if (given->defined()) *given = given->to(device_);
  return batch;
}

std::vector<at::Tensor> Model::buffers(const models::State& state, at::ScalarType type) const {
  if (!state.buffers.defined()) return {};
  return encoder().buffers().views(state.buffers.to(type));
}

models::State Model::random_state() const {
  const auto seed = seed_for(seed_, "theta0");
  const auto state =
      drawn_by_open_clip_ ? encoder().random_state_of_open_clip(seed) : encoder().random_state(seed);
  return state.to(device_);
}

}  // namespace taugrid::study
