// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/results.hpp"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <hdf5_hl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "suite/error.hpp"
#include "suite/hash.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/results_detail.hpp"

namespace taugrid::store {

using namespace detail;

// Runs `work` here and lets all ranks know how it went; where it failed anywhere, all throw.
void ResultsWriter::agree(const std::string& call, const std::function<void()>& work) {
  std::string problem;
  bool failed = true;
  bool misuse = false;
  try {
    const comm::Communicator::Foreign entry(comm_, "results.h5: " + call);
    work();
    failed = false;
  } catch (const std::logic_error& error) {
    problem = error.what();
    misuse = true;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const auto hash = static_cast<std::int64_t>(fnv1a(call));
  const std::int64_t stop = stop_ != nullptr && stop_->requested() ? 1 : 0;
  const auto votes = comm_.all_gather(at::tensor({std::int64_t{failed}, hash, stop}, at::kLong).view({1, 3}),
                                      "results.h5: " + call);
  const auto vote = votes.accessor<std::int64_t, 2>();
  int root = -1, stopping = -1;  // the first rank of each, none: -1
  bool same = true;
  for (auto rank = static_cast<int>(vote.size(0)) - 1; rank >= 0; --rank) {
    if (vote[rank][0] != 0) root = rank;
    if (vote[rank][1] != hash) same = false;
    if (vote[rank][2] != 0) stopping = rank;
  }
  if (root >= 0) {
    // LibTorch's messages go on with a backtrace.
    const Json mine = {{"problem", problem.substr(0, problem.find('\n'))}, {"misuse", misuse}};
    const Json report = decode(broadcast(rank_ == root ? encode(mine) : std::string(), root));
    problem = report["problem"].get<std::string>() + " (rank " + std::to_string(root) + ")";
    misuse = report["misuse"].get<bool>();
  } else if (!same) {
    problem = path_.string() + ": the ranks made different calls; this one: " + call;
    misuse = true;
  } else if (stopping >= 0 && file_ >= 0) {
    auto reason = broadcast(stop_->reason(), stopping);
    close();
    throw Interrupted("results.h5 was being written when " + reason + " came; run again to continue");
  } else {
    return;
  }
  close();
  if (misuse) {
    throw std::logic_error(problem);
  }
  throw InputError(problem);
}

std::string ResultsWriter::broadcast(std::string bytes, int root) const {
  comm_.broadcast(bytes, root, "results.h5");
  return bytes;
}

ResultsWriter::ResultsWriter(const std::filesystem::path& path, const comm::Communicator& world,
                             const comm::StopRequest* stop)
    : path_(path),
      comm_(world.mpi()),
      stop_(stop),
      rank_(world.rank()),
      exceptions_(std::uncaught_exceptions()) {
  quiet_hdf5();
  temporary_ = broadcast(temporary_name(path).string(), 0);
  open();
}

void ResultsWriter::open() {
  // HDF5's own message would not say what is wrong with the folder.
  agree("open " + path_.string(), [&] {
    if (rank_ == 0) {
      AtomicFile probe(path_);
      probe.write("probe");
    }
  });
  agree("create " + path_.string(), [&] {
    const std::string where = "cannot write " + path_.string();
    const Handle access = handle_of(H5Pcreate(H5P_FILE_ACCESS), where);
    check(H5Pset_fapl_mpio(access, comm_.mpi(), MPI_INFO_NULL), where);
    check(H5Pset_all_coll_metadata_ops(access, true), where);
    check(H5Pset_coll_metadata_write(access, true), where);
    check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), where);
    const Handle creation = handle_of(H5Pcreate(H5P_FILE_CREATE), where);
    check(H5Pset_obj_track_times(creation, false), where);
    file_ = handle_of(H5Fcreate(temporary_.c_str(), H5F_ACC_EXCL, creation, access), where);
    if (rank_ == 0) {
      descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    reserve(0);
  });
}

// Inside HDF5 a failed write of one rank leaves the others waiting in MPI-IO, so the space is claimed before.
// A file system that cannot do so is taken at its word.
void ResultsWriter::reserve(std::uint64_t bytes) {
  constexpr std::uint64_t metadata = 32 << 10;  // generous for one object's headers, links and attributes
  needed_ += bytes + metadata;
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && needed_ > most.rlim_cur) {
    refuse_to_write(path_, EFBIG);
  }
#ifdef __linux__
  if (descriptor_ >= 0 &&
      ::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(needed_)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    refuse_to_write(path_, errno);
  }
#endif
}

