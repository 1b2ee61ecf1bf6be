// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What units say they will take: every kind of work can be measured, and the byte model holds.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>
#include <set>

#include "suite/experiments/experiment.hpp"
#include "suite/machine/peak_memory.hpp"

namespace taugrid::plan {
namespace {

namespace fs = std::filesystem;
using ledger::Tally;
using study::Study;

/// A group of this process alone.
const comm::Communicator& alone() {
  static const comm::Communicator group(MPI_COMM_SELF);
  return group;
}

/// A study of an architecture alone: no weights, no data.
class Subject {
 public:
  Subject(const std::string& shape, int ranks_per_unit, const std::string& sections) {
    auto name = (fs::temp_directory_path() / "taugrid-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    std::ofstream(folder_ / "config.json") << "{" << shape << "}";
    std::ofstream(folder_ / "experiment.toml")
        << "[run]\nranks_per_unit = " << ranks_per_unit
        << "\n[model]\npath = \".\"\ninit = \"random\"\n[data]\nfolder = \".\"\ntasks = [\"a\", \"b\", "
           "\"c\"]\n"
        << "control = \"d\"\nevaluation_points = 32\nevaluation_batch = 16\n"
        << sections;
    config_ = std::make_unique<config::Config>(config::Config::load(folder_ / "experiment.toml"));
    study_ = std::make_unique<Study>(*config_, files_);
  }
  ~Subject() { fs::remove_all(folder_); }

  const Study& study() const { return *study_; }
  std::vector<schedule::WorkUnit> units() {
    experiments_ = experiments::make_experiments(*config_, *study_);
    std::vector<schedule::WorkUnit> list;
    for (const auto& each : experiments_) each->add_units(list, none_);
    return list;
  }
  ledger::Contents contents() {
    experiments_ = experiments::make_experiments(*config_, *study_);
    return experiments::contents_of(experiments_, *study_);
  }

 private:
  fs::path folder_;
  study::InputFiles files_{study::InputFiles::Mode::dry_run};
  std::unique_ptr<config::Config> config_;
  std::unique_ptr<Study> study_;
  experiments::Experiments experiments_;
  schedule::RunFolder none_ = schedule::RunFolder::none();
};

const char* const mini =
    R"("model_type": "clip_vision_model", "hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 2,
       "image_size": 32, "patch_size": 8, "projection_dim": 48)";
const char* const wide =
    R"("model_type": "clip_vision_model", "hidden_size": 192, "intermediate_size": 384, "num_hidden_layers": 2, "num_attention_heads": 6,
       "image_size": 48, "patch_size": 16, "projection_dim": 64)";

const char* const text =
    R"("architectures": ["TinyText"], "model_type": "tiny_text", "vocab_size": 500, "max_tokens": 24,
       "hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 4, "num_hidden_layers": 3)";
const char* const pictures =
    R"("model_type": "torchvision_resnet", "image_size": 32, "num_channels": 3, "layers": [1, 1],
       "widths": [32, 32], "stem": "cifar")";

std::string every_section() {
  std::string regimes;
  for (const auto& name : study::regime_names()) regimes += "\"" + name + "\", ";
  return "[finetune]\nregimes = [" + regimes +
         "]\nsteps = 20\nwarmup_steps = 4\nbatch = 12\n[similarity]\n[disentanglement]\nalpha = [0.0, "
         "1.0]\n[smoothness]\npoints = 32\n"
         "[ntk]\npoints = 8\nlogits = "
         "4\n[linearity]\n[averages]\n[layer_averages]\n[stitching]\n[barrier]\n[addition]\n[subsets]\n[pair_"
         "addition]\n["
         "negation]\n[cost]"
         "\n[heads]"
         "\n[merging]\nmethods = [\"fisher\", \"regmean\", \"adamerging\", "
         "\"stitch_twice\"]\n[bases.low_rank]\n";
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
      ASSERT_TRUE(work.rehearse) << work.kind;
      const auto call = work.rehearse(alone(), 2, std::min<std::int64_t>(work.width, 2));
      call.run();
      EXPECT_GT(call.flops, 0);
    }
    if (!unit.key.starts_with("merging/regmean/")) {  // which solves, beside what passes give
      EXPECT_NEAR(flops, unit.load.flops, 1e-9 * flops) << unit.key;
    }
    EXPECT_GE(unit.cost, unit.load.flops) << unit.key;
    EXPECT_GT(unit.load.bytes_stored, 0) << unit.key;
  }
  for (const auto* kind : {"forward", "tangent", "logits", "divergence", "gram", "hessian/standard",
                           "hessian/linear", "layers/standard", "layers/linear", "fisher", "regmean",
                           "entropy/standard", "entropy/linear", "localize/standard", "localize/linear",
                           "train/standard", "train/tau_jp_strict", "train/multitask", "head"}) {
    EXPECT_TRUE(kinds.contains(kind)) << kind;
  }
}

