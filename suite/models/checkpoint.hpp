// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Checkpoints are Hugging Face folders: config.json and model.safetensors.
#pragma once

#include <filesystem>
#include <memory>

#include "suite/models/model.hpp"

namespace taugrid::models {

struct Checkpoint {
  std::unique_ptr<Encoder> encoder;
  at::Tensor theta;   ///< [P] float32
  std::string start;  ///< fingerprint of the θ0 that it was trained from, where the file says
};

/// Reads FOLDER. Tensors that the architecture has no use for are passed over only where Hugging Face keeps
/// them as buffers or in other towers. Throws InputError, one line, on a missing file or parameter, a wrong
/// shape or type, or a value that is not finite.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

/// The architecture alone, from FOLDER/config.json; theta is undefined.
Checkpoint read_architecture(const std::filesystem::path& folder);

/// Writes FOLDER, model.safetensors last and by rename, so that a folder with it is complete. `start`: the
/// fingerprint of θ0, kept in the file's header.
void write_checkpoint(const std::filesystem::path& folder, const Encoder& encoder, const at::Tensor& theta,
                      const std::string& start = {});

/// A short text that differs whenever θ does (64-bit FNV-1a of its bytes, hexadecimal).
std::string fingerprint(const at::Tensor& theta);

}  // namespace taugrid::models