void ResultsWriter::reserve(const Shape& shape, std::size_t element_bytes) {
  std::uint64_t bytes = element_bytes;
  std::uint64_t scales = 0;
  for (const auto extent : shape) {
    bytes *= static_cast<std::uint64_t>(extent);
    scales += sizeof(std::int64_t) * static_cast<std::uint64_t>(extent);
  }
  reserve(bytes + scales);
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
}

void ResultsWriter::close() noexcept {
  datasets_.clear();
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
  }
  if (file_ >= 0) {
    const comm::Communicator::Foreign entry(comm_, "results.h5: close without committing");
    const Handle closing = std::move(file_);
    file_ = Handle();
  }
  if (rank_ == 0 && !is_committed_) {
    ::unlink(temporary_.c_str());
  }
}

void ResultsWriter::transfer(const Dataset& dataset, const Slab* slab) {
  const std::string where = "cannot write " + path_.string();
  if (product(dataset.shape) == 0) {
    return;
  }
  const Handle list = handle_of(H5Pcreate(H5P_DATASET_XFER), where);
  check(H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE), where);
  const Handle file_space = handle_of(H5Dget_space(dataset.handle), where);
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

void ResultsWriter::create(const std::string& path, Element element, const Shape& shape,
                           const std::vector<std::string>& dimensions, const std::string& units) {
  const std::string call =
      "create " + path + " " + std::string(name_of(element)) + text_of(shape) + units + text_of(dimensions);
  agree(call, [&] {
    require_new(path);
    check_dimensions(shape, dimensions);
    reserve(shape, bytes_of(element));
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
    write_text(dataset.handle, "units", units);
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
  const auto counts = comm_.all_gather(at::full({1}, static_cast<std::int64_t>(mine.size()), at::kLong),
                                       "results.h5: " + path);
  const auto most = static_cast<std::size_t>(counts.max().item<std::int64_t>());
  agree("written " + path, [&] {
    for (std::size_t i = 0; i < most; ++i) {
      transfer(find(path), i < mine.size() ? mine[i] : nullptr);
    }
  });
}

void ResultsWriter::put(const std::string& path, const at::Tensor& values,
                        const std::vector<std::string>& dimensions, const std::string& units) {
  at::Tensor plain;
  std::string call = "put " + path + units + text_of(dimensions);
  const auto prepare = [&] {
    require_new(path);
    plain = values.detach().cpu().contiguous();
    check_dimensions(plain.sizes().vec(), dimensions);
    reserve(plain.sizes().vec(), plain.element_size());
    call += std::string(name_of(element_of(plain.scalar_type()))) + text_of(plain.sizes().vec());
  };
  agree("put " + path, prepare);
  agree(call, [] {});  // shapes and types too must be equal before the collective calls
  agree(call, [&] {
    Dataset& dataset = make(path, type_of(element_of(plain.scalar_type())), plain.sizes().vec(), nullptr);
    const Slab slab{Shape(dataset.shape.size(), 0), dataset.shape, plain.data_ptr()};
    attach(dataset, dimensions);
    transfer(dataset, rank_ == 0 ? &slab : nullptr);
    write_text(dataset.handle, "units", units);
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
    if (descriptor_ >= 0) {
      ::close(std::exchange(descriptor_, -1));
    }
    check(H5Fflush(file_, H5F_SCOPE_GLOBAL), where);
    check(H5Fclose(file_.release()), where);
  });
  agree("publish", [&] {
    if (rank_ == 0) {
      publish(temporary_, path_);
    }
  });
  is_committed_ = true;
}

// The objects of the file: data sets, their dimension scales, attributes, the table of units.

void ResultsWriter::require_new(const std::string& path) const {
  if (file_ < 0) {
    throw std::logic_error(path_.string() + ": closed; nothing more can be written");
  }
  if (path.size() < 2 || path.front() != '/' || path.back() == '/' || datasets_.contains(path)) {
    throw std::logic_error(path_.string() + ": " + path + ": not a new absolute path");
  }
}

ResultsWriter::Dataset& ResultsWriter::find(const std::string& path) {
  const auto dataset = datasets_.find(path);
  if (file_ < 0 || dataset == datasets_.end()) {
    throw std::logic_error(path_.string() + ": " + path + ": no such data set");
  }
  return dataset->second;
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
      const auto scale = scales_.find(name);
      if (scale == scales_.end() || scale->second.length != shape[i]) {
        throw std::logic_error(path_.string() + ": " + name + " is no scale of length " +
                               std::to_string(shape[i]));
      }
    }
  }
}

