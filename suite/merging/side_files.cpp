// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/side_files.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "suite/error.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/input_json.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t piece = std::uint64_t{1} << 20;

/// Whether a file of this name, in the folder itself, says what a model is and how it is used.
bool is_known(const std::string& name) {
  static const std::set<std::string> names = {
      // configurations
      "config.json", "open_clip_config.json", "modules.json", "sentence_bert_config.json",
      "config_sentence_transformers.json",
      // what comes before the model
      "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"};
  return names.contains(name);
}

}  // namespace

const std::set<std::string>& tokenizers_not_read() {
  static const std::set<std::string> names = {"tokenizer.model",     "sentencepiece.bpe.model",
                                              "sentencepiece.model", "spiece.model",
                                              "spm.model",           "spm_char.model",
                                              "source.spm",          "target.spm",
                                              "tekken.json",         "vocab.bpe",
                                              "prophetnet.tokenizer"};
  return names;
}

namespace {

/// Whether it is a tokenizer's, or names tokens by their ids.
bool is_of_tokenizer(const std::string& name) {
  static const std::set<std::string> names = {
      "generation_config.json",
      // tokenizers
      "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
      "vocab.txt", "merges.txt", "bpe.codes", "dict.txt", "normalizer.json", "emoji.json",
      "target_vocab.json", "vocab-src.json", "vocab-tgt.json", "entity_vocab.json", "chat_template.json",
      "chat_template.jinja"};
  return names.contains(name) || tokenizers_not_read().contains(name) || name.ends_with(".tiktoken");
}

/// Whether a file tells under which terms the model stands.
bool is_licence(const std::string& name) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  const auto begins = [&](const char* word) { return upper.starts_with(word); };
  return begins("LICENSE") || begins("LICENCE") || begins("COPYING") || begins("NOTICE") ||
         begins("USE_POLICY");
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && !name.starts_with(".") && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

/// Whether anything has this name, be it a link that leads nowhere: whoever reads it says what it is.
bool is_listed(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

/// Adds the modules of custom code that an auto_map names ("modeling_x.Model", or a list of such), but for
/// those of other repositories ("someone/else--modeling_x.Model").
void add_modules(const Json& named, std::vector<std::string>& modules) {
  if (named.is_string()) {
    const auto text = named.get<std::string>();
    if (const auto dot = text.find('.'); dot != std::string::npos && text.find("--") == std::string::npos)
      modules.push_back(text.substr(0, dot));
  } else if (named.is_object() || named.is_array()) {
    for (const auto& each : named) add_modules(each, modules);
  }
}

/// The modules of its own folder that a Python file imports: "from .name import …", "import .name".
std::vector<std::string> imported(const std::string& code) {
  std::vector<std::string> modules;
  std::istringstream lines(code);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second;
    if (words >> first >> second && (first == "from" || first == "import") && second.starts_with("."))
      modules.push_back(second.substr(1, second.find_first_of(".,;", 1) - 1));
  }
  return modules;
}

/// The custom code that the folder's configurations name, and what this imports.
std::set<std::string> custom_code(const fs::path& base) {
  std::vector<std::string> modules;
  for (const auto* name : {"config.json", "tokenizer_config.json", "preprocessor_config.json",
                           "processor_config.json", "video_preprocessor_config.json"}) {
    if (!is_listed(base / name)) continue;
    const auto json = store::input_json(base / name, "a Hugging Face configuration");
    if (const auto map = json.find("auto_map"); map != json.end()) add_modules(*map, modules);
  }
  std::set<std::string> files;
  while (!modules.empty()) {
    const auto name = modules.back() + ".py";
    modules.pop_back();
    if (!is_plain_name(name) || !is_listed(base / name) || !files.insert(name).second) continue;
    for (auto& module : imported(store::input_text(base / name, "the Python code that config.json names")))
      modules.push_back(std::move(module));
  }
  return files;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) throw InputError(folder.string() + ": cannot be listed: " + error.message());
  return names;
}

