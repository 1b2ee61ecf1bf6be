// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/checkpoints.hpp"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "kernels/weights/bfloat16.hpp"
#include "kernels/weights/subtract.hpp"
#include "suite/error.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/models/tensor_names.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {

using store::quoted;

namespace {

std::vector<const Weights*> whole_ones(const std::vector<Model>& models) {
  std::vector<const Weights*> whole;
  for (const auto& model : models) {
    if (const auto* weights = std::get_if<Weights>(&model)) whole.push_back(weights);
  }
  return whole;
}

std::filesystem::path folder_of(const Model& model) {
  return std::visit([](const auto& its) { return its.folder(); }, model);
}

/// The type of numbers(): rows that were arranged are float32.
at::ScalarType type_of(const Weights& weights, const std::string& name) {
  return weights.is_arranged(name) ? at::kFloat : weights.tensors().at(name).scalar;
}

const std::uint16_t* upper_halves(const at::Tensor& numbers) {
  return static_cast<const std::uint16_t*>(numbers.const_data_ptr());
}

/// The same numbers in float32, in `out`, where they have another type.
at::Tensor as_float(const at::Tensor& numbers, at::Tensor out = {}) {
  if (numbers.scalar_type() == at::kFloat) return numbers;
  if (!out.defined()) out = at::empty(numbers.sizes(), at::kFloat);
  if (numbers.scalar_type() != at::kBFloat16) return out.copy_(numbers);
  weights::widen(upper_halves(numbers), out.mutable_data_ptr<float>(), numbers.numel());
  return out;
}

}  // namespace

Weights open_weights(const std::filesystem::path& folder) {
  Weights weights(folder);
  weights.rename(models::current_name);
  return weights;
}

Model open_model(const std::filesystem::path& folder, const Weights& theta0) {
  if (Adapter::is_in(folder)) return Adapter(folder, theta0);
  return open_weights(folder);
}

std::uint64_t bytes_of(const Model& model) {
  return std::visit([](const auto& its) { return its.bytes(); }, model);
}

const std::vector<std::string>& notes_of(const Model& model) {
  return std::visit(
      [](const auto& its) -> const auto& { return its.notes(); }, model);
}

CheckpointVectors::CheckpointVectors(const Weights& theta0_weights, const std::vector<Model>& models,
                                     From from, std::function<void()> go_on)
    : start_(theta0_weights),
      models_(models),
      from_zero_(from == From::zero),
      go_on_(std::move(go_on)),
      matched_(match_tensors(start_, whole_ones(models))) {
  const std::set<std::string> merged(matched_.merged.begin(), matched_.merged.end());
  for (const auto& model : models_) {
    const auto* adapter = std::get_if<Adapter>(&model);
    for (const auto& name : adapter == nullptr ? std::vector<std::string>() : adapter->changed()) {
      if (!merged.contains(name))
        throw InputError(adapter->folder().string() + ": changes " + quoted(name) +
                         ", which is not merged; expected a tensor that all models have");
    }
  }
  std::int64_t length = 0;
  for (const auto& name : matched_.merged) {
    const auto& shape = start_.tensors().at(name).shape;
    const auto count = c10::multiply_integers(shape);
    tensors_.push_back({name, shape, {length, count}});
    length += count;
  }
}

std::unique_ptr<CheckpointVectors> CheckpointVectors::again(std::function<void()> go_on) const {
  auto other = std::make_unique<CheckpointVectors>(*this);
  other->go_on_ = std::move(go_on);
  other->sum_.reset();
  other->start_of_sum_.reset();
  return other;
}

at::Tensor CheckpointVectors::start(const NamedTensor& tensor, std::int64_t from, std::int64_t count,
                                    at::Tensor& buffer) const {
  if (!from_zero_) return start_.numbers(tensor.name, from, count, buffer);
  if (!buffer.defined() || buffer.numel() < count) buffer = at::zeros({count}, at::kFloat);
  return buffer.narrow(0, 0, count);
}

void CheckpointVectors::require_one_start() const {
  const Weights* first = nullptr;
  for (const auto* model : whole_ones(models_)) {
    const auto start = models::start_of(*model);
    if (start.empty()) continue;
    if (first == nullptr) first = model;
    if (start != models::start_of(*first))
      throw InputError(
          fmt::format("{}: was fine-tuned from another θ0 ({}) than {} ({}); expected models of one",
                      model->folder().string(), start, first->folder().string(), models::start_of(*first)));
  }
}

