// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/merge.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "suite/config/canonical.hpp"
#include "suite/error.hpp"
#include "suite/merging/configuration.hpp"
#include "suite/merging/merged_files.hpp"
#include "suite/merging/model_card.hpp"
#include "suite/merging/side_files.hpp"
#include "suite/merging/stages.hpp"
#include "suite/merging/under_way.hpp"
#include "suite/merging/vocabulary.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/quoted.hpp"
#include "suite/store/unfinished_folder.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;

/// Throws InputError where the merged folder's place is not free, or is an input's.
void require_free(const Recipe& recipe) {
  const auto refuse = [&](const std::string& problem) {
    throw InputError("out = " + config::canonical(recipe.out.string()) + ": " + problem);
  };
  auto inputs = recipe.models;
  inputs.push_back(recipe.base);
  for (const auto& slice : recipe.slices) inputs.push_back(slice.base_model);
  const auto place = store::UnfinishedFolder::place(recipe.out);
  for (const auto& input : inputs) {
    if (same_folder(recipe.out, input)) refuse("is an input of this merge, which would be overwritten");
    std::error_code unknown;
    for (auto folder = fs::weakly_canonical(input, unknown); folder.has_relative_path();
         folder = folder.parent_path())
      if (same_folder(place, folder))
        refuse("is built in " + place.string() +
               ", where an input of this merge lies; expected another name");
  }
  std::error_code error;
  if (fs::is_symlink(recipe.out, error) ||
      (fs::exists(recipe.out, error) &&
       !(fs::is_directory(recipe.out, error) && fs::is_empty(recipe.out, error))))
    refuse("is there already; expected a folder that is not, or is empty");
}

/// What the merged model's bytes depend on: the recipe, what computes, and each file of the inputs by size
/// and time.
std::string what_is_made(const Recipe& recipe, const std::vector<std::unique_ptr<Stage>>& stages,
                         const std::string& made_by) {
  auto text = fmt::format("# {}\n# {}, {} threads\n{}", made_by, at::get_cpu_capability(),
                          at::get_num_threads(), recipe.resolved);
  std::set<fs::path> folders(recipe.models.begin(), recipe.models.end());
  folders.insert(recipe.base);
  for (const auto& stage : stages) folders.insert(stage->start().folder());
  for (const auto& folder : folders) {
    std::vector<std::string> files;
    const auto add = [&](const fs::path& path) {
      std::error_code error;
      if (!fs::is_regular_file(path, error)) return false;
      files.push_back(fmt::format("# {} {} {}\n", path.string(), fs::file_size(path, error),
                                  fs::last_write_time(path, error).time_since_epoch().count()));
      return true;
    };
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::error_code error;
      if (add(entry.path()) || !fs::is_directory(entry.path(), error)) continue;
      // Modules of a sentence model, and further templates.
      for (fs::directory_iterator inner(entry.path(), error), end; !error && inner != end;
           inner.increment(error))
        add(inner->path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) text += file;
  }
  return text;
}

/// Bytes of all files that are read. Several stages may read the same one.
double bytes_of_inputs(const Recipe& recipe, const std::vector<std::unique_ptr<Stage>>& stages) {
  std::map<fs::path, double> read;
  for (const auto& stage : stages) {
    if (!stage->is_of_models()) read[stage->start().folder()] = static_cast<double>(stage->start().bytes());
    for (std::size_t i = 0; i < stage->models().size(); ++i)
      read[recipe.models[stage->slice().sources[i].model]] =
          static_cast<double>(bytes_of(stage->models()[i]));
  }
  double all = 0;
  for (const auto& entry : read) all += entry.second;
  return all;
}

/// Bytes of the rows that models get of a common vocabulary: the models share them.
double bytes_of_rows(const std::vector<std::unique_ptr<Stage>>& stages) {
  double all = 0;
  for (const auto& stage : stages)
    for (const auto& [name, info] : stage->start().tensors()) {
      auto most = stage->start().bytes_of_rows(name);
      for (const auto& model : stage->models())
        if (const auto* weights = std::get_if<Weights>(&model); weights != nullptr && weights->has(name))
          most = std::max(most, weights->bytes_of_rows(name));
      all += static_cast<double>(most);
    }
  return all;
}

