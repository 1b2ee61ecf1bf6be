// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A case: what is timed, what it costs by the model, and how wrong its result is.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "suite/store/safetensors.hpp"

namespace taugrid::bench {

class Fixture;

/// What bounds a case where the machine's peaks do not: the seconds that another computation on the same
/// inputs took.
struct Bound {
  double seconds = 0;
  std::string name;
};

/// What a case sends from rank to rank, as nccl-tests and the OSU benchmarks count it.
struct Transfer {
  double bytes = 0;  ///< of a call; 0: nothing is sent
  double bus = 1;  ///< bus over algorithm bandwidth: what a call asks of the slowest link, whatever the ranks
};

/// A case made ready: inputs are in memory.
struct Work {
  std::function<void()> run;  ///< what is timed; repeatable
  bool has_run = false;       ///< once already, to know its flops
  double flops = 0;           ///< additions and multiplications of one run
  double bytes = 0;           ///< read and written at least once in one run
  double items = 0;           ///< done in one run, for the throughput
  std::string unit;           ///< of the items
  bool bf16 = false;          ///< its products are bfloat16's
  Bound bound = {};           ///< in place of the peaks, where it has a name
  Transfer transfer = {};     ///< of an item, where the case measures the network
  double tolerance = 0;
  std::function<double()> error;  ///< relative error of the latest run's result against another computation
  std::function<store::TensorFile()> results = {};  ///< for the peers to compare with
  std::function<at::Tensor()> last = {};  ///< the latest result, for verify, where results() does more
};

struct Case {
  std::string name;
  std::function<Work()> prepare;
  bool when_named = false;  ///< too long for every day: measured at size large, or where --filter names it
  bool shared = false;      ///< the ranks do it together, where there are several
  bool on_host = false;     ///< computed on the host, whichever device there is
};

/// All cases, from each of the functions below.
std::vector<Case> all_cases(const Fixture& fixture);

/// The cases of a size that match a regular expression, and that so many ranks share:
/// docs/figures_of_merit.md. What is named is taken at any size. Throws InputError if it is no regular
/// expression, or matches nothing.
std::vector<Case> chosen(std::vector<Case> all, const std::string& filter, const std::string& size,
                         int ranks);

std::vector<Case> weight_cases(const Fixture& fixture);
std::vector<Case> model_cases(const Fixture& fixture);
std::vector<Case> hessian_cases(const Fixture& fixture);
std::vector<Case> net_cases(const Fixture& fixture);
std::vector<Case> text_cases(const Fixture& fixture);
std::vector<Case> experiment_cases(const Fixture& fixture);
std::vector<Case> linearity_cases(const Fixture& fixture);
/// Cases of merging methods that take data.
std::vector<Case> merging_cases(const Fixture& fixture);
std::vector<Case> unit_cases(const Fixture& fixture);
/// Cases with more task vectors than the bound on memory holds.
std::vector<Case> out_of_core_cases(const Fixture& fixture);
/// Cases of models that are held a stage at a time.
std::vector<Case> stage_cases(const Fixture& fixture);
/// Cases of reading and writing.
std::vector<Case> storage_cases(const Fixture& fixture);
/// Cases of two ranks or more: what their network does.
std::vector<Case> network_cases(const Fixture& fixture);
/// Cases that only a GPU runs.
std::vector<Case> device_cases(const Fixture& fixture);

}  // namespace taugrid::bench
