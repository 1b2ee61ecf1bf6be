// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A recipe names checkpoints and a method, and says where to the merged model goes (merge.hpp). The words are
// mergekit's where they mean the same.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/merging/vector_method.hpp"

namespace taugrid::merging {

struct Recipe {
  using Settings = std::map<std::string, config::Setting>;
  /// A model, or some of its layers.
  struct Source {
    std::size_t model;      ///< its place among the models
    Range layers;           ///< of a slice
    Settings own_settings;  ///< numbers of this model alone
    std::string where;      ///< "FILE:LINE: key" of the layers
  };
  /// Layers of the merged model, side by side, each made of one layer of every source.
  struct Slice {
    std::vector<Source> sources;
    std::filesystem::path base_model;  ///< the folder of θ0
    std::optional<Range> base;         ///< its layers, where a slice's method needs them
    Settings shared;                   ///< numbers of this slice
  };

  std::string where;  ///< the file and what it calls the models, for messages
  std::string method_name;
  std::shared_ptr<const VectorMethod> method;
  /// The rank of an adapter's matrices.
  struct AdapterRank {
    std::int64_t rank = 0;  ///< at most; 0: as many as the share asks for
    double share = 1;       ///< of ‖τ‖² that is to be kept, at least, by the least rank that does
    std::string where;      ///< "FILE:LINE: adapter"
    /// Whether nothing may be lost.
    bool is_exact() const { return rank == 0 && share >= 1; }
  };

  /// The merged model's vocabulary (vocabulary.hpp).
  struct Tokenizer {
    /// What a token's row is before the models are merged.
    struct Row {
      std::string token;
      std::filesystem::path model;  ///< whose row it is; empty: zeros
      std::string source_token;     ///< which row of that model; empty: the token's own
      std::int64_t source_id = -1;  ///< at least 0: in the place of source_token
      bool force = false;           ///< of all models, also of those that have the token
      std::string where;            ///< "FILE:LINE: key"
    };
    bool is_union = false;
    std::filesystem::path model;   ///< whose it is; empty: the base's, or those of all
    std::int64_t multiple_of = 1;  ///< the number of rows
    std::vector<Row> rows;
    std::string where;
  };

  std::filesystem::path base, out;
  bool names_base = false;             ///< else it is the first of the models
  std::optional<Tokenizer> tokenizer;  ///< none: rows are merged as they stand
  std::string chat_template;           ///< its text, "auto", or empty: that of the tokenizer
  std::optional<AdapterRank> adapter;  ///< out is an adapter of the base
  std::string dtype;                   ///< "base", or a floating-point type
  double max_shard_size = 5;           ///< GB of a written file
  std::vector<std::filesystem::path> models;
  bool is_sliced = false;
  bool adds_models = false;                ///< Σ w θ, which no mean makes independent of θ0
  std::vector<Slice> slices;               ///< one, of all layers, where the recipe has none
  Settings shared;                         ///< numbers of [parameters]
  std::map<std::string, double> defaults;  ///< of what models may say themselves, where nobody does
  std::vector<std::string> notes;          ///< what was read and does nothing
  std::string resolved;                    ///< every key with the value in force, as a recipe

  /// Whether the merged model is made of the models' own numbers, whatever θ0 is.
  bool is_of_models() const;

  /// The type in which numbers are written; none: the base's.
  std::optional<at::ScalarType> type() const;

  /// A recipe in TOML or, where the name ends with .yml or .yaml, in mergekit's YAML. `out`, where it is not
  /// empty, is the folder to be written, whatever the recipe says; who writes none needs none. Throws
  /// InputError.
  static Recipe read(const std::filesystem::path& path, const std::filesystem::path& out = {},
                     bool needs_out = true);
  /// The difference of a model from its base, as an adapter. Throws InputError.
  static Recipe extraction(const std::filesystem::path& base, const std::filesystem::path& model,
                           const std::filesystem::path& out, std::int64_t rank, double share,
                           const std::string& dtype);
};

/// Whether two paths lead to one folder.
bool same_folder(const std::filesystem::path& a, const std::filesystem::path& b);

/// The recipe's keys, for the reference.
std::vector<config::SectionEntry> recipe_reference();

/// What a recipe's merge_method does.
const config::Meaning& meaning_of(const std::string& method);

}  // namespace taugrid::merging
