// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Stages that no regime trains run once a row, always with the same neighbours, and on no row that is not
// near one that was asked for.
#include "suite/study/frozen_stages.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "suite/study/input_files.hpp"
#include "suite/study/settings.hpp"

namespace taugrid::study {
namespace {

constexpr std::int64_t rows = 22, chunk = 4, from = 2;

at::Tensor numbers(std::int64_t begin, std::int64_t count) {
  return at::arange(begin, begin + count, at::kLong);
}

class Frozen : public testing::Test {
 protected:
  Frozen() {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "config.json")
        << R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 16, "intermediate_size": 24,
               "num_attention_heads": 2, "num_hidden_layers": 3, "vocab_size": 40, "max_position_embeddings": 16})";
    Settings settings;
    settings.model = folder_;
    settings.random_init = true;
    InputFiles files(InputFiles::Mode::run);
    model_ = std::make_unique<Model>(settings, files, at::kCPU);
    order_ = at::randperm(rows, at::kLong);
    lengths_ = at::randint(2, 10, {rows}, at::kLong);
    ids_ = at::randint(0, 40, {rows, 10}, at::kLong);
  }
  ~Frozen() override { std::filesystem::remove_all(folder_); }

  models::Batch texts(const at::Tensor& which) const {
    const auto lengths = lengths_.index_select(0, which);
    return {ids_.index_select(0, which).narrow(1, 0, lengths.max().item<std::int64_t>()), lengths, {}};
  }
  FrozenStages stages(std::size_t bytes) {
    return {*model_, chunk, bytes,
            [this](std::size_t, data::Split, const at::Tensor& which) {
              for (std::int64_t i = 0; i < which.size(0); ++i) run_.push_back(which[i].item<std::int64_t>());
              return texts(which);
            },
            [this](std::size_t, data::Split) { return order_; }};
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("taugrid-frozen-stages-" + std::to_string(getpid()));
  std::unique_ptr<Model> model_;
  at::Tensor order_, lengths_, ids_;
  std::vector<std::int64_t> run_;  // the rows that stages ran on
};

TEST_F(Frozen, RunOnTheChunksOfTheOrderThatHoldWhatIsAskedForAndOnce) {
  auto stages = this->stages(std::size_t{1} << 30);
  stages.run(0, data::Split::test, order_.narrow(0, 0, chunk + 1), from);
  EXPECT_TRUE(at::tensor(run_).equal(order_.narrow(0, 0, 2 * chunk)));
  stages.run(0, data::Split::test, numbers(0, rows), from);
  stages.run(0, data::Split::test, order_.narrow(0, rows - 1, 1), from);
  EXPECT_TRUE(std::get<0>(at::tensor(run_).sort()).equal(numbers(0, rows)));
}

TEST_F(Frozen, GiveARowTheSameWhoeverAsksAndWhateverIsKept) {
  auto kept = stages(std::size_t{1} << 30), forgotten = stages(1);
  const auto all = kept.run(0, data::Split::test, numbers(0, rows), from);
  ASSERT_EQ(all.from, from);
  for (const std::int64_t row : {21, 3, 0, 3}) {
    const auto single = forgotten.run(0, data::Split::test, numbers(row, 1), from);
    EXPECT_TRUE(single.hidden.equal(all.narrow(row, 1).hidden)) << row;
    const auto given = texts(numbers(row, 1));
    const auto alone =
        model_->encoder().run_to(from - 1, model_->layout().views(model_->theta0()), models::Given{given});
    EXPECT_TRUE(single.hidden.allclose(alone, 1e-4, 1e-5)) << row;
  }
}

TEST(ShorterFirst, SortsEachGroupAndKeepsItsRows) {
  const auto order = at::tensor({5, 2, 0, 4, 1, 3, 6}, at::kLong),
             lengths = at::tensor({9, 3, 3, 1, 8, 2, 2}, at::kInt);
  EXPECT_TRUE(shorter_first(order, lengths, 4).equal(at::tensor({4, 2, 0, 5, 3, 6, 1}, at::kLong)));
  EXPECT_TRUE(shorter_first(order, lengths, 7).equal(at::tensor({4, 3, 6, 2, 0, 1, 5}, at::kLong)));
  EXPECT_EQ(shorter_first(order.narrow(0, 0, 0), lengths.narrow(0, 0, 0), 4).size(0), 0);
}

}  // namespace
}  // namespace taugrid::study
