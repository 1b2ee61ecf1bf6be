// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/checkpoint.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "suite/error.hpp"
#include "suite/hash.hpp"
#include "suite/models/registry.hpp"
#include "suite/models/tensor_names.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/digest.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/safetensors.hpp"

namespace taugrid::models {
namespace {

using autodiff::Layout;

std::string shape_text(at::IntArrayRef shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

/// ", as in FOLDER"; nothing where that is the file's own.
std::string as_in(const std::filesystem::path& of) { return of.empty() ? "" : ", as in " + of.string(); }

/// Every parameter of the layout is there, in its shape.
void require(const Layout& layout, const store::TensorFolder& weights, const std::filesystem::path& of,
             std::set<std::string>& known) {
  for (const auto& parameter : layout.parameters()) {
    const auto there = weights.tensors().find(parameter.name);
    if (there == weights.tensors().end())
      throw InputError(weights.files() + ": " + parameter.name + " is missing; " +
                       ((of.empty() ? weights.folder() : of) / "config.json").string() + " asks for it");
    const auto where = weights.file_of(parameter.name).string() + ": " + parameter.name;
    const auto& [scalar, shape] = there->second;
    if (!at::isFloatingType(scalar))
      throw InputError(where + " has type " + at::toString(scalar) + "; expected a floating type");
    if (const auto expected = parameter.stored_shape(); shape != expected)
      throw InputError(where + " has shape " + shape_text(shape) + "; expected " + shape_text(expected) +
                       as_in(of));
    known.insert(parameter.name);
  }
}

/// A tensor that is passed over says nothing of its own: constants count up, and a double of a tied tensor is
/// equal to it. Parts of other towers and heads are not the model's, and counters change no output.
void require_redundant(const Encoder& encoder, const store::TensorFolder& weights, const std::string& name) {
  const auto& layout = encoder.layout();
  const auto where = [&] { return weights.file_of(name).string() + ": " + name; };
  const auto& info = weights.tensors().at(name);
  if (const auto known = encoder.constant(name); known.defined()) {
    const auto held = weights.tensor(name);
    if (held.sizes() != known.sizes() || !at::allclose(held.to(at::kFloat), known, 4e-3, 0))
      throw InputError(where() + " is not what config.json gives; it would be another model");
  }
  if (name.ends_with("position_ids") && !counts_up(weights.tensor(name)))
    throw InputError(where() +
                     " is not 0, 1, 2, …; the model's positions are, and it would be another model");
  const std::string other(doubled_name(name, layout));
  const auto is_parameter = [&](const auto& parameter) { return parameter.name == other; };
  if (other.empty() || !weights.has(other) || !at::isFloatingType(info.scalar) ||
      std::none_of(layout.parameters().begin(), layout.parameters().end(), is_parameter))
    return;
  if (weights.tensors().at(other).shape != info.shape ||
      !at::equal(weights.tensor(name).to(at::kFloat), weights.tensor(other).to(at::kFloat)))
    throw InputError(where() + " differs from " + other +
                     ", to which config.json ties it; expected equal numbers, or "
                     "tie_word_embeddings = false");
}

/// The part of a larger model that a tensor belongs to: up to the first dot, or to the second where the model
/// has tensors there too.
std::string part_of(const std::string& name, const std::set<std::string>& known) {
  const auto dot = name.find('.');
  const auto next = known.lower_bound(name.substr(0, dot) + ".");
  const bool shared =
      dot != std::string::npos && next != known.end() && next->starts_with(name.substr(0, dot + 1));
  return name.substr(0, shared ? name.find('.', dot + 1) : dot);
}

/// Throws InputError where a tensor is none of the model's; notes what other towers and heads it passes over.
void require_known(const Encoder& encoder, store::TensorFolder& weights, const std::set<std::string>& known,
                   const std::filesystem::path& of) {
  std::string first;
  int others = -1, passed_over = 0;
  std::set<std::string> parts;
  for (const auto& [name, info] : weights.tensors()) {
    if (known.contains(name)) continue;
    if (encoder.passes_over(name)) {
      if (encoder.vocabulary_block() >= 0 || !at::isFloatingType(info.scalar))
        require_redundant(encoder, weights, name);
      if (at::isFloatingType(info.scalar) && doubled_name(name, encoder.layout()).empty() &&
          !encoder.constant(name).defined()) {
        parts.insert(part_of(name, known));
        ++passed_over;
      }
      continue;
    }
    if (++others == 0) first = name;
  }
  if (passed_over > 0) {
    std::string names;
    for (const auto& part : parts) names += (names.empty() ? "" : ", ") + part;
    weights.note(weights.files() + ": " + std::to_string(passed_over) + " tensor" +
                 (passed_over > 1 ? "s are" : " is") + " no " + encoder.architecture() +
                 "'s and passed over: " + names);
  }
  if (others < 0) return;
  throw InputError(weights.file_of(first).string() + ": " + first +
                   (others > 0 ? " and " + std::to_string(others) + " more" : "") + ": no " +
                   encoder.architecture() + " has such a tensor; expected its own parameters alone" +
                   as_in(of) + " (adapters are to be merged first)");
}

at::Tensor read_flat(const Layout& layout, const store::TensorFolder& weights) {
  auto flat = at::empty({layout.size()}, at::kFloat);
  const auto views = layout.parameter_views(flat);
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto& parameter = layout.parameters()[i];
    const auto& name = parameter.name;
    views[i].copy_(parameter.turned(weights.tensor(name)));
    if (!at::isfinite(views[i]).all().item<bool>())
      throw InputError(weights.file_of(name).string() + ": " + name + " holds NaN or infinity");
  }
  return flat;
}

void add_views(const Layout& layout, const at::Tensor& flat, store::TensorFile& file) {
  if (!flat.defined()) return;
  const auto views = layout.parameter_views(flat.detach().to(at::kCPU));
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto& parameter = layout.parameters()[i];
    file.tensors[parameter.name] = parameter.turned(views[i]).contiguous();
  }
}

/// The digest of names, shapes and numbers: by it a damaged checkpoint is told from one whose numbers are
/// others.
std::string digest_of(const store::TensorFile& file) {
  store::Digest digest;
  for (const auto& [name, tensor] : file.tensors) {
    digest.add(name.data(), name.size());
    digest.add(tensor);
  }
  return hexadecimal(digest.value());
}

/// What a folder without a readable config.json should have had.
std::string expected_folder(const std::filesystem::path& folder) {
  const std::string expected = "a Hugging Face checkpoint folder";
  std::error_code error;
  if (!std::filesystem::exists(folder / "open_clip_config.json", error)) return expected;
  return expected +
         " (of open_clip: a config.json with the model_cfg of open_clip_config.json and "
         "\"model_type\": \"open_clip\", beside open_clip_model.safetensors as model.safetensors)";
}

}  // namespace

