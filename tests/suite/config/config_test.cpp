// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/config/config.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "suite/error.hpp"

namespace {

using taugrid::InputError;
using taugrid::config::alpha_grid;
using taugrid::config::Config;
using taugrid::config::difference;
using Strings = std::vector<std::string>;

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("config" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& text) const {
    std::ofstream(folder_ / "e.toml") << text;
    return folder_ / "e.toml";
  }
  Config load(const std::string& text, const Strings& overrides = {}) const {
    return Config::load(write(text), overrides);
  }
  /// The message of the InputError that `call` throws; checked to be one line.
  static std::string message(const std::function<void()>& call) {
    try {
      call();
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    ADD_FAILURE() << "no InputError";
    return "";
  }
  static void expect_contains(const std::string& text, const Strings& parts) {
    for (const auto& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
    }
  }

  std::filesystem::path folder_;
};

const char* const example = R"(experiment = "disentanglement"
[training]
steps = 100
rate = 1e-5
linear = true
[data]
folder = "packed"
tasks = ["mnist", "dtd"]
[grid]
alpha = { from = -2.0, to = 2.0, count = 9 }
)";

std::string read_all(Config& config) {
  config.root().required_word("experiment");
  auto training = config.section("training");
  training.integer("steps", 1);
  training.real("rate", 0.1);
  training.flag("linear", false);
  training.real("decay", 0.25);
  auto data = config.section("data");
  data.required_path("folder");
  data.words("tasks", {});
  auto grid = config.section("grid");
  alpha_grid(grid, "alpha", {0});
  config.finish();
  return config.resolved();
}

TEST_F(ConfigTest, ReadsTypedValues) {
  auto config = load(example);
  auto training = config.section("training");
  EXPECT_EQ(training.required_integer("steps", {1, 1000}), 100);
  EXPECT_EQ(training.required_real("rate"), 1e-5);
  EXPECT_EQ(training.real("steps", 0), 100);
  EXPECT_TRUE(training.required_flag("linear"));
  EXPECT_EQ(training.integer("absent", 7), 7);
  EXPECT_EQ(training.keys(), (Strings{"steps", "rate", "linear"}));
  auto data = config.section("data");
  EXPECT_EQ(data.required_path("folder"), folder_ / "packed");
  EXPECT_EQ(data.required_words("tasks"), (Strings{"mnist", "dtd"}));
  EXPECT_EQ(data.path("elsewhere", ""), "");
  EXPECT_TRUE(config.has("grid"));
  EXPECT_FALSE(config.has("experiment"));
  EXPECT_FALSE(data.has("x"));
  EXPECT_EQ(config.base_folder(), folder_);
}

TEST_F(ConfigTest, ResolvedTextIsCanonicalAndLoadsAgain) {
  auto config = load(example);
  const std::string text = read_all(config);
  EXPECT_EQ(text, "experiment = \"disentanglement\"\n\n[data]\nfolder = \"" + (folder_ / "packed").string() +
                      "\"\ntasks = [\"mnist\", \"dtd\"]\n\n[grid]\nalpha = [-2.0, -1.5, -1.0, -0.5, 0.0, "
                      "0.5, 1.0, 1.5, 2.0]"
                      "\n\n[training]\ndecay = 0.25\nlinear = true\nrate = 1e-05\nsteps = 100\n");
  auto again = load(text);
  EXPECT_EQ(read_all(again), text);
  EXPECT_TRUE(difference(text, text).empty());
}

TEST_F(ConfigTest, EmptyDefaultsLoadAgain) {
  const auto read = [](Config& config) {
    config.section("a").word("w", "");
    config.section("a").path("p", "");
    config.section("a").words("l", {});
    config.section("a").word("odd", "tab\t quote\" back\\");
    config.finish();
    return config.resolved();
  };
  auto config = load("");
  const std::string text = read(config);
  auto again = load(text);
  EXPECT_EQ(read(again), text);
}

