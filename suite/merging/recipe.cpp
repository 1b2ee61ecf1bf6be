// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/recipe.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <nlohmann/json.hpp>

#include "suite/config/canonical.hpp"
#include "suite/error.hpp"
#include "suite/merging/checkpoints.hpp"
#include "suite/merging/side_files.hpp"
#include "suite/merging/table.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/mapped_file.hpp"
#include "suite/store/safetensors_writer.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;

constexpr config::Meaning of_root = "What is merged, how, and where to";
constexpr config::Meaning of_models = "The models that are merged, each a table in the list";
constexpr config::Meaning of_method = "How the task vectors τ = θ − θ0 become one";
constexpr config::Range weight_range = {-1e3, 1e3};

double read_lambda(config::Section& parameters) {
  return parameters.real("lambda", "The merged model is θ0 + λτ", 1, weight_range);
}

/// The tables of the array `key`: at least one.
std::vector<config::Section> tables(config::Section& root, const std::string& key,
                                    const config::Meaning& meaning) {
  std::vector<std::string> steps;
  while (root.has(key + "." + config::entry_step(steps.size())))
    steps.push_back(key + "." + config::entry_step(steps.size()));
  const auto found = root.parts(steps, "[" + key + "]", meaning);  // by name: "models.#10" before "models.#2"
  std::vector<config::Section> ordered;
  for (const auto& step : steps) ordered.push_back(found.at(step));
  if (steps.empty()) {
    if (!found.empty()) return {found.begin()->second};  // for the reference
    root.refuse(key, "expected a list of tables, such as [ { model = \"FOLDER\" } ]");
  }
  return ordered;
}

Recipe read(config::Config& config) {
  Recipe recipe;
  auto root = config.section("", of_root);
  if (root.has("merge_method") && !root.is_list("merge_method")) {
    const auto asked = root.required_word("merge_method", of_method);
    if (const auto& all = names();
        std::find(all.begin(), all.end(), asked) != all.end() && entry(asked).takes_data())
      root.refuse("merge_method", "is " + config::canonical(asked) +
                                      ", which needs data; use [merging] in an experiment (taugrid run)");
  }
  recipe.method_name = root.required_word("merge_method", of_method, names_of_vectors());
  recipe.base =
      root.path("base_model",
                "The folder of θ0, from which the models were fine-tuned, and of which the result has the "
                "configuration; linear and slerp do without",
                {});
  recipe.out = root.required_path("out", "The folder to be written; there must be none as yet");
  if (!recipe.out.has_filename()) recipe.out = recipe.out.parent_path();  // it ended in a slash
  for (auto& model : tables(root, "models", of_models)) {
    recipe.models.push_back(
        model.required_path("model",
                            "The folder of a model: config.json and model.safetensors, or "
                            "its parts and their index"));
    recipe.weights.push_back(model.real("weight", "w: its vector counts w times", 1, weight_range));
  }
  return recipe;
}

bool same(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) || fs::weakly_canonical(a, error) == fs::weakly_canonical(b, error);
}

void require_free(const Recipe& recipe) {
  const auto refuse = [&](const std::string& problem) {
    throw InputError("out = " + config::canonical(recipe.out.string()) + ": " + problem);
  };
  auto inputs = recipe.models;
  inputs.push_back(recipe.base);
  for (const auto& input : inputs) {
    if (same(recipe.out, input)) refuse("is an input of this merge, which would be overwritten");
  }
  std::error_code error;
  if (fs::is_symlink(recipe.out, error) ||
      (fs::exists(recipe.out, error) &&
       !(fs::is_directory(recipe.out, error) && fs::is_empty(recipe.out, error))))
    refuse("is there already; expected a folder that is not, or is empty");
}

