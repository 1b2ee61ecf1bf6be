// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Packed data sets: one HDF5 file a task, and one of picture-caption pairs for pre-training.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace taugrid::data {

enum class Split { train, validation, test };

/// "train", "validation" or "test".
const char* split_name(Split split);

/// n samples of one split.
struct Samples {
  /// uint8 [n,h,w,c] or int32 [n,t]; pictures are mapped from the file where they lie in one piece.
  at::Tensor inputs;
  /// int64 [n], 0 <= label < classes; of a head of texts tokens [n,l], −100 behind the end; of choices
  /// [n, 2 + classes], as models::Readout::Column says
  at::Tensor labels;
  /// Each row's own answers, of a head of choices: tokens int32 [n, classes, l], how many there are of each
  /// [n, classes], 0 where a row has fewer choices, and how many of its first ones are given, not scored.
  at::Tensor choices, choice_lengths, choice_given;
  /// All right answers of a sample, a line each, where the head is of texts [n].
  std::vector<std::string> references;
  at::Tensor lengths;  ///< int32 [n], tokens in use, 1 … t; undefined for pictures
  at::Tensor types;    ///< int32 [n,t], 0 first, 1 second text; undefined where there are no pairs
  at::Tensor mask;  ///< int32 [n], which token of a prompt is the mask; undefined where there are no prompts

  /// The right answers of a sample, one at least.
  std::vector<std::string> answers(std::int64_t row) const;
};

/// How features become logits, as the file has it: see models::Readout.
struct Head {
  enum class Kind { cosine, affine, words, sequences, text, choices };
  Kind kind = Kind::cosine;
  at::Tensor weight;       ///< float32 [classes, features], of cosine with rows of unit length; none of words
  double logit_scale = 1;  ///< of cosine
  at::Tensor bias;         ///< float32 [classes], of affine
  /// int64, of words [classes]: each class's row of the vocabulary; of sequences [classes, l]: its label's
  /// rows
  at::Tensor tokens;
  at::Tensor lengths;  ///< int64 [classes], of sequences: tokens in use, 1 … l
  /// int64 [classes], of sequences: letters of each class's answer, by which its score is divided where
  /// classes are compared; undefined: it is not
  at::Tensor letters;
  std::string metric;               ///< of texts: what tells how good they are, one of text_metrics()
  std::vector<std::string> pieces;  ///< of texts: what each row of the vocabulary adds to a text
};

struct Task {
  std::string name, modality, source, license;  ///< modality: "image" or "text"
  std::vector<std::string> class_names;
  std::string group;      ///< what its declaration puts it with, "sentiment" say; empty: not told
  std::string tokenizer;  ///< of text: hexadecimal FNV-1a of the tokenizer.json that made it; empty: not told
  Head head;
  std::vector<float> mean, std;  ///< a channel each, of inputs scaled to 0…1; empty for text
  Samples train, validation, test;

  std::int64_t classes() const { return static_cast<std::int64_t>(class_names.size()); }
  const Samples& split(Split which) const;
};

/// Throws InputError (one line: file, data set, what was expected) where the file is not such a data set.
Task read_task(const std::filesystem::path& path);

/// Metrics of tasks that are answered by texts.
const std::vector<std::string>& text_metrics();

/// Tokens of the longest text in a packed file; 0 where there is none, or no such file.
std::int64_t longest_text(const std::filesystem::path& path);

/// How many places a decoder is given for the labels of a packed file: each beginning that its labels'
/// sequences have, the tokens of the longest text, or those of all choices of a row; 0 where it holds none of
/// these, or there is no such file.
std::int64_t places_to_decode(const std::filesystem::path& path);

/// Pictures with captions; n pictures, k captions.
struct Pairs {
  at::Tensor images;                  // uint8 [n,h,w,c]
  at::Tensor caption;                 // int32 [n], index into captions
  std::vector<std::string> captions;  // [k]
  at::Tensor text_embedding;          // float32 [k,d]
  at::Tensor is_class_picture;        // int8 [n], 0 or 1
  at::Tensor class_picture_rank;      // int32 [n]
  std::vector<float> mean, std;       // a channel each; empty where the file gives none
};

/// Throws InputError as read_task does.
Pairs read_pairs(const std::filesystem::path& path);

/// (x / 255 - mean) / std: uint8 [n,h,w,c] to float32 [n,c,h,w], contiguous, on the device of the input,
/// where mean and std, float32 [c], are too. Throws InputError if they do not have c entries.
at::Tensor normalised_images(const at::Tensor& images, const at::Tensor& mean, const at::Tensor& std);
/// The same, with mean and std taken to the device first.
at::Tensor normalised_images(const at::Tensor& images, const std::vector<float>& mean,
                             const std::vector<float>& std);

/// `tensor` on `device`, through pinned memory as below; itself on a CPU.
at::Tensor send(at::Device device, const at::Tensor& tensor);

/// rows[index] on `device`. The host does not wait for a GPU: rows travel from pinned memory, which LibTorch
/// keeps until they have arrived, so that the next ones are gathered and sent meanwhile.
at::Tensor rows_on(at::Device device, const at::Tensor& rows, const at::Tensor& index);

}  // namespace taugrid::data