TEST_F(ConfigTest, OverridesAreTypedOrBareWords) {
  auto config = load(example, {"training.steps=5", "training.steps=6", "data.folder=/x y/z", "new.key=word",
                               "new.list=[1.5, 2]", "experiment=\"a=b\"", "grid.alpha=[1]"});
  EXPECT_EQ(config.section("training").required_integer("steps"), 6);
  EXPECT_EQ(config.section("data").required_path("folder"), "/x y/z");
  EXPECT_EQ(config.section("new").required_word("key"), "word");
  EXPECT_EQ(config.section("new").required_reals("list"), (std::vector<double>{1.5, 2}));
  EXPECT_EQ(config.root().required_word("experiment"), "a=b");
  auto grid = config.section("grid");
  EXPECT_EQ(alpha_grid(grid, "alpha", {}), std::vector<double>{1});
  expect_contains(
      message([&] { load(example, {"training.steps=many"}).section("training").integer("steps", 1); }),
      {"--set training.steps=many", "\"many\"", "expected an integer"});
  for (const std::string bad :
       {"novalue", "=1", "a.=1", ".a=1", "a=", "a=[1", "a=\"x", "experiment.x=1", "a=1\nb=2"}) {
    message([&] { load(example, {bad}); });
  }
}

TEST_F(ConfigTest, FinishNamesTheUnknownKeyAndItsNeighbour) {
  auto config = load("[training]\nsteps = 1\nratee = 2\n");
  config.section("training").integer("steps", 1);
  config.section("training").real("rate", 1);
  expect_contains(message([&] { config.finish(); }),
                  {"e.toml:3: unknown key training.ratee; did you mean training.rate?"});
  auto other = load("[training]\nsteps = 1\n[trainning]\nsteps = 2\n[more]\n", {"oops.key=1"});
  other.section("training").integer("steps", 1);
  expect_contains(message([&] { other.finish(); }), {"more)"});
  auto section = load("[training]\n[traning]\n");
  section.section("training");
  expect_contains(message([&] { section.finish(); }),
                  {"e.toml:2: unknown section [traning]; did you mean training?"});
}

TEST_F(ConfigTest, NestedSectionsAreKnownByTheirParts) {
  auto config = load("[a.b]\nx = 1\n[a.c]\ny = 2\n");
  EXPECT_EQ(config.section("a").sub("b").required_integer("x"), 1);
  expect_contains(message([&] { config.finish(); }), {"[a.c]"});
  EXPECT_EQ(config.section("a.c").required_integer("y"), 2);
  config.finish();
}

TEST_F(ConfigTest, RefusesWrongValuesByLine) {
  const std::string text =
      "[s]\ni = 1.5\nr = nan\nw = 3\nf = 1\nl = [\"a\", \"a\"]\nv = [1, inf]\nn = 9\ne = \"\"\n";
  struct Case {
    std::function<void(taugrid::config::Section&)> read;
    Strings parts;
  };
  const std::vector<Case> cases = {
      {[](auto& s) { s.integer("i", 1); }, {"e.toml:2: s.i: is 1.5; expected an integer"}},
      {[](auto& s) { s.real("r", 1); }, {"e.toml:3: s.r: is nan; expected a number"}},
      {[](auto& s) { s.word("w", "x"); }, {"e.toml:4", "expected text"}},
      {[](auto& s) { s.flag("f", true); }, {"e.toml:5", "true or false"}},
      {[](auto& s) { s.words("l", {}); }, {"e.toml:6", "\"a\" stands there twice"}},
      {[](auto& s) { s.reals("v", {}); }, {"e.toml:7", "finite numbers"}},
      {[](auto& s) {
         s.integer("n", 1, {1, 8});
       },
       {"e.toml:8", "from 1.0 to 8.0"}},
      {[](auto& s) {
         s.word("e", "x", {"x", "y"});
       },
       {"e.toml:9", "one of x, y"}},
      {[](auto& s) { s.words("n", {}); }, {"e.toml:8", "a list of texts"}},
      {[](auto& s) { s.sub("n"); }, {"e.toml:8", "expected a section [s.n]"}},
      {[](auto& s) { s.required_integer("gone"); }, {"e.toml:1: s.gone: missing; expected an integer"}},
  };
  for (const Case& one : cases) {
    auto section = load(text).section("s");
    expect_contains(message([&] { one.read(section); }), one.parts);
  }
}

