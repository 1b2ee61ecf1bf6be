// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// An experiment: the work units it splits into, and what it writes once they are done. A new one is a file
// NAME.cpp in the folder here that says what it looks at: tasks, pairs, layers, edits or bases. It declares
// its outputs and ends with TAUGRID_EXPERIMENT(NAME, order, make_NAME, NAME_outputs), and the build finds it
// by itself.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/ledger/results.hpp"
#include "suite/ledger/tally.hpp"
#include "suite/schedule/run_folder.hpp"
#include "suite/schedule/work_unit.hpp"
#include "suite/study/edited_outputs.hpp"
#include "suite/study/keys.hpp"
#include "suite/study/regime.hpp"
#include "suite/study/study.hpp"

namespace taugrid::experiments {

namespace key = study::key;
using study::Edit;
using study::EditedOutputs;
using study::regime;

using ledger::add_missing;
using ledger::both_sample_rows;
using ledger::Box;
using ledger::Contents;
using ledger::Element;
using ledger::Finished;
using ledger::fits_attribute;
using ledger::groups_of;
using ledger::length_of;
using ledger::Lengths;
using ledger::Names;
using ledger::Output;
using ledger::OutputGroup;
using ledger::prefix_of;
using ledger::Results;
using ledger::sample_rows;
using ledger::sample_sizes;
using ledger::Tally;
using ledger::together;
using ledger::unit;
using ledger::With;
using ledger::WrittenGroup;
using study::Split;
using study::Study;

class Experiment {
 public:
  explicit Experiment(const Study& study) : study_(study) {}
  virtual ~Experiment() = default;

  /// Appends its units. `folder` outlives them: units read what they need of others' results from it.
  virtual void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const = 0;
  /// The groups that write() writes.
  virtual std::vector<WrittenGroup> written() const = 0;
  /// Writes its groups of results.h5, in which all is declared. Collective over all ranks.
  virtual void write(Results& out, const Finished& done) const = 0;

  /// Files beside the study's on which its numbers depend.
  virtual std::vector<std::filesystem::path> inputs() const { return {}; }
  /// Whether it is measured where models are held a stage at a time ([model] in_memory).
  virtual bool runs_by_stages() const { return false; }
  /// Whether a run of this experiment has no others.
  virtual bool alone() const { return false; }

 protected:
  std::int64_t points() const { return study_.settings.evaluation_points; }
  std::int64_t control_points() const { return study_.settings.control_points; }

  const Study& study_;
};

/// Declares what an experiment writes, in this run or another.
using Declare = std::vector<OutputGroup> (*)();

/// Reads the experiment's own section; nullptr where the run does not ask for it. Throws InputError.
using Maker = std::unique_ptr<Experiment> (*)(config::Config& config, const Study& study);

using Experiments = std::vector<std::unique_ptr<Experiment>>;

/// The experiments that the configuration's sections ask for, in the order that their files state. Throws
/// InputError.
Experiments make_experiments(config::Config& config, const Study& study);

/// The outputs of all experiments that were built, in their order.
std::vector<OutputGroup> declared_outputs();
/// What these experiments write, and groups that the program writes beside.
Contents contents_of(const Experiments& experiments, const Study& study,
                     const std::vector<OutputGroup>& more = {});

/// The units of all of them. Where the run trains its tasks' heads, all others wait for these. All arguments
/// outlive the units.
std::vector<schedule::WorkUnit> units_of(const Experiments& experiments, const Study& study,
                                         const schedule::RunFolder& folder);

/// The one of this name, or nullptr: that of its file.
std::unique_ptr<Experiment> make_experiment(const std::string& name, config::Config& config,
                                            const Study& study);

}  // namespace taugrid::experiments

/// Ends an experiment's file: `name` is the file's, `make` its Maker, `outputs` declares what it writes,
/// `order` is its place among the others, whose units and groups of results.h5 follow each other so.
#define TAUGRID_EXPERIMENT(name, order, make, outputs) \
  namespace taugrid::experiments::name##_file {        \
    extern const int place;                            \
    extern const Maker maker;                          \
    extern const Declare declare;                      \
    const int place = order;                           \
    const Maker maker = make;                          \
    const Declare declare = outputs;                   \
  }
