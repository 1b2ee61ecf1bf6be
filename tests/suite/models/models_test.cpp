// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "kernels/autodiff/products.hpp"
#include "kernels/tangent/ntk.hpp"
#include "suite/error.hpp"
#include "suite/models/batch.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/models/label_tree.hpp"
#include "suite/models/readout.hpp"
#include "suite/models/registry.hpp"
#include "suite/store/safetensors.hpp"

namespace taugrid::models {
namespace {

const char* const tiny = R"({"model_type": "clip_vision_model", "hidden_size": 16, "intermediate_size": 32,
  "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16, "patch_size": 8, "projection_dim": 8})";

std::filesystem::path fresh_folder() {
  const auto path = std::filesystem::temp_directory_path() /
                    ("taugrid_models_" + std::to_string(::getpid()) + "_" +
                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::filesystem::remove_all(path);
  return path;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

/// Small models of every kind whose stages share no parameter.
const std::map<std::string, const char*> of_stages = {
    {"clip", tiny},
    {"vit", R"({"model_type": "vit", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
               "num_attention_heads": 2, "image_size": 16, "patch_size": 8})"},
    {"convnext", R"({"model_type": "convnext", "depths": [1, 1, 1, 1], "hidden_sizes": [4, 6, 8, 10],
                    "patch_size": 2, "image_size": 32})"},
    {"mlp", R"({"model_type": "mlp", "image_size": 8, "num_channels": 1, "hidden_channels": [9, 7]})"},
    {"bert", R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 16,
                "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 30,
                "max_position_embeddings": 12})"},
    {"roberta", R"({"model_type": "roberta", "architectures": ["RobertaModel"], "hidden_size": 16,
                   "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 30,
                   "max_position_embeddings": 14})"},
    {"llama", R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 30,
                 "max_position_embeddings": 12})"},
    {"gemma3",
     R"({"model_type": "gemma3_text", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 6,
                  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 30,
                  "max_position_embeddings": 12})"},
    {"gpt2", R"({"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 30,
                "n_positions": 12})"}};

TEST(Encoder, APartNeedsTheBlocksOfItsStageAlone) {
  for (const auto& [name, config] : of_stages) {
    const auto encoder = make_encoder(config, name);
    const auto theta = encoder->layout().views(encoder->random_state(3).theta);
    const Given given{random_batch(*encoder, 3)};
    for (const auto reach : {Reach::read, Reach::whole}) {
      at::Tensor h;
      for (int part = 0; part <= encoder->stages() + 1; ++part) {
        Blocks<at::Tensor> of_part(theta.size());
        for (std::size_t i = 0; i < of_part.size(); ++i)
          if (encoder->layout().blocks()[i].stage == part) of_part[i] = theta[i];
        h = encoder->part(part, of_part, std::move(h), given, reach);
      }
      const auto whole = reach == Reach::read
                             ? encoder->encode(theta, given)
                             : encoder->visit<at::Tensor>(theta, given, [](int, const at::Tensor&) {});
      EXPECT_TRUE(at::equal(h, whole)) << name;
    }
  }
}

TEST(Layout, BlocksCoverThetaInOrderAndFuseQueryKeyValue) {
  const auto encoder = make_encoder(tiny, "tiny");
  std::int64_t next = 0;
  for (const auto& p : encoder->layout().parameters()) {
    EXPECT_EQ(p.offset, next) << p.name;
    next += p.count;
  }
  EXPECT_EQ(next, encoder->layout().size());
  next = 0;
  std::map<autodiff::Kind, std::int64_t> by_kind;
  for (const auto& b : encoder->layout().blocks()) {
    EXPECT_EQ(b.offset, next);
    next += b.count;
    by_kind[b.kind] += b.count;
  }
  EXPECT_EQ(next, encoder->layout().size());
  EXPECT_EQ(by_kind[autodiff::Kind::attention_weight], 2 * 4 * 16 * 16);
  EXPECT_EQ(by_kind[autodiff::Kind::attention_bias], 2 * 4 * 16);
  EXPECT_EQ(by_kind[autodiff::Kind::mlp_weight], 2 * 2 * 16 * 32);
  EXPECT_EQ(by_kind[autodiff::Kind::projection], 8 * 16);
}

TEST(RandomTheta, SameSeedSameBytes) {
  const auto encoder = make_encoder(tiny, "tiny");
  EXPECT_EQ(fingerprint(encoder->random_state(3)), fingerprint(encoder->random_state(3)));
  EXPECT_NE(fingerprint(encoder->random_state(3)), fingerprint(encoder->random_state(4)));
}

