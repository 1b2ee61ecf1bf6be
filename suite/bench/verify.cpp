// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// `taugrid verify`: every case of the bench once, against another computation and against recorded values.
#include <ATen/ATen.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "suite/bench/bench.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/bench/recorded_values.hpp"
#include "suite/comm/failure.hpp"
#include "suite/error.hpp"
#include "suite/machine/machine.hpp"

namespace taugrid::bench {
namespace {

/// Two numbers of a result x: ‖x‖, and Σ xᵢ cos(i), which tells signs and places.
struct Numbers {
  double norm = 0, projection = 0;
};

/// What a case computed, but for what depends on the machine.
std::vector<at::Tensor> results_of(const Work& work) {
  if (work.last) return {work.last()};
  std::vector<at::Tensor> tensors;
  if (!work.results) return tensors;
  for (const auto& [name, tensor] : work.results().tensors) {
    const bool of_the_machine = name == "peak_memory" || name == "products" || name == "residual";
    if (!of_the_machine && name.rfind("v/", 0) != 0) tensors.push_back(tensor);
  }
  return tensors;
}

std::optional<Numbers> numbers_of(const Work& work) {
  const auto tensors = results_of(work);
  if (tensors.empty()) return std::nullopt;
  double squares = 0, projection = 0;
  std::int64_t begin = 0;
  for (const auto& tensor : tensors) {
    const auto x = tensor.detach().to(at::kCPU).to(at::kDouble).flatten();
    const auto place = at::arange(begin, begin + x.numel(), at::kDouble);
    squares += x.square().sum().item<double>();
    projection += (x * place.cos()).sum().item<double>();
    begin += x.numel();
  }
  return Numbers{std::sqrt(squares), projection};
}

/// Largest difference of the two numbers, relative to the recorded norm.
double distance(const Numbers& numbers, const Recorded& recorded) {
  return std::max(std::abs(numbers.norm - recorded.norm),
                  std::abs(numbers.projection - recorded.projection)) /
         recorded.norm;
}

struct Verdict {
  std::string line;
  bool right = false;
};

Verdict verify_one(const Case& test, bool prints_values) {
  const auto begin = std::chrono::steady_clock::now();
  const auto work = test.prepare();
  if (!work.has_run) work.run();
  const double error = work.error();
  const auto numbers = numbers_of(work);  // after it: results() may compute on
  if (prints_values && numbers)
    fmt::print("    {{\"{}\", {:.9g}, {:.9g}, …}},\n", test.name, numbers->norm, numbers->projection);
  bool right = error <= work.tolerance;  // false for NaN
  std::string beside = "-";
  if (const auto* recorded = find_recorded(test.name); recorded != nullptr && numbers) {
    const double apart = distance(*numbers, *recorded);
    right = right && apart <= recorded->tolerance;
    beside = fmt::format("{:.1e} of {:.0e}", apart, recorded->tolerance);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return {fmt::format("{:<22} {:>20} {:>20} {:>8.1f}  {}", test.name,
                      fmt::format("{:.1e} of {:.0e}", error, work.tolerance), beside, took.count(),
                      right ? "ok" : "WRONG"),
          right};
}

}  // namespace

int verify(int& argc, char**& argv, const VerifyOptions& options) {
  comm::Runtime runtime(argc, argv, {.threads = 1, .device = options.device});
  std::vector<std::string> wrong;
  std::size_t count = 0;
  const int code = comm::run_guarded(runtime, [&] {
    if (runtime.world().size() > 1)
      throw InputError("taugrid verify is for one process: start it without mpirun");
    runtime.set_threads(1);
    runtime.print_warnings();
    const auto folder =
        std::filesystem::temp_directory_path() / ("taugrid-verify-" + std::to_string(getpid()));
    const Fixture fixture(runtime, folder, /*keep=*/false);
    for (const auto& [name, value] : machine::describe_machine()) fmt::print("# {}: {}\n", name, value);
    fmt::print("# device: {}\n", runtime.mine().device);
    fmt::print("# {:<20} {:>20} {:>20} {:>8}  {}\n", "case", "another computation", "recorded values",
               "seconds", "result");
    const bool on_device = !runtime.device().is_cpu();
    auto cases = chosen(all_cases(fixture), options.filter, "medium", 1);
    if (on_device) std::erase_if(cases, [](const Case& test) { return test.on_host; });
    if (cases.empty())
      throw InputError("--filter: what matches '" + options.filter +
                       "' is computed on the host: add --device cpu");
    for (const auto& test : cases) {
      runtime.stop().throw_if_requested(runtime.world(), "taugrid verify");
      Verdict verdict;
      try {
        verdict = verify_one(test, options.values);
      } catch (const std::exception& failure) {
        runtime.stop().throw_if_requested(runtime.world(), "taugrid verify");
        verdict.line = fmt::format("{:<22} {}", test.name, as_line(failure.what()));
      }
      fmt::print("{}\n", verdict.line);
      std::fflush(stdout);
      ++count;
      if (!verdict.right) wrong.push_back(test.name);
    }
    std::string names;
    for (const auto& name : wrong) names += (names.empty() ? "" : ", ") + name;
    fmt::print("# verify: {}\n", wrong.empty() ? fmt::format("RIGHT, {} cases", count) : "WRONG: " + names);
  });
  return code != 0 || wrong.empty() ? code : static_cast<int>(ExitCode::failed);
}

}  // namespace taugrid::bench