/// Flushed to the disk, as all of a folder that appears whole.
void carry_over(const fs::path& from, const fs::path& to, const std::function<void()>& go_on) {
  const store::InputFile file(from);
  store::create_folders(to.parent_path());
  store::write_atomically(to, [&](store::AtomicFile& out) {
    for (std::uint64_t at = 0; at < file.size(); at += piece) {
      go_on();
      out.write(file.read(at, piece));
    }
  });
}

bool are_equal(const fs::path& a, const fs::path& b, const std::function<void()>& go_on) {
  if (!store::is_there(b)) return false;
  const store::InputFile ours(a), theirs(b);
  if (ours.size() != theirs.size()) return false;
  for (std::uint64_t at = 0; at < ours.size(); at += piece) {
    go_on();
    if (ours.read(at, piece) != theirs.read(at, piece)) return false;
  }
  return true;
}

/// A further module of a sentence model, such as pooling.
struct Module {
  fs::path folder;
  bool has_weights;  ///< as far as its name and type tell: pooling and norms have none
};

std::vector<Module> modules_of(const fs::path& base) {
  const auto path = base / "modules.json";
  std::vector<Module> further;
  if (!is_listed(path)) return further;
  const auto modules = store::input_json(path, "a sentence model's list of modules", store::JsonKind::list);
  for (const auto& module : modules) {
    const auto place = module.is_object() ? module.value("path", Json("")) : Json();
    if (place == "") continue;  // the model itself
    if (!place.is_string() || !is_plain_name(place.get<std::string>()))
      throw InputError(path.string() + ": a module's path is " + store::quoted(place.dump()) +
                       "; expected the plain name of a folder in this one");
    const auto folder = place.get<std::string>(), text = module.value("type", Json()).dump() + folder;
    const auto is = [&](const char* kind) { return text.find(kind) != std::string::npos; };
    further.push_back({folder, !is("Pooling") && !is("Normalize")});
  }
  return further;
}

}  // namespace

void copy_side_files(const fs::path& base, const fs::path& tokenizer, const std::vector<fs::path>& models,
                     const fs::path& to, const std::function<void()>& go_on) {
  if (!is_listed(base / "config.json"))
    throw InputError(base.string() +
                     ": has no config.json, without which the merged model could not be loaded; "
                     "expected a Hugging Face folder");
  const auto copy = [&](const fs::path& from, std::set<std::string> names, const auto& wanted) {
    for (auto& name : names_in(from))
      if (wanted(name)) names.insert(std::move(name));
    for (const auto& name : names) carry_over(from / name, to / name, go_on);
  };
  copy(base, custom_code(base), [&](const std::string& name) {
    std::error_code unknown;  // a link that leads nowhere is said where it is read
    return is_known(name) || (is_licence(name) && !fs::is_directory(base / name, unknown));
  });
  copy(tokenizer, {}, is_of_tokenizer);
  const fs::path templates = "additional_chat_templates";
  if (is_listed(tokenizer / templates)) {
    for (const auto& name : names_in(tokenizer / templates))
      if (is_plain_name(name) && name.ends_with(".jinja"))
        carry_over(tokenizer / templates / name, to / templates / name, go_on);
  }
  for (const auto& [folder, has_weights] : modules_of(base)) {
    if (is_listed(base / folder / "config.json"))
      carry_over(base / folder / "config.json", to / folder / "config.json", go_on);
    const auto weights = folder / "model.safetensors";
    if (!is_listed(base / weights)) {
      if (has_weights && is_listed(base / folder / "pytorch_model.bin"))
        throw InputError(
            (base / folder / "pytorch_model.bin").string() +
            ": is a pickle, which is not read; expected model.safetensors: save the model again with "
            "sentence-transformers");
      continue;
    }
    for (const auto& model : models) {
      if (!are_equal(base / weights, model / weights, go_on))
        throw InputError(
            (model / weights).string() + ": is not as in " + base.string() +
            "; expected the same file, since the weights of a sentence model's modules are not merged");
    }
    carry_over(base / weights, to / weights, go_on);
  }
}

}  // namespace taugrid::merging
