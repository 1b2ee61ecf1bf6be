// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Localize-and-Stitch (He et al. 2024), and what paper 2 makes of its masks with clusters of tasks (section
// 6.5). Masks γ_t are learnt with data (masks.hpp), and stitched, number by number:
//   τ = Σ_t γ_t τ_t / Σ_t γ_t,  0 where no task has it.
// localize_stitch stitches the masks as they are; the two others change them first, C the cluster of task t,
// of N tasks:
//   mask_sharing   γ_t ← round(Σ_{i∈C} γ_i / N), one mask a cluster;
//   stitch_twice   γ_t ← round(γ_t / Σ_{i∈C} γ_i): what one task of its cluster claims alone.
// Bases are stitched as tasks' vectors are, each by one mask. round(½) decides much: `rounding`. Paper 2's
// code shares with half_up (N = 2: the union) and stitches twice with half_even (numbers that two tasks of a
// cluster claim are lost; half_up keeps them). Clusters are spectral, as those of [bases], but by
// |cos(γ_s τ_s, γ_t τ_t)|, of what the masks keep (section 6.4.2); of bases, by that of bases.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "kernels/spectral/clustering.hpp"
#include "kernels/weights/weights.hpp"
#include "suite/merging/data/masks.hpp"
#include "suite/study/clusters.hpp"
#include "suite/study/refusals.hpp"
#include "suite/study/task_sets.hpp"

namespace taugrid::merging {
namespace {

std::vector<ledger::Output> localize_stitch_outputs() {
  const std::string when = "localize_stitch, mask_sharing or stitch_twice";
  return together(
      {{mask_density(),
        {"labels", "task", "1", "the cluster of each task",
         With{.element = Element::int64, .when = "mask_sharing or stitch_twice"}},
        {"masks", "", "1", "how many there are", With{.element = Element::int64, .when = when}},
        {"mask_numbers", "", "1", "numbers that all of them keep",
         With{.element = Element::int64, .when = when}},
        {"mask_loss", "task merging_step", "nat", "cross-entropy before each step", With{.when = when}}},
       input_outputs()});
}

enum class Stitching { own, shared, twice };

/// Numbers begin … begin + n of a packed mask, float32 [n]; begin a multiple of 8.
at::Tensor unpacked(const at::Tensor& bits, std::int64_t begin, std::int64_t n) {
  const auto bytes = bits.narrow(0, begin / 8, (n + 7) / 8).unsqueeze(1);
  const auto each = at::tensor({128, 64, 32, 16, 8, 4, 2, 1}, at::kByte);
  return bytes.bitwise_and(each).ne(0).view({-1}).narrow(0, 0, n).to(at::kFloat);
}

class LocalizeStitch final : public DataMerge {
 public:
  /// `masks_of`: what stands for the masks in the keys of their units.
  LocalizeStitch(const Place& place, Stitching stitching, std::string masks_of, MaskSettings settings)
      : DataMerge(place),
        stitching_(stitching),
        name_(place.name),
        masks_of_(std::move(masks_of)),
        masks_(place.study, std::move(settings)) {}

  std::int64_t clusters = 0;  ///< 0: as the largest gap says
  bool half_up = false;
  std::map<std::string, std::string> masks_as_read = {};  ///< where they are another section's: its values

  bool has_parts() const override { return true; }
  std::string parts_of(const std::string&) const override { return masks_of_; }
  void count_parts(Tally& tally, const std::string& name,
                   const std::vector<std::size_t>& tasks) const override {
    masks_.count(tally, name, tasks);
  }
  std::int64_t part_bytes(std::size_t t) const override {
    return study_.model.layout().size() / 8 + 8 * masks_.published(t);
  }
  store::TensorFile part(const ModelToMerge& model, schedule::UnitContext& context) const override {
    return masks_.learnt(model, context);
  }

  void count_merged(Tally& tally, const std::string& name, std::size_t models,
                    std::size_t tasks) const override {
    const auto count = static_cast<std::int64_t>(models);
    const auto bits = static_cast<double>(study_.model.layout().size() * count) / 8;
    const bool held = models < tasks;  // bases, whose cosines read nothing but masks
    if (stitching_ != Stitching::own) {
      if (!held) tally.visit(name, study_.tasks.all());
      tally.reads(bits);
    }
    tally.reads(bits).holds(bits).stores(3 * count + 2);
  }