/// Where the merged tensors are: in the base's own parts.
void write_index(const Weights& base, const fs::path& folder) {
  nlohmann::json places;
  std::uint64_t bytes = 0;
  for (const auto& part : base.parts()) {
    for (const auto& [name, info] : part.tensors.tensors()) {
      places[name] = part.file;
      bytes += static_cast<std::uint64_t>(c10::multiply_integers(info.shape)) * c10::elementSize(info.scalar);
    }
  }
  const nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", places}};
  store::write_atomically(folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

/// The merged files, tensor by tensor.
class Output {
 public:
  Output(const Weights& base, const fs::path& folder) {
    for (const auto& part : base.parts()) {
      auto& writer = writers_.emplace_back(folder / part.file, part.tensors.tensors(),
                                           std::map<std::string, std::string>{{"format", "pt"}});
      for (const auto& [name, info] : part.tensors.tensors()) {
        writer_of_[name] = &writer;
        if (!at::isFloatingType(info.scalar)) writer.write(name, 0, part.tensors.tensor(name).view({-1}));
      }
    }
  }
  void write(const std::string& name, std::int64_t begin, const at::Tensor& numbers) {
    writer_of_.at(name)->write(name, begin, numbers);
  }
  void commit() {
    for (auto& writer : writers_) writer.commit();
  }

 private:
  std::list<store::SafetensorsWriter> writers_;
  std::map<std::string, store::SafetensorsWriter*> writer_of_;
};

}  // namespace

Recipe Recipe::read(const fs::path& path) {
  auto config = config::Config::load(path);
  auto recipe = merging::read(config);
  auto root = config.root();
  auto parameters = config.section("parameters", "The method's own");
  recipe.method = make(recipe.method_name, parameters);
  recipe.lambda = read_lambda(parameters);
  config.finish();
  recipe.method->check(path.string() + ": models", recipe.weights);
  // As mergekit has it: t counts from base_model, where that is one of the two.
  if (recipe.method_name == "slerp" && !recipe.base.empty() && same(recipe.models[1], recipe.base))
    std::swap(recipe.models[0], recipe.models[1]);
  if (recipe.base.empty()) {
    if (recipe.method->needs_start() || recipe.lambda != 1)
      root.refuse("base_model", fmt::format("missing; expected the folder of θ0, which {}{} needs",
                                            recipe.method_name, recipe.lambda != 1 ? " with lambda" : ""));
    recipe.base = recipe.models.front();  // its vector is zero, and the others' are taken from it
  }
  for (std::size_t i = 0; i < recipe.models.size() && recipe.method->needs_start(); ++i) {
    if (!same(recipe.models[i], recipe.base)) continue;
    root.refuse(fmt::format("models.{}.model", config::entry_step(i)),
                "is the base_model, whose vector is zero and would count as a model's; leave it out");
  }
  recipe.resolved = config.resolved();
  return recipe;
}

std::vector<config::SectionEntry> recipe_reference() {
  auto config = config::Config::describing();
  static_cast<void>(read(config));
  auto sections = config.reference();
  for (const auto& name : names_of_vectors()) {
    auto of_method = config::Config::describing();
    auto parameters = of_method.section("parameters", entry(name).meaning);
    static_cast<void>(make(name, parameters));
    static_cast<void>(read_lambda(parameters));
    sections.push_back(of_method.reference().front());
    sections.back().owner = name;
  }
  return sections;
}

Report merge(const Recipe& recipe, const std::string& made_by, const std::function<void()>& look) {
  const at::NoGradGuard no_grad;
  require_free(recipe);
  const Weights base(recipe.base);
  const std::vector<Weights> models(recipe.models.begin(), recipe.models.end());
  const CheckpointVectors vectors(base, models);
  if (recipe.method->needs_start()) vectors.require_one_start();
  Report report;
  report.numbers = vectors.length();
  report.bytes = base.bytes();
  for (const auto& model : models) report.bytes += model.bytes();

  store::AtomicFolder folder(recipe.out);
  copy_side_files(base.folder(), recipe.models, folder.path(), [] {});
  if (base.in_parts()) write_index(base, folder.path());
  Output output(base, folder.path());
  report.merged =
      recipe.method->merge(vectors, recipe.weights, [&](std::int64_t begin, const at::Tensor& tau) {
        vectors.add_to_theta0(begin, tau, recipe.lambda,
                              [&](const std::string& name, std::int64_t from, const at::Tensor& numbers) {
                                output.write(name, from, numbers);
                              });
      });
  output.commit();
  store::require_unchanged();
  store::write_atomically(folder.path() / "merge.toml",
                          fmt::format("# {}\n# {} numbers, density {:.6f} of the merged vector\n{}", made_by,
                                      report.numbers, report.merged.density, recipe.resolved));
  folder.commit();
  look();
  return report;
}

}  // namespace taugrid::merging
