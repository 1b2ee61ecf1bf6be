// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A LoRA adapter as a model of a merge: a folder of PEFT, with adapter_config.json and
// adapter_model.safetensors, whose task vector is s·B·A in each matrix that it adapts (Hu et al. 2021,
// "LoRA", eq. 3) and zero elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suite/store/mapped_tensors.hpp"
#include "suite/store/tensor_folder.hpp"

namespace taugrid::merging {

struct BaseLayers;

class Adapter {
 public:
  /// Whether the folder holds an adapter, and no whole model.
  static bool is_in(const std::filesystem::path& folder);

  /// Maps the adapter and finds the tensor of θ0 for each of its own. Throws InputError, naming the first,
  /// where the configuration has a kind of adapter whose product is not s·B·A, or a key that is not known and
  /// set; where θ0 lacks a module or has another shape there; and where a tensor of the file has no meaning.
  Adapter(const std::filesystem::path& folder, const store::TensorFolder& theta0);

  const std::filesystem::path& folder() const { return folder_; }
  std::uint64_t bytes() const;  ///< of the file
  /// What is said of the adapter though it is read: a line each.
  const std::vector<std::string>& notes() const { return notes_; }
  bool changes(const std::string& name) const { return changes_.contains(name); }
  /// The tensors of θ0 that it changes, by name.
  std::vector<std::string> changed() const;

  /// How its τ of a tensor is made.
  struct Form {
    at::Tensor b;             ///< [out, r], double; not defined where no product is added
    bool transposed = false;  ///< the tensor is [in, out], and (BA)ᵀ is added
    bool embedding = false;   ///< of which PEFT has its own names
    bool whole = false;       ///< a tensor stands in θ0's place
  };
  /// The form of a tensor's change; it must change the tensor.
  Form form(const std::string& name) const;

  /// Numbers begin, begin + 1, … of τ in this tensor of θ0, to `out` [n], float32, where `start` [n] are θ0's
  /// own. The product is summed in double, and does not depend on where a stretch begins.
  void tau(const std::string& name, std::int64_t begin, const at::Tensor& start, at::Tensor out) const;

 private:
  /// What becomes of one tensor of θ0, [rows, columns] when all its dimensions but the first are one.
  struct Change {
    std::int64_t rows = 0, columns = 0;
    std::string a, b;         ///< names in the file; empty where no product is added
    bool transposed = false;  ///< τ = s(BA)ᵀ
    bool embedding = false;
    std::optional<double> told_rank;  ///< by the configuration
    double scale = 0;   ///< s = α/r, or α/√r (Kalajdzievski 2023, "rsLoRA")
    std::string whole;  ///< a tensor that stands in θ0's place, before the product is added
  };
  struct Configuration;

  void read_tensors(const Configuration& configuration, const BaseLayers& base_layers,
                    const store::TensorFolder& theta0);
  void require_shapes(const std::string& name, Change& change, const Configuration& configuration,
                      const BaseLayers& base_layers, const store::TensorFolder& theta0) const;
  /// s·B·A of whole rows [first, first + count), [count, columns], double.
  at::Tensor product(const Change& change, std::int64_t first, std::int64_t count) const;

  std::filesystem::path folder_;
  store::MappedTensors tensors_;
  std::map<std::string, Change> changes_;
  std::vector<std::string> notes_;
};

}  // namespace taugrid::merging
