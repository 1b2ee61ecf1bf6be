// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// `taugrid merge`: a recipe names checkpoints and a method, and a Hugging Face folder comes of it. The words
// are mergekit's where they mean the same.
#pragma once

#include <filesystem>
#include <functional>
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

/// A matrix of an adapter that is written.
struct FactoredMatrix {
  std::string name;
  std::int64_t rank;
  double norm;   ///< ‖Δ‖
  double error;  ///< ‖Δ − BA‖ / ‖Δ‖, of the factors as they are written
};

/// The recipe's keys, for the reference.
std::vector<config::SectionEntry> recipe_reference();

struct Report {
  std::int64_t numbers = 0;  ///< of a model
  Merged merged;
  double bytes = 0;                           ///< of all inputs
  std::vector<std::string> notes;             ///< what was not merged, or not as it stood
  std::vector<FactoredMatrix> matrices = {};  ///< of an adapter
  std::size_t whole = 0;                      ///< tensors that stand in it whole
  double read = 0, written = 0;               ///< bytes, by all ranks together, in this start
};

/// What a rank reads, writes and holds at once in bytes, and computes beside what sums take.
struct Load {
  double read = 0, written = 0, memory = 0, flops = 0;
};
/// What the merged model takes each of so many ranks, about. Reads little but headers. Throws InputError.
std::vector<Load> loads(const Recipe& recipe, int ranks);

/// How a merge is carried out.
struct Making {
  std::string made_by;          ///< the first line of merge.toml, and what computed: another starts anew
  Team team = {};               ///< that keeps apart
  std::function<void()> go_on;  ///< called all the while; may throw Interrupted
  std::function<void()> look;   ///< called at the end, while the inputs are still mapped
  std::function<void(double share)> see;  ///< how far this rank is, from 0 to 1
  /// Called by the first rank before all else, with what each is to do; or none.
  std::function<void(const std::vector<Load>&)> plan;
};

/// Writes recipe.out: the merged weights in recipe.dtype and the base model's files, the files beside them
/// that say what the model is (side_files.hpp), or an adapter of the base (adapter_output.hpp); merge.toml,
/// and the model's card (model_card.hpp). The folder appears whole or not at all. It is built beside its
/// place, where what is finished stays after Interrupted or a kill, and the next start of the same merge, by
/// any number of ranks, goes on; InputError leaves nothing behind. The same bytes for any number of ranks.
/// Collective. Throws InputError.
Report merge(const Recipe& recipe, const Making& making);

}  // namespace taugrid::merging
