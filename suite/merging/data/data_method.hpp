// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Merging methods that need data, and with it the models and their functions: Method sees vectors
// alone. Each has a file in this folder, which holds its formula, of models that are tasks' own; a model with
// a basis of several tasks' vectors takes the place of a task's where bases are merged.
//
// Work of one model alone (a Fisher information, say) is a unit of its own where the model is a task's: the
// merge reads what these units found.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "suite/merging/data/models_to_merge.hpp"
#include "suite/merging/method.hpp"
#include "suite/study/keys.hpp"
#include "suite/study/regime.hpp"
#include "suite/work/placement.hpp"
#include "suite/work/tally.hpp"

namespace taugrid::merging {

namespace key = study::key;
using study::regime;
using study::Split;
using study::Study;
using work::add_missing;
using work::Box;
using work::Finished;
using work::place;
using work::put_points;
using work::Tally;
using work::unit;

/// Inputs that went through a model, forwards and backwards: one for each of them and each time.
struct InputPasses {
  double forward = 0, backward = 0;
};

class DataMethod {
 public:
  explicit DataMethod(const Study& study) : study_(study) {}
  virtual ~DataMethod() = default;
  DataMethod(const DataMethod&) = delete;
  DataMethod& operator=(const DataMethod&) = delete;

  /// Whether it makes a model beside this regime's vectors.
  virtual bool takes(const std::string&) const { return true; }
  /// Units of all tasks together, and their keys.
  virtual void add_units(std::vector<schedule::WorkUnit>&, const std::string&,
                         const schedule::RunFolder&) const {}
  virtual std::vector<std::string> needs(const std::string&) const { return {}; }
  /// Whether merge() reads the vectors, and whether it is a training, which saves its state in the unit's
  /// scratch folder.
  virtual bool of_vectors() const { return true; }
  virtual bool trains() const { return false; }
  /// The folder of the model that merge() reads, where the method trains one of all tasks; empty: none.
  virtual std::filesystem::path checkpoint(const std::string&) const { return {}; }

  /// What one model's data give, if anything, on the host: of a task's own model the tensors of a unit's
  /// file.
  virtual bool has_parts() const { return false; }
  virtual store::TensorFile part(const ModelToMerge&, schedule::UnitContext&) const { return {}; }
  /// Adds what parts of models that have these tasks' data take, beside the vectors.
  virtual void count_parts(Tally&, const std::string&, const std::vector<std::size_t>&) const {}
  /// Of a part of task t's own model.
  virtual std::int64_t part_bytes(std::size_t) const { return 0; }
  /// What that model's unit takes.
  virtual Tally part_work(const std::string& regime, std::size_t t) const;
  /// The method, by its name in [merging] methods, under which the parts' units are: one may use another's.
  virtual std::string parts_of(const std::string& own) const { return own; }

  /// One tensor of the part of the i-th model that is merged.
  using Part = std::function<at::Tensor(std::size_t i, const std::string& tensor)>;
  struct Made {
    MergedVector merged;  ///< its passes are of the parts, too, and over what they hold
    InputPasses inputs;   ///< of the merge and all parts
    std::map<std::string, at::Tensor> more = {};  ///< further tensors of the unit's file, for write()
  };
  /// Adds what the merge of so many models with the data of so many tasks takes beside τ itself, which the
  /// caller counts; parts are read.
  virtual void count(Tally& tally, const std::string& regime, std::size_t models,
                     std::size_t tasks) const = 0;
  /// The models' vectors as one.
  virtual Made merge(const ModelsToMerge& models, const Part& part, schedule::UnitContext& context) const = 0;

  /// Writes what the method has of its own to the group; `key` is the merge's unit. Collective.
  virtual void write(store::ResultsWriter& out, const Finished& done, const std::string& group,
                     const std::string& regime, const std::string& key) const = 0;

 protected:
  const Study& study_;
};

/// What [merging] is for.
constexpr config::Meaning of_merging =
    "Merges all task vectors, with data or without: accuracy of θ0 + ατ on every task";

/// Where a method is set up.
struct MethodPlace {
  std::string section;      ///< its own: "merging.NAME", or a basis's
  std::string parts;        ///< what stands for the method in the keys of its parts' units
  bool of_cluster = false;  ///< whether it merges a cluster of tasks, which may be any of them
};

/// Reads the section of a method of names_with_data(), `own`. Throws InputError. The study outlives
/// it.
std::unique_ptr<const DataMethod> make_data_method(config::Config& config, config::Section own,
                                                   const MethodPlace& place, const std::string& method,
                                                   const Study& study);

// The makers, a file each.
std::unique_ptr<const DataMethod> make_fisher(config::Section parameters, const Study& study);
std::unique_ptr<const DataMethod> make_regmean(config::Section parameters, const std::string& section,
                                               const Study& study);
std::unique_ptr<const DataMethod> make_adamerging(config::Section parameters, const Study& study);
std::unique_ptr<const DataMethod> make_localize_stitch(config::Section parameters, const std::string& parts,
                                                       const Study& study);
/// Mask sharing, or stitching twice, of the masks that `masks` has the keys of and that are the units'
/// `parts`; `clusters`: how many there are where the section does not say.
std::unique_ptr<const DataMethod> make_clustered_stitch(config::Section parameters, config::Section masks,
                                                        const std::string& parts, std::int64_t clusters,
                                                        bool twice, const Study& study);
/// A method of TALL masks with a λ for each task, of these; `parts` is the method's name in its units' keys.
std::unique_ptr<const DataMethod> make_chosen_consensus(Consensus consensus, std::vector<double> lambda,
                                                        const std::string& parts, const Study& study);
/// `of` is the regime of vectors in whose function it trains.
std::unique_ptr<const DataMethod> make_joint(config::Config& config, const std::string& method,
                                             const std::string& of, const Study& study);
/// The same of a cluster's tasks, in the function of whichever regime's vectors it stands beside.
std::unique_ptr<const DataMethod> make_joint_of_cluster(config::Config& config,
                                                        const config::Section& parameters,
                                                        const Study& study);

// What they share.

/// Adds what a merge of all tasks' vectors takes beside τ itself and the vectors' first visit.
void count_merge(Tally& tally, const Study& study, const Method& method, const std::string& regime);

/// The split whose inputs a method takes, of those it may.
Split read_inputs(config::Section& parameters, const char* fallback, const std::vector<std::string>& allowed);

/// Writes GROUP/data_sample_index [T,n] of the split and the attribute `inputs` that names it.
void put_inputs(store::ResultsWriter& out, const Study& study, const std::string& group, Split split,
                std::int64_t points);

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
