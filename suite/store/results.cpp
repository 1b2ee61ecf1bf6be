// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/results.hpp"

#include <fcntl.h>
#include <hdf5_hl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "suite/error.hpp"
#include "suite/store/atomic_file.hpp"

namespace taugrid::store {

namespace {

using Json = nlohmann::json;
using Shape = std::vector<std::int64_t>;

std::string text_of(const Shape& shape) { return Json(shape).dump(); }

/// FNV-1a: the same on every rank.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const unsigned char c : text) {
    hash = (hash ^ c) * 1099511628211ULL;
  }
  return hash;
}

std::int64_t product(const Shape& shape) {
  std::int64_t result = 1;
  for (const auto extent : shape) {
    result *= extent;
  }
  return result;
}

Element element_of(at::ScalarType type) {
  switch (type) {
    case at::kByte:
    case at::kBool:
      return Element::uint8;
    case at::kChar:
      return Element::int8;
    case at::kInt:
      return Element::int32;
    case at::kLong:
      return Element::int64;
    case at::kFloat:
      return Element::float32;
    case at::kDouble:
      return Element::float64;
    default:
      throw std::logic_error("tensor type " + std::string(at::toString(type)) + " cannot be stored");
  }
}

Handle text_type(std::size_t length) {
  Handle type = own(H5Tcopy(H5T_C_S1), "string type");
  check(H5Tset_size(type, length), "string type");
  check(H5Tset_cset(type, H5T_CSET_UTF8), "string type");
  check(H5Tset_strpad(type, H5T_STR_NULLPAD), "string type");
  return type;
}

Handle space_of(const Shape& shape) {
  if (shape.empty()) {
    return own(H5Screate(H5S_SCALAR), "scalar");
  }
  const std::vector<hsize_t> extent(shape.begin(), shape.end());
  return own(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), "shape");
}

/// Missing groups on the way are created.
Handle link_creation() {
  Handle list = own(H5Pcreate(H5P_LINK_CREATE), "link properties");
  check(H5Pset_create_intermediate_group(list, 1), "link properties");
  check(H5Pset_char_encoding(list, H5T_CSET_UTF8), "link properties");
  return list;
}

std::size_t longest(const std::vector<std::string>& values) {
  std::size_t length = 1;  // HDF5 knows no strings of length 0
  for (const auto& value : values) {
    length = std::max(length, value.size());
  }
  return length;
}

template <class T>
void write_numbers(hid_t object, const std::string& name, hid_t type, const std::vector<T>& values,
                   bool scalar) {
  const Handle space = space_of(scalar ? Shape{} : Shape{static_cast<std::int64_t>(values.size())});
  const Handle attribute =
      own(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), "attribute " + name);
  if (!values.empty()) {
    check(H5Awrite(attribute, type, values.data()), "attribute " + name);
  }
}

/// Text in attributes has variable length, so that h5py shows str and not bytes.
void write_texts(hid_t object, const std::string& name, const std::vector<std::string>& values, bool scalar) {
  std::vector<const char*> pointers;
  for (const auto& value : values) {
    pointers.push_back(value.c_str());
  }
  write_numbers(object, name, text_type(H5T_VARIABLE), pointers, scalar);
}

void write_attribute(hid_t object, const std::string& name, const Json& value) {
  const bool scalar = value["scalar"];
  const Json& values = value["values"];
  if (value["kind"] == "text") {
    write_texts(object, name, values, scalar);
  } else if (value["kind"] == "real") {
    write_numbers<double>(object, name, H5T_IEEE_F64LE, values, scalar);
  } else {
    write_numbers<std::int64_t>(object, name, H5T_STD_I64LE, values, scalar);
  }
}

Json describe(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> Json {
        using T = std::decay_t<decltype(value)>;
        constexpr bool text = std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>>;
        constexpr bool real = std::is_same_v<T, double> || std::is_same_v<T, std::vector<double>>;
        constexpr bool scalar = std::is_same_v<T, std::string> || std::is_arithmetic_v<T>;
        Json values = Json::array();
        if constexpr (scalar) {
          values.push_back(value);
        } else {
          for (const auto& one : value) {
            values.push_back(one);
          }
        }
        return {{"kind", text ? "text" : real ? "real" : "integer"}, {"scalar", scalar}, {"values", values}};
      },
      attribute);
}

Json decode(const std::string& bytes) { return Json::from_cbor(bytes.begin(), bytes.end()); }

std::string encode(const Json& value) {
  std::string bytes;
  Json::to_cbor(value, bytes);
  return bytes;
}

}  // namespace

