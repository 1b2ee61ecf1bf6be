// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// `taugrid merge`: a recipe names checkpoints and a method, and a Hugging Face folder comes of it. The words
// are mergekit's where they mean the same.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/merging/vector_method.hpp"

namespace taugrid::merging {

struct Recipe {
  std::string method_name;
  std::shared_ptr<const VectorMethod> method;
  double lambda = 1;
  std::filesystem::path base, out;
  std::string dtype;  ///< "base", or a floating-point type
  std::vector<std::filesystem::path> models;
  std::vector<double> weights;
  std::string resolved;  ///< every key with the value in force, as a recipe

  /// Throws InputError.
  static Recipe read(const std::filesystem::path& path);
};

/// The recipe's keys, for the reference.
std::vector<config::SectionEntry> recipe_reference();

struct Report {
  std::int64_t numbers = 0;  ///< of a model
  Merged merged;
  double bytes = 0;                ///< of all inputs
  std::vector<std::string> notes;  ///< what was not merged, or not as it stood
};

/// Writes recipe.out: the merged weights in recipe.dtype and the base model's files, the files beside them
/// that say what the model is (side_files.hpp), and merge.toml, `made_by` in its first line. The folder
/// appears whole or not at all. `look` is called at the end, while the inputs are still mapped, and `go_on`
/// all the while: what it throws leaves nothing behind. Throws InputError.
Report merge(const Recipe& recipe, const std::string& made_by, const std::function<void()>& look,
             const std::function<void()>& go_on);

}  // namespace taugrid::merging
