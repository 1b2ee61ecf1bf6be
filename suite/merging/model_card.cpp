// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/model_card.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "suite/config/canonical.hpp"
#include "suite/error.hpp"
#include "suite/merging/adapter.hpp"
#include "suite/merging/checkpoints.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/input_json.hpp"
#include "suite/store/input_yaml.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using store::Yaml;

constexpr std::size_t most_names = 8;

bool is_hexadecimal(const std::string& text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Whether it is letters, digits, '.', '_' and '-' alone, as each part of a name on the hub is.
bool is_plain_word(const std::string& text) {
  return !text.empty() && text.size() <= 96 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

/// Somebody's text as code in one line of Markdown, shortened, which ends neither the code nor a table's
/// cell.
std::string code(const std::string& text) {
  auto shown = store::quoted(text);
  shown.erase(shown.rfind('"'), 1).erase(0, 1);
  std::string escaped;
  for (const char c : shown) escaped += c == '`' ? std::string("'") : c == '|' ? "\\|" : std::string(1, c);
  return "`" + escaped + "`";
}

/// A path, which nobody else has, by its last step; a name on the hub as it is.
std::string short_name(const std::string& text) {
  const fs::path path(text);
  if (!path.is_absolute()) return text;
  const auto last = path.has_filename() ? path.filename() : path.parent_path().filename();
  return last.empty() ? text : last.string();
}

std::string as_codes(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const auto& name : names) {
    const auto short_one = code(short_name(name));
    if (!name.empty() && std::find(shown.begin(), shown.end(), short_one) == shown.end())
      shown.push_back(short_one);
  }
  const bool is_long = shown.size() > most_names;
  if (is_long) shown.resize(most_names);
  return fmt::format("{}{}", fmt::join(shown, ", "), is_long ? ", …" : "");
}

/// What `look` reads of others' files, which need not be there, nor right: then it says nothing.
template <class Look>
void if_it_says(const fs::path& file, const Look& look) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return;
  try {
    look();
  } catch (const InputError&) {
  } catch (const store::ReadFailure&) {
  }
}

/// An input, as far as the files beside its weights tell.
struct Origin {
  std::string name;                    ///< on the hub, or its folder's
  bool on_hub = false;                 ///< it lies in the hub's cache
  std::string revision = {};           ///< on the hub
  std::vector<std::string> digests;    ///< of its files of weights, where somebody has taken them
  std::vector<std::string> says;       ///< where it comes from
  std::optional<std::string> licence;  ///< of its card
};

/// The name on the hub and the revision of a folder in its cache: models--NAME--NAME/snapshots/REVISION.
void read_cache(const fs::path& folder, Origin& origin) {
  constexpr std::string_view begins = "models--";
  const auto snapshots = folder.parent_path();
  auto name = snapshots.parent_path().filename().string();
  if (snapshots.filename() != "snapshots" || !name.starts_with(begins)) return;
  name.erase(0, begins.size());
  const auto dashes = name.find("--");
  const auto owner = dashes == std::string::npos ? std::string() : name.substr(0, dashes);
  const auto rest = dashes == std::string::npos ? name : name.substr(dashes + 2);
  if ((dashes != std::string::npos && !is_plain_word(owner)) || !is_plain_word(rest)) return;
  origin.name = owner.empty() ? rest : owner + "/" + rest;
  origin.on_hub = true;
  if (is_hexadecimal(folder.filename().string(), 40)) origin.revision = folder.filename().string();
}

/// The SHA-256 of a file from the hub: its blob's name in the cache, or what `hf download --local-dir` has
/// written beside it (revision, digest, time) if the file has not changed since.
std::string digest_of_hub(const fs::path& file, Origin& origin) {
  std::error_code error;
  const auto target = fs::is_symlink(file, error) ? fs::read_symlink(file, error) : fs::path();
  if (target.parent_path().filename() == "blobs" && is_hexadecimal(target.filename().string(), 64))
    return target.filename().string();
  std::string digest;
  const auto beside =
      file.parent_path() / ".cache/huggingface/download" / (file.filename().string() + ".metadata");
  if_it_says(beside, [&] {
    std::istringstream lines(store::input_text(beside, "what the hub's client has written"));
    std::string revision, etag, time;
    struct stat status {};
    if (!std::getline(lines, revision) || !std::getline(lines, etag) || !std::getline(lines, time) ||
        ::stat(file.c_str(), &status) != 0 ||
        static_cast<double>(status.st_mtime) - 1 > std::strtod(time.c_str(), nullptr))
      return;
    if (is_hexadecimal(revision, 40)) origin.revision = revision;
    if (is_hexadecimal(etag, 64)) digest = etag;
  });
  return digest;
}

