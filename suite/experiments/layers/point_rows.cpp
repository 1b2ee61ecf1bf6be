// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/layers/point_rows.hpp"

#include <ATen/ATen.h>

#include <utility>

#include "suite/comm/clock.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::experiments {
namespace {

constexpr double save_rows_every = 30;  // seconds

}  // namespace

PointRows::PointRows(const schedule::UnitContext& context, std::map<std::string, at::Tensor> tensors)
    : group_(context.group),
      path_(context.scratch / ("points-" + std::to_string(context.group.rank()) + ".safetensors")),
      tensors_(std::move(tensors)),
      saved_(comm::steady_seconds()) {
  if (store::is_there(path_)) {
    auto saved = store::read_safetensors(path_).tensors;
    rounds_ = saved.at("rounds").item<std::int64_t>();
    for (auto& [name, rows] : tensors_) rows.copy_(saved.at(name));
  }
  if (group_.size() > 1)  // one of the ranks may have been killed before it saved
    rounds_ = group_.all_gather(at::full({1}, rounds_, at::kLong), "saved points").min().item<std::int64_t>();
}

void PointRows::done() {
  ++rounds_;
  if (comm::steady_seconds() - saved_ > save_rows_every) save();
}

void PointRows::save() {
  saved_ = comm::steady_seconds();
  store::TensorFile file;
  for (const auto& [name, rows] : tensors_) file.tensors[name] = rows.cpu();
  file.tensors["rounds"] = at::full({}, rounds_, at::kLong);
  store::write_safetensors(path_, file);
}

std::map<std::string, at::Tensor> PointRows::gathered(std::int64_t n) const {
  auto all = tensors_;
  for (auto& [name, rows] : all)
    rows = (group_.size() > 1 ? group_.all_gather(rows, "gathering points") : rows).narrow(0, 0, n).clone();
  return all;
}

std::map<std::string, at::Tensor> PointRows::summed() const {
  auto all = tensors_;
  for (auto& [name, rows] : all) {
    rows = rows.clone();
    group_.all_reduce_sum(rows, "adding layers");
  }
  return all;
}

}  // namespace taugrid::experiments