/// What the merged model takes each of so many ranks, about.
std::vector<Load> loads_of(const Recipe& recipe, const std::vector<std::unique_ptr<Stage>>& stages,
                           int ranks) {
  double numbers = 0, vectors = 0;
  for (const auto& stage : stages) {
    const auto length = static_cast<double>(stage->vectors().length());
    numbers += length;
    vectors += length * static_cast<double>(stage->vectors().count());
  }
  const auto read_a_number = bytes_of_inputs(recipe, stages) / std::max(vectors, 1.0);
  std::vector<Load> all(static_cast<std::size_t>(ranks));
  if (recipe.adapter) {
    all = adapter_loads(recipe, *stages.front(), read_a_number, ranks);
  } else {
    const std::function<void()> go_on = [] {};
    const auto written = static_cast<double>(MergedFiles(recipe, stages, go_on).bytes());
    for (const auto& stage : stages) {
      const auto shares = stage->shares(ranks, [](Range range) { return std::vector<Range>{range}; });
      for (std::size_t r = 0; r < all.size(); ++r) {
        all[r].read += read_a_number * shares[r].visits;
        all[r].written += written / std::max(numbers, 1.0) * shares[r].numbers;
        all[r].flops += shares[r].flops;
        all[r].memory = std::max(all[r].memory, shares[r].memory);
      }
    }
  }
  constexpr double program = 100e6;  // before the first block, and what waits to be written
  const double everywhere = program + bytes_of_rows(stages);
  for (auto& load : all) load.memory += everywhere;
  return all;
}

/// The folder as one rank builds it: all but the numbers.
void lay_out(const Recipe& recipe, const std::vector<std::unique_ptr<Stage>>& stages,
             const Vocabulary* vocabulary, const std::vector<fs::path>& whole, const MergedFiles& files,
             const fs::path& folder, const std::function<void()>& go_on) {
  copy_side_files(recipe.base, vocabulary != nullptr ? vocabulary->source() : recipe.base, whole, folder,
                  go_on);
  if (vocabulary != nullptr) vocabulary->write(folder);
  if (!recipe.chat_template.empty()) write_chat_template(recipe, folder);
  edit_configuration(recipe, stages, vocabulary, folder / "config.json");
  files.create(folder);
}

/// merge.toml and the card.
void write_records(const Recipe& recipe, const std::string& made_by, const Report& report,
                   const fs::path& folder) {
  auto comment = fmt::format("# {}\n# {} numbers, density {:.6f} of the merged vector\n", made_by,
                             report.numbers, report.merged.density);
  for (const auto& line : report.notes) comment += "# " + line + "\n";
  for (const auto& matrix : report.matrices)
    comment += fmt::format("# {}: rank {}, relative error {:.4g}\n", store::quoted(matrix.name), matrix.rank,
                           matrix.error);
  const auto record = comment + recipe.resolved;
  store::write_atomically(folder / "merge.toml", record);
  store::write_atomically(folder / "README.md",
                          model_card(recipe, meaning_of(recipe.method_name).text, made_by, record));
}

/// How far a rank has come.
struct Stand {
  double planned = 0;     ///< numbers of vectors that it goes through; 0: not known yet
  bool is_begun = false;  ///< whether what it writes stays for the next start
};

/// Rank 0 has `unfinished`, which is in `folder`.
void write_model(const Recipe& recipe, const std::vector<std::unique_ptr<Stage>>& stages,
                 const Vocabulary* vocabulary, const std::vector<fs::path>& whole, const fs::path& folder,
                 store::UnfinishedFolder* unfinished, const Making& making,
                 const std::function<void()>& go_on, Stand& stand, Report& report) {
  MergedFiles files(recipe, stages, go_on);
  if (unfinished != nullptr) {
    if (unfinished->goes_on() && !files.stand_in(folder)) unfinished->start_anew();
    if (!unfinished->goes_on()) {
      lay_out(recipe, stages, vocabulary, whole, files, folder, go_on);
      unfinished->begin();
    }
  }
  making.team.wait_for_all("layout of the merged folder");
  stand.is_begun = true;
  files.open(folder, making.team.size() > 1);
  std::vector<std::int64_t> lengths;
  for (const auto& stage : stages) lengths.push_back(stage->vectors().length());
  UnderWay under_way(making.team, folder, lengths, [&] { files.flush(); });
  try {
    std::vector<Stage::Share> shares;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      auto all = stages[s]->shares(making.team.size(), [&](Range range) { return under_way.left(s, range); });
      shares.push_back(std::move(all[static_cast<std::size_t>(making.team.rank())]));
      stand.planned += shares.back().visits;
    }
    const auto all = static_cast<double>(std::max<std::int64_t>(report.numbers, 1));
    for (const auto& stage : stages) files.carry_over(*stage, making.team);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto& stage = *stages[s];
      const auto merged = stage.merge(
          shares[s], s, under_way, [&](const std::string& name, std::int64_t from, const at::Tensor& part) {
            files.write(stage, name, from, part);
          });
      const double share = static_cast<double>(stage.vectors().length()) / all;
      report.merged.density += share * merged.density;
      report.merged.passes += share * merged.passes;
    }
    report.read = report.bytes * report.merged.passes;
    report.written = making.team.sums({files.written()}).front();
  } catch (const Interrupted&) {
    under_way.settle();
    throw;
  }
  files.flush();
  store::require_unchanged();
  making.team.wait_for_all("end of the merge");
}

}  // namespace

