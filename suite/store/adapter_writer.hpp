// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The folder of a LoRA adapter, as PEFT loads it: adapter_config.json and adapter_model.safetensors. In the
// model at `base` the weight of each module becomes W + s·B·A (Hu et al. 2021, "LoRA", eq. 3).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "suite/store/safetensors_writer.hpp"

namespace taugrid::store {

class AdapterWriter {
 public:
  /// s = α/r, of all products.
  struct Scale {
    double alpha = 1, rank = 1;
  };
  /// What may come: modules whose weight gets a product, and names of tensors that are written whole.
  struct Room {
    std::vector<std::string> modules, whole;
  };
  /// Makes the folder. Throws InputError where it cannot be written.
  AdapterWriter(const std::filesystem::path& folder, std::string base, Scale scale, const Room& room);

  /// A [r, in] and B [out, r], of filters [r, in, …] and [out, r, 1, …].
  void add(const std::string& module, const at::Tensor& a, const at::Tensor& b);
  /// The same of embeddings [words, features]: A [r, words] and B [features, r], added as (BA)ᵀ.
  void add_embedding(const std::string& module, const at::Tensor& a, const at::Tensor& b);
  /// A bias takes the place of the model's. It comes after its module's product, if that has one.
  void add_bias(const std::string& module, const at::Tensor& bias);
  /// Tensors of a module, by what stands behind its name; all that it has, since PEFT asks for all.
  void add_module(const std::string& module, const std::map<std::string, at::Tensor>& tensors);
  /// Layers store their weights transposed, as those of GPT-2 do: products are added as (BA)ᵀ.
  void store_transposed() { transposed_ = true; }
  void commit();

 private:
  void place(const std::string& module, std::int64_t rank);

  std::filesystem::path folder_;
  std::string base_;
  Scale scale_;
  bool transposed_ = false, has_biases_ = false;
  std::vector<std::pair<std::string, std::int64_t>> ranks_;  ///< of modules with a product
  std::set<std::string> with_product_, saved_;
  SafetensorsAppender file_;
};

}  // namespace taugrid::store
