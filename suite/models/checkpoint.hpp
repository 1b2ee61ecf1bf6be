// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Checkpoints are Hugging Face folders: config.json and model.safetensors, or its parts and their index.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "suite/models/encoder.hpp"
#include "suite/store/tensor_folder.hpp"

namespace taugrid::models {

struct Checkpoint {
  std::unique_ptr<Encoder> encoder;
  State state;
  std::string start;               ///< fingerprint of the θ0 that it was trained from, where the file says
  std::vector<std::string> notes;  ///< what is said of its files though they are read: a line each
};

/// Reads FOLDER. Shapes are compared with the file before memory is taken for them. Throws InputError, one
/// line, on a missing file or parameter, a wrong shape or type, a value that is not finite, and on a tensor
/// that the architecture neither uses nor brings along.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

/// The architecture alone, from FOLDER/config.json; the state is undefined.
Checkpoint read_architecture(const std::filesystem::path& folder);

/// The tensors of FOLDER, checked as by read_checkpoint() for this encoder, values aside.
/// `of`: the folder that the encoder was read from, where it is another; for messages.
store::TensorFolder open_weights(const std::filesystem::path& folder, const Encoder& encoder,
                                 const std::filesystem::path& of = {});

/// The fingerprint of the θ0 that these weights were trained from; empty where their file does not say.
std::string start_of(const store::TensorFolder& weights);

/// Writes FOLDER, model.safetensors last and by rename, so that a folder with it is complete. `start`: the
/// fingerprint of θ0, kept in the file's header, as is the digest of what it holds.
void write_checkpoint(const std::filesystem::path& folder, const Encoder& encoder, const State& state,
                      const std::string& start = {});

}  // namespace taugrid::models
