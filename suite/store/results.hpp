// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// results.h5, written by all ranks together through MPI-IO; complete or absent.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "suite/comm/communicator.hpp"
#include "suite/comm/stop.hpp"
#include "suite/store/hdf5.hpp"

namespace taugrid::store {

/// One line of the table /units.
struct UnitRow {
  std::string key;
  std::int32_t rank = 0;
  double seconds = 0;
  std::string device;
  double joules = std::numeric_limits<double>::quiet_NaN();  ///< NaN where nothing counted them
  std::string energy_source = {};                            ///< what counted them
};

/// Part of a data set: a box at `start` of extent `count`, its elements row-major at `data`.
struct Slab {
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> count;
  const void* data = nullptr;
};

/// A tensor is one of int64, on the host, of any shape; HDF5 takes up to 64 KiB.
using Attribute = std::variant<std::string, double, std::int64_t, std::vector<std::string>,
                               std::vector<double>, std::vector<std::int64_t>, at::Tensor>;

/// Every member function is collective: all ranks call it, in the same order and, except for the data,
/// with the same arguments. Each checks its own arguments first; then the ranks agree, so where one rank
/// fails all throw the same error and none waits: an InputError where the disk fails, a std::logic_error
/// where the call is wrong. Afterwards nothing more can be written, and no file remains. An exception of the
/// caller's own between two calls must reach all ranks, or end the program.
/// All of it goes through the communicator, HDF5's own collectives too, so that one that hangs is found.
/// The bytes depend on what is written and in which order, not on the number of ranks or the time.
class ResultsWriter {
 public:
  /// Begins PATH under a temporary name. Throws InputError if the folder cannot be written. With `stop`, each
  /// call until the file is closed is a safe point: where a stop is requested, all ranks throw Interrupted.
  ResultsWriter(const std::filesystem::path& path, const comm::Communicator& world,
                const comm::StopRequest* stop = nullptr);
  /// Removes the file unless it was committed.
  ~ResultsWriter();
  ResultsWriter(const ResultsWriter&) = delete;
  ResultsWriter& operator=(const ResultsWriter&) = delete;

  /// Creates a data set, and its groups. shape {} is a scalar. Each dimension has a name:
  /// that of a scale ("task"), the path of one ("/disentanglement/linear/alpha"), or a new name,
  /// which gets a scale 0, 1, … under /dimensions. Elements not written read as NaN (integers: 0).
  void create(const std::string& path, Element element, const std::vector<std::int64_t>& shape,
              const std::vector<std::string>& dimensions, const std::string& units = "");

  /// Writes any number of boxes a rank, also none.
  void write_slabs(const std::string& path, const std::vector<Slab>& slabs);

  /// create() and the values in one call, for what every rank holds: rank 0's are written. Its
  /// element type is the tensor's (float32, float64, int64, int32, uint8, int8, bool as uint8).
  void put(const std::string& path, const at::Tensor& values, const std::vector<std::string>& dimensions,
           const std::string& units = "");
  /// One-dimensional UTF-8 text, of fixed length (that of the longest).
  void put_text(const std::string& path, const std::vector<std::string>& values,
                const std::string& dimension);

  /// The same, and the data set becomes the scale of the dimension `name`; by its path also of others.
  void scale(const std::string& path, const at::Tensor& values, const std::string& name,
             const std::string& units = "");
  void scale(const std::string& path, const std::vector<std::string>& values, const std::string& name);

  /// Attribute of a group (created if missing) or data set. Rank 0's value is written.
  void attribute(const std::string& object, const std::string& name, const Attribute& value);

  /// The table /units, from rank 0's rows.
  void units(const std::vector<UnitRow>& rows);

  /// Whether the latest write was one collective MPI-IO transfer on this rank.
  bool last_write_was_collective() const { return collective_; }

  /// Flushes, closes and renames. Nothing can be written afterwards.
  void commit();

 private:
  struct Dataset {
    Handle handle;
    Handle type;
    std::vector<std::int64_t> shape;
  };
  struct Scale {
    std::string path;
    std::int64_t length = 0;
  };
  void agree(const std::string& call, const std::function<void()>& work);
  void open();
  void close() noexcept;
  void reserve(std::uint64_t bytes);
  void reserve(const std::vector<std::int64_t>& shape, std::size_t element_bytes);
  void require_new(const std::string& path) const;
  Dataset& find(const std::string& path);
  Dataset& make(const std::string& path, hid_t type, const std::vector<std::int64_t>& shape,
                const void* fill);
  void check_dimensions(const std::vector<std::int64_t>& shape,
                        const std::vector<std::string>& dimensions) const;
  void attach(Dataset& dataset, const std::vector<std::string>& dimensions);
  std::string scale_for(const std::string& dimension, std::int64_t length);
  void make_scale(const std::string& path, const std::string& name);
  void put_rows(const std::string& path, hid_t type, std::int64_t count, const void* data);
  std::string broadcast(std::string bytes, int root = 0) const;
  void transfer(const Dataset& dataset, const Slab* slab);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  comm::Communicator comm_;  // its own, so that HDF5's messages meet no others
  const comm::StopRequest* stop_;
  int rank_ = 0;
  int exceptions_ = 0;
  int descriptor_ = -1;  // rank 0: to reserve space
  bool is_committed_ = false;
  std::uint64_t needed_ = 0;  // bytes, at most
  bool collective_ = false;
  Handle file_;
  std::map<std::string, Dataset> datasets_;
  std::map<std::string, Scale> scales_;
};

}  // namespace taugrid::store
