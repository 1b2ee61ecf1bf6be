// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/work/placement.hpp"

#include <ATen/ATen.h>

#include <stdexcept>

namespace taugrid::work {
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

}  // namespace

void place(store::ResultsWriter& out, const Finished& done, const std::string& path, store::Element element,
           const std::vector<std::int64_t>& shape, const std::vector<std::string>& dimensions,
           const std::vector<Box>& boxes, const std::string& tensor, const std::string& units) {
  out.create(path, element, shape, dimensions, units);
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
    for (std::size_t d = 0; d < sizes.size(); ++d) slab.count[shape.size() - sizes.size() + d] = sizes[d];
    slab.data = kept.back().const_data_ptr();
    slabs.push_back(std::move(slab));
  }
  out.write_slabs(path, slabs);
}

void put_points(store::ResultsWriter& out, const std::string& path, const at::Tensor& counts) {
  out.attribute("/correct" + path, "points", all_equal(counts) ? counts.flatten()[0] : counts);
}

bool fits_attribute(const at::Tensor& counts) { return all_equal(counts) || counts.nbytes() <= 64'000; }

std::string prefix_of(study::Split split) {
  return split == study::Split::test ? "" : std::string(study::split_name(split)) + "_";
}

at::Tensor sample_sizes(const Study& study, study::Split split, std::int64_t n) {
  auto sizes = at::empty({static_cast<std::int64_t>(study.tasks.size())}, at::kLong);
  for (const auto t : study.tasks.all())
    sizes[static_cast<std::int64_t>(t)] = study.tasks.sample_size(t, split, n);
  return sizes;
}

}  // namespace taugrid::work
