// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a task vector loses by being stored with few singular vectors (TSV-C, Gargiulo et al. 2025): of each
// matrix of τ_t [m,n] the k = ⌊share · min(m,n)⌋ leading triples stay, all other numbers as they are. A
// triple is 1 + m + n numbers, 32 bits each. Each task's own model, θ0 + τ'_t, is evaluated on its test
// points, beside the bits and the squared norm that are left.
#include <ATen/ATen.h>

#include <algorithm>

#include "suite/experiments/experiment.hpp"
#include "suite/merging/matrices/on_matrices.hpp"
#include "suite/study/correctness.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

constexpr double bits_a_number = 32;

std::string compression_key(const std::string& regime, const std::string& task) {
  return key::of("compression", regime, task);
}

std::vector<OutputGroup> compression_outputs() {
  return {
      {"/compression/R",
       "each task's own model, of a task vector with few singular vectors",
       {{"rank_share", "rank_share", "1", "the share of each matrix' singular vectors",
         With{.scale = "rank_share_R"}},
        {"accuracy", "rank_share task", "1", "of θ0 + τ' on test points", With{.correct = true}},
        {"kept", "rank_share task", "1", "‖τ'‖²/‖τ‖²"},
        {"bits", "rank_share", "bit", "of one task: 32 a number of the triples, and of what is no matrix"},
        {"whole_bits", "", "bit", "of τ itself"},
        sample_rows()},
       "[compression]",
       2}};
}

class Compression final : public Experiment {
 public:
  Compression(const Study& study, std::vector<double> shares)
      : Experiment(study), shares_(std::move(shares)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : study_.settings.vector_regimes)
      for (const auto t : study_.tasks.all())
        units.push_back(unit(compression_key(name, study_.tasks.name(t)), tally(name, t),
                             Edit::along(name, {t}, {1}).needs(study_, t),
                             [this, name, t, &folder](schedule::UnitContext& context) {
                               return compute(name, t, folder, context);
                             }));
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/compression", study_.settings.vector_regimes, {{"rank_share", length_of(shares_)}});
  }

  void write(Results& out, const Finished& done) const override {
    std::vector<double> bits;
    for (const auto share : shares_) bits.push_back(bits_a_number * stored_numbers(share));
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/compression/" + name;
      std::vector<Box> boxes;
      for (const auto t : study_.tasks.all())
        boxes.push_back({compression_key(name, study_.tasks.name(t)), {0, static_cast<std::int64_t>(t)}});
      out.put(group + "/rank_share", shares_);
      out.place(done, group + "/accuracy", boxes, "accuracy");
      out.place(done, "/correct" + group + "/accuracy", boxes, "correct");
      out.put_points(group + "/accuracy", sample_sizes(study_, Split::test, points()));
      out.place(done, group + "/kept", boxes, "kept");
      out.put(group + "/bits", bits);
      out.put(group + "/whole_bits", bits_a_number * static_cast<double>(study_.model.layout().size()));
      out.put(group + "/sample_index", study_.samples.index(Split::test, points()));
    }
  }

 private:
  using Parameter = autodiff::Parameter;

  static bool is_matrix(const Parameter& parameter) { return parameter.shape.size() == 2; }
  static std::int64_t rank_of(const Parameter& parameter, double share) {
    return static_cast<std::int64_t>(share *
                                     static_cast<double>(std::min(parameter.shape[0], parameter.shape[1])));
  }

  double stored_numbers(double share) const {
    std::int64_t numbers = 0;
    for (const auto& parameter : study_.model.layout().parameters())
      numbers += is_matrix(parameter)
                     ? rank_of(parameter, share) * (1 + parameter.shape[0] + parameter.shape[1])
                     : parameter.count;
    return static_cast<double>(numbers);
  }

  Tally tally(const std::string& name, std::size_t t) const {
    const auto count = length_of(shares_);
    auto tally = Tally(study_).vectors(name, {t});
    tally.edited(Edit::along(name, {t}, {1}), t, Split::test, points(), count);
    double flops = 0;
    for (const auto& parameter : study_.model.layout().parameters())
      if (is_matrix(parameter))
        flops += merging::nearest_flops(static_cast<double>(parameter.shape[0]),
                                        static_cast<double>(parameter.shape[1]));
    tally.computes(static_cast<double>(count) * flops);
    tally.holds_beside(8.0 * static_cast<double>(study_.model.layout().size()));
    return tally.stores(2 * count).stores(count * study::bytes_of_bits(points()), 1);
  }

  /// τ' [P] on the host, of the vector there.
  at::Tensor compressed(const at::Tensor& tau, double share, schedule::UnitContext& context) const {
    auto kept = tau.clone();
    for (const auto& parameter : study_.model.layout().parameters()) {
      if (!is_matrix(parameter)) continue;
      context.stop_if_requested();
      auto part = kept.narrow(0, parameter.offset, parameter.count);
      part.copy_(
          merging::nearest_of_rank(part.view(parameter.shape).to(at::kDouble), rank_of(parameter, share))
              .flatten());
    }
    return kept;
  }

  /// Accuracies and shares of the squared norm [S,1], and bits [S,1,bytes].
  store::TensorFile compute(const std::string& name, std::size_t t, const schedule::RunFolder& folder,
                            schedule::UnitContext& context) const {
    const EditedOutputs models(study_, folder, context.group);
    const auto tau = study_.vectors.vector(name, t).cpu();
    const auto square = tau.square().sum(at::kDouble);
    std::vector<at::Tensor> accuracy, correct, kept;
    for (std::size_t s = 0; s < shares_.size(); ++s) {
      const auto direction = compressed(tau, shares_[s], context);
      kept.push_back((direction.square().sum(at::kDouble) / square).view({1}));
      const auto edit = Edit::along(name, {t}, {1}, direction.to(study_.device));
      const auto outcome = models.outcomes(edit, t, Split::test, points(), [&](double share) {
        context.stop_if_requested();
        context.progress((static_cast<double>(s) + share) / static_cast<double>(shares_.size()), "shares");
      });
      accuracy.push_back(outcome.accuracy);
      correct.push_back(outcome.correct);
    }
    store::TensorFile file;
    file.tensors["accuracy"] = at::stack(accuracy);
    file.tensors["correct"] = at::stack(correct);
    file.tensors["kept"] = at::stack(kept);
    return file;
  }

  std::vector<double> shares_;
};

std::unique_ptr<Experiment> make_compression(config::Config& config, const Study& study) {
  auto section = config.optional_section("compression",
                                         "Each task's own model of a task vector that is stored with few "
                                         "singular vectors (TSV-C, Gargiulo et al. "
                                         "2025), beside its bits");
  if (!section) return nullptr;
  auto shares = section->reals(
      "rank_shares",
      {"The shares of each matrix' singular vectors that stay", {.fallback = "1 over the number of tasks"}},
      {}, config::some_share);
  if (shares.empty()) shares = {1 / static_cast<double>(study.tasks.size())};
  study::require_vectors(study, "compression");
  return std::make_unique<Compression>(study, std::move(shares));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(compression, 47, make_compression, compression_outputs)
