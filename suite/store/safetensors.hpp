// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Checkpoints: the safetensors format (header length, JSON header, bytes of the tensors).
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace taugrid::store {

/// Named tensors on the CPU, contiguous, of any shape, and free-form text.
struct TensorFile {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads F64, F32, F16, BF16, I64, I32, I16, I8, U8 and BOOL. Throws InputError (one line: file, tensor,
/// what was expected) unless the header describes exactly the bytes that follow it.
TensorFile read_safetensors(const std::filesystem::path& path);

/// The tensor of that name alone, with the same checks of the header. Throws InputError where there is none.
at::Tensor read_tensor(const std::filesystem::path& path, const std::string& name);

/// Complete or absent; the same content gives the same bytes. Tensors may be views or on a device.
/// Throws InputError if the file cannot be written or a tensor has a type the format lacks.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

/// Throws InputError that names the first tensor with a NaN or an infinity.
void require_finite(const TensorFile& file, const std::filesystem::path& path = {});

}  // namespace taugrid::store
