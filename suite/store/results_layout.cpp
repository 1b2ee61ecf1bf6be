// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The objects of results.h5: data sets, their dimension scales, attributes, the table of units.
#include <hdf5_hl.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "suite/store/results.hpp"
#include "suite/store/results_detail.hpp"

namespace taugrid::store {

using namespace detail;

void ResultsWriter::require_new(const std::string& path) const {
  if (file_ < 0) {
    throw std::logic_error(path_.string() + ": closed; nothing more can be written");
  }
  if (path.size() < 2 || path.front() != '/' || path.back() == '/' || datasets_.contains(path)) {
    throw std::logic_error(path_.string() + ": " + path + ": not a new absolute path");
  }
}

ResultsWriter::Dataset& ResultsWriter::find(const std::string& path) {
  const auto found = datasets_.find(path);
  if (file_ < 0 || found == datasets_.end()) {
    throw std::logic_error(path_.string() + ": " + path + ": no such data set");
  }
  return found->second;
}

void ResultsWriter::check_dimensions(const Shape& shape, const std::vector<std::string>& dimensions) const {
  if (shape.size() != dimensions.size()) {
    throw std::logic_error(path_.string() + ": " + std::to_string(dimensions.size()) +
                           " dimension names for the shape " + text_of(shape));
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::string& name = dimensions[i];
    if (shape[i] < 0 || name.empty()) {
      throw std::logic_error(path_.string() + ": dimension " + std::to_string(i) +
                             " has no name or no length");
    }
    if (name.front() == '/') {
      const auto found = scales_.find(name);
      if (found == scales_.end() || found->second.length != shape[i]) {
        throw std::logic_error(path_.string() + ": " + name + " is no scale of length " +
                               std::to_string(shape[i]));
      }
    }
  }
}

ResultsWriter::Dataset& ResultsWriter::make(const std::string& path, hid_t type, const Shape& shape,
                                            const void* fill) {
  const std::string where = "cannot write " + path_.string() + ": " + path;
  const Handle creation = own(H5Pcreate(H5P_DATASET_CREATE), where);
  check(H5Pset_obj_track_times(creation, false), where);
  check(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), where);
  check(H5Pset_fill_time(creation, fill != nullptr ? H5D_FILL_TIME_ALLOC : H5D_FILL_TIME_NEVER), where);
  if (fill != nullptr) {
    check(H5Pset_fill_value(creation, type, fill), where);
  }
  Dataset dataset;
  dataset.shape = shape;
  dataset.type = own(H5Tcopy(type), where);
  dataset.handle = own(
      H5Dcreate2(file_, path.c_str(), type, space_of(shape), link_creation(), creation, H5P_DEFAULT), where);
  return datasets_[path] = std::move(dataset);
}

void ResultsWriter::make_scale(const std::string& path, const std::string& name) {
  const Dataset& dataset = find(path);
  check(H5DSset_scale(dataset.handle, name.c_str()), path_.string() + ": " + path);
  const Scale scale{path, dataset.shape.front()};
  scales_[path] = scale;
  scales_[name] = scale;
}

std::string ResultsWriter::scale_for(const std::string& dimension, std::int64_t length) {
  for (const std::string& name : {dimension, dimension + "_" + std::to_string(length)}) {
    const auto found = scales_.find(name);
    if (found == scales_.end()) {
      const std::string path = "/dimensions/" + name;
      const Dataset& dataset = make(path, H5T_STD_I64LE, {length}, nullptr);
      std::vector<std::int64_t> index(static_cast<std::size_t>(length));
      for (std::int64_t i = 0; i < length; ++i) {
        index[static_cast<std::size_t>(i)] = i;
      }
      const Slab slab{{0}, {length}, index.data()};
      transfer(dataset, rank_ == 0 ? &slab : nullptr);
      make_scale(path, name);
      return path;
    }
    if (found->second.length == length) {
      return found->second.path;
    }
  }
  throw std::logic_error(path_.string() + ": no scale for dimension " + dimension);
}

void ResultsWriter::attach(Dataset& dataset, const std::vector<std::string>& dimensions) {
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const std::string where = path_.string() + ": dimension " + dimensions[i];
    const std::string path = scale_for(dimensions[i], dataset.shape[i]);
    const auto index = static_cast<unsigned>(i);
    check(H5DSattach_scale(dataset.handle, find(path).handle, index), where);
    const std::string label = dimensions[i].substr(dimensions[i].rfind('/') + 1);
    check(H5DSset_label(dataset.handle, index, label.c_str()), where);
  }
}

void ResultsWriter::put_rows(const std::string& path, hid_t type, std::int64_t count, const void* data) {
  const Dataset& dataset = make(path, type, {count}, nullptr);
  const Slab slab{{0}, {count}, data};
  transfer(dataset, rank_ == 0 ? &slab : nullptr);
}

void ResultsWriter::put_text(const std::string& path, const std::vector<std::string>& values,
                             const std::string& dimension) {
  const PaddedText text(values);
  const std::string call =
      "text " + path + " " + dimension + text_of(Shape{text.count, static_cast<std::int64_t>(text.length)});
  agree(call, [&] {
    require_new(path);
    check_dimensions({text.count}, {dimension});
    reserve({text.count}, text.length);
  });
  agree(call, [&] {
    put_rows(path, text_type(text.length), text.count, text.bytes.data());
    attach(find(path), {dimension});
  });
}

