// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The classifier that a model of pictures brings: its last linear map, a part of θ. Tasks whose /head is of
// kind words read its rows; others have rows of their own, and leave it as it is.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "suite/models/encoder.hpp"
#include "suite/models/registry.hpp"

namespace taugrid::models {

struct Classifier {
  int weight = -1, bias = -1;  ///< blocks [classes, width] and [classes, 1]; −1 where the model brings none
};

/// Appends NAME.weight and NAME.bias, where config.json says num_classes.
inline Classifier add_classifier(autodiff::Layout& layout, const std::string& name, std::int64_t classes,
                                 std::int64_t width) {
  if (classes == 0) return {};
  const auto weight = layout.add(autodiff::Kind::projection, {name + ".weight"}, {classes, width});
  const auto bias = layout.add(autodiff::Kind::projection, {name + ".bias"}, {classes}, {classes, 1});
  return {static_cast<int>(weight), static_cast<int>(bias)};
}

/// num_classes of a config.json; 0 where it says none.
inline std::int64_t classes_of(const Keys& keys) { return keys.integer("num_classes", 0); }

/// Which of transformers' two classes a folder is of: NAMEModel, or NAMEForImageClassification, which has it
/// as a part and brings a classifier behind it.
struct Wrapping {
  std::string architecture;
  std::string prefix = {};  ///< of the encoder's tensors, where it is a part
  std::int64_t classes = 0;
};

/// As config.json's `architectures` say; with as many classes as id2label names, or without it num_labels, or
/// two. `part`: the encoder's name in the larger class. Throws InputError.
inline Wrapping wrapping_of(const nlohmann::json& json, const Keys& keys, const std::string& name,
                            const std::string& part) {
  const auto alone = name + "Model", whole = name + "ForImageClassification";
  if (!keys.has("architectures")) return {alone};
  const auto& named = json["architectures"];
  if (!named.is_array() || named.size() != 1 || !named[0].is_string())
    keys.refuse("architectures is " + named.dump() + "; expected a list of one name");
  const auto given = named[0].get<std::string>();
  if (given == alone) return {alone};
  if (given != whole) keys.refuse("architectures names " + given + "; expected " + alone + " or " + whole);
  Wrapping wrapping{whole, part + ".", keys.integer("num_labels", 2)};
  if (!keys.has("id2label")) return wrapping;
  if (!json["id2label"].is_object() || json["id2label"].empty())
    keys.refuse("id2label is no object of class names");
  wrapping.classes = static_cast<std::int64_t>(json["id2label"].size());
  return wrapping;
}

}  // namespace taugrid::models
