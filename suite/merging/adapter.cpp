// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/adapter.hpp"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "suite/error.hpp"
#include "suite/merging/base_layers.hpp"
#include "suite/merging/layers.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/input_json.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* config_name = "adapter_config.json";
constexpr const char* weights_name = "adapter_model.safetensors";
constexpr std::string_view of_peft = "base_model.model.";

/// Keys that say where the adapter came from, where it sits, or how it was trained: the product that was
/// saved is the same whatever they are.
const std::set<std::string> without_effect = {"task_type",
                                              "peft_type",
                                              "auto_mapping",
                                              "peft_version",
                                              "base_model_name_or_path",
                                              "revision",
                                              "inference_mode",
                                              "r",
                                              "target_modules",
                                              "exclude_modules",
                                              "lora_alpha",
                                              "lora_dropout",
                                              "use_rslora",
                                              "fan_in_fan_out",
                                              "bias",
                                              "modules_to_save",
                                              "rank_pattern",
                                              "alpha_pattern",
                                              "layers_to_transform",
                                              "layers_pattern",
                                              "init_lora_weights",
                                              "megatron_core",
                                              "eva_config",
                                              "qalora_group_size",
                                              "ensure_weight_tying",
                                              "runtime_config",
                                              "enable_lora"};

bool is_unset(const Json& value) {
  return value.is_null() || value == false || value == "" ||
         ((value.is_object() || value.is_array()) && value.empty());
}

std::string refused_file(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "adapter_model.bin", error))
    return "; adapter_model.bin is a pickle, which is not read: load it with peft and save it with "
           "safe_serialization=True";
  return "";
}

store::MappedTensors mapped(const fs::path& folder) {
  if (!store::is_there(folder / weights_name))
    throw InputError((folder / weights_name).string() + ": there is no such file" + refused_file(folder));
  return store::MappedTensors(folder / weights_name);
}

}  // namespace

struct Adapter::Configuration {
  fs::path path;
  double alpha = 0;
  bool by_root = false;     ///< use_rslora
  bool transposed = false;  ///< fan_in_fan_out: the layer stores [in, out]
  std::optional<double> rank;  ///< r; no number where the configuration has none
  /// alpha_pattern and rank_pattern: a module's name behind ^, or the end of its name, and its α or rank.
  std::vector<std::pair<std::string, double>> alphas, ranks;
  std::string base;  ///< as the adapter names it

  explicit Configuration(const fs::path& folder) : path(folder / config_name) {
    const auto json = store::input_json(path, "an adapter's configuration");
    const auto kind = json.value("peft_type", Json(""));
    if (kind != "LORA") refuse("peft_type", kind, "LORA, whose vector is s·B·A");
    for (const auto& [key, value] : json.items()) {
      if (!without_effect.contains(key) && !is_unset(value))
        refuse(key, value, "none: it changes what the adapter adds, or is not known");
    }
    const auto start = json.value("init_lora_weights", Json(true));
    if (start.is_string() && start != "gaussian" && start != "eva" && start != "orthogonal")
      refuse("init_lora_weights", start,
             "a start that leaves the base as it is: save the adapter with peft's "
             "path_initial_model_for_weight_conversion");
    alpha = number(json, "lora_alpha");
    by_root = flag(json, "use_rslora");
    transposed = flag(json, "fan_in_fan_out");
    if (json.contains("r")) rank = number(json, "r");
    alphas = patterns(json, "alpha_pattern", "α by module");
    ranks = patterns(json, "rank_pattern", "ranks by module");
    const auto name = json.value("base_model_name_or_path", Json());
    if (name.is_string()) base = name.get<std::string>();
  }

