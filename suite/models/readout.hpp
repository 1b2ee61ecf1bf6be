// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How a task's logits follow from a model. It belongs to the pair of model and task, and has two parts: the
// output, a function of θ, which a linearised model linearises and whose Jacobian J is; and the logits, a
// fixed function of the output.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "suite/models/encoder.hpp"

namespace taugrid::models {

struct Readout {
  enum class Kind {
    cosine,  ///< output: the features z; logits: scale · cos(z, row) (papers 1 to 4: a frozen head)
    affine,  ///< output: z; logits: z · rowᵀ + bias, both frozen (paper 1: closed vocabulary)
    words,  ///< output: the logits z · E[words]ᵀ + b[words], vocabulary E and its biases b being parts of θ
    /// output: the logits z · Eᵀ of the whole vocabulary behind each beginning of a label's tokens, or, where
    /// rows are frozen, these states z; logits: the log-probability of each label's whole sequence, Σ over
    /// its tokens
    sequences,
    /// output: as of sequences, behind each beginning of a sample's own text; logits: those of the
    /// vocabulary, [n, places·rows]
    text,
    /// output and logits: the log-probability of each of a row's own choices, [n, choices], Σ over its tokens
    /// as of sequences; autodiff::no_choice where there is none
    choices
  };
  Kind kind = Kind::cosine;
  /// Rows [classes, width of the features], of cosine at unit length; of sequences those of the whole
  /// vocabulary where they are frozen, else undefined.
  at::Tensor weight = {};
  double scale = 1;            ///< of cosine: exp of CLIP's logit scale
  at::Tensor bias = {};        ///< of affine [classes]
  double cap = 0;              ///< of affine: Encoder::logit_cap() where its rows are the vocabulary's
  at::Tensor words = {};       ///< int64 [classes], rows of the vocabulary
  autodiff::Paths paths = {};  ///< of sequences
  std::vector<std::int64_t> lengths = {};  ///< of sequences: tokens of each class's
  /// What each class's logit is divided by where sequences are compared, [classes]: the letters of its
  /// answer, as lm-evaluation-harness' acc_norm has it; undefined: nothing, as its acc.
  at::Tensor letters = {};
  std::int64_t vocabulary = 0;  ///< of sequences and texts: rows of E
  std::int64_t most = 0;        ///< of choices: how many a row may have
  /// What stands in the columns of the labels of choices, int64 [n, 2 + most].
  enum Column : std::int64_t {
    right,  ///< which choice is
    items,  ///< how many of its tokens are scored
    parts   ///< from here on: what each choice's score is divided by where they are compared; 0: not there
  };
  static constexpr std::int64_t no_token =
      -100;  ///< in the labels of texts: behind the end, as transformers has it

  std::int64_t classes() const {
    if (kind == Kind::sequences) return static_cast<std::int64_t>(lengths.size());
    if (kind == Kind::text) return 0;
    if (kind == Kind::choices) return most;
    return kind == Kind::words ? words.size(0) : weight.size(0);
  }
  /// Width of the output.
  std::int64_t width(const Encoder& encoder) const {
    if (kind == Kind::choices) return most;
    if (reads_places()) return paths.nodes * (weight.defined() ? encoder.width() : vocabulary);
    return kind == Kind::words ? classes() : encoder.width();
  }
  /// Which space an output lies in, and so what a linearised model linearises, τJp, and distances of outputs.
  const char* space(const Encoder& encoder) const {
    if (kind == Kind::choices) return "log-probabilities of each row's choices";
    if (reads_places())
      return weight.defined() ? "decoder's output at each token of the answers"
                              : "logits of the vocabulary at each token of the answers";
    return kind == Kind::words ? "logits" : encoder.space();
  }
  /// Whether the output is the features themselves, [n, width of the features].
  bool is_features() const { return kind == Kind::cosine || kind == Kind::affine; }
  /// Whether it reads the decoder at several places, from Batch::decoder: at Paths::nodes, or of choices
  /// where Batch::scored says.
  bool reads_places() const { return kind == Kind::sequences || kind == Kind::text || kind == Kind::choices; }

