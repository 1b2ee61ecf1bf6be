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
using taugrid::config::Config;
using taugrid::config::difference;
using taugrid::config::Meaning;
using Strings = std::vector<std::string>;

constexpr Meaning a_key = "A key of this test", a_section = "A section of this test";

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("config" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& text, const std::string& name = "e.toml") const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
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
  config.root().required_word("experiment", a_key);
  auto training = config.section("training", a_section);
  training.integer("steps", a_key, 1);
  training.real("rate", a_key, 0.1);
  training.flag("linear", a_key, false);
  training.real("decay", a_key, 0.25);
  auto data = config.section("data", a_section);
  data.required_path("folder", a_key);
  data.words("tasks", a_key, {});
  auto grid = config.section("grid", a_section);
  grid.alpha_grid("alpha", a_key, {0});
  config.finish();
  return config.resolved();
}

/// Runs of before the key `epochs` are of the same configuration, and go on.
TEST_F(ConfigTest, AKeyThatCameLaterStandsInTheResolvedTextWhereItSaysSomething) {
  const auto resolved = [&](const std::string& text) {
    auto config = load(text);
    for (const auto* section : {"finetune", "finetune.linear"})
      config.section(section, a_section).integer("epochs", a_key, 0);
    config.section("finetune", a_section).integer("steps", a_key, 5);
    config.finish();
    return config.resolved();
  };
  EXPECT_EQ(resolved("[finetune]\nsteps = 7\n").find("epochs"), std::string::npos);
  EXPECT_EQ(resolved("[finetune]\nsteps = 7\nepochs = 0\n").find("epochs"), std::string::npos);
  const auto both = resolved("[finetune]\nepochs = 2\n[finetune.linear]\nepochs = 0\n");
  EXPECT_NE(both.find("epochs = 2"), std::string::npos);
  EXPECT_NE(both.find("epochs = 0"), std::string::npos);
}

TEST_F(ConfigTest, AKeyThatCameLaterToOneSectionStaysInOthers) {
  const auto resolved = [&](const std::string& text) {
    auto config = load(text);
    for (const auto* section : {"smoothness", "merging"})
      config.section(section, a_section).words("regimes", a_key, {});
    config.finish();
    return config.resolved();
  };
  const auto without = resolved("[smoothness]\n[merging]\n"),
             with = resolved("[smoothness]\n[merging]\nregimes = [\"linear\"]\n");
  EXPECT_EQ(without.find("regimes = []"), without.rfind("regimes"));  // once
  EXPECT_NE(with.find("regimes = [\"linear\"]"), std::string::npos);
  EXPECT_NE(with.find("regimes = []"), std::string::npos);
}

TEST_F(ConfigTest, ReadsTypedValues) {
  auto config = load(example);
  auto training = config.section("training", a_section);
  EXPECT_EQ(training.required_integer("steps", a_key, {1, 1000}), 100);
  EXPECT_EQ(training.required_real("rate", a_key), 1e-5);
  EXPECT_EQ(training.real("steps", a_key, 0), 100);
  EXPECT_TRUE(training.required_flag("linear", a_key));
  EXPECT_EQ(training.integer("absent", a_key, 7), 7);
  EXPECT_EQ(training.keys(), (Strings{"steps", "rate", "linear"}));
  auto data = config.section("data", a_section);
  EXPECT_EQ(data.required_path("folder", a_key), folder_ / "packed");
  EXPECT_EQ(data.required_words("tasks", a_key), (Strings{"mnist", "dtd"}));
  EXPECT_EQ(data.path("elsewhere", a_key, ""), "");
  EXPECT_TRUE(config.has("grid"));
  EXPECT_FALSE(config.has("experiment"));
  EXPECT_FALSE(data.has("x"));
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
    config.section("a", a_section).word("w", a_key, "");
    config.section("a", a_section).path("p", a_key, "");
    config.section("a", a_section).words("l", a_key, {});
    config.section("a", a_section).word("odd", a_key, "tab\t quote\" back\\");
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
  EXPECT_EQ(config.section("training", a_section).required_integer("steps", a_key), 6);
  EXPECT_EQ(config.section("data", a_section).required_path("folder", a_key), "/x y/z");
  EXPECT_EQ(config.section("new", a_section).required_word("key", a_key), "word");
  EXPECT_EQ(config.section("new", a_section).required_reals("list", a_key), (std::vector<double>{1.5, 2}));
  EXPECT_EQ(config.root().required_word("experiment", a_key), "a=b");
  auto grid = config.section("grid", a_section);
  EXPECT_EQ(grid.alpha_grid("alpha", a_key, {}), std::vector<double>{1});
  expect_contains(
      message([&] {
        load(example, {"training.steps=many"}).section("training", a_section).integer("steps", a_key, 1);
      }),
      {"--set training.steps=many", "\"many\"", "expected an integer"});
  for (const std::string bad :
       {"novalue", "=1", "a.=1", ".a=1", "a=", "a=[1", "a=\"x", "experiment.x=1", "a=1\nb=2"}) {
    message([&] { load(example, {bad}); });
  }
}