void CheckpointVectors::each_tensor(Range range,
                                    const std::function<void(const NamedTensor&, Range)>& see) const {
  auto next = std::upper_bound(tensors_.begin(), tensors_.end(), range.begin,
                               [](std::int64_t at, const auto& tensor) { return at < tensor.range.end(); });
  for (; next != tensors_.end() && next->range.begin < range.end(); ++next) {
    const auto begin = std::max(range.begin, next->range.begin);
    const auto count = std::min(range.end(), next->range.end()) - begin;
    if (count > 0) see(*next, {begin, count});
  }
}

bool CheckpointVectors::are_bfloat16(const std::string& name, const Weights& model) const {
  return model.is_on_pages(name) && type_of(model, name) == at::kBFloat16 &&
         (from_zero_ || type_of(start_, name) == at::kBFloat16);
}

void CheckpointVectors::do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                                 const Visitor& visitor) const {
  const auto size = std::min(stretch(which.size(), align, from_files), range.count);
  const auto memory = at::empty({static_cast<std::int64_t>(which.size()) + 1, size}, at::kFloat);
  std::vector<at::Tensor> stretches(which.size());
  for (auto begin = range.begin; begin < range.end(); begin += size) {
    const auto n = std::min(size, range.end() - begin);
    *come_to_ += share_ * static_cast<double>(n) * static_cast<double>(which.size());
    go_on_();
    each_tensor({begin, n}, [&](const NamedTensor& tensor, Range part) {
      // One copy of θ0 and one of a model at a time, gone before the visitor begins: a stretch may be a whole
      // matrix.
      at::Tensor copy_of_start, copy_of_model;
      const auto from = part.begin - tensor.range.begin, to = part.begin - begin;
      const auto piece = [&](const Weights& weights, std::int64_t row, at::Tensor& buffer) {
        const auto there = weights.numbers(tensor.name, from, part.count, buffer);
        if (there.scalar_type() == at::kFloat) return there;
        return as_float(there, memory[row].narrow(0, to, part.count));
      };
      const auto last = static_cast<std::int64_t>(which.size());
      at::Tensor start_in_float;
      const auto start = [&]() -> const at::Tensor& {  // made where it is asked for
        if (!start_in_float.defined())
          start_in_float = from_zero_ ? memory[last].narrow(0, to, part.count).zero_()
                                      : piece(start_, last, copy_of_start);
        return start_in_float;
      };
      std::vector<const std::uint16_t*> halves;
      std::vector<float*> tau_of_halves;
      for (std::size_t i = 0; i < which.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i);
        auto out = memory[row].narrow(0, to, part.count);
        if (which[i] == theta0) {
          out.copy_(start());
          continue;
        }
        const auto& model = models_[which[i]];
        if (const auto* adapter = std::get_if<Adapter>(&model)) {
          adapter->tau(tensor.name, from, start(), out);
          if (adapter->changes(tensor.name) && !at::isfinite(out).all().item<bool>())
            refuse_not_finite(adapter->folder(), tensor, start());
          continue;
        }
        const auto& weights = std::get<Weights>(model);
        auto* tau = out.mutable_data_ptr<float>();
        if (are_bfloat16(tensor.name, weights)) {  // all of these in one pass, below
          halves.push_back(upper_halves(weights.numbers(tensor.name, from, part.count, copy_of_model)));
          tau_of_halves.push_back(tau);
          continue;
        }
        const auto theta = piece(weights, row, copy_of_model);
        const auto* tuned = theta.const_data_ptr<float>();
        if (!weights::subtract({&tuned, 1}, start().const_data_ptr<float>(), {&tau, 1}, part.count))
          refuse_not_finite(weights.folder(), tensor, start(), piece(weights, row, copy_of_model));
      }
      if (halves.empty()) return;
      at::Tensor base;
      if (!from_zero_) base = start_.numbers(tensor.name, from, part.count, copy_of_start);
      if (weights::subtract(halves, from_zero_ ? nullptr : upper_halves(base), tau_of_halves, part.count))
        return;
      for (std::size_t i = 0; i < which.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i);
        if (which[i] == theta0 || at::isfinite(memory[row].narrow(0, to, part.count)).all().item<bool>())
          continue;
        const auto& model = models_[which[i]];
        const auto* weights = std::get_if<Weights>(&model);
        const auto theta = weights != nullptr ? piece(*weights, row, copy_of_model) : at::Tensor();
        refuse_not_finite(folder_of(model), tensor, start(), theta);
      }
    });
    for (std::size_t i = 0; i < which.size(); ++i)
      stretches[i] = memory[static_cast<std::int64_t>(i)].narrow(0, 0, n);
    visitor(begin, stretches);
  }
}