TEST(Results, DimensionsFollowFromWhatExperimentsDeclare) {
  using Names = std::vector<std::string>;
  using Shape = std::vector<std::int64_t>;
  Subject subject(mini, 1, every_section());
  const auto contents = subject.contents();
  const auto error = contents.find("/disentanglement/linear/error");
  const std::string alpha = "/disentanglement/linear/alpha";
  EXPECT_EQ(contents.dimensions(error), (Names{"pair", alpha, alpha}));
  EXPECT_EQ(contents.shape(error), (Shape{3, 2, 2}));
  EXPECT_EQ(error.output->unit, "1");
  EXPECT_EQ(contents.scale(contents.find(alpha)), "alpha_disentanglement_linear");
  const auto rows = contents.find("/disentanglement/tau_jp/sample_index");
  EXPECT_EQ(contents.dimensions(rows), (Names{"task", "disentanglement_point_tau_jp"}));
  const auto bits = contents.find("/correct/merging/fisher/standard/test_accuracy");
  EXPECT_EQ(contents.dimensions(bits), (Names{"/merging/fisher/standard/alpha", "task", "eight_points"}));
  EXPECT_EQ(contents.dimensions(contents.find("/training/multitask/loss", 1)), (Names{"step_multitask"}));
  EXPECT_EQ(contents.shape(contents.find("/training/standard/loss", 2)), (Shape{3, 20}));
}

TEST(Results, WhatIsNotDeclaredIsRefused) {
  Subject subject(mini, 1, every_section());
  const auto contents = subject.contents();
  for (const auto* path :
       {"/disentanglement/linear/nothing", "/nothing/linear/error", "/disentanglement@metric",
        "/disentanglement/linear@nothing", "/correct/disentanglement/linear/error"})
    EXPECT_THROW(contents.find(path), std::logic_error) << path;
  EXPECT_THROW(contents.find("/disentanglement/linear/error", 2), std::logic_error);
  EXPECT_NO_THROW(contents.find("/disentanglement/linear@metric"));
}

TEST(Results, BytesFollowFromShapes) {
  const std::string regime = "[finetune]\nregimes = [\"linear\"]\n[disentanglement]\nalpha = ";
  Subject two(mini, 1, regime + "[0.0, 1.0]\n"), three(mini, 1, regime + "[0.0, 0.5, 1.0]\n");
  const auto few = two.contents().size(), more = three.contents().size();
  constexpr double pairs = 3, cells = 9 - 4, measures = 3, sum_and_both_terms = 3;
  EXPECT_EQ(more.bytes - few.bytes,
            8 * (pairs * cells * measures * sum_and_both_terms + 2));  // and both axes
  EXPECT_EQ(more.data_sets, few.data_sets);
}

TEST(Loads, RanksOfAGroupShareTheWorkAndExchangeIt) {
  Subject alone(mini, 1, every_section()), pair(mini, 2, every_section());
  const auto whole = alone.units(), halves = pair.units();
  ASSERT_EQ(whole.size(), halves.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (whole[i].key.starts_with("heads/")) {  // of which each rank takes every step
      const auto &head = whole[i].load.work.back(), &each = halves[i].load.work.back();
      EXPECT_EQ(head.kind, "head");
      EXPECT_EQ(each.kind, "head");
      EXPECT_EQ(each.inputs, head.inputs);
      EXPECT_EQ(each.calls, head.calls);
      EXPECT_GT(halves[i].load.flops, whole[i].load.flops);
      continue;
    }
    EXPECT_NEAR(whole[i].load.flops, halves[i].load.flops, 0.01 * whole[i].load.flops) << whole[i].key;
    if (!whole[i].key.starts_with("finetune/")) continue;
    EXPECT_EQ(halves[i].load.work[0].inputs, (whole[i].load.work[0].inputs + 1) / 2) << whole[i].key;
    EXPECT_EQ(halves[i].load.work[1].kind, schedule::sums_over_ranks);
    EXPECT_EQ(halves[i].load.work[2].kind, schedule::sums_over_ranks);
    EXPECT_EQ(halves[i].load.work[2].calls, 20);  // the losses', a step each
  }
}

/// Bytes of tensors alive at most in a call, the second of two: what is paid once is paid.
double measured_bytes(const schedule::Rehearsal& call) {
  call.run();
  const machine::PeakMemory memory;
  call.run();
  return static_cast<double>(memory.bytes());
}

