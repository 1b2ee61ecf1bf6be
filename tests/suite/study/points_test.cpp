// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Samples larger than the memory bound are read part by part, and give the same numbers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <fstream>
#include <memory>
#include <string>

#include "suite/machine/peak_memory.hpp"
#include "suite/study/study.hpp"
#include "tests/suite/data/packed_file.hpp"
#include "tests/suite/store/scratch.hpp"

namespace taugrid::study {
namespace {

constexpr std::int64_t rows = 500, side = 16, batch = 8;
constexpr double picture = 3 * side * side * 4;  // bytes, in float32

constexpr std::int64_t tokens = 12;

/// Two tasks and a control of random pictures, or of texts, and a tiny model of these at random.
class World {
 public:
  explicit World(bool texts = false) {
    at::manual_seed(1);
    for (const std::string name : {"one", "two", "watched"}) {
      testing::PackedFile file;
      for (const std::string split : {"/train", "/validation", "/test"}) {
        if (texts) {
          file.tensors[split + "/inputs"] = at::randint(1, 60, {rows, tokens}, at::kInt);
          file.tensors[split + "/lengths"] = at::randint(2, tokens + 1, {rows}, at::kInt);
        } else {
          file.tensors[split + "/inputs"] = at::randint(0, 256, {rows, side, side, 3}, at::kByte);
        }
        file.tensors[split + "/labels"] = at::randint(0, 3, {rows}, at::kLong);
      }
      file.tensors["/head/weight"] = at::eye(3, 12);
      file.strings["/class_names"] = {"a", "b", "c"};
      file.texts = {{"task", name}, {"source", "made up"}, {"license", "CC0"}};
      file.texts["modality"] = texts ? "text" : "image";
      if (!texts) {
        file.numbers[{"/", "mean"}] = {0.5, 0.25, 0};
        file.numbers[{"/", "std"}] = {0.5, 0.5, 1};
      }
      file.numbers[{"/head/weight", "logit_scale"}] = {10};
      file.write(folder_ / (name + ".h5"));
    }
    if (texts) {
      std::ofstream(folder_ / "config.json")
          << R"({"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 12,
                 "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
                 "vocab_size": 60, "max_position_embeddings": 16})";
      return;
    }
    std::ofstream(folder_ / "config.json")
        << R"({"model_type": "clip_vision_model", "hidden_size": 16, "intermediate_size": 32,
               "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 16, "patch_size": 8,
               "projection_dim": 12})";
  }

  std::unique_ptr<Study> study(const std::string& run, const std::string& data = "") const {
    std::ofstream(folder_ / "experiment.toml")
        << "[run]\n"
        << run << "\n[model]\npath = \".\"\ninit = \"random\"\n[data]\nfolder = \".\"\n"
        << "tasks = [\"one\", \"two\"]\ncontrol = \"watched\"\nevaluation_points = 200\nevaluation_batch = "
        << batch << "\n"
        << data << "\n[finetune]\nregimes = [\"standard\"]\n";
    auto config = config::Config::load(folder_ / "experiment.toml");
    return std::make_unique<Study>(config);
  }

 private:
  testing::Scratch folder_{"points"};
};

const comm::Communicator& world() {
  static const comm::Communicator all(MPI_COMM_WORLD);
  return all;
}

TEST(Points, OfALargeSampleOneBatchIsHeld) {
  const World setup;
  const auto small = setup.study("memory = 1e-6");  // GiB: 179 bytes for samples
  const machine::PeakMemory memory;
  const auto sample = small->samples.of(0, Split::test, rows);
  for (std::int64_t i = 0; i < rows; i += batch) {
    const auto part = sample.points.part(i, std::min(batch, rows - i));
    EXPECT_EQ(part.size(), std::min(batch, rows - i));
  }
  EXPECT_EQ(sample.points.size(), rows);
  // A batch's bytes, in float32 and as it was; rows and labels of the sample.
  EXPECT_LT(static_cast<double>(memory.bytes()), 4 * batch * picture + 64 * rows);
  EXPECT_LT(static_cast<double>(memory.bytes()), 0.3 * rows * picture);
}

