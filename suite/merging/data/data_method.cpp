// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/data/data_method.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

#include "suite/merging/study_vectors.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::merging {

std::unique_ptr<const DataMethod> make_data_method(config::Config& config, config::Section own,
                                                   const MethodPlace& place, const std::string& method,
                                                   const Study& study) {
  if (method == "joint" && place.of_cluster) return make_joint_of_cluster(config, own, study);
  if (method == "joint") return make_joint(config, method, "standard", study);
  if (method == "tangent") return make_joint(config, method, "linear", study);
  if (method != "regmean") study::require_classes(study, place.section);
  if (method == "fisher") return make_fisher(own, study);
  if (method == "regmean") return make_regmean(own, place.section, study);
  if (method == "adamerging") return make_adamerging(own, study);
  if (method == "localize_stitch") return make_localize_stitch(own, place.parts, study);
  const bool twice = method == "stitch_twice";
  if (!twice && method != "mask_sharing") throw std::logic_error("no method " + method);
  // Of a cluster's tasks, or of bases, the masks are set up beside the method, and are of one cluster.
  if (place.of_cluster) return make_clustered_stitch(own, own, place.parts, 1, twice, study);
  constexpr auto* masks = "localize_stitch";
  return make_clustered_stitch(own, config.section(std::string("merging.") + masks, meaning_of(masks)), masks,
                               0, twice, study);
}

Tally DataMethod::part_work(const std::string& regime, std::size_t t) const {
  Tally tally(study_);
  tally.vectors(regime, {t}).stores(part_bytes(t), 1);
  count_parts(tally, regime, {t});
  return tally;
}

void count_merge(Tally& tally, const Study& study, const Method& method, const std::string& name) {
  const auto length = static_cast<double>(study.model.layout().size());
  const StudyVectors vectors(study, name, study.tasks.all());
  const auto work = method.work(vectors.tensors(), vectors.count());
  tally.computes(work.flops).holds(4 * length + work.bytes);
  if (vectors.count() > study.vectors.kept())  // each pass reads again
    tally.reads((work.passes - 1) * 4 * length * static_cast<double>(vectors.count()));
}

Split read_inputs(config::Section& parameters, const char* fallback,
                  const std::vector<std::string>& allowed) {
  const auto found = parameters.word("inputs", "The split whose inputs the method takes; it takes no labels",
                                     fallback, allowed);
  return found == "train" ? Split::train : found == "test" ? Split::test : Split::validation;
}

void put_inputs(store::ResultsWriter& out, const Study& study, const std::string& group, Split split,
                std::int64_t points) {
  out.attribute(group, "inputs", std::string(study::split_name(split)));
  out.put(group + "/data_sample_index", study.tasks.sample_index(split, points), {"task", "merging_point"});
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
