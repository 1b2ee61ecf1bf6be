// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How a model's parts are cut into stretches, one a rank; and what passes along a line of ranks.
#include "suite/study/stage_line.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <memory>
#include <string>

#include "suite/models/registry.hpp"

namespace taugrid::study {
namespace {

/// A decoder whose embedding has as many numbers as `words` rows of its width: a part like a large stage.
std::unique_ptr<models::Encoder> decoder(int layers, int words) {
  return models::make_encoder(
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 16, "intermediate_size": 32,
          "num_attention_heads": 2, "num_hidden_layers": )" +
          std::to_string(layers) + R"(, "vocab_size": )" + std::to_string(words) + "}",
      "the test's decoder");
}

std::int64_t parameters(const models::Encoder& encoder, const StageLine::Stretch& stretch) {
  std::int64_t sum = 0;
  for (int part = stretch.begin; part < stretch.end; ++part) sum += StageLine::parameters(encoder, part);
  return sum;
}

TEST(Stretches, HaveAllPartsOnceInOrderAndNoneIsEmptyWhileThereAreParts) {
  for (const int layers : {1, 2, 7, 32}) {
    for (const int words : {8, 3000}) {
      const auto encoder = decoder(layers, words);
      const int parts = encoder->stages() + 2;
      for (int ranks = 1; ranks <= parts + 3; ++ranks) {
        const auto all = StageLine::stretches(*encoder, ranks);
        ASSERT_EQ(std::ssize(all), ranks);
        int next = 0;
        for (int r = 0; r < ranks; ++r) {
          const auto& stretch = all[static_cast<std::size_t>(r)];
          EXPECT_EQ(stretch.begin, next);
          EXPECT_EQ(stretch.empty(), r >= parts);
          next = stretch.end;
        }
        EXPECT_EQ(next, parts);
      }
    }
  }
}

TEST(Stretches, AreOfAboutAsManyParametersEach) {
  const auto encoder = decoder(32, 3000);
  const auto largest = std::max(StageLine::parameters(*encoder, 0), StageLine::parameters(*encoder, 1));
  for (const int ranks : {2, 3, 5, 8}) {
    const auto mean = encoder->layout().size() / ranks;
    for (const auto& stretch : StageLine::stretches(*encoder, ranks))
      EXPECT_LE(parameters(*encoder, stretch), mean + largest) << ranks;
  }
}

TEST(Line, PassesWhatARankSendsAndTheFirstRanksWord) {
  const comm::Communicator world(MPI_COMM_WORLD);
  const auto encoder = decoder(6, 50);
  const StageLine line(*encoder, world);
  EXPECT_EQ(line.is_shared(), world.size() > 1);
  EXPECT_EQ(line.is_first(), world.rank() == 0);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    // Each rank adds its number to what it gets; views of any strides are sent as they are seen.
    auto state = line.receives() ? line.received(at::kCPU, type) : at::zeros({3, 2, 4}, type).transpose(0, 1);
    EXPECT_EQ(state.sizes(), (std::vector<std::int64_t>{2, 3, 4}));
    state = state + world.rank();
    if (line.sends()) line.send(state);
    auto last = line.sends() ? at::zeros({2, 3, 4}, type) : state.contiguous();
    line.share_last(last);
    const int size = world.size();
    EXPECT_TRUE(at::equal(last, at::full({2, 3, 4}, size * (size - 1) / 2, type)));
  }
  EXPECT_EQ(line.least(7 - world.rank()), 8 - world.size());
  EXPECT_TRUE(line.word_of_first(world.rank() == 0));
  EXPECT_FALSE(line.word_of_first(world.rank() != 0));
}

}  // namespace
}  // namespace taugrid::study