  MergeResult merged(const ModelsToMerge& models, const Part& part,
                     schedule::UnitContext& context) const override {
    const auto& vectors = models.vectors();
    const auto tasks = vectors.count();
    MergeResult result;
    double before = 0;
    std::vector<at::Tensor> bits;
    for (std::size_t t = 0; t < tasks; ++t) {
      bits.push_back(part(t, "mask"));
      const auto passes = part(t, "passes");
      result.inputs.forward += passes[0].item<double>();
      result.inputs.backward += passes[1].item<double>();
      before += passes[2].item<double>() / static_cast<double>(tasks);
    }
    std::vector<std::int64_t> labels(tasks, 0);
    if (stitching_ != Stitching::own) {
      const auto cosine = study::cosines_of(masked_gram(vectors, bits, context));
      const auto gap = spectral::largest_gap(spectral::laplacian_eigenvalues(cosine).unnormalised);
      const auto most = static_cast<std::int64_t>(tasks);
      labels = study::spectral_labels(study_, cosine, clusters > 0 ? std::min(clusters, most) : gap);
    }
    const auto length = vectors.length();
    auto& tau = result.merged.tau = at::zeros({length}, at::kFloat);
    auto kept = at::zeros({static_cast<std::int64_t>(tasks)}, at::kLong);
    vectors.visit(vectors.all(), {0, length}, 8, [&](std::int64_t begin, std::span<const at::Tensor> parts) {
      context.stop_if_requested();
      context.progress(static_cast<double>(begin) / static_cast<double>(length), "stitching");
      const auto n = parts.front().numel();
      std::vector<at::Tensor> masks;
      for (const auto& each : bits) masks.push_back(unpacked(each, begin, n));
      regroup(masks, labels);
      auto above = at::zeros({n}, at::kFloat), below = at::zeros({n}, at::kFloat);
      for (std::size_t t = 0; t < tasks; ++t) {
        above.addcmul_(masks[t], parts[t]);
        below.add_(masks[t]);
        kept[static_cast<std::int64_t>(t)] += at::count_nonzero(masks[t]);
      }
      tau.narrow(0, begin, n).copy_(above / below.clamp_min(1));
    });
    const auto nonzero = at::count_nonzero(tau).item<std::int64_t>();
    constexpr double bits_of_mask = 1.0 / 32;
    result.merged.stats = {static_cast<double>(nonzero) / static_cast<double>(length),
                           before + vectors.passes() + bits_of_mask * (stitching_ == Stitching::own ? 1 : 2)};
    std::int64_t masks = 0, numbers = 0;
    std::set<std::int64_t> seen;  // clusters whose mask was counted
    for (std::size_t t = 0; t < tasks; ++t) {
      if (stitching_ == Stitching::shared && !seen.insert(labels[t]).second) continue;
      ++masks;
      numbers += kept[static_cast<std::int64_t>(t)].item<std::int64_t>();
    }
    result.more = {
        {"mask_density", kept.to(at::kDouble) / static_cast<double>(masks_.numbers(models.regime()))},
        {"masks", at::full({}, masks, at::kLong)},
        {"mask_numbers", at::full({}, numbers, at::kLong)}};
    if (stitching_ != Stitching::own) result.more["labels"] = at::tensor(labels, at::kLong);
    return result;
  }

  /// The masks that were stitched, and the clusters that share them.
  RecipeNote recipe_note(const std::string& name, const std::vector<std::size_t>& tasks) const override {
    auto note = DataMethod::recipe_note(name, tasks);
    if (masks_as_read.empty()) return note;
    note.comments += "# Its masks are those of [merging.localize_stitch]:\n";
    for (const auto& [parameter, value] : masks_as_read)
      if (parameter != "alpha") note.comments += fmt::format("#   {} = {}\n", parameter, value);
    const auto labels = study::labels_of(unit_tensor(key::merging(name_, name), "labels"));
    std::vector<std::string> each;
    for (const auto& members : study::clusters_by(tasks, labels))
      each.push_back(study::joined_names(study_, members));
    note.comments += fmt::format("# The clusters that it took: {}\n", fmt::join(each, ", "));
    return note;
  }

  Lengths lengths(const std::string&) const override { return {{"merging_step", masks_.settings().steps}}; }
  void write(Results& out, const Finished& done, const std::string& group, const std::string& name,
             const std::string& key) const override {
    for (const auto* what : {"mask_density", "labels"}) {
      if (what == std::string("labels") && stitching_ == Stitching::own) continue;
      out.put(group + "/" + what, done.folder.read_tensor(key, what));
    }
    for (const auto* what : {"masks", "mask_numbers"})
      out.put(group + "/" + what, done.folder.read_tensor(key, what));
    std::vector<at::Tensor> rows, losses;
    std::int64_t most = 0;
    for (const auto t : study_.tasks.all()) {
      const auto unit = key::merging_data(masks_of_, name, study_.tasks.name(t));
      rows.push_back(done.folder.read_tensor(unit, "rows"));
      losses.push_back(done.folder.read_tensor(unit, "loss"));
      most = std::max(most, rows.back().size(0));
    }
    for (auto& each : rows) each = at::constant_pad_nd(each, {0, most - each.size(0)}, -1);
    out.put(group + "/mask_loss", at::stack(losses));
    out.put(group + "/data_sample_index", at::stack(rows));
    out.attribute(group, "inputs", std::string(study::split_name(masks_.settings().inputs)));
  }

