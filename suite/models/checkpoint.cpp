// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/checkpoint.hpp"

#include <ATen/ATen.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "suite/error.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/safetensors.hpp"

namespace taugrid::models {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(path.string() + ": cannot be read; expected a Hugging Face checkpoint folder");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string shape_text(at::IntArrayRef shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

}  // namespace

Checkpoint read_architecture(const std::filesystem::path& folder) {
  const auto config = folder / "config.json";
  Checkpoint checkpoint;
  checkpoint.encoder = make_encoder(read_text(config), config.string());
  return checkpoint;
}

Checkpoint read_checkpoint(const std::filesystem::path& folder) {
  auto checkpoint = read_architecture(folder);
  const auto config = folder / "config.json";

  const auto path = folder / "model.safetensors";
  const auto file = store::read_safetensors(path);
  if (const auto found = file.metadata.find("theta0"); found != file.metadata.end())
    checkpoint.start = found->second;
  const auto& layout = checkpoint.encoder->layout();
  checkpoint.theta = at::empty({layout.size()}, at::kFloat);
  const auto views = layout.parameter_views(checkpoint.theta);
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto& parameter = layout.parameters()[i];
    const auto where = path.string() + ": " + parameter.name;
    const auto found = file.tensors.find(parameter.name);
    if (found == file.tensors.end())
      throw InputError(where + " is missing; " + config.string() + " asks for it");
    const auto& tensor = found->second;
    if (!at::isFloatingType(tensor.scalar_type())) {
      throw InputError(where + " has type " + at::toString(tensor.scalar_type()) +
                       "; expected a floating type");
    }
    if (tensor.sizes() != at::IntArrayRef(parameter.shape)) {
      throw InputError(where + " has shape " + shape_text(tensor.sizes()) + "; expected " +
                       shape_text(parameter.shape));
    }
    views[i].copy_(tensor);
    if (!at::isfinite(views[i]).all().item<bool>()) throw InputError(where + " holds NaN or infinity");
  }
  return checkpoint;
}

void write_checkpoint(const std::filesystem::path& folder, const Encoder& encoder, const at::Tensor& theta,
                      const std::string& start) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw InputError(folder.string() + ": cannot be created: " + error.message());
  store::write_atomically(folder / "config.json", encoder.config_json());
  store::TensorFile file;
  file.metadata["format"] = "pt";  // what Hugging Face's loader asks for
  if (!start.empty()) file.metadata["theta0"] = start;
  const auto& layout = encoder.layout();
  const auto views = layout.parameter_views(theta.detach().to(at::kCPU));
  for (std::size_t i = 0; i < views.size(); ++i) file.tensors[layout.parameters()[i].name] = views[i];
  store::write_safetensors(folder / "model.safetensors", file);
}

std::string fingerprint(const at::Tensor& theta) {
  const auto bytes = theta.detach().to(at::kCPU).contiguous();
  const auto* data = static_cast<const unsigned char*>(bytes.const_data_ptr());
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < bytes.nbytes(); ++i) hash = (hash ^ data[i]) * 0x100000001b3ULL;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace taugrid::models