TEST_F(ConfigTest, FinishNamesTheUnknownKeyAndItsNeighbour) {
  auto config = load("[training]\nsteps = 1\nratee = 2\n");
  config.section("training", a_section).integer("steps", a_key, 1);
  config.section("training", a_section).real("rate", a_key, 1);
  expect_contains(message([&] { config.finish(); }),
                  {"e.toml:3: unknown key training.ratee; did you mean training.rate?"});
  auto other = load("[training]\nsteps = 1\n[trainning]\nsteps = 2\n[more]\n", {"oops.key=1"});
  other.section("training", a_section).integer("steps", a_key, 1);
  expect_contains(message([&] { other.finish(); }), {"more)"});
  auto section = load("[training]\n[traning]\n");
  section.section("training", a_section);
  section.optional_section("data", a_section);  // one that the file lacks
  expect_contains(message([&] { section.finish(); }),
                  {"e.toml:2: unknown section [traning]; did you mean [training]? "
                   "There are [data], [training]"});
  auto far = load("[training]\n[training.x]\ny = 1\n", {"nothing_like_it=1"});
  far.section("training", a_section);
  expect_contains(message([&] { far.finish(); }), {"unknown key nothing_like_it; taugrid keys lists all, "
                                                   "taugrid keys --recipe those of recipes (and 1 more)"});
  auto inner = load("[training]\n[training.x]\ny = 1\n");
  inner.section("training", a_section);
  expect_contains(message([&] { inner.finish(); }),
                  {"e.toml:2: unknown section [training.x]; there are none in [training]"});
}

TEST_F(ConfigTest, OptionalSectionsAreAskedForByTheirPresence) {
  auto config = load("[b]\nx = 1\n");
  EXPECT_FALSE(config.optional_section("a", a_section));
  ASSERT_TRUE(config.optional_section("b", a_section));
  EXPECT_EQ(config.optional_section("b", a_section)->integer("x", a_key, 0), 1);
  config.finish();
  config.require_alone("b");
  expect_contains(message([&] { config.require_alone("a"); }), {"e.toml:1: section [b]", "[a]"});
}

