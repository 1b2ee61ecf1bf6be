// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/support/placement.hpp"

#include <ATen/ATen.h>

#include <stdexcept>

namespace taugrid::experiments {
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
    default:
      throw std::logic_error("place: element type without a use");
  }
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

}  // namespace taugrid::experiments
