// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/data/data_method.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "suite/merging/matrices/calibrated.hpp"
#include "suite/merging/study_vectors.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/safetensors.hpp"

namespace taugrid::merging {

RecipeNote DataMethod::recipe_note(const std::string&, const std::vector<std::size_t>&) const {
  return {"# Its data are the run's: taugrid run makes it again, taugrid merge cannot.\n"};
}

at::Tensor DataMethod::unit_tensor(const std::string& unit_key, const std::string& tensor) const {
  const auto path = schedule::RunFolder::unit_path(study_.vectors.folder(), unit_key);
  store::wait_for(path);
  return store::read_tensor(path, tensor);
}

void DataMerge::count(Tally& tally, const std::string& regime_name, std::size_t models,
                      std::size_t tasks) const {
  count_merged(tally, regime_name, models, tasks);
  if (calibration_ == 0) return;
  const auto length = static_cast<double>(study_.model.layout().size());
  const auto work = work_of_calibration(tensors_of(study_), models);
  tally.computes(work.flops).holds(4 * length + work.bytes);
  if (models > study_.vectors.kept()) tally.reads(4 * length * static_cast<double>(models));
}

MergeResult DataMerge::merge(const ModelsToMerge& models, const Part& part,
                             schedule::UnitContext& context) const {
  auto result = merged(models, part, context);
  if (calibration_ == 0) return result;
  context.stop_if_requested();
  auto& [tau, stats] = result.merged;
  const auto length = static_cast<double>(tau.numel());
  auto calibrated = at::empty_like(tau);
  const auto nonzero =
      put_calibrated(tau, models.vectors(), calibration_, Sink(calibrated), Team(context.group));
  tau = calibrated;
  stats = {static_cast<double>(nonzero) / length, stats.passes + 1};
  return result;
}

Split read_inputs(config::Section& parameters, const char* fallback,
                  const std::vector<std::string>& allowed) {
  const auto split = parameters.word("inputs", "The split whose inputs the method takes; it takes no labels",
                                     fallback, allowed);
  return split == "train" ? Split::train : split == "test" ? Split::test : Split::validation;
}

ledger::Output mask_density() {
  return {"mask_density", "task", "1",
          "the share of numbers that a task's mask keeps, of those that masks are of; NaN of tasks left out",
          With{.when = "a method with masks"}};
}

std::vector<ledger::Output> input_outputs() {
  return {{"@inputs", "", "", "the split whose inputs the method takes"},
          sample_rows("method's (as `inputs` says)", "merging_point", "data_")};
}

void put_inputs(Results& out, const Study& study, const std::string& group, Split split,
                std::int64_t points) {
  out.attribute(group, "inputs", std::string(study::split_name(split)));
  out.put(group + "/data_sample_index", study.samples.index(split, points));
}

std::vector<Segment> trained_segments(const Study& study, const std::string& name) {
  const auto& layout = study.model.layout();
  const auto trained = study.trained_blocks(name);
  const auto& parameters = layout.parameters();
  std::vector<Segment> segments;
  std::int64_t at = 0;
  std::size_t p = 0;
  for (std::size_t b = 0; b < layout.blocks().size(); ++b) {
    const auto& block = layout.blocks()[b];
    const bool is_trained = trained.empty() || trained[b];
    for (; p < parameters.size() && parameters[p].offset < block.offset + block.count; ++p) {
      if (!is_trained) continue;
      segments.push_back({{parameters[p].offset, parameters[p].count},
                          at + parameters[p].offset - block.offset,
                          static_cast<std::int64_t>(p)});
    }
    if (is_trained) at += block.count;
  }
  return segments;
}

void each_chunk(std::int64_t n, std::int64_t chunk, schedule::UnitContext& context,
                const std::function<void(std::int64_t, std::int64_t)>& see) {
  const auto share = context.group.share_of(n);
  const auto most = comm::rows_a_rank(n, context.group.size());
  for (std::int64_t at = 0; at < most; at += chunk) {
    context.stop_if_requested();
    context.progress(static_cast<double>(at) / static_cast<double>(most), "inputs");
    if (at < share.count) see(share.begin + at, std::min(chunk, share.count - at));
  }
}

}  // namespace taugrid::merging
