// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The table of merging methods: name, meaning and maker of each. A method's file, in vectors/, matrices/ or
// data/, ends with TAUGRID_MERGING_METHOD, and the build finds it by itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/merging/vector_method.hpp"

namespace taugrid::merging {

/// Where a method is set up in an experiment file.
struct Place {
  config::Config& config;
  const Study& study;                     ///< outlives the method
  std::string section;                    ///< the method's own: "merging.NAME", or a basis's
  std::string name;                       ///< what stands for it in the keys of its units
  std::vector<std::string> regimes = {};  ///< whose vectors it merges; none named: all that have any
  double calibration = 0;  ///< c of singular values after it (matrices/calibrated.hpp); 0: none

  /// `regimes`, or where none is named all that have vectors.
  const std::vector<std::string>& merged_regimes() const;
};

/// What the parameters of a method may depend on.
struct Scope {
  std::size_t tasks;        ///< of the run
  bool of_cluster = false;  ///< whether it merges a cluster of tasks, which may be any of them, or bases
};

/// Makes a method, whose parameters were read, for a run. Throws InputError.
using MakeInRun = std::function<std::shared_ptr<const Method>(const Place&)>;

struct Entry {
  const char* name;
  int order;  ///< its place in the reference, and where names are listed
  /// Reads the parameters of a method that sees vectors alone; nullptr: it takes data. Throws InputError.
  std::shared_ptr<const VectorMethod> (*of_vectors)(config::Section parameters);
  /// Reads those of an experiment's method; nullptr: they are the same. Throws InputError.
  MakeInRun (*in_run)(config::Section parameters, Scope scope);
  config::Meaning meaning;
  /// Whether the merged model is θ0 + ατ of an α that is searched for; else it is θ0 + τ.
  bool has_coefficient = true;
  /// What it writes of its own to /merging/METHOD/R; nullptr: nothing.
  std::vector<ledger::Output> (*outputs)() = nullptr;
  bool is_merge = true;  ///< of vectors; else it trains one model of all tasks

  /// The method of vectors, calibrated where its section says so. Throws InputError.
  std::shared_ptr<const VectorMethod> make(config::Section parameters) const;
  bool takes_data() const { return of_vectors == nullptr; }
  std::vector<ledger::Output> own_outputs() const {
    return outputs == nullptr ? std::vector<ledger::Output>{} : outputs();
  }
  /// Reads the parameters from an experiment file. Throws InputError.
  MakeInRun read(config::Section parameters, Scope scope) const;
};

/// All methods that were built, in no order.
std::vector<const Entry*> registered_methods();

/// All methods, in their order.
const std::vector<const Entry*>& methods();

/// What methods write of their own, each output once.
std::vector<ledger::Output> method_outputs();

/// The method of this name. Throws std::logic_error where there is none.
const Entry& entry(const std::string& name);

/// The names of all methods, and of those that see vectors alone, in their order.
const std::vector<std::string>& names();
const std::vector<std::string>& names_of_vectors();

/// Reads the parameters of a method that sees vectors alone. Throws InputError.
std::shared_ptr<const VectorMethod> make(const std::string& name, config::Section parameters);

}  // namespace taugrid::merging

/// TAUGRID_MERGING_METHOD(name, order, of_vectors, in_run, meaning[, has_coefficient[, outputs[, is_merge]]]):
/// the fields of an Entry.
#define TAUGRID_MERGING_METHOD(name, ...)     \
  namespace taugrid::merging::name##_method { \
    extern const Entry entry;                 \
    const Entry entry = {#name, __VA_ARGS__}; \
  }