void read_digests(const fs::path& folder, Origin& origin) {
  std::set<fs::path> files;
  if (Adapter::is_in(folder)) {
    files.insert(folder / "adapter_model.safetensors");
  } else {
    const Weights weights(folder);
    for (const auto& entry : weights.tensors()) files.insert(weights.file_of(entry.first));
    if (const auto digest = weights.metadata("digest"); is_hexadecimal(digest, 16))
      origin.digests.push_back("FNV-1a of its tensors " + code(digest));
    if (const auto start = models::start_of(weights); is_hexadecimal(start, 16))
      origin.says.push_back("fine-tuned from the θ0 whose fingerprint is " + code(start));
  }
  for (const auto& file : files)
    if (const auto digest = digest_of_hub(file, origin); !digest.empty())
      origin.digests.push_back((files.size() > 1 ? code(file.filename().string()) + " " : "") + "SHA-256 " +
                               code(digest));
}

/// The texts that a list holds, or the one text.
std::vector<std::string> texts(const Yaml* node) {
  if (node == nullptr) return {};
  if (node->kind == Yaml::Kind::scalar) return {node->text};
  std::vector<std::string> all;
  if (node->kind == Yaml::Kind::list)
    for (const auto& value : node->values)
      if (value.kind == Yaml::Kind::scalar) all.push_back(value.text);
  return all;
}

/// Every `model` and `base_model` of a recipe of mergekit's, wherever it stands.
void add_models(const Yaml& node, std::vector<std::string>& names) {
  for (std::size_t i = 0; i < node.values.size(); ++i) {
    const bool is_named =
        node.kind == Yaml::Kind::map && (node.keys[i] == "model" || node.keys[i] == "base_model");
    if (is_named && node.values[i].kind == Yaml::Kind::scalar) names.push_back(node.values[i].text);
    add_models(node.values[i], names);
  }
}

/// The card's front matter: the model's base, and the licence, if it is a name of one.
void read_card(const fs::path& card, Origin& origin) {
  if_it_says(card, [&] {
    const auto text = store::input_text(card, "a model card");
    const auto end = text.find("\n---", 3);
    if (!text.starts_with("---\n") || end == std::string::npos) return;
    const auto front = store::yaml_of(text.substr(4, end - 3), card.string(), "a model card's front matter");
    if (const auto bases = texts(front.find("base_model")); !bases.empty())
      origin.says.push_back("made from " + as_codes(bases) + " (its card)");
    const auto licences = texts(front.find("license"));
    if (licences.size() != 1 || !is_plain_word(licences[0])) return;
    origin.says.push_back("licence " + code(licences[0]) + " (its card)");
    if (licences[0] != "other" && licences[0] != "unknown") origin.licence = licences[0];
  });
}

void read_recipes(const fs::path& folder, Origin& origin) {
  const auto say = [&](const std::string& method, const std::vector<std::string>& names, const char* file) {
    if (!method.empty())
      origin.says.push_back(fmt::format("merged by {} from {} ({})", code(method), as_codes(names), file));
  };
  if_it_says(folder / "merge.toml", [&] {
    const auto path = folder / "merge.toml";
    auto root = config::Config::translated(path, store::input_text(path, "a recipe"), {}).root();
    constexpr config::Meaning meaning = "What another merge was made of";
    std::vector<std::string> names;
    const auto add = [&](const std::string& key) {
      if (root.has(key)) names.push_back(root.word(key, meaning, ""));
      return root.has(key);
    };
    const auto step = [](const std::string& list, std::size_t i) {
      return config::join(list, config::entry_step(i));
    };
    add("base_model");
    add("checkpoints.run");
    for (std::size_t i = 0; add(step("models", i) + ".model"); ++i) continue;
    for (std::size_t s = 0; root.has(step("slices", s)); ++s)
      for (std::size_t i = 0; add(step(step("slices", s) + ".sources", i) + ".model"); ++i) continue;
    say(root.word("merge_method", meaning, ""), names, "merge.toml");
  });
  if_it_says(folder / "mergekit_config.yml", [&] {
    const auto recipe = store::input_yaml(folder / "mergekit_config.yml", "mergekit's recipe");
    std::vector<std::string> names;
    add_models(recipe, names);
    const auto method = texts(recipe.find("merge_method"));
    say(method.empty() ? "" : method[0], names, "mergekit_config.yml");
  });
}

