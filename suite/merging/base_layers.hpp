// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a base's config.json says of its layers, where adapters ask for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace taugrid::merging {

struct BaseLayers {
  bool has_conv1d = false;        ///< some layers of GPT-2 and its like store their weights transposed
  bool are_renamed = false;       ///< transformers 5 has other names for some than the file
  std::set<std::int64_t> tied{};  ///< sizes of vocabularies whose embeddings are the head, too

  /// Where a configuration does not say, transformers ties the two; families that do not are written with
  /// both. `stores_head`: whether the base's weights have a head of their own. Throws InputError.
  BaseLayers(const std::filesystem::path& base, bool stores_head);

  /// Whether a layer's weight, of this name, is [in, out].
  bool is_conv1d(const std::string& name) const;
  /// Whether a tensor is the matrix that is both.
  bool is_tied(const std::string& name, const std::vector<std::int64_t>& shape) const;
};

}  // namespace taugrid::merging
