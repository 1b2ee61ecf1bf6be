// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// RegMean (Jin et al. 2023, equation 2): every linear layer's matrix is the one that gives, in the least
// squares' sense, what the tasks' own matrices give on their own inputs, W = (Σ_t W_t Ĝ_t)(Σ_t Ĝ_t)⁻¹ with Ĝ
// = G but for the numbers off the diagonal, times `off_diagonal`, and G = XᵀX/rows, X [rows, in] being all
// tokens that the layer of θ_t takes in, of a basis on its tasks' inputs. All other parameters are averaged,
// the head of a masked language model among them.
//
// Texts count by tokens in use alone: public codes let padding in, and so depend on the batches. Of a linear
// regime X is what the layers of θ0 take in, with which a change of W is multiplied there.
//
// It is solved for the difference to the mean, X (ΣĜ) = Σ (τ_t − τ̄) Ĝ_t, so that directions of which no input
// tells keep the mean; ΣĜ is scaled to a unit diagonal first.
#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/autodiff/tape.hpp"
#include "kernels/tangent/input_gram.hpp"
#include "suite/error.hpp"
#include "suite/merging/data/data_method.hpp"

namespace taugrid::merging {
namespace {

using autodiff::Kind;

// The part of the unit diagonal below which an eigenvalue is float32's rounding.
constexpr double rounding = 1e-6;

/// X with X S = R for a symmetric S, positive semi-definite, and R [out,in]; zero where S is.
at::Tensor solved(const at::Tensor& s, const at::Tensor& r) {
  const auto diagonal = s.diagonal();
  const auto scale = at::where(diagonal > 0, diagonal.rsqrt(), 0.0);
  auto unit = s * scale.unsqueeze(0) * scale.unsqueeze(1);
  unit.diagonal().fill_(1);
  const auto right = r * scale.unsqueeze(0);
  const auto [factor, failed] = at::linalg_cholesky_ex(unit);
  const bool regular =
      failed.item<std::int64_t>() == 0 && factor.diagonal().square().min().item<double>() > rounding;
  if (regular) return at::cholesky_solve(right.t(), factor).t() * scale.unsqueeze(0);
  const auto [values, vectors] = at::linalg_eigh(unit);
  const auto inverse = at::where(values > rounding * values.max(), values.reciprocal(), 0.0);
  return at::mm(at::mm(right, vectors) * inverse.unsqueeze(0), vectors.t()) * scale.unsqueeze(0);
}

struct RegMeanSettings {
  Split inputs;
  std::int64_t points, chunk;
  double off_diagonal;
};

class RegMean final : public DataMerge {
 public:
  RegMean(const Place& place, const RegMeanSettings& settings) : DataMerge(place), settings_(settings) {
    const auto& blocks = study_.model.layout().blocks();
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (is_linear_layer(blocks[i])) linear_.push_back(i);
  }

  static bool is_linear_layer(const autodiff::Block& block) {
    return block.shape.size() == 2 && (block.kind == Kind::attention_weight ||
                                       block.kind == Kind::mlp_weight || block.kind == Kind::projection);
  }
  bool has_linear_layers() const { return !linear_.empty(); }

  bool has_parts() const override { return true; }

  void count_parts(Tally& tally, const std::string&, const std::vector<std::size_t>& tasks) const override {
    tally.holds(4.0 * static_cast<double>(gram_numbers()));
    for (const auto t : tasks) {
      const auto n = study_.samples.size(t, settings_.inputs, settings_.points);
      tally.sample(t, settings_.inputs, n, settings_.chunk)
          .passes("regmean", n, settings_.chunk, 1, flops(), stage_kept() + study_.model.cost().passing(),
                  [this](const comm::Communicator&, std::int64_t inputs, std::int64_t) {
                    return rehearse(inputs);
                  });
    }
  }
  std::int64_t part_bytes(std::size_t) const override { return 4 * (gram_numbers() + 4); }

  store::TensorFile part(const ModelToMerge& of, schedule::UnitContext& context) const override {
    const auto state = of.state();
    auto grams = empty_grams();
    double inputs = 0;
    for (const auto t : of.tasks()) {
      const auto sample = study_.sample(of.regime(), t, settings_.inputs, settings_.points);
      const auto n = sample.labels.size(0);
      each_chunk(n, settings_.chunk, context, [&](std::int64_t begin, std::int64_t count) {
        add(state, sample.points.part(begin, count), grams);
      });
      inputs += static_cast<double>(n);
    }
    store::TensorFile file;
    for (auto& [i, gram] : grams) {
      if (context.group.size() > 1) {
        context.group.all_reduce_sum(gram.sum, "Gram matrix of a layer's inputs");
        context.group.all_reduce_sum(gram.rows, "rows of a layer's inputs");
      }
      tangent::mirror_gram(gram.sum);
      file.tensors[tensor_of(i)] = gram.sum.div_(gram.rows.clamp_min(1).item<double>()).cpu();
    }
    file.tensors["passes"] = at::tensor({inputs, 0.0}, at::kDouble);
    return file;
  }