TEST(Linearised, ValueIsExactAtTheStartAndGradientIsThatOfTheTangent) {
  // d/dτ L(f0 + Jτ) by Jᵀg against central differences in τ, in double.
  const auto encoder = make_encoder(tiny, "tiny");
  const auto& layout = encoder->layout();
  at::manual_seed(1);
  const auto theta = encoder->random_state(1).theta.to(at::kDouble);
  auto tau = at::randn({layout.size()}, theta.options()) * 0.02;
  const auto direction = at::randn({layout.size()}, theta.options());
  const auto pixels = at::randn({3, 3, 16, 16}, theta.options());
  const auto loss_at = [&](const at::Tensor& t) {
    const auto f = autodiff::jvp(
        layout, [&](const std::vector<autodiff::Dual>& p) { return encoder->encode(p, pictures(pixels)); },
        theta, t);
    return (f.value + f.tangent).square().sum().item<double>();
  };
  const auto blocks = autodiff::leaves(layout, theta);
  const auto f = autodiff::linearised(blocks, layout.views(tau), [&](const std::vector<autodiff::Dual>& p) {
    return encoder->encode(p, pictures(pixels));
  });
  EXPECT_FALSE(f.tangent.requires_grad());
  const auto cotangent = 2 * (f.value.detach() + f.tangent);
  const auto gradient = autodiff::pull_back(blocks, f.value, cotangent, at::kDouble);
  const double h = 1e-4;
  const double difference = (loss_at(tau + h * direction) - loss_at(tau - h * direction)) / (2 * h);
  EXPECT_NEAR(at::dot(gradient, direction).item<double>(), difference, 1e-6 * std::abs(difference));
}

TEST(Jvp, AgreesWithCentralDifferencesInDouble) {
  const auto encoder = make_encoder(tiny, "tiny");
  const auto& layout = encoder->layout();
  at::manual_seed(2);
  const auto theta = encoder->random_state(1).theta.to(at::kDouble);
  const auto tau = at::randn({layout.size()}, theta.options()) * 0.02;
  const auto pixels = at::randn({2, 3, 16, 16}, theta.options());
  const at::NoGradGuard no_grad;
  const auto f = autodiff::jvp(
      layout, [&](const std::vector<autodiff::Dual>& p) { return encoder->encode(p, pictures(pixels)); },
      theta, tau);
  const double h = 1e-5;
  const auto difference = (encoder->encode(layout.views(theta + h * tau), pictures(pixels)) -
                           encoder->encode(layout.views(theta - h * tau), pictures(pixels))) /
                          (2 * h);
  EXPECT_LT(((f.tangent - difference).norm() / difference.norm()).item<double>(), 1e-8);
}

TEST(NtkGram, IsTheProductOfWholeGradientsForAllRowsAnyRowsAndLittleMemory) {
  at::manual_seed(3);
  const auto encoder = make_encoder(tiny, "tiny");
  const auto& layout = encoder->layout();
  const auto theta = encoder->random_state(1).theta.to(at::kDouble);
  const auto pixels = at::randn({11, 3, 16, 16}, theta.options());  // more than a block, and a part of one
  auto weight = at::randn({4, 8}, theta.options());
  const Readout head{.weight = weight / weight.norm(2, 1, true), .scale = 10.0};
  const std::vector<std::int64_t> which = {2, 0};

  auto expected = at::empty({2, 11, 11}, theta.options());
  for (std::int64_t c = 0; c < 2; ++c) {
    std::vector<at::Tensor> gradients;
    for (std::int64_t i = 0; i < 11; ++i) {
      const auto logit = [&](const std::vector<at::Tensor>& p) {
        return head.logits(
            encoder->encode(p, pictures(pixels.narrow(0, i, 1))))[0][which[static_cast<std::size_t>(c)]];
      };
      gradients.push_back(autodiff::gradient(layout, logit, theta).gradient);
    }
    const auto jacobian = at::stack(gradients);
    expected[c] = at::mm(jacobian, jacobian.t());
  }

  const auto logits = [&](const std::vector<autodiff::Recorded>& p) {
    return head.logits(encoder->encode(p, pictures(pixels)));
  };
  for (const std::int64_t workspace : {std::int64_t{1} << 27, std::int64_t{1}}) {
    for (const Range rows : {Range{0, 11}, Range{3, 7}, Range{10, 1}}) {
      const auto gram = tangent::ntk_gram(layout, logits, theta, which, rows, workspace);
      const auto part = expected.narrow(1, rows.begin, rows.count);
      EXPECT_LT((gram - part).abs().max().item<double>(), 1e-12 * expected.abs().max().item<double>())
          << workspace << " " << rows.begin;
    }
  }
}

