// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Each regime's gradient against finite differences of its loss, in double precision.
#include "suite/training/loss.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/full_products.hpp"
#include "suite/comm/host_products.hpp"
#include "suite/machine/peak_memory.hpp"
#include "suite/models/registry.hpp"

namespace taugrid::training {
namespace {

using study::Penalty;
using study::PenaltyForm;
using study::regime;
using study::trained_blocks;

const char* const tiny = R"({"model_type": "clip_vision_model", "hidden_size": 16, "intermediate_size": 32,
  "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16, "patch_size": 8, "projection_dim": 8})";

class RegimeTest : public ::testing::TestWithParam<std::string> {
 protected:
  RegimeTest() {
    at::manual_seed(3);
    auto& theta0 = start.theta;
    theta0 = encoder->random_state(1).theta.to(at::kDouble);
    theta0 += 0.05 * at::randn_like(theta0);
    theta = theta0 + 0.05 * at::randn_like(theta0);
    head.weight = at::randn({5, 8}, at::kDouble);
    head.weight /= head.weight.norm(2, 1, true);
    head.scale = 7;
  }
  Term labelled(std::int64_t n) const {
    return {models::pictures(at::randn({n, 3, 16, 16}, at::kDouble)), at::randint(0, 5, {n}, at::kLong),
            &head, 1.0 / static_cast<double>(n)};
  }
  Term penalised(std::int64_t n, double weight, PenaltyForm form = PenaltyForm::squared) const {
    return {models::pictures(at::randn({n, 3, 16, 16}, at::kDouble)),
            {},
            &head,
            weight / static_cast<double>(n),
            form};
  }

  void expect_slope(const study::Regime& r, const std::vector<Term>& terms) const;