  [[noreturn]] void refuse(const std::string& key, const Json& value, const std::string& expected) const {
    throw InputError(fmt::format("{}: {} is {}; expected {}", path.string(), key,
                                 store::quoted(value.dump(-1, ' ', true, Json::error_handler_t::replace)),
                                 expected));
  }
  bool flag(const Json& json, const std::string& key) const {
    const auto value = json.value(key, Json(false));
    if (!value.is_boolean() && !value.is_null()) refuse(key, value, "true or false");
    return value == true;
  }
  double number(const Json& json, const std::string& key) const {
    const auto value = json.value(key, Json());
    if (!value.is_number() || !std::isfinite(value.get<double>()) || std::fabs(value.get<double>()) > 1e6)
      refuse(key, value, "a number of at most a million");
    return value.get<double>();
  }
  std::vector<std::pair<std::string, double>> patterns(const Json& json, const std::string& key,
                                                       const std::string& expected) const {
    const auto by_module = json.value(key, Json::object());
    if (!by_module.is_null() && !by_module.is_object()) refuse(key, by_module, expected);
    std::vector<std::pair<std::string, double>> all;
    for (const auto& [module, value] : by_module.items())
      all.emplace_back(literal(key, module), number(by_module, module));
    return all;
  }
  /// PEFT takes these as regular expressions; in practice they are names, behind ^, or ends of names.
  std::string literal(const std::string& key, std::string pattern) const {
    const auto given = pattern;
    for (std::size_t at = 0; (at = pattern.find("\\.", at)) != std::string::npos; ++at) pattern.erase(at, 1);
    const std::size_t name = pattern.starts_with("^") ? 1 : 0;
    if (pattern.size() == name || pattern.find_first_of("\\*+?()[]{}|^$", name) != std::string::npos)
      refuse(key, Json(given), "names of modules, or their ends, and no other regular expression");
    return pattern;
  }
  /// The first pattern's that fits, as PEFT has it.
  static std::optional<double> of_module(const std::vector<std::pair<std::string, double>>& patterns,
                                         const std::string& module) {
    for (const auto& [pattern, value] : patterns) {
      const bool fits = pattern.starts_with("^") ? module == pattern.substr(1)
                                                 : module == pattern || module.ends_with("." + pattern);
      if (fits) return value;
    }
    return std::nullopt;
  }
  double alpha_of(const std::string& module) const { return of_module(alphas, module).value_or(alpha); }
  std::optional<double> rank_of(const std::string& module) const {
    const auto own = of_module(ranks, module);
    return own ? own : rank;
  }
};

namespace {

/// One tensor of the file by the module that it belongs to.
struct Piece {
  enum class Role { a, b, embedding_a, embedding_b, whole, original } role;
  std::string module;  ///< of low-rank parts the layer's; else the tensor's own name
};

/// Nothing where the name is not one of PEFT's.
std::optional<Piece> piece_of(std::string name) {
  if (!name.starts_with(of_peft)) return std::nullopt;
  name.erase(0, of_peft.size());
  using Role = Piece::Role;
  constexpr std::array<std::pair<std::string_view, Role>, 4> parts = {
      {{".lora_A.", Role::a},
       {".lora_B.", Role::b},
       {".lora_embedding_A", Role::embedding_a},
       {".lora_embedding_B", Role::embedding_b}}};
  for (const auto& [mark, role] : parts) {
    const auto at = name.find(mark);
    if (at == std::string::npos) continue;
    // Behind the mark stands "weight", and in some files the adapter's name before it.
    const auto behind = name.substr(at + mark.size());
    const bool embedding = role == Role::embedding_a || role == Role::embedding_b;
    const bool known =
        embedding ? behind.empty() || (behind.front() == '.' && behind.find('.', 1) == std::string::npos)
                  : behind == "weight" ||
                        (behind.ends_with(".weight") && std::count(behind.begin(), behind.end(), '.') == 1);
    if (!known) return std::nullopt;
    return Piece{role, name.substr(0, at)};
  }
  if (name.find("lora_") != std::string::npos) return std::nullopt;
  constexpr std::string_view original = ".original_module.";  // of a module that was saved as a whole
  if (const auto at = name.find(original); at != std::string::npos)
    return Piece{Role::original, name.substr(0, at) + "." + name.substr(at + original.size())};
  constexpr std::array<std::string_view, 2> infixes = {".base_layer.", ".modules_to_save."};
  for (const auto infix : infixes) {
    if (const auto at = name.find(infix); at != std::string::npos) {
      auto rest = name.substr(at + infix.size());
      if (infix == ".modules_to_save." && rest.find('.') != std::string::npos)
        rest.erase(0, rest.find('.') + 1);
      name = name.substr(0, at) + "." + rest;
    }
  }
  return Piece{Role::whole, name};
}

/// How names of modules become those of θ0: some steps are cut off in front, others put there.
struct Prefix {
  std::size_t cut = 0;  ///< letters
  std::string added;
  std::string of(const std::string& name) const { return added + name.substr(std::min(cut, name.size())); }
  bool operator==(const Prefix&) const = default;
};

/// The prefix by which all names are in θ0: none where that fits, else the only one. An adapter may have been
/// trained on the inner model, or on one with another tower around it.
Prefix prefix_of(const std::vector<std::string>& names, const store::TensorFolder& theta0,
                 const BaseLayers& base_layers, const fs::path& file) {
  const auto missing = [&](const Prefix& prefix) {
    return std::find_if(names.begin(), names.end(),
                        [&](const auto& name) { return !theta0.has(prefix.of(name)); });
  };
  if (missing({}) == names.end()) return {};
  std::vector<Prefix> fitting;
  const auto& first = names.front();
  for (std::size_t cut = 0; cut != std::string::npos;
       cut = first.find('.', cut) == std::string::npos ? std::string::npos : first.find('.', cut) + 1) {
    const auto rest = first.substr(cut);
    for (const auto& entry : theta0.tensors()) {
      const auto& name = entry.first;
      if (name != rest && !name.ends_with("." + rest)) continue;
      const Prefix prefix{cut, name.substr(0, name.size() - rest.size())};
      const bool same_start = std::all_of(names.begin(), names.end(), [&](const auto& other) {
        return other.compare(0, cut, first, 0, cut) == 0;
      });
      if (same_start && missing(prefix) == names.end() &&
          std::find(fitting.begin(), fitting.end(), prefix) == fitting.end())
        fitting.push_back(prefix);
    }
    if (!fitting.empty()) break;  // the longest name says most
  }
  if (fitting.size() == 1) return fitting.front();
  const auto lost = *missing({});
  throw InputError(fmt::format(
      "{}: changes {}, which {} {}; expected an adapter of this base{}", file.string(), store::quoted(lost),
      theta0.folder().string(), fitting.empty() ? "does not have" : "has at several places",
      base_layers.are_renamed ? ", by the names of its file: transformers 5 has others" : ""));
}

/// Low-rank parts belong to a module's weight, and whole tensors have names of their own.
std::string tensor_of(const Piece& piece) {
  const bool low_rank = piece.role != Piece::Role::whole && piece.role != Piece::Role::original;
  return low_rank ? piece.module + ".weight" : piece.module;
}

}  // namespace