TEST(Gradient, OfTrainedBlocksAloneIsThatPartOfTheWhole) {
  const auto encoder = make_encoder(tiny, "tiny");
  const auto& layout = encoder->layout();
  std::vector<bool> trained;
  for (const auto& b : layout.blocks()) trained.push_back(b.kind == autodiff::Kind::attention_weight);
  const auto pixels = at::randn({2, 3, 16, 16});
  const auto loss = [&](const std::vector<at::Tensor>& p) {
    return encoder->encode(p, pictures(pixels)).square().sum();
  };
  const auto theta = encoder->random_state(1).theta;
  const auto whole = autodiff::gradient(layout, loss, theta).gradient;
  const auto some = autodiff::gradient(layout, loss, theta, trained).gradient;
  const auto expected = autodiff::trained_part(layout, trained, whole);
  ASSERT_GT(expected.size(0), 0);
  EXPECT_TRUE(some.allclose(expected, 1e-5, 1e-6));
  EXPECT_LT(some.size(0), layout.size());
}

TEST(SecondDerivative, OfTrainedBlocksAloneIsThatPartOfTheWhole) {
  const auto encoder = make_encoder(tiny, "tiny");
  const auto& layout = encoder->layout();
  std::vector<bool> trained;
  for (const auto& b : layout.blocks()) trained.push_back(b.stage >= 2);
  const auto pixels = at::randn({2, 3, 16, 16}, at::kDouble);
  const auto loss = [&](const std::vector<at::Tensor>& p) {
    return encoder->encode(p, pictures(pixels)).square().sum();
  };
  const auto theta = encoder->random_state(1).theta.to(at::kDouble);
  auto direction = at::randn(theta.sizes(), at::kDouble);
  const auto along = autodiff::trained_part(layout, trained, direction);
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const auto& b = layout.blocks()[i];
    if (!trained[i]) direction.narrow(0, b.offset, b.count).zero_();
  }
  const auto whole =
      autodiff::trained_part(layout, trained, autodiff::HessianVectorProduct(layout, loss, theta)(direction));
  const autodiff::HessianVectorProduct hessian(layout, loss, theta, trained);
  const auto some = hessian(along);
  ASSERT_GT(whole.norm().item<double>(), 0);
  EXPECT_LT((some - whole).norm().item<double>(), 1e-12 * whole.norm().item<double>());
  EXPECT_TRUE(
      hessian.gradient().allclose(autodiff::gradient(layout, loss, theta, trained).gradient, 1e-12, 1e-14));

  std::vector<at::Tensor> gradients;
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto output = [&](const std::vector<at::Tensor>& p) {
      return encoder->encode(p, pictures(pixels.narrow(0, i, 1)))[0][1];
    };
    gradients.push_back(autodiff::gradient(layout, output, theta, trained).gradient);
  }
  const auto jacobian = at::stack(gradients);
  const auto expected = at::mm(jacobian, jacobian.t());
  const auto outputs = [&](const std::vector<autodiff::Recorded>& p) {
    return encoder->encode(p, pictures(pixels));
  };
  const auto gram =
      tangent::ntk_gram(layout, outputs, theta, {1}, {0, 2}, tangent::ntk_workspace, trained)[0];
  EXPECT_LT((gram - expected).abs().max().item<double>(), 1e-12 * expected.abs().max().item<double>());
}

// The table's gradient of the lookup names some rows, that of the product all: one alone, both, by buckets.
TEST(Gradient, OfAVocabularyThatIsReadAndMultipliedByIsTheSameByBuckets) {
  const auto encoder = make_encoder(
      R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 16, "intermediate_size": 32,
          "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 30, "max_position_embeddings": 8})",
      "tiny");
  const auto& layout = encoder->layout();
  const auto theta = encoder->random_state(1).theta;
  Batch texts{at::randint(0, 30, {3, 5}, at::kLong), at::tensor({5, 2, 3}, at::kLong), {}};
  texts.mask = at::tensor({4, 0, 2}, at::kLong);
  const auto words = at::tensor({3, 7}, at::kLong);
  const auto table = static_cast<std::size_t>(encoder->vocabulary_block());
  const auto pull_back = [&](bool multiplied, const autodiff::Buckets* buckets) {
    const auto p = autodiff::leaves(layout, theta);
    const auto z = encoder->encode(p, texts);
    const auto loss = (multiplied ? autodiff::word_logits(z, p[table], words) : z).square().sum();
    return autodiff::pull_back(p, loss, at::ones_like(loss), at::kFloat, buckets);
  };
  const auto& block = layout.blocks()[table];
  const auto of_table = [&](const at::Tensor& g) {
    return g.narrow(0, block.offset, block.count).view({30, 16});
  };
  const auto read = pull_back(false, nullptr), both = pull_back(true, nullptr);
  auto used = at::zeros({30}, at::kBool);
  for (const auto& [text, length] : {std::pair{0, 5}, {1, 2}, {2, 3}})
    used.index_fill_(0, texts.inputs[text].narrow(0, 0, length), true);
  EXPECT_TRUE(of_table(read).ne(0).any(1).equal(used));
  EXPECT_TRUE(of_table(both).ne(0).any(1).equal(used.index_fill(0, words, true)));

  std::int64_t seen = 0;
  const autodiff::Buckets buckets(layout, {}, 200, [&](const at::Tensor& part) { seen += part.size(0); });
  EXPECT_TRUE(pull_back(true, &buckets).equal(both));
  EXPECT_EQ(seen, layout.size());
}

