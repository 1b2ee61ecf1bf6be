// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid diff: how two models differ, without MPI.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "suite/error.hpp"
#include "suite/merging/difference.hpp"
#include "suite/program/commands.hpp"
#include "suite/program/output_file.hpp"
#include "suite/program/short_name.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::program {
namespace {

using merging::By;
using merging::Difference;
using Json = nlohmann::ordered_json;

constexpr std::size_t names_shown = 5, name_letters = 60;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json as_json(const Difference& sums) {
  return {{"numbers", sums.numbers},
          {"norm_a", number(sums.norm_a())},
          {"norm_b", number(sums.norm_b())},
          {"norm_base", number(std::sqrt(sums.base))},
          {"norm_of_difference", number(sums.norm())},
          {"relative_difference", number(sums.relative())},
          {"cosine", number(sums.cosine())},
          {"largest_difference", number(sums.largest)},
          {"equal", sums.equal},
          {"opposed_signs", sums.opposed},
          {"not_finite", sums.not_finite}};
}

void write_json(const DiffOptions& options, const merging::Differences& differences, const Difference& all) {
  Json json = {{"schema_version", 1},
               {"a", options.a.string()},
               {"b", options.b.string()},
               {"base", options.base.empty() ? Json(nullptr) : Json(options.base.string())},
               {"whole", as_json(all)},
               {"only_in_a", differences.only_in_a},
               {"only_in_b", differences.only_in_b},
               {"other_shapes", differences.other_shapes},
               {"other_numbers", differences.other_numbers},
               {"tensors", Json::array()}};
  for (const auto& tensor : differences.tensors) {
    Json entry = {{"name", tensor.name},
                  {"kind", tensor.kind},
                  {"layer", tensor.layer ? Json(*tensor.layer) : Json(nullptr)},
                  {"shape", tensor.shape},
                  {"type_a", tensor.type_a},
                  {"type_b", tensor.type_b}};
    entry.update(as_json(tensor.sums));
    json["tensors"].push_back(std::move(entry));
  }
  store::write_atomically(options.json, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void print_row(const std::string& name, std::size_t tensors, const Difference& sums, std::size_t width,
               bool with_base) {
  const auto part = [&](std::int64_t count) {
    return sums.numbers > 0 ? 100 * static_cast<double>(count) / static_cast<double>(sums.numbers) : 0;
  };
  const auto cell = [](double value, const char* none) {
    return std::isfinite(value) ? fmt::format("{:.4g}", value) : none;
  };
  fmt::print("{:<{}} {:>7} {:>10} {:>10} {:>10} {:>9} {:>9.1f} {:>9.1f}", name, width, tensors,
             cell(sums.norm_a(), "-"), cell(sums.norm_b(), "-"), cell(sums.relative(), "-"),
             cell(sums.cosine(), "-"), part(sums.opposed), part(sums.equal));
  if (with_base) fmt::print(" {:>10}", sums.base > 0 ? cell(sums.norm_a() / std::sqrt(sums.base), "-") : "-");
  fmt::print("{}\n", sums.not_finite > 0 ? fmt::format("  {} NaN or infinity", sums.not_finite) : "");
}

void print_names(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::vector<std::string> some;
  for (std::size_t i = 0; i < std::min(names_shown, names.size()); ++i)
    some.push_back(short_name(names[i], name_letters));
  fmt::print("{}: {}{}\n", what, fmt::join(some, ", "),
             names.size() > some.size() ? fmt::format(", … ({} in all)", names.size()) : "");
}

}  // namespace

int diff(const DiffOptions& options) try {
  require_apart("--json", options.json, {options.a, options.b, options.base});
  const auto began = std::chrono::steady_clock::now();
  const auto differences = merging::differences(options.a, options.b, options.base, [] {});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const auto by = options.by == "tensor" ? By::tensor : options.by == "layer" ? By::layer : By::kind;
  Difference all;
  for (const auto& tensor : differences.tensors) all.add(tensor.sums);
  const bool with_base = !options.base.empty();
  const auto groups = merging::grouped(differences, by);
  std::size_t width = 10;
  for (const auto& group : groups) width = std::max(width, short_name(group.name, name_letters).size());
  fmt::print("a: {}\nb: {}\n", options.a.string(), options.b.string());
  fmt::print("{}\n\n", with_base ? "task vectors from " + options.base.string() : "the models themselves");
  fmt::print("{:<{}} {:>7} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9}{}\n", options.by, width, "tensors", "‖a‖",
             "‖b‖", "‖b−a‖/‖a‖", "cosine", "opposed %", "equal %", with_base ? "   ‖a‖/‖θ0‖" : "");
  for (const auto& group : groups)
    print_row(short_name(group.name, name_letters), group.tensors, group.sums, width, with_base);
  print_row("all", differences.tensors.size(), all, width, with_base);
  fmt::print("\n");
  print_names("only in a", differences.only_in_a);
  print_names("only in b", differences.only_in_b);
  print_names("of other shapes", differences.other_shapes);
  print_names("no floating-point numbers, and other ones", differences.other_numbers);
  fmt::print("{} numbers, largest difference {:.4g}, {:.1f} s, {:.2f} GB/s\n", all.numbers, all.largest,
             seconds, differences.bytes / 1e9 / seconds);
  if (!options.json.empty()) write_json(options, differences, all);
  return 0;
} catch (const store::ReadFailure& failure) {  // every file that is read here is one that the user named
  throw InputError(failure.what());
}

}  // namespace taugrid::program
