// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a run was computed from, by content: the model, the data sets and the checkpoints that are given.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <fstream>
#include <functional>

#include "suite/comm/communicator.hpp"
#include "suite/comm/operation.hpp"
#include "suite/config/canonical.hpp"
#include "suite/error.hpp"
#include "suite/experiments/study.hpp"

namespace taugrid::experiments {
namespace {

/// Of bytes, in whole words: data sets have gigabytes. Tells changes, not attacks.
class Digest {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* next = static_cast<const char*>(data);
    for (; bytes > 0;) {
      std::uint64_t word = 0;
      const auto part = std::min(bytes, sizeof word);
      std::memcpy(&word, next, part);
      state_ = (state_ ^ word) * 0x9e3779b97f4a7c15ULL;
      state_ ^= state_ >> 32;
      next += part;
      bytes -= part;
    }
  }
  void add(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    add(tensor.sizes().data(), tensor.sizes().size() * sizeof(std::int64_t));
    const auto plain = tensor.to(at::kCPU).contiguous();
    add(plain.const_data_ptr(), plain.nbytes());
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

std::uint64_t digest_of(const data::Task& task) {
  Digest digest;
  digest.add(task.head);
  digest.add(&task.logit_scale, sizeof task.logit_scale);
  for (const auto* values : {&task.mean, &task.std})
    digest.add(values->data(), values->size() * sizeof(float));
  for (const auto* split : {&task.train, &task.validation, &task.test}) {
    for (const auto* tensor : {&split->inputs, &split->labels, &split->lengths}) digest.add(*tensor);
  }
  return digest.value();
}

std::uint64_t digest_of(const std::filesystem::path& path) {
  Digest digest;
  std::ifstream file(path, std::ios::binary);
  for (std::vector<char> part(std::size_t{1} << 20); file;) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    digest.add(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) throw InputError(path.string() + ": cannot be read");
  return digest.value();
}

}  // namespace

std::string Study::inputs(const comm::Communicator& world) const {
  const comm::Doing doing("read the inputs");
  std::vector<std::filesystem::path> paths;
  std::vector<std::function<std::uint64_t()>> contents;
  for (std::size_t t = 0; t < tasks_and_control(); ++t) {
    paths.push_back(task_file(t));
    contents.emplace_back([this, t] { return digest_of(task(t)); });
  }
  for (const auto& regime : given_regimes_) {
    for (std::size_t t = 0; t < tasks(); ++t) {
      paths.push_back(checkpoint_folder(regime, t) / "model.safetensors");
      contents.emplace_back([path = paths.back()] { return digest_of(path); });
    }
  }
  // The ranks share the reading, which takes minutes where data sets are large.
  auto digests = at::zeros({static_cast<std::int64_t>(paths.size())}, at::kLong);
  auto* values = digests.mutable_data_ptr<std::int64_t>();
  for (auto i = static_cast<std::size_t>(world.rank()); i < paths.size();
       i += static_cast<std::size_t>(world.size()))
    values[i] = static_cast<std::int64_t>(contents[i]());
  world.patient_barrier("reading the inputs");
  world.all_reduce_sum(digests, "digests of the inputs");

  config::Values found;
  auto& files = found[""];
  files[settings_.model.string()] = config::canonical(fingerprint_);
  for (std::size_t i = 0; i < paths.size(); ++i)
    files[paths[i].string()] =
        config::canonical(fmt::format("{:016x}", static_cast<std::uint64_t>(values[i])));
  return config::document(found);
}

}  // namespace taugrid::experiments
