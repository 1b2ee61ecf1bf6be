// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/study.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels/full_products.hpp"
#include "suite/comm/host_products.hpp"
#include "suite/error.hpp"
#include "suite/store/quoted.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::study {

namespace {

/// Before a file is read: what is held a stage at a time is measured alone.
const Settings& checked(const Settings& settings) {
  if (!settings.by_stages()) return settings;
  const auto refuse = [&](const std::string& what, const std::string& instead = "whole") {
    throw InputError(
        fmt::format(R"(model.in_memory is "{}", and {}, or "{}")", settings.in_memory, what, instead));
  };
  if (settings.by_stretches() && settings.ranks_per_unit < 2)
    refuse("run.ranks_per_unit is 1; expected ranks that share out the stages, 2 or more", "stages");
  if (settings.random_init) refuse("model.init is \"random\"; expected \"pretrained\"");
  for (const auto& name : settings.regimes)
    if (settings.trains(name))
      refuse("finetune.regimes trains " + name + "; expected regimes that finetune.given names");
  if (settings.first_stage > 0)
    refuse(fmt::format("finetune.first_stage is {}; expected 0", settings.first_stage));
  if (settings.trains_heads) refuse("[heads] trains on whole models; expected a run without this section");
  return settings;
}

/// On the average over the matrices of all stages; 0 where there is none.
double numbers_of_matrix(const autodiff::Layout& layout) {
  double numbers = 0, matrices = 0;
  for (const auto& block : layout.blocks()) {
    if (block.stage == 0 || block.shape.size() != 2) continue;
    numbers += static_cast<double>(block.count);
    matrices += 1;
  }
  return matrices > 0 ? numbers / matrices : 0;
}

}  // namespace

Study::Study(config::Config& config, InputFiles& files, at::Device on, int ranks_on_host)
    : device(on),
      settings(read_settings(config, files)),
      bound(MemoryBound::of(checked(settings).memory, on, ranks_on_host)),
      model(settings, files, on),
      tasks(settings, model, files),
      readouts(settings, model, tasks, files.is_dry_run()),
      samples(settings, model, tasks, readouts, bound),
      vectors(settings, model, tasks, bound, files.is_dry_run()),
      edits(settings, model, samples, vectors),
      evaluation(settings, model, readouts) {
  if (device.is_cuda()) allow_reduced_products(settings.precision == "tf32");
  if (device.is_cpu())
    set_host_products(settings.precision == "bf16_products"
                          ? HostProducts::rounded
                          : comm::fastest_host_products(numbers_of_matrix(model.layout())));
  if (model.is_stand_in()) return;
  if (const auto module = settings.low_rank.unmatched(model.layout()); !module.empty())
    throw InputError(
        fmt::format("finetune.lora_modules: {} is no linear layer of attention or of an MLP of "
                    "the model {}",
                    store::quoted(module), settings.model.string()));
  for (const auto& name : settings.regimes) {
    if (!regime(name).low_rank) continue;
    for (const auto& matrix : settings.low_rank.matrices(model.layout(), trained_blocks(name))) {
      if (settings.low_rank.rank > std::min(matrix.rows(), matrix.columns()))
        throw InputError(
            fmt::format("finetune.lora_rank is {}; {} of the model {} is [{},{}]; expected at most its rank",
                        settings.low_rank.rank, matrix.parameter.name, settings.model.string(), matrix.rows(),
                        matrix.columns()));
    }
  }
  for (const auto& name : settings.regimes) {
    if (!regime(name).linear || !readouts.read_choices()) continue;
    throw InputError(
        "finetune.regimes: " + name +
        " is linear, and there are rows with choices of their own: their log-probabilities are the "
        "output, of which a linear model's training loss has no bound; expected others");
  }
  for (const auto& name : settings.regimes) {
    if (trained_parameters(name) > 0) continue;
    throw InputError(fmt::format(
        "finetune.regimes: {} trains nothing of the model {}{}", name, settings.model.string(),
        settings.first_stage > 0 ? fmt::format(" from finetune.first_stage = {} on", settings.first_stage)
                                 : ""));
  }
}

std::vector<bool> Study::trained_blocks(const std::string& name) const {
  const auto& source = regime(name).source;
  if (!source.empty()) return trained_blocks(source);
  auto trained =
      study::trained_blocks(regime(name), model.layout(), model.first_stage(), settings.words_frozen);
  if (regime(name).low_rank) {
    const auto moved = low_rank();
    const auto& blocks = model.layout().blocks();
    for (std::size_t i = 0; i < blocks.size(); ++i)
      trained[i] = trained[i] && moved.adapts(blocks[i], model.layout());
  }
  // A stand-in for a model that is not there may have nothing of what the regime trains: work is counted as
  // if all were trained.
  if (model.is_stand_in() && !trained.empty() && study::trained_parameters(trained, model.layout()) == 0)
    trained.assign(trained.size(), true);
  const auto& encoder = model.encoder();
  if (encoder.takes().text() || encoder.vocabulary_bias() < 0 || readouts.read_words()) return trained;
  // No task reads the model's own classifier: it stays as it is, where weight decay alone would move it.
  if (trained.empty()) trained.assign(model.layout().blocks().size(), true);
  trained[static_cast<std::size_t>(encoder.vocabulary_block())] = false;
  trained[static_cast<std::size_t>(encoder.vocabulary_bias())] = false;
  return trained;
}

std::vector<bool> Study::free_blocks() const {
  return model.first_stage() == 0 ? std::vector<bool>{} : trained_blocks("standard");
}

std::int64_t Study::free_parameters() const {
  return study::trained_parameters(free_blocks(), model.layout());
}

Sample Study::free_sample(std::size_t t, std::int64_t n, bool other) const {
  return samples.of(t, Split::train, n, other && readouts.of(t).reads_places() ? 0 : model.first_stage());
}

LowRank Study::low_rank() const {
  auto moved = settings.low_rank;
  if (model.is_stand_in()) moved.modules.clear();
  return moved;
}

std::int64_t Study::trained_parameters(const std::string& name) const {
  const auto trained = trained_blocks(name);
  return regime(name).low_rank ? low_rank().parameters(model.layout(), trained)
                               : study::trained_parameters(trained, model.layout());
}

int Study::first_changed_stage(const std::string& name) const {
  if (model.first_stage() == 0) return 0;
  // A regime that goes on from another's vectors changes what that one changed, too; both begin at
  // first_stage.
  return std::min(models::first_trained_stage(model.layout(), trained_blocks(name)), model.first_stage());
}

Sample Study::sample(const std::string& name, std::size_t t, Split split, std::int64_t n) const {
  return samples.of(t, split, n, first_changed_stage(name));
}

at::Tensor Study::sums(at::IntArrayRef shape) const {
  return at::zeros(shape, at::TensorOptions(at::kDouble).device(device));
}

}  // namespace taugrid::study