struct Case {
  const char* shape;
  const char* kind;
  double persistent;  // vectors of θ's length that a call finds there already; below 0: that the unit holds
                      // beside
};

class MemoryModel : public ::testing::TestWithParam<Case> {};

/// The work of this kind in the units, with the load of the unit that has it.
std::pair<schedule::Work, schedule::Load> find(Subject& subject, const std::string& kind) {
  for (const auto& unit : subject.units()) {
    for (const auto& work : unit.load.work) {
      if (work.kind == kind) return {work, unit.load};
    }
  }
  throw std::logic_error("no work " + kind);
}

TEST_P(MemoryModel, IsWithinAThirdOfWhatTheAllocatorsCount) {
  const auto& [shape, kind, persistent] = GetParam();
  // 16 inputs a call, of a unit whose other work takes less memory.
  std::string methods = "\"fisher\", \"adamerging\", \"localize_stitch\"", linear_layers;
  if (shape != pictures) {
    methods += ", \"regmean\"";
    linear_layers = "[merging.regmean]\nchunk = 16\n";
  }
  Subject subject(shape, 1,
                  "[finetune]\nregimes = [\"standard\", \"linear\"]\nbatch = 16\n[smoothness]\npoints = "
                  "16\nmax_basis = 2\n"
                  "[ntk]\npoints = 4\nlogits = 2\nchunk = 12\n[linearity]\nbatch = "
                  "16\n[similarity]\n[merging]\nmethods = [" +
                      methods +
                      "]\n[merging.fisher]\nchunk = 16\n[merging.adamerging]\nbatch = "
                      "16\n[merging.localize_stitch]\nchunk = 16\n" +
                      linear_layers);
  const auto [work, load] = find(subject, kind);
  const double theta = 4.0 * static_cast<double>(subject.study().model.layout().size());
  const double expected = load.working - persistent * theta;
  const double measured = measured_bytes(work.rehearse(alone(), work.inputs, work.width));
  EXPECT_LT(std::abs(std::log(expected / measured)), std::log(4.0 / 3))
      << expected / theta << " and " << measured / theta << " vectors";
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, MemoryModel,
    ::testing::Values(Case{mini, "train/standard", 4}, Case{wide, "train/standard", 4},
                      Case{mini, "train/linear", 4}, Case{wide, "train/linear", 4}, Case{mini, "forward", 0},
                      Case{wide, "forward", 0}, Case{mini, "tangent", 0}, Case{wide, "tangent", 0},
                      Case{mini, "layers/standard", 0}, Case{wide, "layers/standard", 0},
                      Case{mini, "layers/linear", 0}, Case{wide, "layers/linear", 0},
                      Case{mini, "hessian/standard", 5}, Case{wide, "hessian/standard", 5},
                      Case{mini, "hessian/linear", 8}, Case{wide, "hessian/linear", 8}, Case{mini, "gram", 0},
                      Case{wide, "gram", 0}, Case{mini, "fisher", -1}, Case{wide, "fisher", -1},
                      Case{mini, "regmean", 0}, Case{wide, "regmean", 0}, Case{mini, "entropy/standard", -1},
                      Case{wide, "entropy/standard", -1}, Case{mini, "entropy/linear", -2},
                      Case{wide, "entropy/linear", -2}, Case{mini, "localize/standard", -1},
                      Case{wide, "localize/linear", -2}));
INSTANTIATE_TEST_SUITE_P(TextOfUnequalLengths, MemoryModel,
                         ::testing::Values(Case{text, "train/standard", 4}, Case{text, "train/linear", 4},
                                           Case{text, "forward", 0}, Case{text, "tangent", 0},
                                           Case{text, "layers/standard", 0}, Case{text, "layers/linear", 0},
                                           Case{text, "hessian/standard", 5}, Case{text, "hessian/linear", 8},
                                           Case{text, "gram", 0}, Case{text, "fisher", -1},
                                           Case{text, "regmean", 0}));
INSTANTIATE_TEST_SUITE_P(ConvolutionsWithBatchNorm, MemoryModel,
                         ::testing::Values(Case{pictures, "train/standard", 4},
                                           Case{pictures, "train/linear", 4}, Case{pictures, "forward", 0},
                                           Case{pictures, "tangent", 0}, Case{pictures, "layers/standard", 0},
                                           Case{pictures, "layers/linear", 0},
                                           Case{pictures, "hessian/standard", 5},
                                           Case{pictures, "hessian/linear", 8}, Case{pictures, "gram", 0},
                                           Case{pictures, "fisher", -1}, Case{pictures, "statistics", 0}));

}  // namespace
}  // namespace taugrid::plan