  /// The Gram matrices in double, and for each layer a Cholesky factor, and the products with and of it.
  void count_merged(Tally& tally, const std::string&, std::size_t models, std::size_t) const override {
    double numbers = 0, solving = 0;
    for (const auto i : linear_) {
      const auto& shape = study_.model.layout().blocks()[i].shape;
      const auto out = static_cast<double>(shape[0]), in = static_cast<double>(shape[1]);
      numbers = std::max(numbers, 3 * in * in + 4 * out * in);
      solving += in * in * in / 3 + 2 * out * in * in * (1 + static_cast<double>(models));
    }
    tally.computes(solving)
        .reads(4.0 * static_cast<double>(gram_numbers()) * static_cast<double>(models))
        .holds(8 * numbers + 4.0 * static_cast<double>(study_.model.layout().size()));
  }

  MergeResult merged(const ModelsToMerge& models, const Part& part,
                     schedule::UnitContext& context) const override {
    const auto& vectors = models.vectors();
    const auto& blocks = study_.model.layout().blocks();
    MergeResult result;
    auto& tau = result.merged.tau = at::zeros({vectors.length()}, at::kFloat);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      context.stop_if_requested();
      context.progress(static_cast<double>(i) / static_cast<double>(blocks.size()), "regmean");
      const bool linear = std::find(linear_.begin(), linear_.end(), i) != linear_.end();
      const auto& block = blocks[i];
      vectors.visit(vectors.all(), {block.offset, block.count}, linear ? block.count : 1,
                    [&](std::int64_t begin, std::span<const at::Tensor> parts) {
                      auto mean = at::zeros(parts.front().sizes(), at::kDouble);
                      for (const auto& vector : parts) mean.add_(vector);
                      mean.div_(static_cast<double>(parts.size()));
                      if (linear) mean.add_(change(i, block, parts, mean, part));
                      tau.narrow(0, begin, mean.numel()).copy_(mean);
                    });
    }
    for (std::size_t i = 0; i < models.size(); ++i)
      result.inputs.forward += part(i, "passes")[0].item<double>();
    const auto nonzero = at::count_nonzero(tau).item<std::int64_t>();
    const auto length = static_cast<double>(tau.numel());
    // Each model is read where its Gram matrices are taken, too; of linear regimes these are θ0's.
    const double models_read = study::regime(models.regime()).linear ? 0 : 1;
    result.merged.stats = {static_cast<double>(nonzero) / length,
                           vectors.passes() + models_read + static_cast<double>(gram_numbers()) / length};
    return result;
  }

  Lengths lengths(const std::string&) const override { return {{"merging_point", settings_.points}}; }
  void write(Results& out, const Finished&, const std::string& group, const std::string&,
             const std::string&) const override {
    put_inputs(out, study_, group, settings_.inputs, settings_.points);
  }

 private:
  struct Gram {
    at::Tensor sum, rows;  // [in,in], right of the diagonal; [1]
  };
  using Grams = std::map<std::size_t, Gram>;
  /// The places of the texts' tokens in use among all of the batch's, of sequences of so many; undefined for
  /// all. Answers that stand in a text's line have no part.
  struct InUse {
    std::int64_t tokens = 0;
    at::Tensor places;
  };

  static std::string tensor_of(std::size_t block) { return "gram." + std::to_string(block); }

  Grams empty_grams() const {
    Grams grams;
    for (const auto i : linear_) {
      const auto in = study_.model.layout().blocks()[i].shape[1];
      grams[i] = {at::zeros({in, in}, study_.model.theta0().options()), study_.sums({1})};
    }
    return grams;
  }
  std::int64_t gram_numbers() const {
    std::int64_t numbers = 0;
    for (const auto i : linear_) {
      const auto in = study_.model.layout().blocks()[i].shape[1];
      numbers += in * in;
    }
    return numbers;
  }

  /// Numbers that a stage keeps of one input beside those of the pass, which has about a third of them at its
  /// peak.
  double stage_kept() const {
    return study_.model.cost().kept() / (1.5 * std::max(1, study_.model.encoder().stages()));
  }

