// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a run was computed from, by content: the model, the data sets and the checkpoints that are given; and
// the way to them from the run folder.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "suite/comm/operation.hpp"
#include "suite/config/canonical.hpp"
#include "suite/error.hpp"
#include "suite/hash.hpp"
#include "suite/schedule/run_folder.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/digest.hpp"
#include "suite/store/mapped_file.hpp"
#include "suite/store/tensor_folder.hpp"
#include "suite/study/study.hpp"

namespace taugrid::study {
namespace {

namespace fs = std::filesystem;

using store::Digest;

std::uint64_t digest_of(const data::Task& task) {
  Digest digest;
  digest.add(task.head.weight);
  digest.add(&task.head.logit_scale, sizeof task.head.logit_scale);
  digest.add(task.head.bias);
  digest.add(task.head.tokens);
  digest.add(task.head.lengths);
  digest.add(task.head.letters);
  digest.add(task.head.metric.data(), task.head.metric.size());
  for (const auto& piece : task.head.pieces) digest.add(piece.data(), piece.size());
  for (const auto* values : {&task.mean, &task.std})
    digest.add(values->data(), values->size() * sizeof(float));
  for (const auto* split : {&task.train, &task.validation, &task.test}) {
    for (const auto* tensor : {&split->inputs, &split->labels, &split->lengths, &split->types, &split->mask})
      digest.add(*tensor);
    for (const auto* tensor : {&split->choices, &split->choice_lengths, &split->choice_given})
      digest.add(*tensor);
    for (const auto& answers : split->references) digest.add(answers.data(), answers.size());
  }
  return digest.value();
}

/// `link` leads to `target` from now on, at once or not at all.
void link_to(const fs::path& target, const fs::path& link) {
  std::error_code error;
  const auto status = fs::symlink_status(link, error);
  if (fs::exists(status) && !fs::is_symlink(status)) return;  // the run's own
  if (fs::is_symlink(status) && fs::read_symlink(link, error) == target) return;
  store::create_folders(link.parent_path());
  const auto temporary = store::temporary_name(link);
  error.clear();
  fs::create_symlink(target, temporary, error);
  if (!error) fs::rename(temporary, link, error);
  if (error)
    throw InputError(
        fmt::format("cannot link {} to {}: {}", link.string(), target.string(), error.message()));
}

/// The digest of the file of a model's tensors; of a model in parts, that of the index' digest and its
/// parts', in the order of their names: one, so that hosts agree on how many there are wherever theirs lie.
std::uint64_t digest_of(const std::set<fs::path>& files) {
  if (files.size() == 1) return store::digest_of(*files.begin());
  std::string digests;
  for (const auto& file : files) digests += fmt::format("{:016x}", store::digest_of(file));
  return fnv1a(digests);
}

}  // namespace

Inputs inputs_of(const Study& study, const std::vector<fs::path>& more, const comm::Runtime& runtime) {
  const comm::Doing doing("read the inputs");
  std::vector<fs::path> paths;
  std::vector<std::function<std::uint64_t()>> contents;
  for (std::size_t t = 0; t < study.tasks.with_control(); ++t) {
    if (study.tasks.first_alike(t) != t) continue;
    paths.push_back(study.tasks.file(t));
    contents.emplace_back([&study, t] { return digest_of(study.tasks.data(t)); });
  }
  const auto add_model = [&](const fs::path& folder) {
    const store::TensorFolder model(folder);
    std::set<fs::path> files = {model.files()};
    for (const auto& tensor : model.tensors()) files.insert(model.file_of(tensor.first));
    for (const auto& file : files) store::watch(file);
    paths.emplace_back(model.files());
    contents.emplace_back([files] { return digest_of(files); });
  };
  for (const auto& regime : study.settings.given) {
    for (const auto t : study.tasks.all()) add_model(study.vectors.checkpoint_folder(regime, t));
  }
  for (const auto& path : more) {
    if (fs::is_directory(path)) {
      add_model(path);
      continue;
    }
    paths.push_back(path);
    contents.emplace_back([path] { return store::digest_of(path); });
  }
  // The numbers of a model are no model without what its configuration makes of them.
  const auto first_of_configuration = paths.size();
  paths.push_back(study.settings.model / "config.json");
  for (const auto& [name, text] : study.model.encoder().beside_config())
    paths.push_back(study.settings.model / name);
  for (auto i = first_of_configuration; i < paths.size(); ++i)
    contents.emplace_back([path = paths[i]] { return store::digest_of(path); });
  for (const auto& path : paths) store::watch(path);
  // The ranks of a host share the reading, which takes minutes where data sets are large. Each host reads
  // all: copies on its own disk may differ.
  const auto& world = runtime.world();
  const auto& ranks = runtime.ranks();
  const auto& mine = runtime.mine().host;
  const auto host = world.split(runtime.first_on_host(), world.rank(), "ranks of a host");
  auto digests = at::zeros({static_cast<std::int64_t>(paths.size()) + 1}, at::kLong);
  auto* values = digests.mutable_data_ptr<std::int64_t>();
  for (auto i = static_cast<std::size_t>(host.rank()); i < paths.size();
       i += static_cast<std::size_t>(host.size()))
    values[i] = static_cast<std::int64_t>(contents[i]());
  world.patient_barrier("reading the inputs");
  host.all_reduce_sum(digests, "digests of the inputs");
  values[paths.size()] = static_cast<std::int64_t>(fnv1a(study.model.fingerprint()));
  paths.push_back(study.settings.model);

  auto first = digests.clone();
  world.broadcast(first, 0, "digests of the inputs");
  const auto other = digests.ne(first).nonzero();
  const auto problem = schedule::first_problem(
      world,
      other.size(0) == 0
          ? ""
          : fmt::format("{}: has other contents on {} than on {}",
                        paths[static_cast<std::size_t>(other[0].item<std::int64_t>())].string(), mine,
                        ranks[0].host),
      "digests of the inputs");
  if (!problem.empty()) throw InputError(problem);
  store::require_unchanged();
  paths.pop_back();

  config::Values sections;
  auto& files = sections[""];
  files[study.settings.model.string()] = config::canonical(study.model.fingerprint());
  Inputs inputs;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (i == first_of_configuration) inputs.without_configuration = config::document(sections);
    files[paths[i].string()] = config::canonical(hexadecimal(static_cast<std::uint64_t>(values[i])));
  }
  inputs.text = config::document(sections);
  return inputs;
}

void link_inputs(const Study& study, const fs::path& run, bool makes_model) {
  for (std::size_t t = 0; t < study.tasks.with_control(); ++t)
    link_to(study.tasks.file(t), run / "data" / (study.tasks.name(t) + ".h5"));
  if (!makes_model) link_to(study.settings.model, run / "checkpoints" / "pretrained");
  for (const auto& regime : study.settings.given) {
    for (const auto t : study.tasks.all())
      link_to(study.vectors.checkpoint_folder(regime, t), run / "checkpoints" / regime / study.tasks.name(t));
  }
}

}  // namespace taugrid::study