// What `taugrid keys` prints: every reader goes to its end without a file.
TEST_F(ConfigTest, AReferenceHoldsWhatReadersAskFor) {
  auto config = Config::describing({"s.given=2"});
  EXPECT_TRUE(config.has("anything"));
  auto s = config.section("s", "Of every run");
  EXPECT_EQ(s.integer("given", "Set by an override, which is no default", 1, {0, 8}), 2);
  EXPECT_EQ(s.required_integer("steps", "One that the file must set", {1, 10}), 10);  // within its range
  s.real("rate", {"One whose default follows from others", {.fallback = "a tenth of steps"}}, 0.5,
         {1e-12, 1e9});
  s.required_word("kind", "One of several words", {"a", "b"});
  s.required_names("names", "Some plain names");
  s.alpha_grid("alpha", "A grid of coefficients", {0, 1}, {0, 4});
  auto part = s.parts({"linear"}, "KIND", "Of one kind alone").at("KIND");
  part.integer("steps", "One that the file must set", 7);
  config.optional_section("t", "Of some runs").value().flag("on", "Whether it is on", true);
  s.required_integer("steps", "One that the file must set", {1, 10});  // again, in the same words

  const auto& all = config.reference();
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all[0].name, "s");
  EXPECT_EQ(all[0].meaning, "Of every run");
  EXPECT_FALSE(all[0].optional);
  std::vector<Strings> rows;
  for (const auto& key : all[0].keys) rows.push_back({key.key, key.values, key.fallback, key.meaning});
  EXPECT_EQ(
      rows,
      (std::vector<Strings>{
          {"given", "an integer from 0 to 8", "1", "Set by an override, which is no default"},
          {"steps", "an integer from 1 to 10", "required", "One that the file must set"},
          {"rate", "a number from 1e-12 to 1e9", "a tenth of steps", "One whose default follows from others"},
          {"kind", "one of a, b", "required", "One of several words"},
          {"names", "a list of plain names", "required", "Some plain names"},
          {"alpha", "a list of numbers, each from 0 to 4, or { from = A, to = B, count = N }", "[0.0, 1.0]",
           "A grid of coefficients"}}));
  EXPECT_EQ(all[1].name, "s.KIND");
  EXPECT_EQ(all[1].again, "s");
  EXPECT_TRUE(all[2].optional);
  EXPECT_THROW(s.required_integer("steps", "In other words"), std::logic_error);
  EXPECT_THROW(config.section("s", "In other words"), std::logic_error);
}

TEST_F(ConfigTest, NamesArePlain) {
  for (const std::string bad : {"../data/a", "a/b", "", ".", "..", "a__b", "_a", "a_", "a+b", "a b", "é"}) {
    expect_contains(message([&] { load("t = [\"" + bad + "\"]").root().required_names("t", a_key); }),
                    {"e.toml:1: t:"});
    expect_contains(message([&] { load("n = \"" + bad + "\"").root().name("n", a_key, "fallback"); }),
                    {"e.toml:1: n:"});
  }
  EXPECT_EQ(load("t = [\"a\", \"b_2.x-y\"]").root().required_names("t", a_key), (Strings{"a", "b_2.x-y"}));
  EXPECT_EQ(load("").root().name("n", a_key, ""), "");
}

TEST_F(ConfigTest, NestedSectionsAreKnownByTheirParts) {
  auto config = load("[a.b]\nx = 1\n[a.c]\ny = 2\n");
  auto parts = config.section("a", a_section).parts({"b", "absent"}, "PART", a_section);
  ASSERT_EQ(parts.size(), 1);
  EXPECT_EQ(parts.at("b").required_integer("x", a_key), 1);
  expect_contains(message([&] { config.finish(); }), {"[a.c]"});
  EXPECT_EQ(config.section("a.c", a_section).required_integer("y", a_key), 2);
  config.finish();
}