ResultsWriter::Dataset& ResultsWriter::make(const std::string& path, hid_t type, const Shape& shape,
                                            const void* fill) {
  const std::string where = "cannot write " + path_.string() + ": " + path;
  const Handle creation = handle_of(H5Pcreate(H5P_DATASET_CREATE), where);
  check(H5Pset_obj_track_times(creation, false), where);
  check(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), where);
  check(H5Pset_fill_time(creation, fill != nullptr ? H5D_FILL_TIME_ALLOC : H5D_FILL_TIME_NEVER), where);
  if (fill != nullptr) {
    check(H5Pset_fill_value(creation, type, fill), where);
  }
  Dataset dataset;
  dataset.shape = shape;
  dataset.type = handle_of(H5Tcopy(type), where);
  dataset.handle = handle_of(
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
    const auto scale = scales_.find(name);
    if (scale == scales_.end()) {
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
    if (scale->second.length == length) {
      return scale->second.path;
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
        exists
            ? handle_of(H5Oopen(file_, object.c_str(), H5P_DEFAULT), where)
            : handle_of(H5Gcreate2(file_, object.c_str(), link_creation(), H5P_DEFAULT, H5P_DEFAULT), where);
    write_attribute(target, name, decode(bytes));
  });
}

void ResultsWriter::units(const std::vector<UnitRow>& rows) {
  const auto numbers = sizeof(std::int32_t) + 2 * sizeof(double);
  agree("units", [&] {
    require_new("/units");
    std::size_t longest = numbers;
    for (const UnitRow& row : rows) {
      longest = std::max(longest, row.key.size() + row.device.size() + row.energy_source.size());
    }
    reserve({static_cast<std::int64_t>(rows.size())}, 2 * longest + numbers);
  });
  Json table = Json::array();
  if (rank_ == 0) {
    for (const UnitRow& row : rows) {
      table.push_back({row.key, row.rank, row.seconds, row.device,
                       std::isnan(row.joules) ? Json() : Json(row.joules), row.energy_source});
    }
  }
  table = decode(broadcast(encode(table)));
  agree("units", [&] {
    const auto text_of = [](const Json& row, std::size_t place) -> const std::string& {
      return row[place].get_ref<const std::string&>();
    };
    const auto longest = [&](std::size_t place) {
      std::size_t most = 1;
      for (const Json& row : table) most = std::max(most, text_of(row, place).size());
      return most;
    };
    const std::size_t key = longest(0), device = longest(3), source = longest(5);
    const bool counted =
        std::any_of(table.begin(), table.end(), [](const Json& row) { return !row[4].is_null(); });
    const std::size_t at_rank = key;
    const std::size_t at_seconds = at_rank + sizeof(std::int32_t);
    const std::size_t at_device = at_seconds + sizeof(double);
    const std::size_t at_joules = at_device + device;
    const std::size_t at_source = at_joules + sizeof(double);
    const std::size_t size = counted ? at_source + source : at_joules;
    const Handle type = handle_of(H5Tcreate(H5T_COMPOUND, size), "/units");
    check(H5Tinsert(type, "key", 0, text_type(key)), "/units");
    check(H5Tinsert(type, "rank", at_rank, H5T_STD_I32LE), "/units");
    check(H5Tinsert(type, "seconds", at_seconds, H5T_IEEE_F64LE), "/units");
    check(H5Tinsert(type, "device", at_device, text_type(device)), "/units");
    if (counted) {
      check(H5Tinsert(type, "joules", at_joules, H5T_IEEE_F64LE), "/units");
      check(H5Tinsert(type, "energy_source", at_source, text_type(source)), "/units");
    }
    std::vector<char> bytes(size * table.size());
    for (std::size_t i = 0; i < table.size(); ++i) {
      const Json& row = table[i];
      const auto rank = row[1].get<std::int32_t>();
      const auto seconds = row[2].get<double>();
      char* line = bytes.data() + i * size;
      text_of(row, 0).copy(line, key);
      std::memcpy(line + at_rank, &rank, sizeof rank);
      std::memcpy(line + at_seconds, &seconds, sizeof seconds);
      text_of(row, 3).copy(line + at_device, device);
      if (!counted) continue;
      const auto joules = row[4].is_null() ? std::numeric_limits<double>::quiet_NaN() : row[4].get<double>();
      std::memcpy(line + at_joules, &joules, sizeof joules);
      text_of(row, 5).copy(line + at_source, source);
    }
    put_rows("/units", type, static_cast<std::int64_t>(table.size()), bytes.data());
    attach(find("/units"), {"unit"});
  });
}

}  // namespace taugrid::store