// What a row gives must not depend on which rows were read with it: the places of its choices are cut as
// texts are.
TEST(Batch, RowsOfChoicesHaveThePlacesOfTheLongestOfThem) {
  const auto choices = at::arange(18, at::kLong).view({3, 2, 3});
  const auto lengths = at::tensor({1, 1, 3, 2, 2, 1}, at::kLong).view({3, 2});
  const auto of = [&](const std::vector<std::int64_t>& numbers) {
    const auto rows = at::tensor(numbers, at::kLong);
    models::Batch batch{at::arange(12, at::kLong).view({3, 4}).index_select(0, rows),
                        at::tensor({2, 3, 4}, at::kLong).index_select(0, rows),
                        {}};
    const auto own = lengths.index_select(0, rows);
    const auto line = models::choice_line(choices.index_select(0, rows), own, at::zeros_like(own),
                                          at::full({rows.size(0)}, 7, at::kLong));
    batch.decoder = line.decoder;
    batch.sees = line.sees;
    batch.scored = line.scored;
    batch.places = own.sum(1);
    return batch;
  };
  const auto expect_same = [](const models::Batch& ours, const models::Batch& theirs) {
    const auto own = [](const models::Batch& batch) {  // nothing sees what stands behind them
      const auto behind = at::arange(batch.decoded(), at::kLong).ge(batch.places.unsqueeze(1));
      return batch.decoder.masked_fill(behind, 0);
    };
    EXPECT_TRUE(at::equal(own(ours), own(theirs)));
    EXPECT_TRUE(at::equal(ours.sees, theirs.sees));
    EXPECT_TRUE(at::equal(ours.scored, theirs.scored));
    EXPECT_TRUE(at::equal(ours.places, theirs.places));
  };
  auto whole = of({0, 1, 2});
  ASSERT_EQ(whole.decoded(), 5);
  expect_same(whole.narrow(0, 1), of({0}));
  expect_same(whole.select(at::tensor({2, 0}, at::kLong)), of({2, 0}));
  expect_same(models::joined({whole.narrow(0, 1), whole.narrow(2, 1)}), of({0, 2}));
  expect_same(models::joined({whole.narrow(2, 1), whole.narrow(1, 1)}), of({2, 1}));

  // The decoder's hidden states stand first.
  whole.hidden = at::arange(3 * 9 * 2, at::kFloat).view({3, 9, 2});
  whole.from = 1;
  whole.before_text = 5;
  const auto last = whole.narrow(2, 1);
  EXPECT_EQ(last.before_text, 3);
  const auto of_row = whole.hidden.narrow(0, 2, 1);
  EXPECT_TRUE(at::equal(last.hidden, at::cat({of_row.narrow(1, 0, 3), of_row.narrow(1, 5, 4)}, 1)));
}

TEST(Checkpoint, BadFilesGetOneLine) {
  const auto folder = fresh_folder();
  const auto encoder = make_encoder(tiny, "tiny");
  const auto read = [&] { read_checkpoint(folder); };
  EXPECT_NE(message_of(read).find("config.json"), std::string::npos);
  write_checkpoint(folder, *encoder, encoder->random_state(1));
  EXPECT_EQ(message_of(read), "no error");

  auto file = store::read_safetensors(folder / "model.safetensors");
  const std::string name = "visual_projection.weight";
  const auto original = file.tensors.at(name);
  const auto expect = [&](const at::Tensor& replacement, const std::string& text) {
    if (replacement.defined()) {
      file.tensors[name] = replacement;
    } else {
      file.tensors.erase(name);
    }
    store::write_safetensors(folder / "model.safetensors", file);
    const auto message = message_of(read);
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_NE(message.find(text), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  expect(original.t().contiguous(), "shape");
  expect(original.to(at::kInt), "type");
  expect(at::full_like(original, std::nan("")), "NaN");
  expect({}, "missing");
  std::ofstream(folder / "config.json") << R"({"model_type": "phi3"})";
  EXPECT_NE(message_of(read).find("model_type is 'phi3'"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace taugrid::models