TEST_F(ConfigTest, RefusesWrongValuesByLine) {
  const std::string text =
      "[s]\ni = 1.5\nr = nan\nw = 3\nf = 1\nl = [\"a\", \"a\"]\nv = [1, inf]\nn = 9\ne = \"\"\nz = 0\n"
      "m = 1.5\n";
  struct Case {
    std::function<void(taugrid::config::Section&)> read;
    Strings parts;
  };
  const std::vector<Case> cases = {
      {[](auto& s) { s.integer("i", a_key, 1); }, {"e.toml:2: s.i: is 1.5; expected an integer"}},
      {[](auto& s) { s.real("r", a_key, 1); }, {"e.toml:3: s.r: is nan; expected a number"}},
      {[](auto& s) { s.word("w", a_key, "x"); }, {"e.toml:4", "expected text"}},
      {[](auto& s) { s.flag("f", a_key, true); }, {"e.toml:5", "true or false"}},
      {[](auto& s) { s.words("l", a_key, {}); }, {"e.toml:6", "\"a\" stands there twice"}},
      {[](auto& s) { s.reals("v", a_key, {}); }, {"e.toml:7", "finite numbers"}},
      {[](auto& s) {
         s.integer("n", a_key, 1, {1, 8});
       },
       {"e.toml:8", "an integer from 1 to 8"}},
      {[](auto& s) {
         s.word("e", a_key, "x", {"x", "y"});
       },
       {"e.toml:9", "one of x, y"}},
      {[](auto& s) { s.real("z", a_key, 1, taugrid::config::some_share); },
       {"e.toml:10: s.z: is 0; expected a number above 0 and at most 1"}},
      {[](auto& s) { s.real("m", a_key, 1, taugrid::config::some_share); },
       {"e.toml:11: s.m: is 1.5; expected a number above 0 and at most 1"}},
      {[](auto& s) { s.words("n", a_key, {}); }, {"e.toml:8", "a list of texts"}},
      {[](auto& s) { s.parts({"n"}, "PART", a_section); }, {"e.toml:8", "expected a section [s.n]"}},
      {[](auto& s) { s.required_integer("gone", a_key); },
       {"e.toml:1: s.gone: missing; expected an integer"}},
  };
  for (const Case& test_case : cases) {
    auto section = load(text).section("s", a_section);
    expect_contains(message([&] { test_case.read(section); }), test_case.parts);
  }
}

