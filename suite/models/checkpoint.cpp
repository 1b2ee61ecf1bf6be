// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/checkpoint.hpp"

#include <ATen/ATen.h>

#include <set>
#include <sstream>

#include "suite/error.hpp"
#include "suite/hash.hpp"
#include "suite/models/registry.hpp"
#include "suite/store/atomic_file.hpp"
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
void require(const Layout& layout, const store::MappedTensors& file, const std::filesystem::path& folder,
             const std::filesystem::path& of, std::set<std::string>& known) {
  const auto path = folder / "model.safetensors";
  for (const auto& parameter : layout.parameters()) {
    const auto where = path.string() + ": " + parameter.name;
    const auto found = file.tensors().find(parameter.name);
    if (found == file.tensors().end())
      throw InputError(where + " is missing; " + ((of.empty() ? folder : of) / "config.json").string() +
                       " asks for it");
    const auto& [scalar, shape] = found->second;
    if (!at::isFloatingType(scalar))
      throw InputError(where + " has type " + at::toString(scalar) + "; expected a floating type");
    if (shape != parameter.shape)
      throw InputError(where + " has shape " + shape_text(shape) + "; expected " +
                       shape_text(parameter.shape) + as_in(of));
    known.insert(parameter.name);
  }
}

void require_known(const Encoder& encoder, const store::MappedTensors& file,
                   const std::set<std::string>& known, const std::string& path,
                   const std::filesystem::path& of) {
  std::string first;
  int others = -1;
  for (const auto& [name, info] : file.tensors()) {
    if (known.contains(name) || encoder.passes_over(name)) continue;
    if (++others == 0) first = name;
  }
  if (others < 0) return;
  throw InputError(path + ": " + first + (others > 0 ? " and " + std::to_string(others) + " more" : "") +
                   ": no " + encoder.architecture() +
                   " has such a tensor; expected its own parameters alone" + as_in(of) +
                   " (adapters are to be merged first)");
}

at::Tensor read_flat(const Layout& layout, const store::MappedTensors& file, const std::string& path) {
  auto flat = at::empty({layout.size()}, at::kFloat);
  const auto views = layout.parameter_views(flat);
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto& name = layout.parameters()[i].name;
    views[i].copy_(file.tensor(name));
    if (!at::isfinite(views[i]).all().item<bool>())
      throw InputError(path + ": " + name + " holds NaN or infinity");
  }
  return flat;
}

void add_views(const Layout& layout, const at::Tensor& flat, store::TensorFile& file) {
  if (!flat.defined()) return;
  const auto views = layout.parameter_views(flat.detach().to(at::kCPU));
  for (std::size_t i = 0; i < views.size(); ++i) file.tensors[layout.parameters()[i].name] = views[i];
}

}  // namespace

Checkpoint read_architecture(const std::filesystem::path& folder) {
  const auto config = folder / "config.json";
  Checkpoint checkpoint;
  checkpoint.encoder =
      make_encoder(store::input_text(config, "a Hugging Face checkpoint folder"), config.string(), folder);
  return checkpoint;
}

store::MappedTensors open_weights(const std::filesystem::path& folder, const Encoder& encoder,
                                  const std::filesystem::path& of) {
  const auto path = folder / "model.safetensors";
  store::MappedTensors file(path);
  std::set<std::string> known;
  require(encoder.layout(), file, folder, of, known);
  require(encoder.buffers(), file, folder, of, known);
  require_known(encoder, file, known, path.string(), of);
  return file;
}

std::string start_of(const store::MappedTensors& weights) {
  const auto found = weights.metadata().find("theta0");
  return found == weights.metadata().end() ? "" : found->second;
}

Checkpoint read_checkpoint(const std::filesystem::path& folder) {
  auto checkpoint = read_architecture(folder);
  const auto& encoder = *checkpoint.encoder;
  const auto file = open_weights(folder, encoder);
  const auto path = (folder / "model.safetensors").string();
  checkpoint.start = start_of(file);
  checkpoint.state.theta = read_flat(encoder.layout(), file, path);
  if (encoder.buffers().size() > 0) checkpoint.state.buffers = read_flat(encoder.buffers(), file, path);
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
  store::write_safetensors(folder / "model.safetensors", file);
}

std::string fingerprint(const State& state) {
  auto hash = fnv_start;
  for (const auto* tensor : {&state.theta, &state.buffers}) {
    if (!tensor->defined()) continue;
    const auto bytes = tensor->detach().to(at::kCPU).contiguous();
    hash = fnv1a(bytes.const_data_ptr(), bytes.nbytes(), hash);
  }
  return hexadecimal(hash);
}

}  // namespace taugrid::models