/// A text of a configuration; empty where it says none.
std::string said_in(const fs::path& file, const char* key) {
  std::string text;
  if_it_says(file, [&] {
    const auto value = store::input_json(file, "a configuration").value(key, Json());
    if (value.is_string()) text = value.get<std::string>();
  });
  return text;
}

Origin origin_of(const fs::path& folder) {
  std::error_code error;
  const auto whole = fs::weakly_canonical(folder, error);
  Origin origin{short_name(whole.string()), false, {}, {}, {}, {}};
  read_cache(whole, origin);
  read_digests(folder, origin);
  if (const auto name = said_in(folder / "adapter_config.json", "base_model_name_or_path"); !name.empty())
    origin.says.push_back("an adapter of " + as_codes({name}) + " (adapter_config.json)");
  if (const auto name = said_in(folder / "config.json", "_name_or_path"); !name.empty())
    origin.says.push_back("loaded from " + as_codes({name}) + " (config.json)");
  read_card(folder / "README.md", origin);
  read_recipes(folder, origin);
  return origin;
}

/// A fence that is longer than each row of backticks in the text.
std::string fence(const std::string& text) {
  std::size_t longest = 2, row = 0;
  for (const char c : text) longest = std::max(longest, row = c == '`' ? row + 1 : 0);
  return std::string(longest + 1, '`');
}

}  // namespace

std::string model_card(const Recipe& recipe, std::string_view method, const std::string& made_by,
                       const std::string& record) {
  std::vector<fs::path> folders = {recipe.base};
  const auto add = [&](const fs::path& folder) {
    if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
  };
  for (const auto& slice : recipe.slices) add(slice.base_model);
  const auto bases = folders.size();
  for (const auto& model : recipe.models) add(model);
  std::vector<Origin> inputs;
  for (const auto& folder : folders) inputs.push_back(origin_of(folder));

  // An adapter's base is what it is loaded on, and nothing else.
  const bool is_extraction = recipe.adapter && recipe.models.size() == 1;
  std::string front = "---\nbase_model:", names;
  std::set<std::string> on_hub;
  for (std::size_t i = 0; i < (recipe.adapter ? 1 : inputs.size()); ++i)
    if (inputs[i].on_hub && on_hub.insert(inputs[i].name).second)
      names += "\n- " + config::canonical(inputs[i].name);
  front += names.empty() ? " []" : names;
  std::error_code error;
  front += fmt::format("\nlibrary_name: {}\n", recipe.adapter ? "peft"
                                               : fs::exists(recipe.base / "modules.json", error)
                                                   ? "sentence-transformers"
                                                   : "transformers");
  const auto& licence = inputs.front().licence;
  if (licence &&
      std::all_of(inputs.begin(), inputs.end(), [&](const auto& input) { return input.licence == licence; }))
    front += "license: " + config::canonical(*licence) + "\n";
  front += std::string("tags:\n") + (is_extraction ? "" : "- merge\n") + (recipe.adapter ? "- lora\n" : "") +
           "- taugrid\n---\n";

  const auto title = recipe.out.filename().string();
  auto text = front + "# " + (is_plain_word(title) ? title : code(title)) + "\n\n";
  text += is_extraction ? "The difference of one model from its base"
                        : fmt::format("A merge of {} model{}", recipe.models.size(),
                                      recipe.models.size() == 1 ? "" : "s");
  text += std::string(recipe.adapter ? ", as a LoRA adapter of the base" : "") + ", " + made_by + ".\n\n";
  text += fmt::format("## Method\n\n`{}`. {}.\n\n", recipe.method_name, method);
  text +=
      "## Inputs\n\n| | folder or name on the hub | weights | says of itself |\n| --- | --- | --- | --- |\n";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& input = inputs[i];
    auto weights = input.digests;
    if (!input.revision.empty()) weights.insert(weights.begin(), "revision " + code(input.revision));
    text += fmt::format(
        "| {} | {} | {} | {} |\n", i < bases ? "base" : "model",
        input.on_hub ? fmt::format("[{0}](https://huggingface.co/{0})", input.name) : code(input.name),
        weights.empty() ? "no digest beside them" : fmt::format("{}", fmt::join(weights, "<br>")),
        input.says.empty() ? "nothing" : fmt::format("{}", fmt::join(input.says, "<br>")));
  }
  const auto fenced = fence(record);
  text += fmt::format("\n## Recipe\n\n`merge.toml`, which makes it again:\n\n{}toml\n{}{}\n", fenced, record,
                      fenced);
  return text;
}

}  // namespace taugrid::merging
