// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Model merging without data: T task vectors become one, τ, and the merged model is θ0 + λτ. The names are
// those of the field, and of mergekit where it has the method; each method's file has its formula.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/merging/sink.hpp"
#include "suite/merging/task_vectors.hpp"
#include "suite/merging/team.hpp"

namespace taugrid::merging {

/// What a merge takes, about.
struct MergeWork {
  double passes = 1;  ///< over all vectors
  double flops = 0;   ///< of factorisations
  double bytes = 0;   ///< beside the vectors and τ
};

struct Merged {
  double density = 0;  ///< share of numbers of τ that are not zero
  double passes = 0;   ///< over all vectors, by all ranks together
};

class Method {
 public:
  virtual ~Method() = default;
  /// Throws InputError, beginning with `what`, where it cannot merge so many vectors, or with these weights.
  virtual void check(const std::string& what, const std::vector<double>& weights) const {
    static_cast<void>(what);
    static_cast<void>(weights);
  }
  /// Whether the merged model depends on which θ0 the vectors are taken from.
  virtual bool needs_start() const { return true; }
  /// w of τ = w Σ τ_t, of `count` vectors that count alike, where the method is no more than that.
  virtual std::optional<double> factor(std::size_t count) const {
    static_cast<void>(count);
    return std::nullopt;
  }
  virtual MergeWork work(const std::vector<NamedTensor>& tensors, std::size_t count) const {
    static_cast<void>(tensors);
    static_cast<void>(count);
    return {};
  }
  /// One weight w_t a vector. Bitwise the same however the vectors are cut into stretches.
  /// A team shares out the places of methods whose numbers depend on their own place alone, and the tensors
  /// of methods on matrices; the others each rank makes whole.
  Merged merge(const TaskVectors& vectors, const std::vector<double>& weights, const Sink& sink,
               const Team& team = {}) const;

 protected:
  /// Whether a team's ranks each make a part.
  virtual bool is_shared() const { return false; }
  /// Returns how many numbers of τ are not zero.
  virtual std::int64_t run(const TaskVectors& vectors, const std::vector<double>& weights, const Sink& sink,
                           const Team& team) const = 0;
};

/// τ [P], float32 on the host, of vectors that count alike.
struct MergedVector {
  at::Tensor tau;
  Merged made;
};

/// The whole of what a method makes; `see(share)` is called after each stretch, equally often on all ranks
/// of the group, which make it together.
MergedVector merged_vector(const Method& method, const TaskVectors& vectors, const comm::Communicator& group,
                           const std::function<void(double share)>& see);

/// The methods' names, in the order of the reference.
const std::vector<std::string>& names();

/// The names of the methods that need data as well, which an experiment alone can give them.
const std::vector<std::string>& names_with_data();

/// Reads the parameters of a method of names(). Throws InputError.
std::unique_ptr<const Method> make(const std::string& name, config::Section parameters);

/// Whether it is a method of TALL masks, whose λ data may choose.
bool is_consensus(const std::string& name);

/// Such a method with these λ: one for all vectors, or one a vector; none: what is merged before masks.
using Consensus = std::function<std::unique_ptr<const Method>(std::vector<double> lambda)>;

/// Reads its parameters but for λ. Throws InputError.
Consensus make_consensus(const std::string& name, config::Section parameters);

/// What a method of either kind does, for the reference.
config::Meaning meaning_of(const std::string& name);

}  // namespace taugrid::merging