bool Adapter::is_in(const fs::path& folder) {
  const bool named = store::is_there(folder / config_name) || store::is_there(folder / weights_name);
  return named && !store::TensorFolder::is_in(folder);
}

Adapter::Adapter(const fs::path& folder, const store::TensorFolder& theta0)
    : folder_(folder), tensors_(mapped(folder)) {
  Configuration configuration(folder);
  const BaseLayers base_layers(theta0.folder(), theta0.has("lm_head.weight"));
  read_tensors(configuration, base_layers, theta0);
  // PEFT takes the flag back for each nn.Linear: where a product shows that layers are such, square ones are
  // too.
  const auto is_of_linear = [&](const auto& entry) {
    const auto& [name, change] = entry;
    if (change.embedding || change.a.empty() || change.b.empty()) return false;
    const auto& a = tensors_.tensors().at(change.a).shape;
    const auto& b = tensors_.tensors().at(change.b).shape;
    const auto& base = theta0.tensors().at(name).shape;
    return base.size() == 2 && base[0] != base[1] && a.size() == 2 && b.size() == 2 && b[0] == base[0] &&
           a[1] == base[1];
  };
  if (std::any_of(changes_.begin(), changes_.end(), is_of_linear)) configuration.transposed = false;
  for (auto& [name, change] : changes_) require_shapes(name, change, configuration, base_layers, theta0);
  const auto last = fs::path(configuration.base).filename();
  const auto here = fs::weakly_canonical(theta0.folder()).filename();
  if (!last.empty() && last != here)
    notes_.push_back(fmt::format("{}: says that its base is {}, and is merged into {}",
                                 (folder / config_name).string(), store::quoted(configuration.base),
                                 theta0.folder().string()));
}

