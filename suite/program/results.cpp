// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid results: every path of results.h5, as experiments and the program itself declare them.
#include "suite/program/results.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "suite/experiments/experiment.hpp"
#include "suite/program/commands.hpp"
#include "suite/program/reference.hpp"

namespace taugrid::program {
namespace {

using ledger::Output;
using ledger::OutputGroup;
using ledger::roles_of;

std::vector<OutputGroup> all_groups() {
  auto groups = run_outputs();
  const auto of_experiments = experiments::declared_outputs();
  groups.insert(groups.end(), of_experiments.begin(), of_experiments.end());
  return groups;
}

bool is_attribute(const Output& output) { return output.name.starts_with('@'); }

std::string type_of(const Output& output) {
  if (is_attribute(output)) return "attribute";
  if (output.details.table) return "table";
  return output.details.text ? "text" : std::string(store::name_of(output.details.element));
}

std::string path_of(const OutputGroup& group, const Output& output) {
  if (is_attribute(output)) return group.path + output.name;
  return (group.path == "/" ? "" : group.path) + "/" + output.name;
}

std::string shape_of(const Output& output) {
  std::string all;
  for (const auto& role : roles_of(output)) all += (all.empty() ? "" : ", ") + role;
  return is_attribute(output) ? "" : "[" + all + "]";
}

int since(const OutputGroup& group, const Output& output) {
  return std::max(group.since, output.details.since);
}

std::string meaning_of(const OutputGroup& group, const Output& output) {
  auto text = output.meaning;
  if (output.details.correct) text += "; its points are in `/correct" + path_of(group, output) + "`";
  if (!output.details.when.empty()) text += ". Only with: " + output.details.when;
  if (output.details.since > group.since) text += fmt::format(". Since schema {}", output.details.since);
  return text;
}

std::string heading_of(const OutputGroup& group) {
  auto text = group.meaning;
  if (!group.when.empty()) text += ". Written with: " + group.when;
  if (group.since > 1) text += fmt::format(". Since schema {}", group.since);
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

void print_text() {
  bool first = true;
  for (const auto& group : all_groups()) {
    fmt::print("{}{}\n{}", first ? "" : "\n", group.path, wrapped(heading_of(group), "  "));
    first = false;
    for (const auto& output : group.outputs) {
      const auto unit = output.unit.empty() ? "" : ", in " + output.unit;
      fmt::print("  {}{}, {}{}\n{}", output.name, is_attribute(output) ? "" : " " + shape_of(output),
                 type_of(output), unit, wrapped(meaning_of(group, output), "      "));
    }
  }
}

constexpr const char* about_results =
    "# The results file\n\n"
    "Every path of `RUN/results.h5`, as the experiments declare it: made by `taugrid results --markdown`, "
    "and compared\n"
    "with it by the tests. The program writes nothing else.\n\n"
    "- Words in capitals stand for names: `R` is a regime, where it is said also the name of θ0 "
    "(`pretrained` or\n"
    "  `random`), `START` that name, `METHOD` a method by its name in the experiment file.\n"
    "- A dimension has a role: `task` in the order of `/tasks`, `pair` in that of `/pairs`, `side` the "
    "pair's first or\n"
    "  second task. A role that is a data set of its group has its values (`alpha`); all others count from "
    "0. The file has\n"
    "  each as label and scale of HDF5.\n"
    "- `/correct/PATH`, beside the accuracies at `PATH`, has for each of these a further dimension, "
    "`eight_points`, uint8:\n"
    "  which points the model has right, a bit a point, as `numpy.packbits` packs them, filled up with "
    "zeros. Its attribute\n"
    "  `points` says how many count, broadcast against the accuracies. Since schema 2.\n"
    "- A unit is in the attribute `units` of the data set; `1` is a share, a factor or a number of things. "
    "What nobody\n"
    "  measured is NaN.\n";

void print_markdown() {
  fmt::print("{}", about_results);
  for (const auto& group : all_groups()) {
    fmt::print(
        "\n## {}\n\n{}\n\n| name | dimensions | type | unit | meaning |\n| --- | --- | --- | --- | --- |\n",
        group.path, heading_of(group));
    for (const auto& output : group.outputs)
      fmt::print("| `{}` | {} | {} | {} | {} |\n", output.name.substr(is_attribute(output) ? 1 : 0),
                 shape_of(output), type_of(output), output.unit, cell(meaning_of(group, output)));
  }
}

void print_json() {
  auto all = nlohmann::ordered_json::array();
  for (const auto& group : all_groups()) {
    for (const auto& output : group.outputs) {
      nlohmann::ordered_json entry = {
          {"path", path_of(group, output)},
          {"type", type_of(output)},
          {"dimensions", roles_of(output)},
          {"unit", output.unit},
          {"meaning", output.meaning},
          {"when", output.details.when.empty() ? group.when : output.details.when},
          {"since", since(group, output)}};
      all.push_back(entry);
      if (!output.details.correct) continue;
      entry["path"] = "/correct" + path_of(group, output);
      entry["type"] = "uint8";
      entry["dimensions"].push_back(ledger::bits_role);
      entry["unit"] = "";
      entry["meaning"] = "which points the model has right, a bit a point";
      entry["since"] = 2;
      all.push_back(entry);
    }
  }
  fmt::print("{}\n", all.dump(1));
}

}  // namespace

int results(bool markdown, bool json) {
  json ? print_json() : markdown ? print_markdown() : print_text();
  return 0;
}

}  // namespace taugrid::program