void ResultsWriter::fail(const std::string& problem) {
  close();
  throw InputError(problem);
}

// Runs `work` here and lets all ranks know how it went; where it failed anywhere, all throw.
template <class Work>
void ResultsWriter::agree(const std::string& call, Work&& work) {
  std::string problem;
  bool misuse = false;
  try {
    work();
  } catch (const std::logic_error& error) {
    problem = error.what();
    misuse = true;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const auto nobody = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t hash = hash_of(call);
  std::uint64_t votes[] = {problem.empty() ? nobody : static_cast<std::uint64_t>(rank_), hash, ~hash};
  MPI_Allreduce(MPI_IN_PLACE, votes, 3, MPI_UINT64_T, MPI_MIN, communicator_);
  if (votes[0] != nobody) {
    const int root = static_cast<int>(votes[0]);
    Json report = {{"problem", problem}, {"misuse", misuse}};
    std::string bytes = rank_ == root ? encode(report) : std::string();
    std::uint64_t size = bytes.size();
    MPI_Bcast(&size, 1, MPI_UINT64_T, root, communicator_);
    bytes.resize(size);
    MPI_Bcast(bytes.data(), static_cast<int>(size), MPI_BYTE, root, communicator_);
    report = decode(bytes);
    problem = report["problem"].get<std::string>() + " (rank " + std::to_string(root) + ")";
    misuse = report["misuse"];
  } else if (votes[1] != ~votes[2]) {
    problem = path_.string() + ": the ranks made different calls; this one: " + call;
    misuse = true;
  } else {
    return;
  }
  if (misuse) {
    close();
    throw std::logic_error(problem);
  }
  fail(problem);
}

std::string ResultsWriter::broadcast(std::string bytes) const {
  std::uint64_t size = bytes.size();
  MPI_Bcast(&size, 1, MPI_UINT64_T, 0, communicator_);
  bytes.resize(size);
  MPI_Bcast(bytes.data(), static_cast<int>(size), MPI_BYTE, 0, communicator_);
  return bytes;
}

ResultsWriter::ResultsWriter(const std::filesystem::path& path, MPI_Comm communicator)
    : path_(path), temporary_(temporary_name(path, true)), exceptions_(std::uncaught_exceptions()) {
  MPI_Comm_dup(communicator, &communicator_);
  MPI_Comm_rank(communicator_, &rank_);
  quiet_hdf5();
  // HDF5's own message would not say what is wrong with the folder.
  agree("open " + path_.string(), [&] {
    if (rank_ == 0) {
      std::filesystem::remove(temporary_);
      AtomicFile probe(path_);
      probe.write("probe");
    }
  });
  agree("create " + path_.string(), [&] {
    const std::string where = "cannot write " + path_.string();
    const Handle access = own(H5Pcreate(H5P_FILE_ACCESS), where);
    check(H5Pset_fapl_mpio(access, communicator_, MPI_INFO_NULL), where);
    check(H5Pset_all_coll_metadata_ops(access, true), where);
    check(H5Pset_coll_metadata_write(access, true), where);
    check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), where);
    const Handle creation = own(H5Pcreate(H5P_FILE_CREATE), where);
    check(H5Pset_obj_track_times(creation, false), where);
    file_ = own(H5Fcreate(temporary_.c_str(), H5F_ACC_TRUNC, creation, access), where);
  });
}

ResultsWriter::~ResultsWriter() {
  if (std::uncaught_exceptions() > exceptions_) {
    // Perhaps only this rank is unwinding: closing is collective and could wait for ever.
    for (auto& [path, dataset] : datasets_) {
      dataset.handle.release();
    }
    file_.release();
    if (rank_ == 0) {
      ::unlink(temporary_.c_str());
    }
    return;
  }
  close();
  if (communicator_ != MPI_COMM_NULL) {
    MPI_Comm_free(&communicator_);
  }
}

void ResultsWriter::close() noexcept {
  datasets_.clear();
  if (file_ >= 0) {
    Handle closing = std::move(file_);
    file_ = Handle();
    if (rank_ == 0) {
      ::unlink(temporary_.c_str());
    }
  }
}

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

