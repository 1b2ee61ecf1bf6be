// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// bases_probe EXPERIMENT.toml RUN REGIME LABELS OUT.safetensors [KEY=VALUE…]: tau [P] of the bases that
// [bases.merge_in], which takes no data, makes of a finished run's vectors in these clusters (0,1,0: a label
// a task), merged by [bases.merge_out]. All ranks are one group. Its scratch folder is
// OUT.safetensors.scratch.
#include <Kokkos_Core.hpp>
#include <cstdio>
#include <sstream>

#include "suite/comm/runtime.hpp"
#include "suite/error.hpp"
#include "suite/experiments/bases/task_bases.hpp"
#include "suite/store/safetensors.hpp"

using namespace taugrid;

namespace {

std::vector<std::int64_t> labels_in(const std::string& text) {
  std::vector<std::int64_t> labels;
  std::istringstream in(text);
  for (std::string label; std::getline(in, label, ',');) labels.push_back(std::stoll(label));
  return labels;
}

void probe(const comm::Runtime& runtime, const std::vector<std::string>& words) {
  auto config = config::Config::load(words[0], {words.begin() + 5, words.end()});
  study::Study study(config, runtime.device(), runtime.ranks_on_host());
  study.vectors.set_folder(words[1]);
  const auto in = experiments::read_merge_in(config, study), out = experiments::read_merge_out(config, study);
  const auto clusters = study::clusters_by(study.tasks.all(), labels_in(words[3]));
  schedule::UnitContext context{runtime.world(), runtime.stop(), words[4] + ".scratch",
                                [](double, std::string_view) {}};
  const auto bases =
      experiments::bases_of(study, words[2], clusters, in, schedule::RunFolder::none(), context);
  store::TensorFile file;
  file.tensors["tau"] = experiments::merged_bases(study, words[2], clusters, bases, out, context).cpu();
  if (runtime.world().rank() == 0) store::write_safetensors(words[4], file);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 5) {
    std::fprintf(stderr, "usage: bases_probe EXPERIMENT RUN REGIME LABELS OUT [KEY=VALUE...]\n");
    return 2;
  }
  const comm::Runtime runtime(argc, argv);
  const Kokkos::ScopeGuard kokkos;
  try {
    probe(runtime, words);
  } catch (const InputError& error) {
    std::fprintf(stderr, "bases_probe: %s\n", error.what());
    return 2;
  }
  return 0;
}
