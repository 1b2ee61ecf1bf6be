// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// From finished units to data sets: each unit's tensor is one box of a data set.
#pragma once

#include <string>
#include <vector>

#include "suite/schedule/run_folder.hpp"
#include "suite/store/results.hpp"
#include "suite/study/study.hpp"

namespace taugrid::work {

using study::Study;

/// Finished units, read where results.h5 is written.
struct Finished {
  const schedule::RunFolder& folder;
  const comm::Communicator& world;
};

struct Box {
  std::string key;                  ///< the unit
  std::vector<std::int64_t> start;  ///< where its tensor begins in the data set; later dimensions at 0
};

/// Creates PATH and fills it from tensor `tensor` of each box's unit, each rank taking its share of the
/// boxes. A tensor with fewer dimensions than the data set has leading dimensions of 1. Collective.
void place(store::ResultsWriter& out, const Finished& done, const std::string& path, store::Element element,
           const std::vector<std::int64_t>& shape, const std::vector<std::string>& dimensions,
           const std::vector<Box>& boxes, const std::string& tensor, const std::string& units = "");

/// Says of /correct/PATH how many points each row of bits has: int64 `counts`, broadcast against the
/// accuracies at PATH; once where all are equal. Collective.
void put_points(store::ResultsWriter& out, const std::string& path, const at::Tensor& counts);

/// Whether HDF5 takes it as an attribute: up to 64 KiB, and put_points() writes equal counts once. Of more
/// than 4,000 pairs of tasks whose splits differ in size it does not; their bits are left out then.
bool fits_attribute(const at::Tensor& counts);

/// What names of test and of validation numbers begin with where the test's are the plain ones: "",
/// "validation_".
std::string prefix_of(study::Split split);

/// int64 [T]: how many points each task's sample has.
at::Tensor sample_sizes(const Study& study, study::Split split, std::int64_t n);

/// The dimension of a row of bits.
inline const std::string bits = "eight_points";

}  // namespace taugrid::work
