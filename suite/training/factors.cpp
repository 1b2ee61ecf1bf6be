// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/training/factors.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "kernels/full_products.hpp"
#include "suite/store/adapter_writer.hpp"

namespace taugrid::training {
namespace {

at::Tensor matrix_in(const at::Tensor& flat, std::int64_t begin, const study::AdaptedMatrix& matrix) {
  return flat.narrow(0, begin, matrix.parameter.count).view({matrix.rows(), matrix.columns()});
}

}  // namespace

Factors::Factors(const study::LowRank& low_rank, const autodiff::Layout& layout,
                 const std::vector<bool>& trained, const at::Tensor& start, std::uint64_t seed)
    : low_rank_(low_rank), matrices_(low_rank.matrices(layout, trained)), start_(start.detach()) {
  for (const auto& matrix : matrices_) {
    const auto module = study::module_of(matrix.parameter);
    factors_.add(matrix.parameter.kind, {module + ".lora_A.weight"}, {low_rank.rank, matrix.columns()});
    factors_.add(matrix.parameter.kind, {module + ".lora_B.weight"}, {matrix.rows(), low_rank.rank});
  }
  auto values = at::zeros({factors_.size()}, at::kFloat);
  auto generator = at::detail::createCPUGenerator(seed);
  const auto views = factors_.views(values);
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const double bound = 1 / std::sqrt(static_cast<double>(matrices_[i].columns()));
    views[2 * i].uniform_(-bound, bound, generator);
  }
  values_ = values.to(start.device());
  views_ = factors_.views(values_);
}

at::Tensor Factors::gradient(const at::Tensor& of_trained_blocks) const {
  const at::NoGradGuard no_grad;
  auto gradient = at::empty_like(values_);
  const auto parts = factors_.views(gradient);
  const double s = low_rank_.scale();
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const auto of_matrix = matrix_in(of_trained_blocks, matrices_[i].in_gradient, matrices_[i]);
    auto of_a = parts[2 * i], of_b = parts[2 * i + 1];
    at::mm_out(of_a, views_[2 * i + 1].t(), of_matrix).mul_(s);
    at::mm_out(of_b, of_matrix, views_[2 * i].t()).mul_(s);
  }
  return gradient;
}

void Factors::move(at::Tensor& theta) const {
  const at::NoGradGuard no_grad;
  const FullProducts full;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const auto begin = matrices_[i].parameter.offset;
    auto matrix = matrix_in(theta, begin, matrices_[i]);
    at::addmm_out(matrix, matrix_in(start_, begin, matrices_[i]), views_[2 * i + 1], views_[2 * i], 1,
                  low_rank_.scale());
  }
}

void Factors::save(store::TensorFile& file) const { file.tensors["factors"] = values_; }

void Factors::write_adapter(const std::filesystem::path& folder, const std::string& base) const {
  store::AdapterWriter::Room room;
  for (const auto& matrix : matrices_) room.modules.push_back(study::module_of(matrix.parameter));
  store::AdapterWriter adapter(folder, base, {low_rank_.alpha, static_cast<double>(low_rank_.rank)}, room);
  // A model holds all layers of attention and MLPs alike.
  if (!matrices_.empty() && matrices_.front().parameter.transposed) adapter.store_transposed();
  const auto views = factors_.views(values_.to(at::kCPU));
  for (std::size_t i = 0; i < matrices_.size(); ++i)
    adapter.add(room.modules[i], views[2 * i], views[2 * i + 1]);
  adapter.commit();
}

}  // namespace taugrid::training