 private:
  /// Inner products [T,T] of γ_t τ_t, float64.
  static at::Tensor masked_gram(const TaskVectors& vectors, const std::vector<at::Tensor>& bits,
                                const schedule::UnitContext& context) {
    weights::GramSum sum(static_cast<std::int64_t>(vectors.count()), vectors.length());
    vectors.visit(vectors.all(), {0, vectors.length()}, std::lcm(sum.step(), std::int64_t{8}),
                  [&](std::int64_t begin, std::span<const at::Tensor> parts) {
                    context.stop_if_requested();
                    std::vector<at::Tensor> kept;
                    for (std::size_t t = 0; t < parts.size(); ++t)
                      kept.push_back(unpacked(bits[t], begin, parts[t].numel()) * parts[t]);
                    sum.add(begin, {.x = kept});
                  });
    return sum.gram();
  }

  /// The masks that are stitched, of those that were learnt.
  void regroup(std::vector<at::Tensor>& masks, const std::vector<std::int64_t>& labels) const {
    if (stitching_ == Stitching::own) return;
    for (std::int64_t c = 0; c <= *std::max_element(labels.begin(), labels.end()); ++c) {
      std::vector<std::size_t> places(labels.size());
      std::iota(places.begin(), places.end(), std::size_t{0});
      const auto members = study::members_of(places, labels, c);
      auto sum = at::zeros_like(masks.front());
      for (const auto t : members) sum.add_(masks[t]);
      const double half = static_cast<double>(members.size()) / 2;
      const auto common = (half_up ? sum >= half : sum > half).to(at::kFloat);
      for (const auto t : members)
        masks[t] = stitching_ == Stitching::shared ? common : masks[t] * (sum <= (half_up ? 2 : 1));
    }
  }

  Stitching stitching_;
  std::string name_;
  std::string masks_of_;
  Masks masks_;
};

constexpr auto* localize_stitch = "localize_stitch";

MakeInRun read_localize_stitch(config::Section parameters, Scope) {
  return [masks = read_masks(parameters)](const Place& place) {
    study::require_classes(place.study, place.section);
    return std::make_shared<LocalizeStitch>(place, Stitching::own, place.name, masks);
  };
}

/// The masks are those of [merging.localize_stitch]; where a cluster's tasks, or bases, are merged, they are
/// set up beside the method, and are of one cluster unless it says otherwise.
MakeInRun read_clustered_stitch(config::Section parameters, Scope scope, Stitching stitching) {
  std::optional<MaskSettings> own_masks;
  if (scope.of_cluster) own_masks = read_masks(parameters);
  const auto clusters = parameters.integer(
      "clusters",
      {"Number of clusters; 0: as many as the largest gap says. Of a cluster's tasks, and of bases: 1",
       {.values = "an integer from 0 to T"}},
      scope.of_cluster ? 1 : 0, {0, std::max(1.0, static_cast<double>(scope.tasks))});
  const bool half_up =
      parameters.word(
          "rounding",
          "What ½ is rounded to: 1 (half_up) or 0 (half_even); paper 2's code has half_up where masks "
          "are shared, half_even where they are stitched twice",
          stitching == Stitching::twice ? "half_even" : "half_up", {"half_up", "half_even"}) == "half_up";
  return [=](const Place& place) {
    study::require_classes(place.study, place.section);
    std::shared_ptr<LocalizeStitch> method;
    if (own_masks) {
      method = std::make_shared<LocalizeStitch>(place, stitching, place.name, *own_masks);
    } else {
      auto section =
          place.config.section(std::string("merging.") + localize_stitch, entry(localize_stitch).meaning);
      method = std::make_shared<LocalizeStitch>(place, stitching, localize_stitch, read_masks(section));
      method->masks_as_read = section.values();
    }
    method->clusters = clusters;
    method->half_up = half_up;
    return method;
  };
}

MakeInRun read_mask_sharing(config::Section parameters, Scope scope) {
  return read_clustered_stitch(std::move(parameters), scope, Stitching::shared);
}

MakeInRun read_stitch_twice(config::Section parameters, Scope scope) {
  return read_clustered_stitch(std::move(parameters), scope, Stitching::twice);
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    localize_stitch, 240, nullptr, read_localize_stitch,
    "Localize-and-Stitch (He et al. 2024): at each number of θ the mean of the vectors whose "
    "masks have it; masks are learnt on labelled points (without data: top_k with cut = "
    "\"above\", divide = \"overlap\")",
    false, localize_stitch_outputs)
TAUGRID_MERGING_METHOD(
    mask_sharing, 250, nullptr, read_mask_sharing,
    "Task vector bases' mask sharing: Localize-and-Stitch with one mask a cluster of tasks, the "
    "rounded mean of theirs",
    false, localize_stitch_outputs)
TAUGRID_MERGING_METHOD(
    stitch_twice, 260, nullptr, read_stitch_twice,
    "Task vector bases' stitching twice: Localize-and-Stitch with masks that were divided among "
    "the tasks of a cluster, and rounded, before",
    false, localize_stitch_outputs)
