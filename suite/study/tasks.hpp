// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The tasks of a run: their names, their data, and the pairs that are measured.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "suite/data/packed.hpp"
#include "suite/study/model.hpp"

namespace taugrid::study {

using data::Split;
using data::split_name;

class Tasks {
 public:
  /// Reads every task, and the control where there is one. Throws InputError, also for a task of another
  /// modality, size or width than the model's. The model outlives this object.
  Tasks(const Settings& settings, const Model& model, InputFiles& files);

  std::size_t size() const { return names_.size() - (has_control_ ? 1 : 0); }
  std::vector<std::size_t> all() const;  ///< 0, 1, …, without the control
  bool has_control() const { return has_control_; }
  /// The control's number, wherever a task's is asked for (papers 1 and 3: ImageNet).
  std::size_t control() const { return size(); }
  /// The number of all tasks, and of the control if there is one.
  std::size_t with_control() const { return names_.size(); }
  const std::string& name(std::size_t t) const { return names_[t]; }
  const data::Task& data(std::size_t t) const { return *tasks_[t]; }
  /// Whether task t's file is missing, or wrong: its numbers of points are not its own.
  bool is_stand_in(std::size_t t) const { return data(t).modality.empty(); }
  /// The name of task t's data: its own, but for further fine-tunings of one task.
  const std::string& data_name(std::size_t t) const { return sources_[t].data; }
  std::filesystem::path file(std::size_t t) const { return folder_ / (sources_[t].data + ".h5"); }
  /// The first task that has the same data: t itself, but for further fine-tunings of one task.
  std::size_t first_alike(std::size_t t) const { return sources_[t].first; }
  /// What the order of task t's training points is drawn by: its name, or, of one of several fine-tunings of
  /// the same data, the data's and a seed.
  const std::string& drawn_by(std::size_t t) const { return sources_[t].drawn_by; }

  /// The pairs that are measured, in the order (0,1), (0,2), ….
  const std::vector<std::pair<std::size_t, std::size_t>>& pairs() const { return pairs_; }
  /// The pairs that task t is in, by their number.
  std::vector<std::size_t> pairs_of(std::size_t t) const;
  /// The other task of a pair that task t is in.
  std::size_t partner(std::size_t p, std::size_t t) const {
    return pairs_[p].first == t ? pairs_[p].second : pairs_[p].first;
  }
  std::string pair_name(std::size_t p) const { return name(pairs_[p].first) + "+" + name(pairs_[p].second); }

 private:
  void add(std::size_t t, const Settings& settings, InputFiles& files);
  void read(const std::string& name, const Settings& settings, InputFiles& files);

  const Model& model_;
  std::filesystem::path folder_;
  std::vector<std::string> names_;  // the control last
  bool has_control_;
  std::vector<std::pair<std::size_t, std::size_t>> pairs_;
  std::vector<std::shared_ptr<const data::Task>> tasks_;  // those alike have one
  struct Source {
    std::string data, drawn_by;
    std::size_t first;
  };
  std::vector<Source> sources_;
};

}  // namespace taugrid::study
