// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a run was computed from, by content: the model, the data sets and the checkpoints that are given.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <fstream>

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
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

std::string digest_of(const data::Task& task) {
  Digest digest;
  digest.add(task.head);
  digest.add(&task.logit_scale, sizeof task.logit_scale);
  for (const auto* values : {&task.mean, &task.std})
    digest.add(values->data(), values->size() * sizeof(float));
  for (const auto* split : {&task.train, &task.validation, &task.test}) {
    for (const auto* tensor : {&split->inputs, &split->labels, &split->lengths}) digest.add(*tensor);
  }
  return digest.text();
}

std::string digest_of(const std::filesystem::path& path) {
  Digest digest;
  std::ifstream file(path, std::ios::binary);
  for (std::vector<char> part(std::size_t{1} << 20); file;) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    digest.add(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) throw InputError(path.string() + ": cannot be read");
  return digest.text();
}

}  // namespace

std::string Study::inputs() const {
  config::Values values;
  auto& files = values[""];
  const auto put = [&](const std::filesystem::path& path, const std::string& digest) {
    files[path.string()] = config::canonical(digest);
  };
  put(settings_.model, fingerprint_);
  for (std::size_t t = 0; t < tasks_and_control(); ++t) put(task_file(t), digest_of(task(t)));
  for (const auto& regime : given_regimes_) {
    for (std::size_t t = 0; t < tasks(); ++t) {
      const auto path = checkpoint_folder(regime, t) / "model.safetensors";
      put(path, digest_of(path));
    }
  }
  return config::document(values);
}

}  // namespace taugrid::experiments
