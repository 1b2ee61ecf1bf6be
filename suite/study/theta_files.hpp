// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Fine-tuned models' files, gone through by stretches of θ.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/autodiff/layout.hpp"
#include "kernels/range.hpp"
#include "kernels/weights/stretches.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/store/mapped_file.hpp"

namespace taugrid::study {

/// A model's folder, and the model that is taken from it: θ0 or another.
struct Begun {
  std::filesystem::path folder;
  at::Tensor start;         ///< [P]; undefined where it is read part by part
  std::string fingerprint;  ///< of the start, which the folder must have begun at; empty: at any
  std::string of;           ///< the start's folder, for messages
};

class ThetaFile {
 public:
  /// Throws InputError where the folder has no model of this architecture, which is that of the model in
  /// `of`.
  ThetaFile(const std::filesystem::path& folder, const models::Encoder& encoder,
            const std::filesystem::path& of);

  const std::vector<std::string>& notes() const { return file_.notes(); }
  std::uint64_t bytes() const { return file_.bytes(); }
  /// Whether its name is still that of the file that was opened.
  bool current() const { return file_.current(); }
  /// Throws InputError where it began at another model.
  void require_start(const Begun& model) const;
  /// Throws InputError, naming both files, where a parameter's type is less exact than in the start's file:
  /// what is left of τ would be rounding.
  void require_as_exact(const ThetaFile& start, const autodiff::Layout& layout) const;
  /// Whether its numbers are float32, and lie where such numbers are read.
  bool is_read_in_place() const { return read_in_place_; }

  /// θ*[range] into `out` [range.count], float32 on the host. Throws InputError where not all is finite.
  void read(const autodiff::Layout& layout, Range range, const at::Tensor& out) const;
  /// The fingerprint of a model without buffers.
  std::string fingerprint(const autodiff::Layout& layout) const;

  /// θ* − start [P], on the start's device.
  at::Tensor whole(const autodiff::Layout& layout, const at::Tensor& start) const;
  /// θ*[range] − start of each file into `out`, [range.count] each, on the device of both; `start`
  /// [range.count] is the start's part.
  static void differences(std::span<const ThetaFile* const> files, const autodiff::Layout& layout,
                          const at::Tensor& start, Range range, std::span<const at::Tensor> out);

  /// How many numbers from `begin` on lie in one parameter.
  static std::int64_t inside(const autodiff::Layout& layout, std::int64_t begin);
  /// Visits files that are read in place; the range lies in one parameter. Throws InputError, naming the
  /// file, where not all was finite.
  static void visit(std::span<const ThetaFile* const> files, const autodiff::Layout& layout,
                    const at::Tensor& start, Range range, const weights::StretchVisitor& visitor);

  /// Lets the disk read [range] of θ while others are worked on.
  void announce(const autodiff::Layout& layout, Range range) const;

 private:
  void require_finite(const at::Tensor& tau, const autodiff::Parameter& parameter) const;

  store::TensorFolder file_;
  bool read_in_place_;
};

/// Some files from the range's begin to its end: what the disk has yet to read is asked for ahead of us.
class ReadInOrder {
 public:
  ReadInOrder(std::span<const ThetaFile* const> files, const autodiff::Layout& layout, Range range);
  /// To be called before numbers from `begin` on are read.
  void reach(std::int64_t begin);

 private:
  std::span<const ThetaFile* const> files_;
  const autodiff::Layout& layout_;
  Range range_;
  std::vector<std::int64_t> announced_;
  store::ReadAhead disk_;
};

}  // namespace taugrid::study