  /// Whether the output is made with blocks of θ, those of the vocabulary.
  bool reads_vocabulary() const { return !is_features() && !(reads_places() && weight.defined()); }

  /// The output [n, width] of features z [n, width of the features] of the model at `p`, for the inputs x.
  template <class T>
  T output(const Encoder& encoder, const Blocks<T>& p, const T& z, const Batch& x) const {
    if (is_features()) return z;
    const auto& table = p[static_cast<std::size_t>(encoder.vocabulary_block())];
    if (reads_places()) {
      const bool are_choices = kind == Kind::choices;
      T places = autodiff::some_tokens(z, 0, are_choices ? x.scored.size(1) : paths.nodes);
      if (!weight.defined()) {
        places = autodiff::linear(places, table);
        if (encoder.logit_cap() > 0) places = autodiff::soft_cap(places, encoder.logit_cap());
      }
      return are_choices ? autodiff::choice_scores(places, weight, x.scored, most)
                         : autodiff::flatten_tokens(places);
    }
    const auto biases = encoder.vocabulary_bias();
    if (const auto bound = encoder.logit_cap(); bound > 0)
      return autodiff::soft_cap(autodiff::word_logits(z, table, words), bound);
    if (biases < 0) return autodiff::word_logits(z, table, words);
    return autodiff::word_logits(z, table, p[static_cast<std::size_t>(biases)], words);
  }
  /// [n, classes] of an output [n, width]; of a linearised model's, which is normalised after it was
  /// linearised.
  template <class T>
  T logits(const T& output) const {
    switch (kind) {
      case Kind::cosine:
        return autodiff::cosine_logits(autodiff::normalise_rows(output), weight, scale);
      case Kind::affine:
        if (cap > 0) return autodiff::soft_cap(autodiff::affine_logits(output, weight, bias), cap);
        return autodiff::affine_logits(output, weight, bias);
      case Kind::words:
      case Kind::choices:
        return output;
      case Kind::sequences:
        return autodiff::sequence_scores(output, weight, paths);
      case Kind::text:
        if constexpr (std::is_same_v<T, at::Tensor>) return logits_of_text(output);
        throw std::logic_error("logits of a text are asked for of values alone");
    }
    return output;
  }

  /// The sum of the training loss over samples: cross-entropy; of sequences, texts and choices −log p of the
  /// right one's tokens (T5ForConditionalGeneration's loss), other labels being no part of it. Labels int64
  /// [n]; of texts [n, places], no_token behind each one's end; of choices as Column says.
  at::Tensor loss(const at::Tensor& logits, const at::Tensor& labels) const;
  /// What the sum of losses is divided by for their mean: samples; of sequences, texts and choices the right
  /// ones' tokens.
  double loss_items(const at::Tensor& labels) const;
  /// What classes are compared by, and predicted: logits [n, classes], divided by `letters` where there are
  /// any; of choices by what the labels say, −∞ where there is none.
  at::Tensor compared(const at::Tensor& logits, const at::Tensor& labels) const;
  /// Which class is each sample's, int64 [n]; of choices its place among the row's own. Not of texts.
  at::Tensor classes_of(const at::Tensor& labels) const {
    return kind == Kind::choices ? labels.select(1, right) : labels;
  }
  /// Which samples are right, bool [n]: the largest of compared() is the label's, of equal ones the first
  /// class's; of texts each token's, which is what greedy decoding gives exactly then.
  at::Tensor correct(const at::Tensor& logits, const at::Tensor& labels) const;

 private:
  at::Tensor logits_of_text(const at::Tensor& output) const;

 public:
  Readout to(at::Device device) const;
  /// The same readout in numbers of `type`.
  Readout to(at::ScalarType type) const;
};

}  // namespace taugrid::models
