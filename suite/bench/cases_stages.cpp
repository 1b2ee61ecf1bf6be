// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A forward pass of a model that is held a stage at a time ([model] in_memory = "stages"), from files in the
// page cache, over 256 tokens. What bounds it is the same pass of the model in memory. Models have the shape
// of Llama-3.2-3B: four of its layers with a small vocabulary, and all of it, 3.2 billion parameters in
// bfloat16 and in parts, which with two fine-tuned models takes 20 GB in the system's folder for temporary
// files (TMPDIR), or in that of --dump, where they stay beside an experiment file of linearity and addition.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/comm/runtime.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/models/registry.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/results.hpp"
#include "suite/store/safetensors.hpp"
#include "suite/study/study.hpp"

namespace taugrid::bench {
namespace {

constexpr std::int64_t texts = 4, tokens = 64, label_words = 4;

struct LlamaSize {
  const char* name;
  int layers;
  std::int64_t vocabulary;
  double bytes;  ///< of three models, about
};
constexpr LlamaSize some_layers = {"llama_layers", 4, 4096, 3e9};
constexpr LlamaSize llama_3b = {"llama_3b", 28, 128256, 20e9};

std::string config_of(const LlamaSize& size) {
  return fmt::format(R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 3072,
  "intermediate_size": 8192, "num_hidden_layers": {}, "num_attention_heads": 24, "num_key_value_heads": 8,
  "head_dim": 128, "max_position_embeddings": 131072, "vocab_size": {}, "rms_norm_eps": 1e-5,
  "tie_word_embeddings": true, "rope_theta": 500000.0, "rope_scaling": {{"rope_type": "llama3", "factor": 32.0,
  "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192}}}})",
                     size.layers, size.vocabulary);
}

/// A model at random, a stage of it in memory: matrices of deviation 0.02 and norms of 1, a part of the model
/// a file.
void write_model(const std::filesystem::path& folder, const models::Encoder& encoder, std::uint64_t seed) {
  std::filesystem::create_directories(folder);
  store::write_atomically(folder / "config.json", encoder.config_json());
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  nlohmann::json places = nlohmann::json::object();
  std::uint64_t bytes = 0;
  const auto& layout = encoder.layout();
  for (int part = 0; part <= encoder.stages() + 1; ++part) {
    store::TensorFile file;
    for (const auto& block : layout.blocks()) {
      if (block.stage != part) continue;
      for (const auto& each : layout.parameters()) {
        if (each.offset < block.offset || each.offset >= block.offset + block.count) continue;
        auto numbers = each.kind == autodiff::Kind::norm
                           ? at::ones(each.shape, at::kBFloat16)
                           : at::empty(each.shape, at::kBFloat16).normal_(0, 0.02, generator);
        bytes += numbers.nbytes();
        file.tensors[each.name] = std::move(numbers);
      }
    }
    if (file.tensors.empty()) continue;
    const auto name = fmt::format("model-{:05}.safetensors", part);
    for (const auto& entry : file.tensors) places[entry.first] = name;
    store::write_safetensors(folder / name, file);
  }
  const nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", places}};
  store::write_atomically(folder / "model.safetensors.index.json", index.dump());
}

void write_texts(const Fixture& x, const std::string& name, std::int64_t vocabulary) {
  const auto path = x.folder() / "data" / (name + ".h5");
  std::filesystem::create_directories(path.parent_path());
  auto generator = at::make_generator<at::CPUGeneratorImpl>(name.size());
  store::ResultsWriter out(path, x.world());
  for (const auto* attribute : {"task", "source", "license"}) out.attribute("/", attribute, name);
  out.attribute("/", "modality", std::string("text"));
  out.put("/head/tokens", at::arange(label_words, at::kLong), {"class"});
  out.attribute("/head", "kind", std::string("words"));
  out.put_text("/class_names", {"a", "b", "c", "d"}, "class");
  for (const std::string split : {"train", "validation", "test"}) {
    const auto rows = split + " text";
    out.put("/" + split + "/inputs", at::randint(0, vocabulary, {texts, tokens}, generator, at::kInt),
            {rows, "token"});
    out.put("/" + split + "/lengths", at::full({texts}, tokens, at::kInt), {rows});
    out.put("/" + split + "/labels", at::randint(0, label_words, {texts}, generator, at::kLong), {rows});
  }
  out.commit();
}

struct Stages {
  Stages(const Fixture& x, const LlamaSize& size)
      : experiment(write(x, size)), config(config::Config::load(experiment)) {
    study.emplace(config, x.runtime().device());
  }

  /// Models, tasks and an experiment, in the fixture's folder.
  static std::filesystem::path write(const Fixture& x, const LlamaSize& size) {
    const auto folder = x.folder() / size.name;
    std::filesystem::create_directories(folder);
    const auto room = static_cast<double>(std::filesystem::space(x.folder()).available);
    if (room < 1.2 * size.bytes)
      throw std::runtime_error(
          fmt::format("{}: has room for {:.0f} GB; {} takes {:.0f} GB; TMPDIR chooses another",
                      x.folder().string(), room / 1e9, size.name, size.bytes / 1e9));
    const auto encoder = models::make_encoder(config_of(size), "the bench's decoder");
    write_model(folder / "model", *encoder, 12);
    std::uint64_t seed = 13;
    for (const std::string task : {"one", "other"}) {
      write_model(folder / "tuned" / "standard" / task, *encoder, seed++);
      write_texts(x, task, size.vocabulary);
    }
    const auto path = x.folder() / (std::string(size.name) + ".toml");
    store::write_atomically(path, fmt::format("[run]\nname = \"{0}\"\n\n[model]\npath = \"{0}/model\"\n"
                                              "in_memory = \"stages\"\n\n[data]\nfolder = \"data\"\n"
                                              "tasks = [\"one\", \"other\"]\nevaluation_points = {1}\n"
                                              "evaluation_batch = {1}\n\n[finetune]\ngiven = [\"standard\"]\n"
                                              "regimes = [\"standard\"]\ncheckpoints = \"{0}/tuned\"\n\n"
                                              "[linearity]\npoints = {1}\nbatch = {1}\n\n[addition]\n"
                                              "alpha = [0.0, 0.5, 1.0]\n",
                                              size.name, texts));
    return path;
  }

  std::filesystem::path experiment;
  config::Config config;
  std::optional<study::Study> study;
  at::Tensor outputs;
};

Work forward(const Fixture& x, const LlamaSize& size) {
  const auto state = std::make_shared<Stages>(x, size);
  const auto& study = *state->study;
  const auto points = std::make_shared<study::Points>(study.samples.of(0, study::Split::test, texts).points);
  Work work;
  at::Tensor expected;
  {
    const auto whole = models::read_checkpoint(study.settings.model).state.to(study.device);
    const auto in_memory = [&] { expected = study.evaluation.output(x.world(), whole, 0, *points); };
    in_memory();  // the first pays what is paid once
    work.bound = {x.fastest(2, in_memory), "in memory"};
  }
  work.run = [state, points, &x] {
    study::StageWeights weights(*state->study, x.world());
    weights.add(study::Edit::start());
    state->study->evaluation.outputs_by_stages(
        x.world(), weights, 0, *points, [&](std::int64_t, const at::Tensor& z) { state->outputs = z; });
  };
  work.flops = static_cast<double>(texts) * study.model.cost().forward();
  work.bytes = study.model.file_bytes();
  work.items = static_cast<double>(texts * tokens);
  work.unit = "tokens";
  work.error = [state, expected] { return at::equal(state->outputs, expected) ? 0.0 : 1.0; };
  return work;
}

}  // namespace

std::vector<Case> stage_cases(const Fixture& x) {
  return {{"stages/llama_layers", [&x] { return forward(x, some_layers); }, true},
          {"stages/llama_3b", [&x] { return forward(x, llama_3b); }, true}};
}

}  // namespace taugrid::bench
