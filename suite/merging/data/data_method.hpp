// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Merging methods that take data, and with it the models and their functions. Each has a file in this folder,
// which holds its formula, of models that are tasks' own; a model with a basis of several tasks' vectors
// takes the place of a task's where bases are merged.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "suite/merging/method.hpp"
#include "suite/merging/table.hpp"

namespace taugrid::merging {

class DataMethod : public Method {
 public:
  explicit DataMethod(const Study& study) : study_(study) {}

  bool takes_data() const final { return true; }
  RecipeNote recipe_note(const std::string& regime, const std::vector<std::size_t>& tasks) const override;

 protected:
  /// A tensor of a unit that is finished, perhaps on another host a moment ago.
  at::Tensor unit_tensor(const std::string& unit_key, const std::string& tensor) const;

  const Study& study_;
};

/// One that merges vectors; afterwards singular values are calibrated where its section says so.
class DataMerge : public DataMethod {
 public:
  explicit DataMerge(const Place& place) : DataMethod(place.study), calibration_(place.calibration) {}

  void count(Tally& tally, const std::string& regime, std::size_t models, std::size_t tasks) const final;
  MergeResult merge(const ModelsToMerge& models, const Part& part,
                    schedule::UnitContext& context) const final;

 protected:
  /// As count() and merge() of a method, before calibration.
  virtual void count_merged(Tally& tally, const std::string& regime, std::size_t models,
                            std::size_t tasks) const = 0;
  virtual MergeResult merged(const ModelsToMerge& models, const Part& part,
                             schedule::UnitContext& context) const = 0;

 private:
  double calibration_;
};

/// What [merging] is for.
constexpr config::Meaning of_merging =
    "Merges all task vectors, with data or without: accuracy of θ0 + ατ on every task";

// What they share.

/// The split whose inputs a method takes, of those it may.
Split read_inputs(config::Section& parameters, const char* fallback, const std::vector<std::string>& allowed);

/// `mask_density`, of methods with masks.
ledger::Output mask_density();
/// `data_sample_index` [T, n] of a split, and the attribute `inputs` that names it.
std::vector<ledger::Output> input_outputs();
/// Writes them.
void put_inputs(Results& out, const Study& study, const std::string& group, Split split, std::int64_t points);

/// One tensor of the model that the regime trains.
struct Segment {
  Range range;             // in θ
  std::int64_t gradient;   // where it begins in the gradient of the trained blocks
  std::int64_t parameter;  // its number
};

/// All of them, in the order of θ.
std::vector<Segment> trained_segments(const Study& study, const std::string& regime);

/// Calls `see` for this rank's share of n points, `chunk` at a time; a stop is looked for before each, on all
/// ranks equally often.
void each_chunk(std::int64_t n, std::int64_t chunk, schedule::UnitContext& context,
                const std::function<void(std::int64_t begin, std::int64_t count)>& see);

}  // namespace taugrid::merging