void CheckpointVectors::do_visit_stretches(const std::vector<std::size_t>& which, Range range,
                                           const StretchVisitor& visitor, double share) const {
  const auto before = std::exchange(share_, share);
  constexpr auto most = weights::stretch_on_files;
  std::vector<at::Tensor> theta(which.size()), buffers(which.size());
  at::Tensor buffer_of_start;
  for (auto begin = range.begin; begin < range.end(); begin += most) {
    go_on_();
    each_tensor({begin, std::min(most, range.end() - begin)}, [&](const NamedTensor& tensor, Range part) {
      const auto piece = [&](const Weights& weights, at::Tensor& copy) {
        return weights.numbers(tensor.name, part.begin - tensor.range.begin, part.count, copy);
      };
      const auto start = this->start(tensor, part.begin - tensor.range.begin, part.count, buffer_of_start);
      bool as_they_are = start.scalar_type() == at::kFloat;
      for (std::size_t i = 0; i < which.size() && as_they_are; ++i) {
        const auto* weights = std::get_if<Weights>(&models_[which[i]]);
        if (weights == nullptr) return TaskVectors::do_visit_stretches(which, part, visitor, share);
        theta[i] = piece(*weights, buffers[i]);
        as_they_are = theta[i].scalar_type() == at::kFloat;
      }
      if (!as_they_are) return TaskVectors::do_visit_stretches(which, part, visitor, share);
      *come_to_ += share * static_cast<double>(part.count) * static_cast<double>(which.size());
      if (visitor(part.begin, {theta, start})) return;
      for (std::size_t i = 0; i < which.size(); ++i) {
        if (at::isfinite(theta[i] - start).all().item<bool>()) continue;
        const auto& folder = std::get<Weights>(models_[which[i]]).folder();
        refuse_not_finite(folder, tensor, start, theta[i]);
      }
    });
  }
  share_ = before;
}

void CheckpointVectors::refuse_not_finite(const std::filesystem::path& model, const NamedTensor& tensor,
                                          const at::Tensor& start, const at::Tensor& theta) const {
  const bool other = from_zero_ || at::isfinite(start).all().item<bool>();
  if (other && theta.defined() && at::isfinite(theta).all().item<bool>())
    throw InputError(model.string() + ": " + quoted(tensor.name) +
                     " differs from the base's by more than float32 holds");
  throw InputError((other ? model : start_.folder()).string() + ": " + quoted(tensor.name) +
                   " holds NaN or infinity");
}

void CheckpointVectors::each_part(
    std::int64_t begin, const at::Tensor& tau,
    const std::function<void(const std::string&, std::int64_t, const at::Tensor&)>& see) const {
  each_tensor({begin, tau.numel()}, [&](const NamedTensor& tensor, Range part) {
    see(tensor.name, part.begin - tensor.range.begin, tau.narrow(0, part.begin - begin, part.count));
  });
}

void CheckpointVectors::add_to_theta0(
    std::int64_t begin, const at::Tensor& tau, double lambda,
    const std::function<void(const std::string&, std::int64_t, const at::Tensor&)>& see) const {
  at::Tensor buffer;
  const auto memory = [](at::Tensor& kept, std::int64_t count) {
    if (!kept.defined() || kept.numel() < count) kept = at::empty({count}, at::kFloat);
    return kept.narrow(0, 0, count);
  };
  each_part(begin, tau, [&](const std::string& name, std::int64_t from, const at::Tensor& vector) {
    const auto count = vector.numel();
    at::Tensor sum = vector;
    if (from_zero_) {
      if (lambda != 1) sum = memory(sum_, count).copy_(vector).mul_(lambda);
    } else {
      const auto there = start_.numbers(name, from, count, buffer);
      const bool is_float = there.scalar_type() == at::kFloat;
      at::add_out(sum = memory(sum_, count), is_float ? there : as_float(there, memory(start_of_sum_, count)),
                  vector, lambda);
    }
    // A sum of batch norm's statistics: still variances.
    if (name.ends_with("running_var")) sum = sum.clamp_min(0);
    see(name, from, sum);
  });
}

}  // namespace taugrid::merging
