// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/theta_files.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/weights/bfloat16.hpp"
#include "kernels/weights/subtract.hpp"
#include "suite/error.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::study {
namespace {

/// Its unit is finished, perhaps on another host a moment ago.
const std::filesystem::path& seen(const std::filesystem::path& folder) {
  if (!store::is_there(folder / "model.safetensors.index.json"))
    store::wait_for(folder / "model.safetensors");
  return folder;
}

/// Binary digits of a number that was read from this type: θ is float32, whatever the file has.
int digits_read(at::ScalarType type) {
  if (type == at::kHalf) return std::numeric_limits<at::Half>::digits;
  if (type == at::kBFloat16) return std::numeric_limits<at::BFloat16>::digits;
  return std::numeric_limits<float>::digits;
}

bool lie_in_place(const store::TensorFolder& file, const autodiff::Layout& layout) {
  return std::all_of(layout.parameters().begin(), layout.parameters().end(), [&](const auto& each) {
    return !each.transposed && file.tensors().at(each.name).scalar == at::kFloat &&
           file.is_on_pages(each.name);
  });
}

/// A part of a parameter: its numbers from `from` on, which are θ's from `begin` on.
struct Piece {
  const autodiff::Parameter& parameter;
  std::int64_t begin, count, from;
};

/// Calls see(piece) for the parameters that have numbers in the range.
template <class See>
void each_piece(const autodiff::Layout& layout, Range range, const See& see) {
  const auto& all = layout.parameters();
  auto next = std::upper_bound(all.begin(), all.end(), range.begin,
                               [](std::int64_t at, const auto& p) { return at < p.offset + p.count; });
  for (; next != all.end() && next->offset < range.end(); ++next) {
    const auto begin = std::max(range.begin, next->offset);
    const auto count = std::min(range.end(), next->offset + next->count) - begin;
    see(Piece{*next, begin, count, begin - next->offset});
  }
}

/// The piece's numbers, in the file's type; `copy` holds them where they do not lie so in the file.
at::Tensor numbers_of(const store::TensorFolder& file, const Piece& piece, at::Tensor& copy) {
  const auto& [parameter, begin, count, from] = piece;
  if (!parameter.transposed) return file.numbers(parameter.name, from, count, copy);
  const auto rows = file.tensor(parameter.name).t();  // of which those that have the piece are turned
  const auto width = rows.size(1), first = from / width, end = (from + count - 1) / width + 1;
  copy = rows.narrow(0, first, end - first).contiguous().flatten();  // a single row would stay a view
  return copy.narrow(0, from - first * width, count);
}

const std::uint16_t* halves_of(const at::Tensor& x) {
  return static_cast<const std::uint16_t*>(x.const_data_ptr());
}
constexpr const std::uint16_t* no_start = nullptr;

enum class Subtracted { not_yet, some_not_finite, all_finite };

/// τ = θ − start into `out` from its number `to` on, where all θ have a type that kernels read as it is.
Subtracted subtract_on_host(const std::vector<at::Tensor>& theta, const at::Tensor& start,
                            std::span<const at::Tensor> out, std::int64_t to) {
  const auto type = theta.front().scalar_type();
  if (type != at::kFloat && type != at::kBFloat16) return Subtracted::not_yet;
  std::vector<const float*> numbers;
  std::vector<const std::uint16_t*> halves;
  std::vector<float*> tau;
  for (std::size_t i = 0; i < theta.size(); ++i) {
    if (theta[i].scalar_type() != type || !out[i].is_cpu()) return Subtracted::not_yet;
    tau.push_back(out[i].mutable_data_ptr<float>() + to);
    if (type == at::kFloat) {
      numbers.push_back(theta[i].const_data_ptr<float>());
    } else {
      halves.push_back(halves_of(theta[i]));
    }
  }
  const auto* from = start.const_data_ptr<float>();
  const bool finite = type == at::kFloat ? weights::subtract(numbers, from, tau, start.numel())
                                         : weights::subtract(halves, from, tau, start.numel());
  return finite ? Subtracted::all_finite : Subtracted::some_not_finite;
}

}  // namespace

ThetaFile::ThetaFile(const std::filesystem::path& folder, const models::Encoder& encoder,
                     const std::filesystem::path& of)
    : file_(models::open_weights(seen(folder), encoder, of)),
      read_in_place_(lie_in_place(file_, encoder.layout())) {}

void ThetaFile::require_start(const Begun& model) const {
  const auto start = models::start_of(file_);
  if (!start.empty() && !model.fingerprint.empty() && start != model.fingerprint)
    throw InputError(model.folder.string() + ": was trained from another θ0 (" + start + ") than " +
                     model.of + " (" + model.fingerprint + ")");
}

void ThetaFile::require_as_exact(const ThetaFile& start, const autodiff::Layout& layout) const {
  for (const auto& each : layout.parameters()) {
    const auto ours = file_.tensors().at(each.name).scalar,
               begun = start.file_.tensors().at(each.name).scalar;
    if (digits_read(ours) >= digits_read(begun)) continue;
    throw InputError(file_.file_of(each.name).string() + ": " + each.name + " has type " +
                     at::toString(ours) + "; expected " + at::toString(begun) + ", as in " +
                     start.file_.files() + ", or another as exact: of θ* − θ0 rounding would be left");
  }
}

