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
#include <optional>
#include <set>

#include "suite/config/canonical.hpp"
#include "suite/error.hpp"
#include "suite/merging/checkpoints.hpp"
#include "suite/merging/side_files.hpp"
#include "suite/merging/table.hpp"
#include "suite/models/tensor_names.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/mapped_file.hpp"
#include "suite/store/quoted.hpp"
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
  recipe.dtype =
      root.word("dtype",
                "The type that floating-point tensors are written in; base: each in the base's. They are "
                "merged in float32, whatever the models' types",
                "base", {"base", "float32", "float16", "bfloat16"});
  if (!recipe.out.has_filename()) recipe.out = recipe.out.parent_path();  // it ended in a slash
  for (auto& model : tables(root, "models", of_models)) {
    recipe.models.push_back(model.required_path(
        "model",
        "The folder of a model: config.json and model.safetensors, or "
        "its parts and their index; or of a LoRA adapter of base_model, as PEFT saves it"));
    recipe.weights.push_back(model.real("weight", "w: its vector counts w times", 1, weight_range));
  }
  return recipe;
}

std::optional<at::ScalarType> type_of(const std::string& dtype) {
  if (dtype == "float32") return at::kFloat;
  if (dtype == "float16") return at::kHalf;
  if (dtype == "bfloat16") return at::kBFloat16;
  return std::nullopt;
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

/// The merged files: the base's own parts and tensors, in the types that were asked for.
class Output {
 public:
  Output(const Weights& base, const MatchedTensors& matched, std::optional<at::ScalarType> dtype,
         const fs::path& folder, const std::function<void()>& go_on)
      : base_(base), matched_(matched), dtype_(dtype), go_on_(go_on) {
    nlohmann::json places;
    std::uint64_t bytes = 0;
    std::map<fs::path, store::SafetensorsWriter::Contents> files;
    for (const auto& [name, info] : base.tensors()) {
      const auto file = base.file_of(name).filename();
      const auto type = written_as(info.scalar);
      files[file][base.stored_name(name)] = {type, info.shape};
      bytes += static_cast<std::uint64_t>(c10::multiply_integers(info.shape)) * c10::elementSize(type);
      places[base.stored_name(name)] = file.string();
    }
    std::map<fs::path, store::SafetensorsWriter*> writers;
    for (const auto& [file, contents] : files)
      writers[file] = &writers_.emplace_back(folder / file, contents,
                                             std::map<std::string, std::string>{{"format", "pt"}});
    for (const auto& [name, info] : base.tensors())
      writer_of_[name] = writers.at(base.file_of(name).filename());
    if (base.in_parts())
      store::write_atomically(
          folder / "model.safetensors.index.json",
          nlohmann::json{{"metadata", {{"total_size", bytes}}}, {"weight_map", places}}.dump(2) + "\n");
    carry_over();
  }

  /// Merged numbers of a tensor, from `begin` on.
  void write(const std::string& name, std::int64_t begin, const at::Tensor& numbers) {
    put(name, begin, numbers, /*merged=*/true);
    const auto [first, last] = matched_.doubles.equal_range(name);
    for (auto twin = first; twin != last; ++twin) put(twin->second, begin, numbers, /*merged=*/true);
  }
  void commit() {
    for (auto& writer : writers_) writer.commit();
  }

 private:
  at::ScalarType written_as(at::ScalarType scalar) const {
    const bool is_merged_type = scalar == at::kFloat || scalar == at::kHalf || scalar == at::kBFloat16;
    return dtype_ && is_merged_type ? *dtype_ : scalar;
  }

  /// All that is not merged, by stretches: a tensor may be larger than memory.
  void carry_over() {
    constexpr std::int64_t stretch = std::int64_t{1} << 20;
    std::set<std::string> merged(matched_.merged.begin(), matched_.merged.end());
    for (const auto& [other, name] : matched_.doubles) merged.insert(name);
    at::Tensor own;
    for (const auto& [name, info] : base_.tensors()) {
      const auto count = c10::multiply_integers(info.shape);
      for (std::int64_t begin = 0; begin < count && !merged.contains(name); begin += stretch)
        put(name, begin, base_.numbers(name, begin, std::min(stretch, count - begin), own), /*merged=*/false);
    }
  }

  /// Throws InputError where the type cannot hold a merged number, or one of the base's that another type
  /// holds.
  void put(const std::string& name, std::int64_t begin, const at::Tensor& numbers, bool merged) {
    go_on_();
    const auto type = written_as(base_.tensors().at(name).scalar);
    const auto written = numbers.to(type);
    if ((merged || type != numbers.scalar_type()) &&
        !std::isfinite(written.sum(at::kDouble).item<double>()) &&
        (merged || !at::isfinite(written).eq(at::isfinite(numbers)).all().item<bool>()))
      throw InputError(fmt::format("{}: {} {} has numbers that {} cannot hold", base_.folder().string(),
                                   merged ? "the merged" : "the base's", store::quoted(name),
                                   at::toString(type)));
    writer_of_.at(name)->write(base_.stored_name(name), begin, written);
  }

  const Weights& base_;
  const MatchedTensors& matched_;
  std::optional<at::ScalarType> dtype_;
  const std::function<void()>& go_on_;
  std::list<store::SafetensorsWriter> writers_;
  std::map<std::string, store::SafetensorsWriter*> writer_of_;
};

/// The configuration says in which type the weights are loaded.
void say_dtype(const fs::path& config, const std::string& dtype) {
  auto json = nlohmann::ordered_json::parse(store::input_text(config, "a configuration"), nullptr, false);
  for (const auto* key : {"torch_dtype", "dtype"}) {
    if (json.contains(key)) json[key] = dtype;
  }
  store::write_atomically(config, json.dump(2) + "\n");
}

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

Report merge(const Recipe& recipe, const std::string& made_by, const std::function<void()>& look,
             const std::function<void()>& go_on) {
  const at::NoGradGuard no_grad;
  require_free(recipe);
  Weights base(recipe.base);
  base.rename(models::current_name);
  std::vector<Model> models;
  std::vector<fs::path> whole;  // adapters have no side files that a result needs
  for (const auto& folder : recipe.models) {
    models.push_back(open_model(folder, base));
    if (std::holds_alternative<Weights>(models.back())) {
      whole.push_back(folder);
    } else if (recipe.method->needs_full_rank()) {
      throw InputError(
          fmt::format("{}: is an adapter, of whose matrices {} takes more singular vectors than they "
                      "have; expected parameters.space = \"core\"",
                      folder.string(), recipe.method_name));
    }
  }
  const CheckpointVectors vectors(base, models, go_on);
  if (recipe.method->needs_start()) vectors.require_one_start();
  Report report;
  report.numbers = vectors.length();
  report.notes = base.notes();
  for (const auto& model : models)
    report.notes.insert(report.notes.end(), notes_of(model).begin(), notes_of(model).end());
  report.notes.insert(report.notes.end(), vectors.matched().notes.begin(), vectors.matched().notes.end());
  report.bytes = static_cast<double>(base.bytes());
  for (const auto& model : models) report.bytes += static_cast<double>(bytes_of(model));

  store::AtomicFolder folder(recipe.out);
  copy_side_files(base.folder(), whole, folder.path(), go_on);
  if (recipe.dtype != "base") say_dtype(folder.path() / "config.json", recipe.dtype);
  Output output(base, vectors.matched(), type_of(recipe.dtype), folder.path(), go_on);
  report.merged =
      recipe.method->merge(vectors, recipe.weights, [&](std::int64_t begin, const at::Tensor& tau) {
        vectors.add_to_theta0(begin, tau, recipe.lambda,
                              [&](const std::string& name, std::int64_t from, const at::Tensor& numbers) {
                                output.write(name, from, numbers);
                              });
      });
  output.commit();
  store::require_unchanged();
  auto comment = fmt::format("# {}\n# {} numbers, density {:.6f} of the merged vector\n", made_by,
                             report.numbers, report.merged.density);
  for (const auto& note : report.notes) comment += "# " + note + "\n";
  store::write_atomically(folder.path() / "merge.toml", comment + recipe.resolved);
  folder.commit();
  look();
  return report;
}

}  // namespace taugrid::merging
