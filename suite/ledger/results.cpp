// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/ledger/results.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "suite/error.hpp"

namespace taugrid::ledger {
namespace {

at::ScalarType scalar_of(store::Element element) {
  switch (element) {
    case store::Element::float32:
      return at::kFloat;
    case store::Element::float64:
      return at::kDouble;
    case store::Element::int64:
      return at::kLong;
    case store::Element::int32:
      return at::kInt;
    case store::Element::uint8:
      return at::kByte;
    default:
      throw std::logic_error("place: element type without a use");
  }
}

bool all_equal(const at::Tensor& counts) {
  return counts.numel() > 0 && counts.eq(counts.flatten()[0]).all().item<bool>();
}

store::Element element_of(const DeclaredOutput& declared) {
  return declared.bits ? store::Element::uint8 : declared.output->details.element;
}

std::string unit_of(const DeclaredOutput& declared) { return declared.bits ? "" : declared.output->unit; }

}  // namespace

void Results::put(const std::string& path, const at::Tensor& values) {
  const auto declared = contents_.find(path, values.dim());
  if (declared.output->details.text || values.scalar_type() != scalar_of(element_of(declared)))
    throw std::logic_error("results.h5: " + path + " is declared as another type");
  if (const auto scale = contents_.scale(declared); !scale.empty() && !declared.bits)
    file_.scale(path, values, scale, unit_of(declared));
  else
    file_.put(path, values, contents_.dimensions(declared), unit_of(declared));
}

void Results::put(const std::string& path, const std::vector<double>& values) {
  put(path, at::tensor(values, at::kDouble));
}

void Results::put(const std::string& path, double value) { put(path, at::full({}, value, at::kDouble)); }

void Results::put(const std::string& path, const std::vector<std::string>& texts) {
  const auto declared = contents_.find(path);
  if (!declared.output->details.text)
    throw std::logic_error("results.h5: " + path + " is not declared as text");
  if (const auto scale = contents_.scale(declared); !scale.empty())
    file_.scale(path, texts, scale);
  else
    file_.put_text(path, texts, contents_.dimensions(declared).at(0));
}

void Results::place(const Finished& done, const std::string& path, const std::vector<Box>& boxes,
                    const std::string& tensor) {
  const auto declared = contents_.find(path);
  place_boxes(file_, done, path, element_of(declared), contents_.shape(declared),
              contents_.dimensions(declared), boxes, tensor, unit_of(declared));
}

void Results::put_points(const std::string& path, const at::Tensor& counts) {
  file_.attribute("/correct" + path, "points", all_equal(counts) ? counts.flatten()[0] : counts);
}

void Results::attribute(const std::string& object, const std::string& name, const store::Attribute& value) {
  contents_.find(object + "@" + name);
  file_.attribute(object, name, value);
}

namespace {

/// Throws InputError unless numbers of these sizes, of the last dimensions, lie within the shape from `start`
/// on: a unit's file may be another program's.
void require_fits(at::IntArrayRef sizes, const std::vector<std::int64_t>& start,
                  const std::vector<std::int64_t>& shape, const std::string& where) {
  bool fits = sizes.size() <= shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    const auto before = shape.size() - sizes.size();
    fits = start[d] + (d < before ? 1 : sizes[d - before]) <= shape[d];
  }
  if (!fits)
    throw InputError(fmt::format("unit {}: has the shape {}; expected it within {}, from {} on", where, sizes,
                                 fmt::join(shape, " × "), fmt::join(start, ", ")));
}

}  // namespace

void place_boxes(store::ResultsWriter& file, const Finished& done, const std::string& path,
                 store::Element element, const std::vector<std::int64_t>& shape,
                 const std::vector<std::string>& dimensions, const std::vector<Box>& boxes,
                 const std::string& tensor, const std::string& unit) {
  file.create(path, element, shape, dimensions, unit);
  std::vector<at::Tensor> kept;  // until written
  std::vector<store::Slab> slabs;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (static_cast<int>(i % static_cast<std::size_t>(done.world.size())) != done.world.rank()) continue;
    const auto& box = boxes[i];
    kept.push_back(done.folder.read_tensor(box.key, tensor).to(scalar_of(element)).contiguous());
    store::Slab slab;
    slab.start = box.start;
    slab.start.resize(shape.size(), 0);
    slab.count.assign(shape.size(), 1);
    const auto sizes = kept.back().sizes();
    require_fits(sizes, slab.start, shape, box.key + ": " + tensor + " for " + path);
    for (std::size_t d = 0; d < sizes.size(); ++d) slab.count[shape.size() - sizes.size() + d] = sizes[d];
    slab.data = kept.back().const_data_ptr();
    slabs.push_back(std::move(slab));
  }
  file.write_slabs(path, slabs);
}

bool fits_attribute(const at::Tensor& counts) { return all_equal(counts) || counts.nbytes() <= 64'000; }

std::string prefix_of(study::Split split) {
  return split == study::Split::test ? "" : std::string(study::split_name(split)) + "_";
}

at::Tensor sample_sizes(const study::Study& study, study::Split split, std::int64_t n) {
  auto sizes = at::empty({static_cast<std::int64_t>(study.tasks.size())}, at::kLong);
  for (const auto t : study.tasks.all())
    sizes[static_cast<std::int64_t>(t)] = study.samples.size(t, split, n);
  return sizes;
}

}  // namespace taugrid::ledger