/// A finite sum has finite terms; the dear look at each is for the other case.
void ThetaFile::require_finite(const at::Tensor& tau, const autodiff::Parameter& parameter) const {
  if (std::isfinite(tau.sum().item<double>()) || at::isfinite(tau).all().item<bool>()) return;
  throw InputError(file_.file_of(parameter.name).string() + ": " + parameter.name + " holds NaN or infinity");
}

void ThetaFile::read(const autodiff::Layout& layout, Range range, const at::Tensor& out) const {
  const at::NoGradGuard no_grad;
  at::Tensor copy;
  each_piece(layout, range, [&](const Piece& piece) {
    const auto theta = numbers_of(file_, piece, copy);
    auto part = out.narrow(0, piece.begin - range.begin, piece.count);
    if (theta.scalar_type() == at::kBFloat16) {
      auto* to = part.mutable_data_ptr<float>();
      const auto* from = halves_of(theta);
      if (weights::subtract({&from, 1}, no_start, {&to, 1}, piece.count)) return;
    } else {
      part.copy_(theta);
    }
    require_finite(part, piece.parameter);
  });
}

std::string ThetaFile::fingerprint(const autodiff::Layout& layout) const {
  constexpr std::int64_t at_once = 1 << 20;
  const auto numbers = at::empty({std::min(at_once, layout.size())}, at::kFloat);
  models::Fingerprint print;
  for (std::int64_t begin = 0; begin < layout.size(); begin += at_once) {
    const auto some = numbers.narrow(0, 0, std::min(at_once, layout.size() - begin));
    read(layout, {begin, some.size(0)}, some);
    print.add(some);
  }
  return print.text();
}

at::Tensor ThetaFile::whole(const autodiff::Layout& layout, const at::Tensor& start) const {
  auto all = at::empty_like(start);
  const ThetaFile* self = this;
  differences({&self, 1}, layout, start, {0, layout.size()}, {&all, 1});
  return all;
}

void ThetaFile::differences(std::span<const ThetaFile* const> files, const autodiff::Layout& layout,
                            const at::Tensor& start, Range range, std::span<const at::Tensor> out) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> theta(files.size()), copies(files.size());
  each_piece(layout, range, [&](const Piece& piece) {
    const auto to = piece.begin - range.begin;
    for (std::size_t i = 0; i < files.size(); ++i) theta[i] = numbers_of(files[i]->file_, piece, copies[i]);
    const auto from = start.narrow(0, to, piece.count);
    const auto each = subtract_on_host(theta, from, out, to);
    if (each == Subtracted::all_finite) return;
    for (std::size_t i = 0; i < files.size(); ++i) {
      auto delta = out[i].narrow(0, to, piece.count);
      if (each == Subtracted::not_yet) delta.copy_(theta[i].to(at::kFloat)).sub_(from);
      files[i]->require_finite(delta, piece.parameter);
    }
  });
}

std::int64_t ThetaFile::inside(const autodiff::Layout& layout, std::int64_t begin) {
  std::int64_t count = 0;
  each_piece(layout, {begin, 1}, [&](const Piece& piece) { count = piece.parameter.count - piece.from; });
  return count;
}

void ThetaFile::visit(std::span<const ThetaFile* const> files, const autodiff::Layout& layout,
                      const at::Tensor& start, Range range, const weights::StretchVisitor& visitor) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> theta(files.size());
  each_piece(layout, range, [&](const Piece& piece) {
    at::Tensor no_copy;
    for (std::size_t i = 0; i < files.size(); ++i) theta[i] = numbers_of(files[i]->file_, piece, no_copy);
    const auto from = start.narrow(0, piece.begin, piece.count);
    if (visitor(piece.begin, {theta, from})) return;
    for (std::size_t i = 0; i < files.size(); ++i) files[i]->require_finite(theta[i] - from, piece.parameter);
  });
}

void ThetaFile::announce(const autodiff::Layout& layout, Range range) const {
  each_piece(layout, range,
             [&](const Piece& piece) { file_.announce(piece.parameter.name, piece.from, piece.count); });
}

ReadInOrder::ReadInOrder(std::span<const ThetaFile* const> files, const autodiff::Layout& layout, Range range)
    : files_(files), layout_(layout), range_(range), announced_(files.size(), range.begin) {}

void ReadInOrder::reach(std::int64_t begin) {
  constexpr std::int64_t stretch = 1 << 20;  // numbers of a vector, at least, that the disk is ahead of us
  const auto ahead = std::min(begin + stretch, range_.end());
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (announced_[i] >= ahead) continue;
    // The first stretches differ in length, so that later ones are not asked for all at once.
    const auto more = begin > range_.begin ? 0 : stretch * static_cast<std::int64_t>(i) / std::ssize(files_);
    const auto until = std::min(announced_[i] + stretch + more, range_.end());
    disk_.announce([&] { files_[i]->announce(layout_, {announced_[i], until - announced_[i]}); });
    announced_[i] = until;
  }
}

}  // namespace taugrid::study