void Adapter::read_tensors(const Configuration& configuration, const BaseLayers& base_layers,
                           const store::TensorFolder& theta0) {
  const auto file = folder_ / weights_name;
  const auto refuse = [&](const std::string& name, const std::string& problem) {
    throw InputError(file.string() + ": " + store::quoted(name) + " " + problem);
  };
  std::vector<std::pair<std::string, Piece>> pieces;  // by their names in the file
  std::vector<std::string> targets;
  for (const auto& [name, info] : tensors_.tensors()) {
    const auto piece = piece_of(name);
    if (!piece)
      refuse(name,
             "is no tensor of LoRA as PEFT saves it; expected lora_A, lora_B, lora_embedding_A, "
             "lora_embedding_B, or a whole tensor, behind base_model.model.");
    if (info.scalar != at::kFloat && info.scalar != at::kHalf && info.scalar != at::kBFloat16)
      refuse(name, fmt::format("is {}; expected float32, float16 or bfloat16", at::toString(info.scalar)));
    pieces.emplace_back(name, *piece);
    targets.push_back(tensor_of(*piece));
  }
  if (pieces.empty()) throw InputError(file.string() + ": holds no tensors; expected those of an adapter");
  const auto prefix = prefix_of(targets, theta0, base_layers, file);
  for (const auto& [name, piece] : pieces) {
    using Role = Piece::Role;
    if (piece.role == Role::original) {
      const auto base = prefix.of(tensor_of(piece));
      if (tensors_.tensors().at(name).shape != theta0.tensors().at(base).shape ||
          !at::equal(tensors_.tensor(name).to(at::kFloat), theta0.tensor(base).to(at::kFloat)))
        notes_.push_back(
            fmt::format("{}: {} differs from the base's, and is not used, as PEFT does not use it",
                        file.string(), store::quoted(name)));
      continue;
    }
    auto& change = changes_[prefix.of(tensor_of(piece))];
    const bool is_a = piece.role == Role::a || piece.role == Role::embedding_a;
    auto& place = piece.role == Role::whole ? change.whole : is_a ? change.a : change.b;
    if (!place.empty()) {  // PEFT saves a bias by the module, and by all biases
      if (!at::equal(tensors_.tensor(name), tensors_.tensor(place)))
        refuse(name, "stands there twice, also as " + store::quoted(place) + ", with other numbers");
      continue;
    }
    place = name;
    change.embedding = piece.role == Role::embedding_a || piece.role == Role::embedding_b;
    const auto tensor = prefix.of(tensor_of(piece));
    const bool tied = base_layers.is_tied(tensor, theta0.tensors().at(tensor).shape);
    if (tied && is_before_layers(tensor))
      refuse(name, "adapts the embeddings alone, and " + theta0.folder().string() +
                       " ties them to its head (tie_word_embeddings), which would change too");
    if (tied)
      refuse(name, "adapts the head alone, and " + theta0.folder().string() +
                       " ties it to its embeddings (tie_word_embeddings), as which it would be read");
    if (piece.role == Role::whole) continue;
    change.scale = configuration.alpha_of(piece.module);
    change.told_rank = configuration.rank_of(piece.module);
  }
}