  /// What one input takes: a pass, and half of each Gram matrix.
  double flops() const {
    const auto& blocks = study_.model.layout().blocks();
    double all = study_.model.cost().forward();
    for (const auto& use : study_.model.cost().matrix_uses())
      if (is_linear_layer(blocks[static_cast<std::size_t>(use.block)])) all += use.tokens * use.in * use.in;
    return all;
  }

  void add(const models::State& state, const models::Batch& batch, Grams& grams) const {
    const auto& encoder = study_.model.encoder();
    const models::Given x{batch, study_.model.buffers(state, at::kFloat)};
    InUse in_use;
    if (batch.text()) {
      auto flags = models::tokens_in_use(batch).to(state.theta.device());
      if (encoder.answers_in_line())
        flags = at::cat({at::zeros({batch.size(), batch.in_line()}, flags.options()), flags}, 1);
      in_use = {flags.size(1), flags.flatten().nonzero().squeeze(1)};
    }
    // What a stage's layers take in is used while it is in cache, and the next stage takes its memory.
    const auto see = [&](autodiff::Tape& tape) {
      for (const auto& use : tape.uses) add(use, in_use, grams);
      tape.uses.clear();
      tape.outputs.clear();
    };
    auto rest = autodiff::record_uses(
        study_.model.layout(),
        [&](const models::Blocks<autodiff::Recorded>& p) {
          // All tokens in all stages, as any hook on a layer sees them, not those alone that features are
          // read of.
          return encoder.visit<autodiff::Recorded>(p, x,
                                                   [&](int, const autodiff::Recorded& h) { see(*h.tape); });
        },
        state.theta);
    see(rest);
  }

  static void add(const autodiff::Use& use, const InUse& in_use, Grams& grams) {
    const auto gram = grams.find(static_cast<std::size_t>(use.block));
    if (use.form != autodiff::Use::Form::product || gram == grams.end()) return;
    auto rows = use.input.reshape({-1, use.input.size(-1)});
    // The tokens of an encoder's decoder are all in use.
    if (in_use.places.defined() && use.input.dim() == 3 && use.input.size(1) == in_use.tokens)
      rows = rows.index_select(0, in_use.places);
    tangent::add_input_gram(gram->second.sum, rows);
    gram->second.rows.add_(static_cast<double>(rows.size(0)));
  }

  /// W − W̄ of one layer, [out·in] in double.
  at::Tensor change(std::size_t i, const autodiff::Block& block, std::span<const at::Tensor> tau,
                    const at::Tensor& mean, const Part& part) const {
    const auto in = block.shape[1];
    auto sum = at::zeros({in, in}, at::kDouble), right = at::zeros({block.shape[0], in}, at::kDouble);
    for (std::size_t t = 0; t < tau.size(); ++t) {
      auto gram = part(t, tensor_of(i)).to(at::kDouble);
      const auto diagonal = gram.diagonal().clone();
      gram.mul_(settings_.off_diagonal).diagonal().copy_(diagonal);
      sum.add_(gram);
      right.addmm_((tau[t] - mean).view(block.shape), gram);
    }
    return solved(sum, right).contiguous().view({-1});
  }

  schedule::Rehearsal rehearse(std::int64_t n) const {
    const auto batch = study_.model.random_batch(n);
    return {[this, batch, grams = std::make_shared<Grams>(empty_grams())] {
              add(study_.model.start(), batch, *grams);
            },
            static_cast<double>(n) * flops()};
  }

  RegMeanSettings settings_;
  std::vector<std::size_t> linear_;  // blocks
};

MakeInRun read_regmean(config::Section parameters, Scope) {
  RegMeanSettings settings{};
  settings.inputs = read_inputs(parameters, "train", {"train", "validation"});
  settings.points = parameters.integer("points", "Inputs a task that layers are matched on", 256, {1, 1e9});
  settings.off_diagonal = parameters.real("off_diagonal",
                                          "Times which Gram matrices' numbers off the diagonal count "
                                          "(FusionBench on CLIP 0.95, the paper 0.9 and "
                                          "0.1, MergeLM 1); below 1, all can be inverted",
                                          0.95, {0, 1});
  settings.chunk =
      parameters.integer("chunk", "Inputs that are recorded at once: fewer take less memory", 64, {1, 1e6});
  return [settings](const Place& place) {
    auto method = std::make_shared<RegMean>(place, settings);
    if (!method->has_linear_layers())
      throw InputError("section [" + place.section + "]: regmean merges linear layers; the model " +
                       place.study.settings.model.string() + " has none");
    return method;
  };
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    regmean, 220, nullptr, read_regmean,
    "RegMean (Jin et al. 2023): every linear layer is the one that fits best, in the least "
    "squares' sense, what the tasks' own layers give on their own inputs; all else is averaged",
    false, input_outputs)
