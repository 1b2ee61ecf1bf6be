// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How named parameters lie in the flat vector θ. A block is one or several neighbouring parameters that the
// model uses as one tensor (the query, key and value weights, say), so that one matrix product serves them
// all.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace taugrid::autodiff {

/// A parameter's role in the model, so that a group alone can be trained (paper 4: attention modules only).
enum class Kind {
  embedding,
  attention_weight,
  attention_bias,
  mlp_weight,
  mlp_bias,
  norm,
  projection,
  convolution,
  word_head  ///< of a masked language model, between its encoder and its vocabulary
};
constexpr Kind last_kind = Kind::word_head;

const char* name_of(Kind kind);

struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  ///< in θ, in numbers
  std::int64_t count = 0;
  Kind kind = Kind::embedding;
  bool transposed = false;  ///< a matrix [out, in] that checkpoints hold as [in, out]
  /// Its shape in a checkpoint.
  std::vector<std::int64_t> stored_shape() const;
  /// A view of its numbers in a checkpoint's shape as θ has them, and the other way round.
  at::Tensor turned(const at::Tensor& numbers) const;
};

struct Block {
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  Kind kind = Kind::embedding;
  int stage = 0;  ///< the first stage of the model that uses it
};

class Layout {
 public:
  /// Appends a block of parameters, equal in all dimensions but the first; returns its index. `shape`, where
  /// given, is the block's own (a view of the same numbers). Throws std::length_error beyond 2⁴⁸ numbers.
  std::size_t add(Kind kind, const std::vector<std::string>& names, const std::vector<std::int64_t>& each,
                  const std::vector<std::int64_t>& shape = {});
  /// The same of one matrix [out, in] that checkpoints hold as [in, out], as those of GPT-2 do.
  std::size_t add_transposed(Kind kind, const std::string& name, std::int64_t out, std::int64_t in);
  /// Blocks that are added from now on belong to this stage.
  void begin_stage(int stage) { stage_ = stage; }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  std::int64_t size() const { return size_; }  ///< P, the length of θ

  /// Views of θ [P], one a block; no copies. Throws std::invalid_argument unless θ is [P] and contiguous.
  std::vector<at::Tensor> views(const at::Tensor& theta) const;
  /// Views of θ, one a parameter, otherwise as views().
  std::vector<at::Tensor> parameter_views(const at::Tensor& theta) const;

 private:
  void check(const at::Tensor& theta) const;
  std::vector<Parameter> parameters_;
  std::vector<Block> blocks_;
  std::int64_t size_ = 0;
  int stage_ = 0;
};

}  // namespace taugrid::autodiff