Checkpoint read_architecture(const std::filesystem::path& folder) {
  const auto config = folder / "config.json";
  Checkpoint checkpoint;
  checkpoint.encoder =
      make_encoder(store::input_text(config, expected_folder(folder)), config.string(), folder);
  return checkpoint;
}

store::TensorFolder open_weights(const std::filesystem::path& folder, const Encoder& encoder,
                                 const std::filesystem::path& of) {
  store::TensorFolder weights(folder);
  rename_as_in(weights, encoder.layout());
  std::set<std::string> known;
  require(encoder.layout(), weights, of, known);
  require(encoder.buffers(), weights, of, known);
  require_known(encoder, weights, known, of);
  return weights;
}

std::string start_of(const store::TensorFolder& weights) { return weights.metadata("theta0"); }

Checkpoint read_checkpoint(const std::filesystem::path& folder) {
  auto checkpoint = read_architecture(folder);
  const auto& encoder = *checkpoint.encoder;
  const auto weights = open_weights(folder, encoder);
  checkpoint.start = start_of(weights);
  checkpoint.notes = weights.notes();
  checkpoint.state.theta = read_flat(encoder.layout(), weights);
  if (encoder.buffers().size() > 0) checkpoint.state.buffers = read_flat(encoder.buffers(), weights);
  return checkpoint;
}

void write_checkpoint(const std::filesystem::path& folder, const Encoder& encoder, const State& state,
                      const std::string& start) {
  store::create_folders(folder);
  store::write_atomically(folder / "config.json", encoder.config_json());
  for (const auto& [name, text] : encoder.beside_config()) {
    store::create_folders((folder / name).parent_path());
    store::write_atomically(folder / name, text);
  }
  store::TensorFile file;
  file.metadata["format"] = "pt";  // what Hugging Face's loader asks for
  if (!start.empty()) file.metadata["theta0"] = start;
  add_views(encoder.layout(), state.theta, file);
  add_views(encoder.buffers(), state.buffers, file);
  file.metadata["digest"] = digest_of(file);
  store::write_safetensors(folder / "model.safetensors", file);
}

std::string fingerprint(const State& state) {
  Fingerprint print;
  for (const auto* tensor : {&state.theta, &state.buffers})
    if (tensor->defined()) print.add(*tensor);
  return print.text();
}

void Fingerprint::add(const at::Tensor& numbers) {
  const auto bytes = numbers.detach().to(at::kCPU).contiguous();
  hash_ = fnv1a(bytes.const_data_ptr(), bytes.nbytes(), hash_);
}

std::string Fingerprint::text() const { return hexadecimal(hash_); }

}  // namespace taugrid::models