void Adapter::require_shapes(const std::string& name, Change& change, const Configuration& configuration,
                             const BaseLayers& base_layers, const store::TensorFolder& theta0) const {
  const auto file = (folder_ / weights_name).string();
  const auto shape_of = [&](const std::string& stored) { return tensors_.tensors().at(stored).shape; };
  const auto& base = theta0.tensors().at(name).shape;
  const auto refuse = [&](const std::string& stored, const std::string& expected) {
    throw InputError(fmt::format("{}: {} is [{}]; expected {}, since {} has {} [{}]", file,
                                 store::quoted(stored), fmt::join(shape_of(stored), ","), expected,
                                 theta0.folder().string(), store::quoted(name), fmt::join(base, ",")));
  };
  if (!at::isFloatingType(theta0.tensors().at(name).scalar))
    throw InputError(
        fmt::format("{}: {} of {} holds no floating-point numbers, to which an adapter could be added", file,
                    store::quoted(name), theta0.folder().string()));
  change.rows = base.empty() ? 1 : base.front();
  change.columns = change.rows == 0 ? 0 : c10::multiply_integers(base) / change.rows;
  if (!change.whole.empty() && shape_of(change.whole) != base) refuse(change.whole, "the base's shape");
  if (change.a.empty() && change.b.empty()) return;
  if (change.a.empty() || change.b.empty())
    throw InputError(fmt::format("{}: {} has no partner; expected both matrices of the product", file,
                                 store::quoted(change.a.empty() ? change.b : change.a)));
  const auto a = shape_of(change.a), b = shape_of(change.b);
  const auto rank = a.empty() ? 0 : a.front();
  if (a.size() < 2 || rank < 1) refuse(change.a, "[rank, in]");
  if (b.size() < 2 || b[1] != rank || c10::multiply_integers(b) != b[0] * rank)
    refuse(change.b, fmt::format("[out, {}]", rank));
  const auto in = c10::multiply_integers(a) / rank, out = b[0];
  if (base.size() < 2) refuse(change.a, "a matrix in the base");
  const bool plain = out == change.rows && in == change.columns,
             turned = in == change.rows && out == change.columns;
  if (!plain && !turned) refuse(change.a, "a product of the base's shape with " + store::quoted(change.b));
  if (change.embedding) {
    if (!turned) refuse(change.a, "[rank, words]");
    change.transposed = true;
  } else {
    // PEFT asks each layer whether a square one is; the configuration keeps the flag of the layer it came to
    // last.
    const bool is_conv1d = base_layers.has_conv1d ? base_layers.is_conv1d(name) : configuration.transposed;
    change.transposed = plain && turned ? is_conv1d : turned;
    if (change.transposed && base.size() != 2) refuse(change.a, "[rank, in] of a filter");
  }
  if (change.told_rank && static_cast<double>(rank) != *change.told_rank)
    throw InputError(fmt::format(
        "{}: {} is of rank {}, and {} says {} (r, rank_pattern), by which PEFT scales it; expected one rank",
        file, store::quoted(change.a), rank, configuration.path.string(), *change.told_rank));
  const auto root = static_cast<double>(rank);
  change.scale /= configuration.by_root ? std::sqrt(root) : root;
}

std::uint64_t Adapter::bytes() const { return fs::file_size(folder_ / weights_name); }

std::vector<std::string> Adapter::changed() const {
  std::vector<std::string> names;
  for (const auto& entry : changes_) names.push_back(entry.first);
  return names;
}

Adapter::Form Adapter::form(const std::string& name) const {
  const auto& change = changes_.at(name);
  Form form = {{}, change.transposed, change.embedding, !change.whole.empty()};
  if (!change.b.empty()) form.b = tensors_.tensor(change.b).flatten(1).to(at::kDouble);
  return form;
}

at::Tensor Adapter::product(const Change& change, std::int64_t first, std::int64_t count) const {
  const auto a = tensors_.tensor(change.a).flatten(1), b = tensors_.tensor(change.b).flatten(1);
  // Rows of s·B·A are those of B; of its transpose, (BA)ᵀ = AᵀBᵀ, the columns of A.
  const auto left = change.transposed ? a.narrow(1, first, count).t() : b.narrow(0, first, count);
  const auto right = change.transposed ? b.t() : a;
  return at::mm(left.to(at::kDouble), right.to(at::kDouble)).mul_(change.scale);
}

void Adapter::tau(const std::string& name, std::int64_t begin, const at::Tensor& start,
                  at::Tensor out) const {
  const auto entry = changes_.find(name);
  const auto count = out.numel();
  if (entry == changes_.end() || count == 0) {
    out.zero_();
    return;
  }
  const auto& change = entry->second;
  at::Tensor buffer;
  if (change.whole.empty()) {
    out.zero_();
  } else {
    out.copy_(tensors_.numbers(change.whole, begin, count, buffer));
    out.sub_(start.to(at::kFloat));
  }
  if (change.a.empty()) return;
  // Blocks of whole rows begin at the same rows whatever stretch is asked for: products of other shapes may
  // differ in their last bits.
  constexpr std::int64_t numbers_of_block = std::int64_t{1} << 16;
  const auto rows = std::max<std::int64_t>(1, numbers_of_block / change.columns);
  const auto end = begin + count;
  for (auto row = begin / change.columns / rows * rows; row * change.columns < end; row += rows) {
    const auto height = std::min(rows, change.rows - row);
    const auto block = product(change, row, height).flatten();
    const auto from = std::max(begin, row * change.columns),
               to = std::min(end, (row + height) * change.columns);
    out.narrow(0, from - begin, to - from).add_(block.narrow(0, from - row * change.columns, to - from));
  }
}

}  // namespace taugrid::merging
