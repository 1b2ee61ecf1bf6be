// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What units say they will take: every kind of work can be measured, and the byte model holds.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>
#include <set>

#include "suite/experiments/experiment.hpp"
#include "suite/experiments/memory.hpp"
#include "suite/experiments/regime.hpp"
#include "suite/experiments/tally.hpp"
#include "suite/plan/calibrate.hpp"

namespace taugrid::plan {
namespace {

namespace fs = std::filesystem;
using experiments::Study;
using experiments::Tally;

/// A study of an architecture alone: no weights, no data.
class Subject {
 public:
  Subject(const std::string& shape, int ranks_per_unit, const std::string& sections) {
    auto name = (fs::temp_directory_path() / "taugrid-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    std::ofstream(folder_ / "config.json") << R"({"model_type": "clip_vision_model", )" << shape << "}";
    std::ofstream(folder_ / "experiment.toml")
        << "[run]\nranks_per_unit = " << ranks_per_unit
        << "\n[model]\npath = \".\"\ninit = \"random\"\n[data]\nfolder = \".\"\ntasks = [\"a\", \"b\", "
           "\"c\"]\n"
        << "control = \"d\"\nevaluation_points = 32\nevaluation_batch = 16\n"
        << sections;
    config_ = std::make_unique<config::Config>(config::Config::load(folder_ / "experiment.toml"));
    study_ = std::make_unique<Study>(*config_, &inputs_);
  }
  ~Subject() { fs::remove_all(folder_); }

  const Study& study() const { return *study_; }
  std::vector<schedule::WorkUnit> units() {
    const auto all = experiments::make_experiments(*config_, *study_);
    std::vector<schedule::WorkUnit> list;
    for (const auto& each : all) each->add_units(list, none_);
    for (auto& unit : list) unit.compute = {};  // it would outlive its experiment
    return list;
  }

 private:
  fs::path folder_;
  std::vector<experiments::Input> inputs_;
  std::unique_ptr<config::Config> config_;
  std::unique_ptr<Study> study_;
  schedule::RunFolder none_ = schedule::RunFolder::none();
};

const char* const mini =
    R"("hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 2,
       "image_size": 32, "patch_size": 8, "projection_dim": 48)";
const char* const wide =
    R"("hidden_size": 192, "intermediate_size": 384, "num_hidden_layers": 2, "num_attention_heads": 6,
       "image_size": 48, "patch_size": 16, "projection_dim": 64)";

std::string every_section() {
  std::string regimes;
  for (const auto& name : experiments::regime_names()) regimes += "\"" + name + "\", ";
  return "[finetune]\nregimes = [" + regimes +
         "]\nsteps = 20\nbatch = 12\n[similarity]\n[disentanglement]\nalpha = [0.0, "
         "1.0]\n[smoothness]\npoints = 32\n"
         "[ntk]\npoints = 8\nlogits = 4\n[addition]\n[pair_addition]\n[negation]\n[cost]\n";
}

TEST(Loads, EveryKindOfWorkOfEveryExperimentIsMeasured) {
  Subject subject(mini, 1, every_section());
  std::set<std::string> kinds;
  for (const auto& unit : subject.units()) {
    double flops = 0;
    for (const auto& work : unit.load.work) {
      EXPECT_GT(work.calls, 0) << unit.key;
      EXPECT_GT(work.inputs, 0) << unit.key;
      flops += work.calls * work.flops;
      if (!kinds.insert(work.kind).second) continue;
      const auto call = make_call(subject.study(), work.kind, 2, std::min<std::int64_t>(work.width, 2));
      call.run();
      EXPECT_GT(call.flops, 0);
    }
    EXPECT_NEAR(flops, unit.load.flops, 1e-9 * flops) << unit.key;
    EXPECT_GE(unit.cost, unit.load.flops) << unit.key;
    EXPECT_GT(unit.load.bytes_stored, 0) << unit.key;
  }
  for (const auto* kind : {"forward", "tangent", "logits", "divergence", "gram", "hessian/standard",
                           "hessian/linear", "train/standard", "train/tau_jp_strict", "train/multitask"}) {
    EXPECT_TRUE(kinds.contains(kind)) << kind;
  }
  EXPECT_THROW(make_call(subject.study(), "something", 1, 1), std::logic_error);
}

TEST(Loads, RanksOfAGroupShareTheWorkAndExchangeIt) {
  Subject alone(mini, 1, every_section()), pair(mini, 2, every_section());
  const auto one = alone.units(), two = pair.units();
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i].load.flops, two[i].load.flops, 0.01 * one[i].load.flops) << one[i].key;
    if (!one[i].key.starts_with("finetune/")) continue;
    EXPECT_EQ(two[i].load.work[0].inputs, (one[i].load.work[0].inputs + 1) / 2) << one[i].key;
    EXPECT_EQ(two[i].load.work[1].kind, "exchange");
    EXPECT_EQ(two[i].load.work[1].calls, 20);
  }
}

/// Bytes of tensors alive at most in a call, the second of two: what is paid once is paid.
double measured_bytes(const Call& call) {
  call.run();
  const experiments::PeakMemory memory;
  call.run();
  return static_cast<double>(memory.bytes());
}

struct Case {
  const char* shape;
  const char* kind;
  double persistent;  // vectors of θ's length that a call finds there already
};

class MemoryModel : public ::testing::TestWithParam<Case> {};

TEST_P(MemoryModel, IsWithinAThirdOfWhatTheAllocatorsCount) {
  const auto& [shape, kind, persistent] = GetParam();
  Subject subject(shape, 1, "[finetune]\n");
  const auto& study = subject.study();
  const std::string name = kind;
  const std::int64_t n = 16, rows = 4;
  Tally tally(study);
  experiments::Training training{};
  training.batch = n;
  if (name.starts_with("train/")) tally.train(name.substr(6), training, 0, 1);
  if (name == "forward") tally.forward(n);
  if (name == "tangent") tally.tangent(n);
  if (name == "gram") tally.gram(rows, n, n, 2);
  if (name.starts_with("hessian/")) tally.hessian(name == "hessian/linear", n, n, 4, 0);
  const double theta = 4.0 * static_cast<double>(study.layout().size());
  const double expected = tally.load().working - persistent * theta;
  const double found = measured_bytes(make_call(study, kind, n, rows));
  EXPECT_LT(std::abs(std::log(expected / found)), std::log(4.0 / 3))
      << expected / theta << " and " << found / theta << " vectors";
}

INSTANTIATE_TEST_SUITE_P(Kinds, MemoryModel,
                         ::testing::Values(Case{mini, "train/standard", 4}, Case{wide, "train/standard", 4},
                                           Case{mini, "train/linear", 4}, Case{wide, "train/linear", 4},
                                           Case{mini, "forward", 0}, Case{wide, "forward", 0},
                                           Case{mini, "tangent", 0}, Case{wide, "tangent", 0},
                                           Case{mini, "hessian/standard", 3},
                                           Case{wide, "hessian/standard", 3}, Case{mini, "hessian/linear", 3},
                                           Case{wide, "hessian/linear", 3}, Case{mini, "gram", 0},
                                           Case{wide, "gram", 0}));

}  // namespace
}  // namespace taugrid::plan
