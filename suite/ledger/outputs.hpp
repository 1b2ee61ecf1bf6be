// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What results.h5 holds, said once: an experiment declares each of its outputs where it computes them.
// Writing, the bytes that `taugrid plan` counts, the names of dimensions and the reference (`taugrid
// results`) follow from that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suite/store/hdf5.hpp"
#include "suite/study/study.hpp"

namespace taugrid::ledger {

using store::Element;
using Names = std::vector<std::string>;

/// What most outputs do without.
struct With {
  Element element = Element::float64;
  bool text = false;       ///< UTF-8 instead of numbers
  bool table = false;      ///< rows of several types
  std::string scale = {};  ///< it has its one role's values, and this name as a dimension scale of HDF5
  bool correct =
      false;  ///< it is an accuracy, and /correct/PATH says of each point whether the model is right
  std::string when = {};  ///< the condition on which it is written; empty: always
  int since = 1;          ///< the first schema_version that has it
};

/// A data set of a group; or, where the name begins with "@", an attribute of the group.
struct Output {
  std::string name;     ///< below the group
  std::string roles;    ///< what each dimension counts, "pair alpha alpha"; empty: a single number
  std::string unit;     ///< "1", "nat", "s", "B"; empty: none
  std::string meaning;  ///< the end of a sentence that begins with the path
  With details = {};
};

/// Its roles, one a dimension.
std::vector<std::string> roles_of(const Output& output);

/// A group of results.h5. Words in capitals stand for names: of "/merging/METHOD/R" each method and regime
/// has one. In names of roles and scales they are replaced by what they stand for ("step_R" becomes
/// "step_linear"). A role that is the name of one of the group's scales has the values of that scale.
struct OutputGroup {
  std::string path;
  std::string meaning;
  std::vector<Output> outputs;
  std::string when = {};
  int since = 1;
};

/// How long dimensions are, by role.
using Lengths = std::map<std::string, std::int64_t>;

/// A group that a run writes, with the lengths of its own dimensions. An output with a dimension of length 0
/// is not written, nor are those of the names `without`. Lengths that only the run finds are left out: plan
/// does not count such outputs.
struct WrittenGroup {
  std::string path;
  Lengths lengths = {};
  Names without = {};
};

/// PARENT/NAME of each name, all alike.
std::vector<WrittenGroup> groups_of(const std::string& parent, const Names& names,
                                    const Lengths& lengths = {}, const Names& without = {});

template <class Values>
std::int64_t length_of(const Values& values) {
  return static_cast<std::int64_t>(values.size());
}

/// `sample_index`, the rows of the points of a split that a group's numbers are of [T, N], −1 behind the end;
/// with `prefix` as that of its name.
Output sample_rows(const std::string& split = "test", const std::string& role = "evaluation_point",
                   const std::string& prefix = "");
/// The same of both splits: sample_index of test points, validation_sample_index.
std::vector<Output> both_sample_rows();
/// All of these together.
std::vector<Output> together(std::vector<std::vector<Output>> parts);

/// A path of results.h5 and its declaration.
struct DeclaredOutput {
  const OutputGroup* group;
  const Output* output;
  std::string place;                         ///< the group's path, with names
  std::map<std::string, std::string> names;  ///< what its words in capitals stand for
  bool bits;                                 ///< it is /correct/PATH of the output
};

/// What a run writes into results.h5.
class Contents {
 public:
  Contents(const study::Study& study, std::vector<OutputGroup> declared, std::vector<WrittenGroup> written);

  /// The declaration of a path, "/GROUP/NAME" or "/GROUP@ATTRIBUTE"; where there are several, with so many
  /// dimensions. Throws std::logic_error where there is none.
  DeclaredOutput find(const std::string& path, std::optional<std::int64_t> dimensions = std::nullopt) const;
  /// The names of its dimensions, as store::ResultsWriter takes them: a scale's is its path.
  std::vector<std::string> dimensions(const DeclaredOutput& declared) const;
  std::string scale(const DeclaredOutput& declared) const;
  /// Throws std::logic_error where a length is unknown.
  std::vector<std::int64_t> shape(const DeclaredOutput& declared) const;

  /// How many data sets with known lengths the experiments write, and how many bytes these hold.
  struct Size {
    std::int64_t data_sets = 0;
    double bytes = 0;
  };
  Size size() const;

 private:
  std::optional<DeclaredOutput> match(const OutputGroup& group, const std::string& path) const;
  std::optional<std::vector<std::int64_t>> lengths_of(const DeclaredOutput& declared) const;

  std::vector<OutputGroup> declared_;
  std::vector<WrittenGroup> written_;
  Lengths common_;  ///< those that all groups share
};

/// The role of the bytes that hold a bit a point.
inline constexpr const char* bits_role = "eight_points";

}  // namespace taugrid::ledger
