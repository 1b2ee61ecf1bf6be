// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Writes what experiments declare (outputs.hpp) into results.h5, and refuses all else.
#pragma once

#include <string>
#include <vector>

#include "suite/ledger/outputs.hpp"
#include "suite/schedule/run_folder.hpp"
#include "suite/store/results.hpp"

namespace taugrid::ledger {

/// Finished units, read where results.h5 is written.
struct Finished {
  const schedule::RunFolder& folder;
  const comm::Communicator& world;
};

struct Box {
  std::string key;                  ///< the unit
  std::vector<std::int64_t> start;  ///< where its tensor begins in the data set; later dimensions at 0
};

/// Every member function is collective, as those of store::ResultsWriter are. All throw std::logic_error
/// where the path is not declared, or is declared as something else.
class Results {
 public:
  Results(store::ResultsWriter& file, Contents contents) : file_(file), contents_(std::move(contents)) {}

  /// What every rank holds.
  void put(const std::string& path, const at::Tensor& values);
  void put(const std::string& path, const std::vector<double>& values);
  void put(const std::string& path, double value);
  void put(const std::string& path, const std::vector<std::string>& texts);
  /// Writes the tensor of this name of each box's unit; each rank takes its share of the boxes. One with
  /// fewer dimensions than the data set has leading dimensions of 1.
  void place(const Finished& done, const std::string& path, const std::vector<Box>& boxes,
             const std::string& tensor);
  /// Says of /correct/PATH how many points each row of bits has: int64 `counts`, broadcast against the
  /// accuracies at PATH; once where all are equal.
  void put_points(const std::string& path, const at::Tensor& counts);
  void attribute(const std::string& object, const std::string& name, const store::Attribute& value);

 private:
  store::ResultsWriter& file_;
  Contents contents_;
};

/// Creates PATH and fills it as Results::place() does. Collective.
void place_boxes(store::ResultsWriter& file, const Finished& done, const std::string& path,
                 store::Element element, const std::vector<std::int64_t>& shape,
                 const std::vector<std::string>& dimensions, const std::vector<Box>& boxes,
                 const std::string& tensor, const std::string& unit = "");

/// What names of test and of validation numbers begin with where the test's are the plain ones: "",
/// "validation_".
std::string prefix_of(study::Split split);

/// int64 [T]: how many points each task's sample has.
at::Tensor sample_sizes(const study::Study& study, study::Split split, std::int64_t n);

/// Whether HDF5 takes counts as an attribute: up to 64 KiB, and equal ones are written once. Of more than
/// 4,000 pairs of tasks whose splits differ in size it does not; their bits are left out then.
bool fits_attribute(const at::Tensor& counts);

}  // namespace taugrid::ledger