std::vector<Load> loads(const Recipe& recipe, int ranks) {
  const std::function<void()> go_on = [] {};
  const auto vocabulary = recipe.tokenizer ? std::make_unique<Vocabulary>(recipe) : nullptr;
  const auto stages = stages_of(recipe, vocabulary.get(), go_on);
  return loads_of(recipe, stages, ranks);
}

Report merge(const Recipe& recipe, const Making& making) {
  const at::NoGradGuard no_grad;
  const bool is_first = making.team.rank() == 0;
  if (is_first) require_free(recipe);
  const auto vocabulary = recipe.tokenizer ? std::make_unique<Vocabulary>(recipe) : nullptr;
  std::vector<std::unique_ptr<Stage>> stages;
  Stand stand;
  const std::function<void()> go_on = [&, first_thread = std::this_thread::get_id()] {
    if (std::this_thread::get_id() != first_thread) return;  // others end when the first does
    making.go_on();
    if (stand.planned == 0) return;
    double come_to = 0;
    for (const auto& stage : stages) come_to += stage->vectors().come_to();
    making.see(std::min(1.0, come_to / stand.planned));
  };
  stages = stages_of(recipe, vocabulary.get(), go_on);
  Report report;
  report.notes = recipe.notes;
  const auto note = [&](const std::vector<std::string>& lines) {
    for (const auto& line : lines)  // slices of one model say the same
      if (std::find(report.notes.begin(), report.notes.end(), line) == report.notes.end())
        report.notes.push_back(line);
  };
  std::vector<fs::path> whole;  // adapters have no side files that a result needs
  for (const auto& stage : stages) {
    report.numbers += stage->vectors().length();
    note(stage->start().notes());
    for (std::size_t i = 0; i < stage->models().size(); ++i) {
      const auto& model = stage->models()[i];
      note(notes_of(model));
      if (std::holds_alternative<Weights>(model))
        whole.push_back(recipe.models[stage->slice().sources[i].model]);
    }
    note(stage->vectors().matched().notes);
  }
  if (vocabulary != nullptr) note(vocabulary->notes());
  report.bytes = bytes_of_inputs(recipe, stages);

  const auto folder = store::UnfinishedFolder::place(recipe.out);
  const auto what = what_is_made(recipe, stages, making.made_by);
  if (making.team.of_first(what, "inputs of the merge") != what)
    throw InputError(
        recipe.where +
        ": the ranks see other inputs than the first, or have another processor; expected files that "
        "nobody changes meanwhile, and hosts of one kind");
  std::optional<store::UnfinishedFolder> unfinished;
  if (is_first) unfinished.emplace(recipe.out, what);
  const fs::path first_made =
      making.team.of_first(is_first ? unfinished->first_made().string() : "", "folder of the merge");
  try {
    if (is_first && making.plan) making.plan(loads_of(recipe, stages, making.team.size()));
    if (recipe.adapter) {
      stand.is_begun = true;
      auto adapter =
          write_adapter(recipe, *stages.front(), folder, unfinished ? &*unfinished : nullptr, making, go_on);
      report.merged = adapter.merged;
      report.read = report.bytes * report.merged.passes;
      report.written = adapter.written;
      report.matrices = std::move(adapter.matrices);
      report.whole = adapter.whole.size();
      note(adapter.notes);
      store::require_unchanged();
    } else {
      write_model(recipe, stages, vocabulary.get(), whole, folder, unfinished ? &*unfinished : nullptr,
                  making, go_on, stand, report);
    }
    if (is_first) write_records(recipe, making.made_by, report, folder);
  } catch (const Interrupted& stopped) {
    throw Interrupted(
        std::string(stopped.what()) +
        (stand.is_begun ? "; what is finished stays in " + folder.string() + ", and the same command goes on"
                        : std::string("; nothing was written")));
  } catch (const InputError&) {
    // Files stay open: who still writes does not fail for it.
    store::UnfinishedFolder::remove(folder, first_made);
    throw;
  }
  if (is_first) {
    unfinished->end();
    UnderWay::remove_journals(folder);
    if (recipe.adapter) remove_making(folder);
    unfinished->commit();
  }
  making.look();
  return report;
}

}  // namespace taugrid::merging
