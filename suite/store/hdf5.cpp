// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/hdf5.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <system_error>

#include "suite/error.hpp"
#include "suite/store/hdf5_text.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/mapped_file.hpp"

namespace taugrid::store {

namespace {

// Deflate shrinks by 1032 at most; a data set that claims more stores nothing worth reading.
constexpr std::uint64_t compression_limit = 1100;
// And what it unpacks to is in proportion to the whole file: pictures and texts shrink by ten, not by a
// thousand.
constexpr std::uint64_t unpacked_limit = 64, unpacked_always = std::uint64_t{256} << 20;

/// Bytes of memory that data in a file of this size may take.
std::uint64_t most_unpacked(std::uint64_t file_bytes) {
  return std::max(unpacked_always, unpacked_limit * std::min(file_bytes, UINT64_MAX / unpacked_limit));
}

/// Texts of variable length may all be one long text of the file, so that memory for them is counted.
struct TextMemory {
  std::uint64_t left;

  static void* take(std::size_t bytes, void* counted) {
    auto& memory = *static_cast<TextMemory*>(counted);
    if (bytes > memory.left) return nullptr;
    memory.left -= bytes;
    return std::malloc(bytes);
  }
  static void give_back(void* data, void*) { std::free(data); }
};

herr_t append_cause(unsigned, const H5E_error2_t* error, void* text) {
  auto& line = *static_cast<std::string*>(text);
  if (error->desc != nullptr && *error->desc != '\0') {
    line += (line.empty() ? "" : "; ") + std::string(error->desc);
  }
  return 0;
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return text;
}

herr_t no_other_file(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) {
  return -1;
}

/// Access of class `access` that follows no link into another file, which might be a device or a pipe.
Handle within_file(hid_t access) {
  Handle result = handle_of(H5Pcreate(access), "link access");
  check(H5Pset_elink_cb(result, no_other_file, nullptr), "link access");
  return result;
}

/// Bytes of one chunk; 0 where the data set has none.
std::uint64_t chunk_bytes(hid_t creation, std::size_t element) {
  std::array<hsize_t, H5S_MAX_RANK> extent{};
  if (H5Pget_layout(creation) != H5D_CHUNKED) return 0;
  std::uint64_t bytes = element;
  const int rank = H5Pget_chunk(creation, H5S_MAX_RANK, extent.data());
  for (int i = 0; i < rank; ++i) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent[i]), &bytes)) return UINT64_MAX;
  }
  return bytes;
}

}  // namespace

std::size_t bytes_of(Element element) {
  constexpr std::array<std::size_t, 6> sizes = {1, 1, 4, 8, 4, 8};
  return sizes[static_cast<std::size_t>(element)];
}

std::string_view name_of(Element element) {
  constexpr std::array<std::string_view, 6> names = {"uint8", "int8", "int32", "int64", "float32", "float64"};
  return names[static_cast<std::size_t>(element)];
}

hid_t type_of(Element element) {
  switch (element) {
    case Element::uint8:
      return H5T_STD_U8LE;
    case Element::int8:
      return H5T_STD_I8LE;
    case Element::int32:
      return H5T_STD_I32LE;
    case Element::int64:
      return H5T_STD_I64LE;
    case Element::float32:
      return H5T_IEEE_F32LE;
    case Element::float64:
      return H5T_IEEE_F64LE;
  }
  return -1;
}

Handle::~Handle() {
  if (id_ >= 0) {
    H5Idec_ref(id_);
  }
}

void quiet_hdf5() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

std::string hdf5_error() {
  std::string line;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, append_cause, &line);
  H5Eclear2(H5E_DEFAULT);
  return line.empty() ? "HDF5 gives no reason" : one_line(line);
}

long long check(long long result, std::string_view what) {
  if (result < 0) {
    throw InputError(std::string(what) + ": " + hdf5_error());
  }
  return result;
}

Handle handle_of(hid_t result, std::string_view what) { return Handle(check(result, what)); }

Hdf5File::Hdf5File(const std::filesystem::path& path) : path_(path) {
  quiet_hdf5();
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw InputError(path.string() + ": no such file; expected an HDF5 file");
  }
  if (H5Fis_hdf5(path.c_str()) <= 0) {
    H5Eclear2(H5E_DEFAULT);
    require_not_in_use(path);
    throw InputError(path.string() + ": not an HDF5 file, or not readable");
  }
  links_ = within_file(H5P_LINK_ACCESS);
  const Handle access = handle_of(H5Pcreate(H5P_FILE_ACCESS), path.string());
  check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), path.string());
  const hid_t opened = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
  if (opened < 0) require_not_in_use(path);
  file_ = handle_of(opened, path.string() + ": truncated or damaged");
  require_as_watched(path);
}