void ResultsWriter::transfer(const Dataset& dataset, const Slab* slab) {
  const std::string where = "cannot write " + path_.string();
  if (product(dataset.shape) == 0) {
    return;
  }
  const Handle list = own(H5Pcreate(H5P_DATASET_XFER), where);
  check(H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE), where);
  const Handle file_space = own(H5Dget_space(dataset.handle), where);
  const Handle memory_space = space_of(slab != nullptr ? slab->count : Shape{1});
  const char nothing = 0;
  if (slab == nullptr) {
    check(H5Sselect_none(file_space), where);
    check(H5Sselect_none(memory_space), where);
  } else if (!slab->count.empty()) {
    const std::vector<hsize_t> start(slab->start.begin(), slab->start.end());
    const std::vector<hsize_t> count(slab->count.begin(), slab->count.end());
    check(H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
          where);
  }
  check(H5Dwrite(dataset.handle, dataset.type, memory_space, file_space, list,
                 slab != nullptr ? slab->data : &nothing),
        where);
  H5D_mpio_actual_io_mode_t mode = H5D_MPIO_NO_COLLECTIVE;
  std::uint32_t local = 0;
  std::uint32_t global = 0;
  check(H5Pget_mpio_actual_io_mode(list, &mode), where);
  check(H5Pget_mpio_no_collective_cause(list, &local, &global), where);
  collective_ = mode == H5D_MPIO_CONTIGUOUS_COLLECTIVE && local == 0 && global == 0;
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

void ResultsWriter::set_text(hid_t object, const std::string& name, const std::string& value) {
  if (!value.empty()) {
    write_texts(object, name, {value}, true);
  }
}

void ResultsWriter::create(const std::string& path, Element element, const Shape& shape,
                           const std::vector<std::string>& dimensions, const std::string& units) {
  const std::string call = "create " + path + " " + std::string(name_of(element)) + text_of(shape) + units +
                           Json(dimensions).dump(-1, ' ', false, Json::error_handler_t::replace);
  agree(call, [&] {
    require_new(path);
    check_dimensions(shape, dimensions);
  });
  agree(call, [&] {
    // All bits zero is 0 in every type; what nobody measured must not look like a measured 0.
    double fill64 = std::nan("");
    float fill32 = std::nanf("");
    std::int64_t zero = 0;
    const void* fill = &zero;
    if (element == Element::float32) {
      fill = &fill32;
    } else if (element == Element::float64) {
      fill = &fill64;
    }
    Dataset& dataset = make(path, type_of(element), shape, fill);
    attach(dataset, dimensions);
    set_text(dataset.handle, "units", units);
  });
}

void ResultsWriter::write_slabs(const std::string& path, const std::vector<Slab>& slabs) {
  std::vector<const Slab*> mine;
  agree("write " + path, [&] {
    const Dataset& dataset = find(path);
    for (const Slab& slab : slabs) {
      if (slab.start.size() != dataset.shape.size() || slab.count.size() != dataset.shape.size()) {
        throw std::logic_error(path_.string() + ": " + path + ": a slab of " +
                               std::to_string(slab.count.size()) + " dimensions for the shape " +
                               text_of(dataset.shape));
      }
      for (std::size_t i = 0; i < dataset.shape.size(); ++i) {
        if (slab.start[i] < 0 || slab.count[i] < 0 || slab.start[i] > dataset.shape[i] ||
            slab.count[i] > dataset.shape[i] - slab.start[i]) {
          throw std::logic_error(path_.string() + ": " + path + ": slab " + text_of(slab.start) + " + " +
                                 text_of(slab.count) + " exceeds the shape " + text_of(dataset.shape));
        }
      }
      if (product(slab.count) > 0) {
        if (slab.data == nullptr) {
          throw std::logic_error(path_.string() + ": " + path + ": a slab without data");
        }
        mine.push_back(&slab);
      }
    }
  });
  std::uint64_t most = mine.size();
  MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_UINT64_T, MPI_MAX, communicator_);
  agree("written " + path, [&] {
    for (std::size_t i = 0; i < most; ++i) {
      transfer(find(path), i < mine.size() ? mine[i] : nullptr);
    }
  });
}

void ResultsWriter::write_rows(const std::string& path, std::int64_t start, std::int64_t count,
                               const void* data) {
  std::vector<Slab> slabs;
  agree("rows " + path, [&] {
    const Shape& shape = find(path).shape;
    if (count > 0) {
      Slab slab{Shape(shape.size(), 0), shape, data};
      if (shape.empty() ? start != 0 || count != 1 : false) {
        throw std::logic_error(path_.string() + ": " + path + ": a scalar has one row");
      }
      if (!shape.empty()) {
        slab.start.front() = start;
        slab.count.front() = count;
      }
      slabs.push_back(std::move(slab));
    }
  });
  write_slabs(path, slabs);
}