  std::unique_ptr<models::Encoder> encoder = models::make_encoder(tiny, "tiny");
  models::State start;
  at::Tensor theta;
  models::Readout head;
  TrainingLoss loss_of(const study::Regime& r) const {
    return {*encoder, r, start, trained_blocks(r, encoder->layout())};
  }
};

TEST_P(RegimeTest, GradientIsTheSlopeOfTheLoss) {
  const auto& r = regime(GetParam());
  std::vector<Term> terms = {labelled(6)};
  if (r.joint) terms.push_back(labelled(4));
  // A cyclic penalty is one part a step, a strict one a part each other task.
  const int others = r.penalty == Penalty::none ? 0 : r.penalty == Penalty::strict ? 3 : 1;
  for (int i = 0; i < others; ++i) terms.push_back(penalised(2 + i, 0.3));
  expect_slope(r, terms);
  if (r.penalty == Penalty::none) {
    terms.push_back(labelled(3));
    terms.back().labels = at::Tensor();
    terms.back().entropy = true;
    expect_slope(r, terms);
  }
  if (others == 0) return;
  for (auto& term : terms) term.form = PenaltyForm::norm;
  expect_slope(r, terms);
}

void RegimeTest::expect_slope(const study::Regime& r, const std::vector<Term>& terms) const {
  const auto loss = loss_of(r);
  at::Tensor gradient, unused;
  const auto value = loss(theta, terms, gradient);
  EXPECT_EQ(value.penalty.item<double>() > 0, terms.back().penalty());

  // Along random directions within the trained blocks.
  const auto& layout = encoder->layout();
  const auto trained = trained_blocks(r, layout);
  for (int trial = 0; trial < 4; ++trial) {
    auto direction = at::zeros_like(theta);
    std::vector<at::Tensor> compact;
    for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
      if (!trained.empty() && !trained[i]) continue;
      const auto& b = layout.blocks()[i];
      compact.push_back(at::randn({b.count}, at::kDouble));
      direction.narrow(0, b.offset, b.count).copy_(compact.back());
    }
    const double length = direction.norm().item<double>(), h = 1e-4 / length;
    const auto at = [&](double a) { return loss(theta + a * direction, terms, unused).sum(); };
    const double slope = (at(h) - at(-h)) / (2 * h);
    EXPECT_NEAR(gradient.dot(at::cat(compact)).item<double>(), slope, 1e-6 * length);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RegimeTest,
                         ::testing::Values("standard", "linear", "attention", "attention+bias",
                                           "attention+mlp+bias", "lora", "tau_jp", "tau_jp_strict",
                                           "multitask", "multitask_linear"),
                         [](const auto& parameter) {
                           auto name = parameter.param;
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

using RegimeParts = RegimeTest;
TEST_F(RegimeParts, ShardsOfABatchAddUp) {
  const auto whole = labelled(6);
  const auto shard = [&](std::int64_t begin, std::int64_t n) {
    return Term{whole.batch.narrow(begin, n), whole.labels.narrow(0, begin, n), &head, whole.weight};
  };
  for (const auto* name : {"standard", "linear"}) {
    const auto loss = loss_of(regime(name));
    at::Tensor g, g1, g2;
    const double together = loss(theta, {whole}, g).sum();
    const double sharded = loss(theta, {shard(0, 4)}, g1).sum() + loss(theta, {shard(4, 2)}, g2).sum();
    EXPECT_NEAR(together, sharded, 1e-12);
    EXPECT_TRUE(g.allclose(g1 + g2, 1e-9, 1e-12));
  }
}

TEST_F(RegimeParts, APenaltyIsOfEachPointInBothForms) {
  const auto& r = regime("tau_jp");
  const auto loss = loss_of(r);
  const auto whole = penalised(6, 0.3);
  // ‖J(x)τ‖ of one point: the difference of the linearised outputs at θ0 + τ and at θ0 by central differences
  // of f.
  const auto tau = theta - start.theta;
  const double h = 1e-4;
  const auto f = [&](double a) {
    return encoder->encode(encoder->layout().views(start.theta + a * tau), {whole.batch});
  };
  const auto norms = ((f(h) - f(-h)) / (2 * h)).norm(2, 1);
  for (const auto form : {PenaltyForm::squared, PenaltyForm::norm}) {
    const auto labels = labelled(1);
    const auto of = [&](std::int64_t begin, std::int64_t n, at::Tensor& g) {
      return loss(theta, {labels, Term{whole.batch.narrow(begin, n), {}, &head, whole.weight, form}}, g)
          .penalty.item<double>();
    };
    at::Tensor g, g1, g2, of_labels;
    const double together = of(0, 6, g), sharded = of(0, 4, g1) + of(4, 2, g2);
    EXPECT_NEAR(together, sharded, 1e-12);
    of(0, 0, of_labels);  // the labelled sample's gradient alone, which both shards have
    EXPECT_TRUE((g + of_labels).allclose(g1 + g2, 1e-9, 1e-12));
    const auto expected = form == PenaltyForm::norm ? norms.mean() : norms.square().mean();
    EXPECT_NEAR(together, 0.3 * expected.item<double>(), 1e-6);
  }
}

TEST_F(RegimeParts, ANormsGradientIsZeroWhereTrainingBegins) {
  const auto loss = loss_of(regime("tau_jp"));
  const auto labels = labelled(3);
  at::Tensor with, without;
  const auto value = loss(start.theta, {labels, penalised(2, 1, PenaltyForm::norm)}, with);
  loss(start.theta, {labels}, without);
  EXPECT_EQ(value.penalty.item<double>(), 0);
  EXPECT_TRUE(with.allclose(without, 1e-9, 1e-12));
}

TEST_F(RegimeParts, BucketsHandOverTheGradientFromItsEnd) {
  const auto& layout = encoder->layout();
  for (const auto* name : {"standard", "linear", "attention"}) {
    const auto& r = regime(name);
    const auto loss = loss_of(r);
    const auto trained = trained_blocks(r, layout);
    const auto whole = labelled(6);
    at::Tensor expected, bucketed, empty;
    loss(theta, {whole}, expected);
    for (const std::int64_t numbers : {std::int64_t{1}, std::int64_t{5000}, layout.size()}) {
      std::vector<at::Tensor> terms;
      const autodiff::Buckets buckets(layout, trained, numbers, [&](const at::Tensor& part) {
        terms.push_back(part);
        part.mul_(2);  // as a sum over two ranks would
      });
      loss(theta, {whole}, bucketed, &buckets);
      EXPECT_EQ(terms.size(), buckets.size());
      std::reverse(terms.begin(), terms.end());
      EXPECT_TRUE(at::cat(terms).equal(2 * expected)) << name << " in buckets of " << numbers;
      EXPECT_TRUE(bucketed.equal(2 * expected)) << name;
      EXPECT_TRUE(numbers > 1 || buckets.size() > 3);

      // A rank without a sample hands over the same stretches.
      const auto filled = terms.size();
      loss(theta, {Term{whole.batch.narrow(0, 0), whole.labels.narrow(0, 0, 0), &head, 1.0}}, empty,
           &buckets);
      EXPECT_EQ(terms.size(), 2 * filled);
      EXPECT_TRUE(empty.eq(0).all().item<bool>());
    }
  }
}

TEST_F(RegimeParts, APenaltyNeedsALinearModel) {
  const auto loss = loss_of(regime("standard"));
  at::Tensor gradient;
  EXPECT_THROW(loss(theta, {labelled(2), penalised(2, 1)}, gradient), std::invalid_argument);
}

TEST(FullProducts, AreReducedAgainAfterwards) {
  auto& context = at::globalContext();
  for (const bool reduced : {true, false}) {
    allow_reduced_products(reduced);
    {
      const FullProducts full;
      EXPECT_FALSE(context.allowTF32CuBLAS());
      EXPECT_FALSE(context.allowTF32CuDNN());  // convolutions
    }
    EXPECT_EQ(context.allowTF32CuBLAS(), reduced);
    EXPECT_EQ(context.allowTF32CuDNN(), reduced);
  }
}

TEST(FullProducts, AreRoundedAgainAfterwards) {
  const auto factor = 1 + at::rand({256, 256}),
             exactly = at::mm(factor.to(at::kDouble), factor.to(at::kDouble));
  const auto error = [&] {
    return ((at::mm(factor, factor) - exactly).norm() / exactly.norm()).item<double>();
  };
  EXPECT_LT(error(), 1e-6);
  set_host_products(HostProducts::rounded);
  const double rounded = error();
  {
    const FullProducts full;
    EXPECT_LT(error(), 1e-6);
  }
  EXPECT_EQ(error(), rounded);
  set_host_products(HostProducts::blas);
  EXPECT_LT(error(), 1e-6);
  EXPECT_LT(rounded, 4e-3);
  EXPECT_EQ(rounded > 1e-5, comm::multiplies_bfloat16());
}

TEST(HostProducts, TheFastestKeepAllDigits) {
  const auto fastest = comm::fastest_host_products();
  EXPECT_NE(fastest, HostProducts::rounded);
  EXPECT_TRUE(fastest == HostProducts::blas || at::get_cpu_capability() == "AVX512");
  EXPECT_EQ(comm::fastest_host_products(1e3), HostProducts::blas);
  EXPECT_EQ(comm::fastest_host_products(1e6), fastest);
  set_host_products(fastest);
  at::manual_seed(4);
  const auto expect_exact = [](const auto& product, const at::Tensor& a, const at::Tensor& b) {
    const auto exactly = product(a.to(at::kDouble), b.to(at::kDouble));
    EXPECT_LT(((product(a, b) - exactly).norm() / exactly.norm()).template item<double>(), 1e-6)
        << a.sizes() << b.sizes();
  };
  const auto mm = [](const at::Tensor& a, const at::Tensor& b) { return at::mm(a, b); };
  const auto addmm = [](const at::Tensor& a, const at::Tensor& b) { return at::addmm(b[0], a, b); };
  const auto bmm = [](const at::Tensor& a, const at::Tensor& b) {
    return at::bmm(a.unflatten(0, {2, -1}), b.unsqueeze(0).expand({2, -1, -1}));
  };
  for (const std::int64_t m : {2, 96, 1024}) {
    for (const std::int64_t k : {4, 256, 4096}) {
      const auto a = 1 + at::rand({m, k}), b = 1 + at::rand({k, 160});
      expect_exact(mm, a, b);
      expect_exact(mm, a.t().contiguous().t(), b.t().contiguous().t());
      expect_exact(addmm, a, b);
      expect_exact(bmm, a, b);
    }
  }
  {
    const FullProducts full;
    EXPECT_EQ(host_products_in_use(), fastest);
  }
  EXPECT_EQ(host_products_in_use(), fastest);
  set_host_products(HostProducts::blas);
  EXPECT_EQ(host_products_in_use(), HostProducts::blas);
}

TEST(PeakMemory, CountsTensorsAliveAtOnce) {
  std::int64_t peak = 0;
  {
    const machine::PeakMemory memory;
    { const auto a = at::empty({1000}, at::kFloat), b = at::empty({500}, at::kFloat); }
    const auto c = at::empty({1200}, at::kFloat);
    peak = memory.bytes();
  }
  EXPECT_GE(peak, 6000);
  EXPECT_LT(peak, 6600);  // allocations are rounded up
  const auto outside = at::empty({100000}, at::kFloat);
  EXPECT_LT(peak, 6600);
}

}  // namespace
}  // namespace taugrid::training