TEST_F(ConfigTest, GridsAreCheckedAndCanonical) {
  const auto grid = [&](const std::string& text) {
    auto section = load("alpha = " + text).root();
    return section.alpha_grid("alpha", a_key, {1});
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

TEST_F(ConfigTest, AFileSaysWhatItsBaseLeavesOpen) {
  write(
      "[training]\nsteps = 1\nrate = 0.5\nlinear = true\n[data]\nfolder = \"packed\"\n[grid]\nalpha = [0, "
      "1]\n",
      "shared/first.toml");
  write(
      "extends = \"first.toml\"\nexperiment = \"x\"\n[training]\nsteps = 2\n[data]\ntasks = [\"a\", \"b\"]\n",
      "shared/second.toml");
  const std::string last =
      "extends = \"shared/second.toml\"\n[training]\nrate = 0.25\n[data]\ntasks = [\"c\"]\n"
      "[grid]\nalpha = { from = 0, to = 1, count = 3 }\n";
  auto config = load(last, {"training.linear=false"});
  const auto text = read_all(config);
  // Nothing of `extends` is left, and each path counts from the folder of the file that says it.
  EXPECT_EQ(text, "experiment = \"x\"\n\n[data]\nfolder = \"" + (folder_ / "shared/packed").string() +
                      "\"\ntasks = [\"c\"]\n\n[grid]\nalpha = [0.0, 0.5, 1.0]\n\n"
                      "[training]\ndecay = 0.25\nlinear = false\nrate = 0.25\nsteps = 2\n");
  auto again = load(text);
  EXPECT_EQ(read_all(again), text);
  auto elsewhere = load(last, {"data.folder=mine"});
  EXPECT_EQ(elsewhere.section("data", a_section).required_path("folder", a_key), folder_ / "mine");
  write("[grid]\nalpha = { from = 0, to = 1, count = 3 }\n",
        "shared/second.toml");  // a list in place of one in braces
  auto grid = load("extends = \"shared/second.toml\"\n[grid]\nalpha = [5]\n").section("grid", a_section);
  EXPECT_EQ(grid.alpha_grid("alpha", a_key, {}), std::vector<double>{5});
}

TEST_F(ConfigTest, ComplaintsNameTheFileThatSaysTheKey) {
  write("[s]\n\n\ni = 1.5\nodd = 1\n[only]\nbase = 1\n", "base.toml");
  const std::string derived = "extends = \"base.toml\"\n[s]\nw = 2\n";
  auto s = load(derived).section("s", a_section);
  expect_contains(message([&] { s.integer("i", a_key, 1); }),
                  {(folder_ / "base.toml:4: s.i: is 1.5").string()});
  expect_contains(message([&] { s.word("w", a_key, "x"); }), {(folder_ / "e.toml:3: s.w: is 2").string()});
  expect_contains(message([&] { s.required_integer("gone", a_key); }),
                  {(folder_ / "e.toml:2: s.gone").string()});
  auto config = load(derived);
  config.section("s", a_section).real("i", a_key, 1);
  config.section("s", a_section).integer("w", a_key, 1);
  config.section("only", a_section).integer("bases", a_key, 1);
  expect_contains(message([&] { config.finish(); }),
                  {(folder_ / "base.toml:5: unknown key s.odd").string(), "(and 1 more)"});
  auto other = load("extends = \"base.toml\"\n\n\n\n\n\n\n\n[later]\n");  // its own come first
  other.section("s", a_section);
  expect_contains(message([&] { other.finish(); }),
                  {(folder_ / "e.toml:9: unknown section [later]").string()});
}

TEST_F(ConfigTest, WhatCannotBeExtendedIsRefusedWithBothNames) {
  const auto refused = [&](const std::string& text, const Strings& parts) {
    expect_contains(message([&] { load(text); }), parts);
  };
  const std::string from_base = "[a]\nx = 1\nextends = \"base.toml\"\n";
  EXPECT_NO_THROW(load(from_base));  // a key of a section, of which this is not the meaning
  const auto file = [&](const std::string& name) { return (folder_ / name).string(); };
  refused("extends = \"gone.toml\"",
          {file("e.toml:1: extends: ") + file("gone.toml: cannot be read: No such file")});
  refused("extends = \".\"", {file("e.toml:1: extends: "), "a folder"});
  refused("\nextends = \"\"", {"e.toml:2: extends: is \"\"; expected the path of an experiment file"});
  refused("extends = [\"base.toml\"]", {"e.toml:1: extends: is [\"base.toml\"]; expected the path"});
  refused("extends = \"/dev/zero\"", {file("e.toml:1: extends: /dev/zero is a folder, a device")});
  refused("extends = \"./e.toml\"", {file("e.toml:1: extends: ") + file("e.toml leads back to this file")});
  write("x = = 1\n", "base.toml");
  refused("extends = \"base.toml\"", {file("e.toml:1: extends: ") + file("base.toml:1: not TOML")});
  write("\nextends = \"e.toml\"\n", "base.toml");
  refused("extends = \"base.toml\"",
          {file("base.toml:2: extends: ") + file("e.toml leads back to this file")});
  write("[a]\nx = 1\n[b]\ny = [1]\n", "base.toml");
  refused("extends = \"base.toml\"\na = 1",
          {file("e.toml:2: a: is a key here and a section in ") + file("base.toml:1")});
  refused("extends = \"base.toml\"\n[b.y]\nz = 1",
          {file("e.toml:2: b.y: is a section here and a key in ") + file("base.toml:4")});
  expect_contains(message([&] { load("", {"extends=base.toml"}); }),
                  {"--set extends=base.toml: a file alone"});
}

TEST(Difference, NamesWhatChanged) {
  EXPECT_EQ(difference("a = 1\n[s]\nk = 2\ngone = 3\n", "a = 1\n[s]\nk = 2.5\nnew = [1]\n"),
            (Strings{"s.k: 2 -> 2.5", "s.gone: 3 -> (absent)", "s.new: (absent) -> [1]"}));
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
  EXPECT_EQ(config.root().word("x", a_key, ""), "größe");
  EXPECT_EQ(config.root().word("y", a_key, ""), "größe");
  EXPECT_EQ(config.root().word("z", a_key, ""), "it's");
  EXPECT_EQ(load("x = \"\"\"a\\\n\u00e9\"\"\"").root().word("x", a_key, ""), "a\u00e9");
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
  expect_contains(message([&] { root.alpha_grid("alpha", a_key, {}); }), {"alpha.count", "10000"});
}

}  // namespace