TEST_F(ConfigTest, GridsAreCheckedAndCanonical) {
  const auto grid = [&](const std::string& text) {
    auto section = load("alpha = " + text).root();
    return alpha_grid(section, "alpha", {1});
  };
  EXPECT_EQ(grid("[0.5, 1]"), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(grid("{ from = 0, to = 1, count = 3 }"), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(grid("{ from = 0.3, to = 1, count = 1 }"), std::vector<double>{0.3});
  for (const std::string bad :
       {"[]", "[nan]", "[1, 1]", "[0.0, -0.0]", "3", "\"x\"", "{}", "{ from = 0, to = 1, count = 0 }",
        "{ from = 0, to = 0, count = 2 }", "{ from = 0, to = inf, count = 2 }",
        "{ from = 0, to = 1, count = 2, x = 3 }"}) {
    message([&] { grid(bad); });
  }
}

TEST_F(ConfigTest, UnreadableFilesAreInputErrors) {
  expect_contains(message([&] { Config::load(folder_ / "gone.toml"); }), {"gone.toml", "No such file"});
  message([&] { Config::load(folder_); });
  expect_contains(message([&] { load("a = 1\nb = = 2\n"); }), {"e.toml:2", "not TOML"});
  const std::string text = example;
  for (std::size_t length = 0; length < text.size(); ++length) {
    try {
      auto config = load(text.substr(0, length));
      read_all(config);
    } catch (const InputError&) {
    }
  }
}

TEST(Difference, NamesWhatChanged) {
  EXPECT_EQ(difference("a = 1\n[s]\nk = 2\ngone = 3\n", "a = 1\n[s]\nk = 2.5\nnew = [1]\n"),
            (Strings{"s.gone: 3 -> (absent)", "s.k: 2 -> 2.5", "s.new: (absent) -> [1]"}));
}

TEST_F(ConfigTest, RefusesWhatTheParserDoesNotBear) {
  std::string deep = "a";
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  expect_contains(message([&] { load("[x]\ny = 1\n" + deep + " = 1\n"); }), {"e.toml:3", "16 dotted steps"});
  expect_contains(message([&] { load("[" + deep + "]\n"); }), {"e.toml:1", "16 dotted steps"});
  expect_contains(message([&] { load("x = {" + deep + " = 1"); }), {"e.toml:1", "16 dotted steps"});
  expect_contains(message([&] { load("", {deep + "=1"}); }), {"--set", "16 dotted steps"});
  expect_contains(message([&] { load("", {"x={" + deep + "=1}"}); }), {"--set", "16 dotted steps"});
  // The quotes before it end where TOML says so.
  for (const std::string text : {R"('"')", R"("\"")", "\"\"\"a\"\"\"\"", "'''''''"}) {
    expect_contains(message([&] { load("x = [" + text + ", {" + deep + " = 1}]"); }), {"16 dotted steps"});
  }
  expect_contains(message([&] { load("x = 1\ny = \u00e9\n"); }), {"e.toml:2", "beyond ASCII"});
  expect_contains(message([&] { load(std::string(5 << 20, '\n')); }), {"e.toml", "bytes"});
  // What they are fit for stays.
  auto config = load("\xef\xbb\xbf# größe ....................\nx = \"größe\"\n'a.é'.b = \"\"\"é\"\"\"\n",
                     {"y=größe", "z=it's"});
  EXPECT_EQ(config.root().word("x", ""), "größe");
  EXPECT_EQ(config.root().word("y", ""), "größe");
  EXPECT_EQ(config.root().word("z", ""), "it's");
  EXPECT_EQ(load("x = \"\"\"a\\\n\u00e9\"\"\"").root().word("x", ""), "a\u00e9");
}

TEST_F(ConfigTest, TextIsUtf8SoThatItLoadsAgain) {
  expect_contains(message([&] { load("", {"x=\xe1\x08"}); }), {"--set", "UTF-8"});
}

TEST_F(ConfigTest, MessagesShowControlCharacters) {
  auto config = load("\"a\\nb\" = 1");
  expect_contains(message([&] { config.finish(); }), {"a\\x0ab"});
}

TEST_F(ConfigTest, AGridIsNotDeclaredWithoutBounds) {
  auto config = load("alpha = { from = 0, to = 1, count = 1000000 }");
  auto root = config.root();
  expect_contains(message([&] { alpha_grid(root, "alpha", {}); }), {"alpha.count", "10000"});
}

}  // namespace
