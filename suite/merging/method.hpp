// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Model merging: T task vectors become one, τ, and the merged model is θ0 + λτ. A method is one class,
// whether it sees the vectors alone (vector_method.hpp) or takes the tasks' data and with them the models
// (data/data_method.hpp). Names are those of the field, and of mergekit where it has the method; each
// method's file has its formula. A method enters the table (table.hpp) by being there.
//
// A model that is merged is a task's own, or, where bases are merged, one with a basis of several tasks'
// vectors. Work of one model alone (a Fisher information, say) is its part: a unit of its own where the model
// is a task's, which the merge reads.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suite/ledger/results.hpp"
#include "suite/ledger/tally.hpp"
#include "suite/merging/models_to_merge.hpp"
#include "suite/study/keys.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::merging {

namespace key = study::key;
using ledger::add_missing;
using ledger::Box;
using ledger::Element;
using ledger::Finished;
using ledger::length_of;
using ledger::Lengths;
using ledger::Results;
using ledger::sample_rows;
using ledger::Tally;
using ledger::together;
using ledger::unit;
using ledger::With;
using study::Edit;
using study::EditedOutputs;
using study::regime;
using study::Split;
using study::Study;

struct Merged {
  double density = 0;  ///< share of numbers of τ that are not zero
  double passes = 0;   ///< over all vectors, by all ranks together, and over what parts hold
};

/// τ [P], float32 on the host.
struct MergedVector {
  at::Tensor tau;
  Merged stats;
};

/// Inputs that went through a model, forwards and backwards: one for each of them and each time.
struct InputPasses {
  double forward = 0, backward = 0;
};

struct MergeResult {
  MergedVector merged;
  InputPasses inputs = {};                      ///< of the merge and all parts
  std::map<std::string, at::Tensor> more = {};  ///< further tensors of the unit's file, for write()
};

/// Reads one tensor of the part of the i-th model that is merged.
using Part = std::function<at::Tensor(std::size_t i, const std::string& tensor)>;

/// What merge.toml says of a method beside its parameters.
struct RecipeNote {
  std::string comments = {};  ///< lines that begin with #
  std::map<std::string, std::string> parameters = {};
};

class Method {
 public:
  virtual ~Method() = default;

  /// Whether it needs data, which an experiment alone can give it: `taugrid merge` has vectors alone.
  virtual bool takes_data() const = 0;
  /// Throws InputError, beginning with `what`, where it cannot merge so many vectors, or with these weights.
  virtual void check(const std::string& what, const std::vector<double>& weights) const;
  /// w of τ = w Σ τ_t, of `count` vectors that count alike, where the method is no more than that.
  virtual std::optional<double> factor(std::size_t count) const;
  /// Whether it makes a model beside this regime's vectors.
  virtual bool takes(const std::string& regime) const;
  /// Whether merge() reads the vectors.
  virtual bool reads_vectors() const { return true; }
  /// Whether merge() is a training, which saves its state in the unit's scratch folder.
  virtual bool trains() const { return false; }
  /// The folder of the model that merge() reads, where the method trains one of all tasks; empty: none.
  virtual std::filesystem::path checkpoint(const std::string& regime) const;

  /// Units of all tasks together, and their keys.
  virtual void add_units(std::vector<schedule::WorkUnit>& units, const std::string& regime,
                         const schedule::RunFolder& folder) const;
  virtual std::vector<std::string> needs(const std::string& regime) const;

  /// Whether one model's data give something, its part.
  virtual bool has_parts() const { return false; }
  /// The part, on the host: the tensors of a unit's file where the model is a task's own.
  virtual store::TensorFile part(const ModelToMerge& model, schedule::UnitContext& context) const;
  /// Adds what parts of models that have these tasks' data take, beside the vectors.
  virtual void count_parts(Tally& tally, const std::string& regime,
                           const std::vector<std::size_t>& tasks) const;
  /// Bytes of the part of task t's own model.
  virtual std::int64_t part_bytes(std::size_t t) const;
  /// What that part's unit takes.
  virtual Tally part_work(const Study& study, const std::string& regime, std::size_t t) const;
  /// The name under which the parts' units are, given the method's own: it may use another's.
  virtual std::string parts_of(const std::string& name) const { return name; }

  /// Passes that merge() takes over `count` of the run's vectors, where count() leaves it to the caller to
  /// say that each reads them again; else 1.
  virtual double passes(const Study& study, std::size_t count) const;
  /// Adds what the merge of so many models with the data of so many tasks takes beside τ itself and the
  /// vectors' first visit; parts are read.
  virtual void count(Tally& tally, const std::string& regime, std::size_t models,
                     std::size_t tasks) const = 0;
  /// Makes the models' vectors one. Collective over the unit's group.
  virtual MergeResult merge(const ModelsToMerge& models, const Part& part,
                            schedule::UnitContext& context) const = 0;

  /// How long the dimensions of its own outputs are, which its entry in the table declares.
  virtual Lengths lengths(const std::string& regime) const;
  /// Writes them to a group of /merging; `unit_key` is that of the merge's unit. Collective.
  virtual void write(Results& out, const Finished& done, const std::string& group, const std::string& regime,
                     const std::string& unit_key) const;
  /// What is to be said of a finished merge of these tasks' vectors.
  virtual RecipeNote recipe_note(const std::string& regime, const std::vector<std::size_t>& tasks) const;
};

/// Adds what a merge of these tasks' vectors takes beside τ itself and the vectors' first visit: count(), and
/// further passes where memory does not hold the vectors.
void count_merge(Tally& tally, const Method& method, const std::string& regime,
                 const std::vector<std::size_t>& tasks);

}  // namespace taugrid::merging
