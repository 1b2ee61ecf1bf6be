// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Vocabularies of models that are merged. Row i of an embedding, of a head, or of its bias is that of the
// token whose id is i. With V the merged model's vocabulary, every model gets row V(token) = its own row of
// the token, or one that the recipe or mergekit's rule names, before any method sees it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "suite/merging/checkpoints.hpp"
#include "suite/merging/recipe.hpp"

namespace taugrid::merging {

/// The tokens of a tokenizer.
struct Tokens {
  std::map<std::string, std::int64_t> ids{};
  std::map<std::string, std::string> added{};  ///< what tokenizer.json says of its added tokens, as JSON

  std::int64_t end() const;  ///< one more than the largest id
  std::vector<std::pair<std::int64_t, std::string>> by_id() const;
};

/// Reads the text of a tokenizer.json. Throws InputError, which begins with `path`.
Tokens tokens_of(const std::filesystem::path& path, const std::string& text);

/// Reads a folder's tokenizer.json, else vocab.json or vocab.txt, and what tokenizer_config.json and
/// added_tokens.json add. None where it has no tokenizer. Throws InputError where there is one that is not
/// read, such as sentencepiece's alone, and where two tokens have one id.
std::optional<Tokens> tokens_in(const std::filesystem::path& folder);

class Vocabulary {
 public:
  /// Reads the tokenizers of the base and of all models but adapters, whose tokens are the base's, and makes
  /// the vocabulary that the recipe asks for. Throws InputError.
  explicit Vocabulary(const Recipe& recipe);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  /// The folder of which the result has the tokenizer's files.
  const std::filesystem::path& source() const { return source_; }
  /// What was made of the vocabularies: a line each.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Gives the embeddings and heads of θ0 and the models the vocabulary's rows. Where the models do without
  /// θ0, `start` is the first of them again. `begins`: whether embeddings are among the tensors. Throws
  /// InputError.
  void arrange(Weights& start, std::vector<Model>& models, bool begins) const;
  /// The base's config.json as the result's: the number of rows, and the source's ids of special tokens.
  void configure(nlohmann::ordered_json& config) const;
  /// Puts further tokens into the source's files, which are in this folder already.
  void write(const std::filesystem::path& folder) const;

 private:
  using Path = std::filesystem::path;
  using Row = Recipe::Tokenizer::Row;
  struct Own {
    Tokens tokens;
    std::int64_t rows;  ///< of its embeddings
    bool has_tokenizer;
  };
  /// A model's weights, and its vocabulary, which is one object for each folder.
  struct Owner {
    Weights* weights;
    const Own* vocabulary;
  };
  const Own& vocabulary_of(const Path& folder) const;
  void read(const Path& folder, bool is_base);
  void add(const std::string& token, const std::string& entry);
  void unite();
  void require_sources() const;
  static bool has_rows(const Owner& owner, const std::string& name);
  const Row* chosen(const std::string& token) const;
  void arrange(const std::string& name, const std::vector<Owner>& owners) const;
  /// The row of a token in the models that lack it, or must not use theirs: [numbers], float32.
  at::Tensor row(const std::string& name, const std::string& token, const std::vector<Owner>& owners) const;

  Recipe::Tokenizer choice_;
  Path base_, source_;
  const Own* first_ = nullptr;  ///< the base's, whose rows go before others; null where the recipe names none
  std::vector<Path> order_;     ///< the base, then the models
  std::map<Path, Own> own_;     ///< by canonical path
  std::map<std::string, std::int64_t> ids_;
  std::map<std::string, const Row*> chosen_;
  std::vector<std::pair<std::string, std::string>>
      further_;                      ///< beyond the source's, with what is said of them
  std::int64_t end_ = 0, rows_ = 0;  ///< one more than the largest id; all rows
  std::vector<std::string> notes_;
};

/// Writes the recipe's chat template into a folder that has a copy of the tokenizer's files. Throws
/// InputError where it is to be that of most models, and none has any.
void write_chat_template(const Recipe& recipe, const std::filesystem::path& folder);

}  // namespace taugrid::merging