TEST(Points, PartsAreTheWhole) {
  const World setup;
  const auto small = setup.study("memory = 1e-6"), large = setup.study("");
  for (const auto split : {Split::train, Split::test}) {
    const auto ours = small->samples.of(1, split, 123), held = large->samples.of(1, split, 123);
    EXPECT_GT(held.points.bytes(), 0U);
    EXPECT_EQ(ours.points.bytes(), 0U);
    EXPECT_TRUE(ours.points.whole().inputs.equal(held.points.whole().inputs));
    EXPECT_TRUE(ours.points.first(50).part(7, 20).inputs.equal(held.points.part(7, 20).inputs));
    EXPECT_TRUE(ours.labels.equal(held.labels));
    EXPECT_TRUE(ours.index.equal(held.index));
  }
}

TEST(Points, OutputsAndTangentsAreTheSameBits) {
  const World setup;
  const auto small = setup.study("memory = 1e-6"), large = setup.study("");
  const auto tau = at::linspace(-0.1, 0.1, small->model.layout().size());
  at::Tensor outputs[2], tangents[2];
  int k = 0;
  for (const auto* study : {small.get(), large.get()}) {
    const auto points = study->samples.of(0, Split::test, 61).points;
    outputs[k] = study->evaluation.output(world(), study->model.start(), 0, points);
    tangents[k++] = study->evaluation.tangent(world(), tau, 0, points);
  }
  EXPECT_EQ(outputs[0].size(0), 61);
  EXPECT_TRUE(outputs[0].equal(outputs[1]));
  EXPECT_TRUE(tangents[0].equal(tangents[1]));
  EXPECT_GT(tangents[0].abs().max().item<double>(), 0);
}

/// Batches of like lengths: each is padded to the longest of its own, and outputs stand where their texts do.
TEST(Points, ShorterTextsComeFirst) {
  const World setup(true);
  const auto small = setup.study("memory = 1e-6"), large = setup.study("");
  at::Tensor outputs[2];
  int k = 0;
  for (const auto* study : {small.get(), large.get()}) {
    const auto points = study->samples.of(0, Split::test, 61).points;
    const auto order = points.by_length(10, 40);
    EXPECT_TRUE(std::get<0>(order.sort()).equal(at::arange(10, 50, at::kLong)));
    std::int64_t before = 0;
    for (std::int64_t i = 0; i < 40; i += batch) {
      const auto some = points.some(order.narrow(0, i, batch));
      EXPECT_EQ(some.inputs.size(1), some.lengths.max().item<std::int64_t>());
      EXPECT_GE(some.lengths.min().item<std::int64_t>(), before);
      before = some.lengths.max().item<std::int64_t>();
    }
    EXPECT_LT(points.some(order.narrow(0, 0, batch)).inputs.size(1), tokens);
    outputs[k] = study->evaluation.output(world(), study->model.start(), 0, points);
    for (std::int64_t i = 0; i < 61; i += 7) {
      const auto alone = study->evaluation.output(world(), study->model.start(), 0, points.part(i, 1));
      EXPECT_TRUE(outputs[k][i].allclose(alone[0], 1e-4, 1e-6)) << i;
    }
    ++k;
  }
  EXPECT_TRUE(outputs[0].equal(outputs[1]));
}

TEST(Points, TheControlHasItsOwnNumber) {
  const World setup;
  const auto as_tasks = setup.study(""), more = setup.study("", "control_points = 450");
  EXPECT_EQ(as_tasks->points(as_tasks->tasks.control()), 200);
  EXPECT_EQ(more->points(more->tasks.control()), 450);
  EXPECT_EQ(more->points(0), 200);
}

}  // namespace
}  // namespace taugrid::study