void Hdf5File::refuse(const std::string& name, const std::string& problem) const {
  throw InputError(path_.string() + ": " + name + ": " + problem);
}

bool Hdf5File::has(const std::string& name) const {
  // HDF5 asks for every step of the path on its own.
  for (std::size_t end = 0; end != std::string::npos;) {
    end = name.find('/', end + 1);
    const std::string prefix = name.substr(0, end);
    if (prefix != "/" && H5Lexists(file_, prefix.c_str(), links_) <= 0) {
      H5Eclear2(H5E_DEFAULT);
      return false;
    }
  }
  return true;
}

Handle Hdf5File::open(const std::string& name) const {
  if (!has(name)) {
    refuse(name, "missing");
  }
  const Handle access = within_file(H5P_DATASET_ACCESS);
  const auto where = path_.string() + ": " + name;
  Handle dataset = handle_of(H5Dopen2(file_, name.c_str(), access), where + ": not a data set");
  // Before its shape is asked for: of a virtual data set, HDF5 opens the other files to tell it.
  const Handle creation = handle_of(H5Dget_create_plist(dataset), where);
  if (H5Pget_layout(creation) == H5D_VIRTUAL || H5Pget_external_count(creation) > 0)
    refuse(name, "lies in other files; expected its data in this one");
  return dataset;
}

DatasetInfo Hdf5File::info(const std::string& name) const {
  const std::string where = path_.string() + ": " + name;
  const Handle dataset = open(name);
  const Handle space = handle_of(H5Dget_space(dataset), where);
  const Handle type = handle_of(H5Dget_type(dataset), where);
  DatasetInfo result;
  std::array<hsize_t, H5S_MAX_RANK> extent{};
  const auto rank = check(H5Sget_simple_extent_dims(space, extent.data(), nullptr), where);
  std::uint64_t bytes = std::max<std::size_t>(1, H5Tget_size(type));
  for (int i = 0; i < rank; ++i) {
    result.shape.push_back(static_cast<std::int64_t>(extent[i]));
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent[i]), &bytes) ||
        __builtin_mul_overflow(result.count, result.shape.back(), &result.count)) {
      refuse(name, "its shape overflows");
    }
  }
  if (H5Sget_simple_extent_type(space) == H5S_NULL) {
    refuse(name, "has no data");
  }
  const Handle creation = handle_of(H5Dget_create_plist(dataset), where);
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(path_, error);
  const std::uint64_t stored = H5Dget_storage_size(dataset);
  const bool filtered = has_filters(name, creation);
  if (bytes > 0) bytes = std::max(bytes, chunk_bytes(creation, H5Tget_size(type)));  // in memory as a whole
  if (error || stored > file_bytes || bytes / (filtered ? compression_limit : 1) > stored) {
    refuse(name,
           "declares " + std::to_string(bytes) + " bytes, but the file stores " + std::to_string(stored));
  }
  if (filtered && bytes > most_unpacked(file_bytes)) {
    refuse(name, "unpacks to " + std::to_string(bytes) + " bytes, and the whole file has " +
                     std::to_string(file_bytes) + "; expected at most " + std::to_string(unpacked_limit) +
                     " times as many");
  }
  const H5T_class_t kind = H5Tget_class(type);
  const bool plain = H5Tget_precision(type) == 8 * H5Tget_size(type) && H5Tget_size(type) <= 8;
  result.integer = kind == H5T_INTEGER && plain;
  result.string = kind == H5T_STRING;
  for (const Element element :
       {Element::uint8, Element::int8, Element::int32, Element::int64, Element::float32, Element::float64}) {
    const hid_t ours = type_of(element);
    if (kind == H5Tget_class(ours) && H5Tget_size(type) == bytes_of(element) &&
        (kind == H5T_FLOAT || H5Tget_sign(type) == H5Tget_sign(ours))) {
      result.element = element;
    }
  }
  return result;
}

bool Hdf5File::has_filters(const std::string& name, hid_t creation) const {
  const int count = static_cast<int>(check(H5Pget_nfilters(creation), name));
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    const auto filter =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &config);
    // HDF5's other decoders trust the lengths that they find.
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32) {
      refuse(name, "is stored through filter " + std::to_string(filter) +
                       "; expected deflate, shuffle or fletcher32");
    }
  }
  return count > 0;
}

void Hdf5File::read(const std::string& name, Element element, void* data, std::size_t bytes) const {
  const DatasetInfo what = info(name);
  if (!what.integer && !what.element) {
    refuse(name, "does not hold numbers; expected " + std::string(name_of(element)));
  }
  if (static_cast<std::uint64_t>(what.count) * bytes_of(element) != bytes) {
    refuse(name, "holds " + std::to_string(what.count) + " elements; expected " +
                     std::to_string(bytes / bytes_of(element)));
  }
  if (bytes > 0) {
    check(H5Dread(open(name), type_of(element), H5S_ALL, H5S_ALL, H5P_DEFAULT, data),
          path_.string() + ": " + name + ": cannot be read");
  }
}