void ResultsWriter::scale(const std::string& path, const at::Tensor& values, const std::string& name,
                          const std::string& units) {
  at::Tensor plain;
  std::string call = "scale " + path + " " + name + " " + units;
  agree(call, [&] {
    require_new(path);
    plain = values.detach().cpu().contiguous();
    if (plain.dim() != 1 || name.empty() || name.front() == '/') {
      throw std::logic_error(path_.string() + ": " + path + ": a scale has a name and one dimension");
    }
    reserve(plain.sizes().vec(), plain.element_size());
    call += std::string(name_of(element_of(plain.scalar_type()))) + text_of(plain.sizes().vec());
  });
  agree(call, [] {});
  agree(call, [&] {
    put_rows(path, type_of(element_of(plain.scalar_type())), plain.numel(), plain.data_ptr());
    make_scale(path, name);
    write_text(find(path).handle, "units", units);
  });
}

void ResultsWriter::scale(const std::string& path, const std::vector<std::string>& values,
                          const std::string& name) {
  const PaddedText text(values);
  const std::string call =
      "scale " + path + " " + name + text_of(Shape{text.count, static_cast<std::int64_t>(text.length)});
  agree(call, [&] {
    require_new(path);
    if (name.empty() || name.front() == '/') {
      throw std::logic_error(path_.string() + ": " + path + ": a scale has a name");
    }
    reserve({text.count}, text.length);
  });
  agree(call, [&] {
    put_rows(path, text_type(text.length), text.count, text.bytes.data());
    make_scale(path, name);
  });
}

void ResultsWriter::attribute(const std::string& object, const std::string& name, const Attribute& value) {
  const std::string call = "attribute " + object + " " + name;
  std::string bytes;
  agree(call, [&] {
    if (file_ < 0 || object.empty() || object.front() != '/' || name.empty()) {
      throw std::logic_error(path_.string() + ": " + call + ": not a name, or the file is closed");
    }
    bytes = encode(describe(value));
    reserve(bytes.size());
  });
  bytes = broadcast(std::move(bytes));
  agree(call, [&] {
    const std::string where = "cannot write " + path_.string() + ": " + object;
    bool exists = true;
    for (std::size_t end = 0; exists && end != std::string::npos && object != "/";) {
      end = object.find('/', end + 1);
      exists = check(H5Lexists(file_, object.substr(0, end).c_str(), H5P_DEFAULT), where) > 0;
    }
    const Handle target =
        exists ? own(H5Oopen(file_, object.c_str(), H5P_DEFAULT), where)
               : own(H5Gcreate2(file_, object.c_str(), link_creation(), H5P_DEFAULT, H5P_DEFAULT), where);
    write_attribute(target, name, decode(bytes));
  });
}

void ResultsWriter::units(const std::vector<UnitRow>& rows) {
  agree("units", [&] {
    require_new("/units");
    std::size_t longest = sizeof(std::int32_t) + sizeof(double);
    for (const UnitRow& row : rows) {
      longest = std::max(longest, row.key.size() + row.device.size());
    }
    reserve({static_cast<std::int64_t>(rows.size())}, 2 * longest + sizeof(std::int32_t) + sizeof(double));
  });
  Json table = Json::array();
  if (rank_ == 0) {
    for (const UnitRow& row : rows) {
      table.push_back({row.key, row.rank, row.seconds, row.device});
    }
  }
  table = decode(broadcast(encode(table)));
  agree("units", [&] {
    std::size_t key = 1;
    std::size_t device = 1;
    for (const Json& row : table) {
      key = std::max(key, row[0].get_ref<const std::string&>().size());
      device = std::max(device, row[3].get_ref<const std::string&>().size());
    }
    const std::size_t at_rank = key;
    const std::size_t at_seconds = at_rank + sizeof(std::int32_t);
    const std::size_t at_device = at_seconds + sizeof(double);
    const std::size_t size = at_device + device;
    const Handle type = own(H5Tcreate(H5T_COMPOUND, size), "/units");
    check(H5Tinsert(type, "key", 0, text_type(key)), "/units");
    check(H5Tinsert(type, "rank", at_rank, H5T_STD_I32LE), "/units");
    check(H5Tinsert(type, "seconds", at_seconds, H5T_IEEE_F64LE), "/units");
    check(H5Tinsert(type, "device", at_device, text_type(device)), "/units");
    std::vector<char> bytes(size * table.size());
    for (std::size_t i = 0; i < table.size(); ++i) {
      const Json& row = table[i];
      const auto rank = row[1].get<std::int32_t>();
      const auto seconds = row[2].get<double>();
      char* line = bytes.data() + i * size;
      row[0].get_ref<const std::string&>().copy(line, key);
      std::memcpy(line + at_rank, &rank, sizeof rank);
      std::memcpy(line + at_seconds, &seconds, sizeof seconds);
      row[3].get_ref<const std::string&>().copy(line + at_device, device);
    }
    put_rows("/units", type, static_cast<std::int64_t>(table.size()), bytes.data());
    attach(find("/units"), {"unit"});
  });
}

}  // namespace taugrid::store
