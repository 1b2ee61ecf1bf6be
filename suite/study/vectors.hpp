// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task vectors τ = θ* − θ0 by name, over the checkpoints' mapped files. Single vectors are kept in memory
// within the bound; what needs many of them (Gram matrices, sums, merges) visits them block by block, so that
// memory does not grow with the number of tasks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/range.hpp"
#include "kernels/weights/stretches.hpp"
#include "suite/comm/communicator.hpp"
#include "suite/study/memory_bound.hpp"
#include "suite/study/tasks.hpp"
#include "suite/study/theta_files.hpp"

namespace taugrid::study {

class Vectors {
 public:
  /// All arguments outlive this object. Throws InputError where given checkpoints started from another model,
  /// are of another architecture, or of a type less exact than θ0's file; in a dry run, those alone are
  /// looked at that are there.
  Vectors(const Settings& settings, const Model& model, const Tasks& tasks, const MemoryBound& bound,
          bool dry_run);

  /// Says where the run's own checkpoints are; to be called before any vector is asked for.
  void set_folder(std::filesystem::path run_folder) { folder_ = std::move(run_folder); }
  const std::filesystem::path& folder() const { return folder_; }
  /// The folder where the regime's model of a task is, or will be.
  std::filesystem::path checkpoint_folder(const std::string& regime, std::size_t t) const;
  std::filesystem::path joint_folder(const std::string& regime) const;
  /// Where a model on the way of its training is kept, by the mark's name ([finetune] keep); of a given
  /// regime, whose folder is another run's, below checkpoints/kept.
  std::filesystem::path kept_folder(const std::string& regime, std::size_t t, const std::string& mark) const;

  /// Keys of the units that make the regime's task vectors: none where its checkpoints are given.
  std::vector<std::string> needs(const std::string& regime, const std::vector<std::size_t>& tasks) const;
  /// Keys of the units that training the regime on task t goes on from: none where it starts at θ0.
  std::vector<std::string> start_needs(const std::string& regime, std::size_t t) const;

  /// τ [P] of task t, on the device; the latest are kept. Throws InputError, naming the folder, where the
  /// checkpoint is missing, of another architecture or of another θ0.
  at::Tensor vector(const std::string& regime, std::size_t t) const;
  /// Task t's fine-tuned model, which began at θ0 and is read part by part. Throws as vector().
  std::shared_ptr<const ThetaFile> file(const std::string& regime, std::size_t t) const {
    return open_all(begun(regime, {t})).front();
  }
  /// β* − β0 [B] of the buffers; undefined where the model has none.
  at::Tensor buffers(const std::string& regime, std::size_t t) const;
  /// Σ τ [P] over these tasks, in their order; the last one is kept.
  at::Tensor sum(const std::string& regime, const std::vector<std::size_t>& tasks) const;

  /// Numbers begin … end of several τ, one tensor a task, on the device.
  using Visitor = std::function<void(std::int64_t begin, std::span<const at::Tensor> blocks)>;
  /// Visits the numbers in `range` of these tasks' vectors, in blocks that begin at range.begin plus
  /// multiples of `align` numbers. What is visited is the same whether the vectors fit into memory or not.
  void visit(const std::string& regime, const std::vector<std::size_t>& tasks, Range range,
             std::int64_t align, const Visitor& visitor) const;

  /// As visit(), for kernels that subtract by themselves, where memory does not hold the vectors and their
  /// files can be read in place; otherwise false, and nothing is visited. Stretches lie in one parameter, but
  /// for those of `align` numbers that do not: their differences are made.
  bool visit_files(const std::string& regime, const std::vector<std::size_t>& tasks, Range range,
                   std::int64_t align, const weights::StretchVisitor& visitor) const;

  /// As visit(), of θ* − start of any such models. Reads their files, whatever is kept.
  void visit_from(const std::vector<Begun>& models, Range range, std::int64_t align,
                  const Visitor& visitor) const;

  /// ⟨τᵢ, τⱼ⟩ [T,T] of these tasks, float64 on the host, in or out of core. The group's ranks share the
  /// visit; on a host the bits do not depend on how many they are. `also` sees what this rank visits, on the
  /// device.
  using Seer = std::function<void(std::int64_t begin, const weights::Stretches& tau)>;
  at::Tensor gram(const comm::Communicator& group, const std::string& regime,
                  const std::vector<std::size_t>& tasks, const Seer& also = {}) const;
  /// The same of models that were kept at a mark.
  at::Tensor gram_at(const comm::Communicator& group, const std::string& regime,
                     const std::vector<std::size_t>& tasks, const std::string& mark) const;
  /// The same of models of any starts.
  at::Tensor gram_from(const comm::Communicator& group, const std::vector<Begun>& models) const;

  /// How many vectors are kept in memory; whether these are as many as there are tasks.
  std::size_t kept() const;
  bool all_kept() const { return tasks_.size() <= kept(); }
  /// Numbers of one vector in a block of visit() over so many, a multiple of `align`.
  std::int64_t block_of(std::size_t count, std::int64_t align) const;

 private:
  void check_given(bool dry_run) const;
  void check_given_start() const;
  void require_frozen(const autodiff::Layout& layout, const at::Tensor& vector, const char* what,
                      const std::filesystem::path& folder) const;
  bool are_kept(const std::string& regime, const std::vector<std::size_t>& tasks) const;
  std::vector<Begun> begun(const std::string& regime, const std::vector<std::size_t>& tasks) const;
  /// The models in these folders, as fine-tuned from θ0.
  std::vector<Begun> of_theta0(const std::vector<std::filesystem::path>& folders) const;
  using Visit = std::function<void(Range range, std::int64_t align, const weights::StretchVisitor& visitor)>;
  at::Tensor gram_of(const comm::Communicator& group, std::size_t count, const Visit& visit) const;
  bool visit_files(const std::vector<Begun>& models, Range range, std::int64_t align,
                   const weights::StretchVisitor& visitor) const;
  at::Tensor find(const std::string& key) const;
  std::shared_ptr<const ThetaFile> open(const Begun& model) const;
  std::vector<std::shared_ptr<const ThetaFile>> open_all(const std::vector<Begun>& models) const;

  const Settings& settings_;
  const Model& model_;
  const Tasks& tasks_;
  std::size_t bytes_;
  std::filesystem::path folder_;
  mutable std::list<std::pair<std::string, at::Tensor>> kept_;  // newest first
  mutable std::pair<std::string, at::Tensor> sum_;
  mutable std::map<std::string, std::shared_ptr<const ThetaFile>> opened_;  // by folder: those of visits
};

}  // namespace taugrid::study