void ResultsWriter::write_rows(const std::string& path, std::int64_t start, const at::Tensor& rows) {
  at::Tensor plain;
  std::int64_t count = 0;
  agree("tensor " + path, [&] {
    const Dataset& dataset = find(path);
    if (rows.defined() && rows.numel() > 0) {
      plain = rows.detach().cpu().contiguous();
      Shape shape = plain.sizes().vec();
      count = shape.empty() ? 1 : shape.front();
      if (!shape.empty() && !dataset.shape.empty()) {
        shape.front() = dataset.shape.front();
      }
      if (shape != dataset.shape || H5Tequal(type_of(element_of(plain.scalar_type())), dataset.type) <= 0) {
        throw std::logic_error(path_.string() + ": " + path +
                               ": rows of another shape or type; expected rows of " + text_of(dataset.shape));
      }
    }
  });
  write_rows(path, start, count, plain.defined() ? plain.data_ptr() : nullptr);
}

void ResultsWriter::put_rows(const std::string& path, hid_t type, std::int64_t count, const void* data) {
  const Dataset& dataset = make(path, type, {count}, nullptr);
  const Slab slab{{0}, {count}, data};
  transfer(dataset, rank_ == 0 ? &slab : nullptr);
}

void ResultsWriter::put(const std::string& path, const at::Tensor& values,
                        const std::vector<std::string>& dimensions, const std::string& units) {
  at::Tensor plain;
  std::string call =
      "put " + path + units + Json(dimensions).dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto prepare = [&] {
    require_new(path);
    plain = values.detach().cpu().contiguous();
    check_dimensions(plain.sizes().vec(), dimensions);
    call += std::string(name_of(element_of(plain.scalar_type()))) + text_of(plain.sizes().vec());
  };
  agree("put " + path, prepare);
  agree(call, [] {});  // shapes and types too must be equal before the collective calls
  agree(call, [&] {
    Dataset& dataset = make(path, type_of(element_of(plain.scalar_type())), plain.sizes().vec(), nullptr);
    const Slab slab{Shape(dataset.shape.size(), 0), dataset.shape, plain.data_ptr()};
    attach(dataset, dimensions);
    transfer(dataset, rank_ == 0 ? &slab : nullptr);
    set_text(dataset.handle, "units", units);
  });
}

void ResultsWriter::put_text(const std::string& path, const std::vector<std::string>& values,
                             const std::string& dimension) {
  const auto count = static_cast<std::int64_t>(values.size());
  const std::size_t length = longest(values);
  const std::string call =
      "text " + path + " " + dimension + text_of({count, static_cast<std::int64_t>(length)});
  agree(call, [&] {
    require_new(path);
    check_dimensions({count}, {dimension});
  });
  agree(call, [&] {
    std::string bytes;
    for (const auto& value : values) {
      bytes += value + std::string(length - value.size(), '\0');
    }
    put_rows(path, text_type(length), count, bytes.data());
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
    call += std::string(name_of(element_of(plain.scalar_type()))) + text_of(plain.sizes().vec());
  });
  agree(call, [] {});
  agree(call, [&] {
    put_rows(path, type_of(element_of(plain.scalar_type())), plain.numel(), plain.data_ptr());
    make_scale(path, name);
    set_text(find(path).handle, "units", units);
  });
}

void ResultsWriter::scale(const std::string& path, const std::vector<std::string>& values,
                          const std::string& name) {
  const auto count = static_cast<std::int64_t>(values.size());
  const std::size_t length = longest(values);
  const std::string call = "scale " + path + " " + name + text_of({count, static_cast<std::int64_t>(length)});
  agree(call, [&] {
    require_new(path);
    if (name.empty() || name.front() == '/') {
      throw std::logic_error(path_.string() + ": " + path + ": a scale has a name");
    }
  });
  agree(call, [&] {
    std::string bytes;
    for (const auto& value : values) {
      bytes += value + std::string(length - value.size(), '\0');
    }
    put_rows(path, text_type(length), count, bytes.data());
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
  agree("units", [&] { require_new("/units"); });
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

void ResultsWriter::commit() {
  agree("commit", [&] {
    if (file_ < 0) {
      throw std::logic_error(path_.string() + ": closed; it cannot be committed");
    }
  });
  agree("close", [&] {
    const std::string where = "cannot write " + path_.string();
    datasets_.clear();
    check(H5Fflush(file_, H5F_SCOPE_GLOBAL), where);
    check(H5Fclose(file_.release()), where);
  });
  agree("publish", [&] {
    if (rank_ == 0) {
      publish(temporary_, path_);
    }
  });
}

}  // namespace taugrid::store
