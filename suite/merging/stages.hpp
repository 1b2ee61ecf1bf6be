// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A merge of checkpoints as it is carried out: a stage for each slice of the recipe (one, where it has none),
// in which tensors of equal parameters that lie side by side are merged together.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "suite/merging/checkpoints.hpp"
#include "suite/merging/recipe.hpp"
#include "suite/merging/under_way.hpp"
#include "suite/merging/vocabulary.hpp"

namespace taugrid::merging {

class Stage {
 public:
  /// Where in the merged model the slice's layers come: the first of them, and whether tensors of no layer
  /// that stand before, or behind, all layers are among its tensors.
  struct Place {
    std::int64_t first_layer;
    bool begins, ends;
    static Place of(const Recipe& recipe, std::size_t slice);
  };
  /// Opens the models, gives layers the numbers and rows the vocabulary, if any, that they have in the merged
  /// one, and finds what holds for each tensor. Throws InputError.
  Stage(const Recipe& recipe, const Recipe::Slice& slice, Place place, const Vocabulary* vocabulary,
        std::function<void()> go_on);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// θ0's tensors, or the first model's, under the merged model's names.
  const Weights& start() const { return start_; }
  const std::vector<Model>& models() const { return models_; }
  const Recipe::Slice& slice() const { return slice_; }
  /// Whether vectors are the models themselves, and θ0 is not read.
  bool is_of_models() const { return is_of_models_; }
  const CheckpointVectors& vectors() const { return *vectors_; }
  std::int64_t layers() const { return layers_; }

  using Write = std::function<void(const std::string&, std::int64_t, const at::Tensor&)>;
  /// What a rank makes of it: tensors, or stretches of them, where these can be merged one by one; else its
  /// share of all numbers.
  struct Share {
    struct Piece {
      std::vector<NamedTensor> tensors;  ///< side by side, or one that was cut
      std::size_t run;
      Range range() const {
        return {tensors.front().range.begin, tensors.back().range.end() - tensors.front().range.begin};
      }
    };
    std::vector<Piece> pieces;
    double visits = 0;        ///< numbers of vectors that it takes to go through, about
    double numbers = 0;       ///< that it gives
    double flops = 0;         ///< beside the visits
    double memory = 0;        ///< bytes that it holds at once
    std::size_t threads = 1;  ///< that merge its pieces
  };
  /// The parts of a range that are to be made still.
  using Left = std::function<std::vector<Range>(Range)>;
  /// The shares of so many ranks, which have about as much to do, of what is left.
  std::vector<Share> shares(int ranks, const Left& left) const;
  /// What a merge gives: the merged model, or λτ, what it has more than θ0.
  enum class Gives { model, vector };
  /// `write(tensor's name, its first number, numbers)`: numbers of the rank's share, float32, which are good
  /// until it returns; called by several threads at once. `number`: the stage's own, in the journal.
  /// Collective.
  Merged merge(const Share& share, std::size_t number, UnderWay& under_way, const Write& write,
               Gives gives = Gives::model) const;
  /// Whether λτ of a tensor can be made without the other tensors.
  bool is_tensor_by_tensor() const;
  /// λτ of the i-th tensor of the vectors, flat, float32, where it can.
  at::Tensor vector(std::size_t i) const;

 private:
  /// What holds for a tensor.
  struct Parameters {
    std::vector<double> weights;
    std::map<std::string, std::vector<double>> of_method;  ///< one value, or one a model
    bool operator==(const Parameters& other) const = default;
  };
  /// Tensors begin … end − 1 of the vectors', which have these.
  struct Run {
    std::size_t begin, end;
    Parameters parameters;
    std::shared_ptr<const VectorMethod> method;
  };

  std::vector<Share::Piece> pieces() const;
  /// Gives the numbers begin … that a method made of the vectors, which are a thread's own.
  void put(const CheckpointVectors& vectors, Gives gives, std::int64_t begin, const at::Tensor& tau,
           const Write& write) const;
  /// λτ of tensors that have this λ; of models their difference from θ0.
  void scale(const CheckpointVectors& vectors, std::int64_t begin, const at::Tensor& tau, double lambda,
             const Write& write) const;
  /// Numbers of τ that are not zero, and of vectors that were gone through.
  struct Seen {
    std::int64_t nonzero = 0;
    double visited = 0;
  };
  /// Merges a share's pieces.
  Seen merge_pieces(const Share& share, std::size_t number, UnderWay& under_way, const Write& write,
                    Gives gives) const;
  void require_one_vector() const;
  void require_takes_adapter(const Recipe::Source& source) const;
  void plan();
  void require_filters_fit() const;
  double depth_of(const std::string& tensor) const;
  Parameters parameters_of(const std::string& tensor) const;
  double value(const std::string& key, const std::string& tensor, const Recipe::Source* source) const;
  std::shared_ptr<const VectorMethod> method_with(const Parameters& parameters) const;

  const Recipe& recipe_;
  const Recipe::Slice& slice_;
  Place place_;
  Weights start_;
  std::vector<Model> models_;
  bool is_of_models_ = false;
  std::set<std::string> names_;  ///< of all tensors of the models, also of those that the slice leaves
  std::int64_t layers_ = 0;      ///< of the slice
  std::map<std::string, std::int64_t> stacks_;
  std::unique_ptr<CheckpointVectors> vectors_;
  std::vector<Run> runs_;
  std::vector<double> lambdas_;  ///< of each tensor of the vectors
};

/// Leaves a slice's layers of a model alone, with the numbers that they have in the merged one, and the
/// tensors of no layer that are this slice's. `where`: what says so. Throws InputError where it lacks some.
void take_layers(Weights& model, Range layers, const std::string& where, Stage::Place place);

/// All of them, in the order of the merged model's layers.
std::vector<std::unique_ptr<Stage>> stages_of(const Recipe& recipe, const Vocabulary* vocabulary,
                                              const std::function<void()>& go_on);

}  // namespace taugrid::merging
