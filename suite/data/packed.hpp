// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Packed data sets: one HDF5 file a task, and one of picture-caption pairs for pre-training.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace taugrid::data {

/// n samples.
struct Split {
  at::Tensor
      inputs;  // uint8 [n,h,w,c] or int32 [n,t]; images are mapped from the file where they lie in one piece
  at::Tensor labels;   // int64 [n], 0 <= label < classes
  at::Tensor lengths;  // int32 [n], tokens in use, 1 … t; undefined for images
};

struct Task {
  std::string name, modality, source, license;  // modality: "image" or "text"
  std::vector<std::string> class_names;
  at::Tensor head;  // float32 [classes, features], rows of unit length
  double logit_scale = 1;
  std::vector<float> mean, std;  // a channel each, of inputs scaled to 0…1; empty for text
  Split train, validation, test;
};

/// Throws InputError (one line: file, data set, what was expected) where the file is not such a data set.
Task read_task(const std::filesystem::path& path);

/// Pictures with captions; n pictures, k captions.
struct Pairs {
  at::Tensor images;                  // uint8 [n,h,w,c]
  at::Tensor caption;                 // int32 [n], index into captions
  std::vector<std::string> captions;  // [k]
  at::Tensor text_embedding;          // float32 [k,d]
  at::Tensor is_class_picture;        // int8 [n], 0 or 1
  at::Tensor class_picture_rank;      // int32 [n]
  std::vector<float> mean, std;       // a channel each; empty where the file gives none
};

/// Throws InputError as read_task does.
Pairs read_pairs(const std::filesystem::path& path);

/// `wanted` different rows of 0 … rows-1, each set equally likely: int64 [wanted], ascending. The same on
/// every platform. Throws InputError unless 0 <= wanted <= rows.
at::Tensor sample_rows(std::int64_t rows, std::int64_t wanted, std::uint64_t seed);

/// (x / 255 - mean) / std: uint8 [n,h,w,c] to float32 [n,c,h,w], contiguous, on the device of the input,
/// where mean and std, float32 [c], are too. Throws InputError if they do not have c entries.
at::Tensor normalised_images(const at::Tensor& images, const at::Tensor& mean, const at::Tensor& std);
/// As above, with mean and std taken to the device first.
at::Tensor normalised_images(const at::Tensor& images, const std::vector<float>& mean,
                             const std::vector<float>& std);

/// `tensor` on `device`, through pinned memory as below; itself on a CPU.
at::Tensor send(at::Device device, const at::Tensor& tensor);

/// rows[index] on `device`. The host does not wait for a GPU: rows travel from pinned memory, which LibTorch
/// keeps until they have arrived, so that the next ones are gathered and sent meanwhile.
at::Tensor rows_on(at::Device device, const at::Tensor& rows, const at::Tensor& index);

}  // namespace taugrid::data
