// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What decoder-only language models have in common, whatever their blocks: they are read at a prompt's last
// token, by rows of a vocabulary, and answer in the prompt's own line (text_line.hpp).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "suite/models/nets/nets.hpp"
#include "suite/models/nets/text_line.hpp"

namespace taugrid::models {

/// A Config has width, layers, vocabulary, tokens and ends (the tokens that end a text); these are read here.
template <class Mine, class Config>
class CausalNet : public Net<Mine> {
 public:
  CausalNet(Config config, std::string config_json, Files beside)
      : config_(std::move(config)), config_json_(std::move(config_json)), beside_(std::move(beside)) {}

  const autodiff::Layout& layout() const override { return layout_; }
  std::string config_json() const override { return config_json_; }
  Files beside_config() const override { return beside_; }
  int stages() const override { return static_cast<int>(config_.layers); }
  std::int64_t width() const override { return config_.width; }
  Takes takes() const override { return {.vocabulary = config_.vocabulary, .tokens = config_.tokens}; }
  int vocabulary_block() const override { return static_cast<int>(read_words_); }
  const char* space() const override { return "decoder's output at the last token"; }
  bool answers_in_line() const override { return true; }
  std::int64_t decoder_start() const override { return 0; }  // whatever: the prompt's last token stands there
  std::vector<std::int64_t> decoder_ends() const override { return config_.ends; }

 protected:
  Config config_;
  autodiff::Layout layout_;
  std::size_t words_ = 0, read_words_ = 0;  ///< blocks [vocabulary, width]: embeddings, and what reads

 private:
  std::string config_json_;
  Files beside_;
};

/// Throws InputError unless config.json names this architecture with its vocabulary, or none, or where
/// embeddings are tied the one with a head of labels, which has all that is read.
void require_vocabulary(const nlohmann::json& config, const Keys& keys, const std::string& architecture,
                        const std::string& of_labels, bool tied);

/// config.json as the model's own folders have it, which hold no head of labels.
std::string as_written(nlohmann::json config, const Keys& keys, const std::string& architecture);

}  // namespace taugrid::models