std::shared_ptr<const void> Hdf5File::map(const std::string& name, Element element) const {
  const auto what = info(name);
  const auto dataset = open(name);
  const auto type = handle_of(H5Dget_type(dataset), path_.string() + ": " + name);
  const auto layout = handle_of(H5Dget_create_plist(dataset), path_.string() + ": " + name);
  const auto offset = H5Dget_offset(dataset);
  if (what.element != element || what.count == 0 || H5Tequal(type, type_of(element)) <= 0 ||
      H5Pget_layout(layout) != H5D_CONTIGUOUS || H5Pget_external_count(layout) != 0 || offset == HADDR_UNDEF)
    return nullptr;
  const auto bytes = static_cast<std::uint64_t>(what.count) * bytes_of(element);
  const auto size = std::filesystem::file_size(path_);
  if (offset > size || bytes > size - offset || offset % bytes_of(element) != 0) return nullptr;

  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const auto begin = offset / page * page;
  const auto whole = map_file(path_, begin, static_cast<std::size_t>(offset + bytes - begin));
  return {whole, whole.get() + (offset - begin)};
}

std::vector<std::string> Hdf5File::strings(const std::string& name) const {
  const std::string where = path_.string() + ": " + name;
  const DatasetInfo what = info(name);
  if (!what.string || what.shape.size() != 1) {
    refuse(name, "expected a list of strings");
  }
  const Handle dataset = open(name);
  const Handle type = handle_of(H5Dget_type(dataset), where);
  const Handle space = handle_of(H5Dget_space(dataset), where);
  std::error_code error;
  const auto most = most_unpacked(std::filesystem::file_size(path_, error));
  TextMemory memory{most};
  const Handle transfer = handle_of(H5Pcreate(H5P_DATASET_XFER), where);
  check(H5Pset_vlen_mem_manager(transfer, TextMemory::take, &memory, TextMemory::give_back, nullptr), where);
  const auto read = [&](hid_t in_memory, void* buffer) {
    const auto result = H5Dread(dataset, in_memory, H5S_ALL, H5S_ALL, transfer, buffer);
    check(result, where + ": cannot be read, or its texts take more than " + std::to_string(most) + " bytes");
  };
  return detail::read_strings(type, space, static_cast<std::size_t>(what.count), transfer, read);
}

Handle Hdf5File::attribute(const std::string& object, const std::string& name) const {
  if (!has(object) || H5Aexists_by_name(file_, object.c_str(), name.c_str(), links_) <= 0) {
    H5Eclear2(H5E_DEFAULT);
    return {};
  }
  const std::string where = path_.string() + ": " + object + ": attribute " + name;
  Handle result = handle_of(H5Aopen_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT, links_), where);
  std::error_code error;
  if (H5Aget_storage_size(result) > std::filesystem::file_size(path_, error)) {
    refuse(object, "attribute " + name + " is larger than the file");
  }
  return result;
}

std::optional<std::string> Hdf5File::text_attribute(const std::string& object,
                                                    const std::string& name) const {
  const std::string where = path_.string() + ": " + object + ": attribute " + name;
  const Handle handle = attribute(object, name);
  if (handle < 0) {
    return std::nullopt;
  }
  const Handle type = handle_of(H5Aget_type(handle), where);
  const Handle space = handle_of(H5Aget_space(handle), where);
  if (H5Tget_class(type) != H5T_STRING || H5Sget_simple_extent_npoints(space) != 1) {
    refuse(object, "attribute " + name + ": expected one string");
  }
  return detail::read_strings(
             type, space, 1, H5P_DEFAULT,
             [&](hid_t memory, void* buffer) { check(H5Aread(handle, memory, buffer), where); })
      .front();
}

std::optional<std::vector<double>> Hdf5File::number_attribute(const std::string& object,
                                                              const std::string& name) const {
  const std::string where = path_.string() + ": " + object + ": attribute " + name;
  const Handle handle = attribute(object, name);
  if (handle < 0) {
    return std::nullopt;
  }
  const Handle type = handle_of(H5Aget_type(handle), where);
  const Handle space = handle_of(H5Aget_space(handle), where);
  if ((H5Tget_class(type) != H5T_INTEGER && H5Tget_class(type) != H5T_FLOAT)) {
    refuse(object, "attribute " + name + ": expected numbers");
  }
  std::vector<double> values(static_cast<std::size_t>(check(H5Sget_simple_extent_npoints(space), where)));
  if (!values.empty()) {
    check(H5Aread(handle, H5T_NATIVE_DOUBLE, values.data()), where);
  }
  return values;
}

}  // namespace taugrid::store
