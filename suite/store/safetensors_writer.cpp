// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/safetensors_writer.hpp"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "suite/error.hpp"
#include "suite/store/quoted.hpp"
#include "suite/store/safetensors_header.hpp"

namespace taugrid::store {

using Json = nlohmann::json;

namespace {

void require_known(const std::filesystem::path& path, const SafetensorsWriter::Contents& contents) {
  for (const auto& [name, info] : contents) {
    if (!detail::safetensors_type(info.scalar) || name == "__metadata__")
      throw InputError("cannot write " + path.string() + ": tensor " + quoted(name) +
                       " has a name or type that safetensors lacks");
  }
}

Json entry_of(const MappedTensors::Info& info, std::uint64_t begin, std::uint64_t end) {
  return {{"dtype", *detail::safetensors_type(info.scalar)},
          {"shape", info.shape},
          {"data_offsets", {begin, end}}};
}

/// Throws InputError where a text is not UTF-8.
std::string dumped(const std::filesystem::path& path, const Json& header) {
  try {
    return header.dump();
  } catch (const Json::exception&) {
    throw InputError("cannot write " + path.string() + ": a name or the metadata is not UTF-8");
  }
}

/// A header's length, as it stands before it: the lowest byte first.
std::array<char, 8> as_bytes(std::uint64_t length) {
  std::array<char, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(length >> 8 * i & 0xff);
  return bytes;
}

}  // namespace

namespace detail {

SafetensorsLayout::SafetensorsLayout(const std::filesystem::path& path, Contents contents_of_file,
                                     const std::map<std::string, std::string>& metadata)
    : contents((require_known(path, contents_of_file), std::move(contents_of_file))) {
  // Wide types first keeps every tensor aligned; within a width by name.
  std::vector<std::pair<std::string, std::size_t>> ordered;
  for (const auto& [name, info] : contents) ordered.emplace_back(name, c10::elementSize(info.scalar));
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, width] : ordered) {
    const auto& info = contents.at(name);
    begins[name] = offset;
    auto end = offset + width;
    for (const auto size_of_dimension : info.shape)
      end = offset + (end - offset) * static_cast<std::uint64_t>(size_of_dimension);
    header[name] = entry_of(info, offset, end);
    offset = end;
  }
  auto text = dumped(path, header);
  text.append((8 - text.size() % 8) % 8, ' ');
  const auto length = as_bytes(text.size());
  head.assign(length.begin(), length.end());
  head += text;
  for (auto& entry : begins) entry.second += head.size();
  size = offset + head.size();
}

template <class Write>
void SafetensorsLayout::each(const std::string& name, std::int64_t begin, const at::Tensor& numbers,
                             const Write& write) const {
  const auto scalar = contents.at(name).scalar;
  if (numbers.scalar_type() != scalar)
    throw std::invalid_argument("tensor " + name + " is written as another type than it has");
  const auto plain = numbers.detach().cpu().contiguous();
  write(begins.at(name) + static_cast<std::uint64_t>(begin) * c10::elementSize(scalar),
        plain.const_data_ptr(), plain.nbytes());
}

}  // namespace detail

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const Contents& contents,
                                     const std::map<std::string, std::string>& metadata)
    : layout_(path, contents, metadata), file_(path) {
  file_.write(layout_.head);
}

void SafetensorsWriter::write(const std::string& name, std::int64_t begin, const at::Tensor& numbers) {
  layout_.each(name, begin, numbers, [&](std::uint64_t place, const void* bytes, std::size_t count) {
    file_.write_at(place, bytes, count);
  });
}

void SharedSafetensors::create(const std::filesystem::path& path, const SafetensorsWriter::Contents& contents,
                               const std::map<std::string, std::string>& metadata) {
  const detail::SafetensorsLayout layout(path, contents, metadata);
  write_atomically(path, [&](AtomicFile& file) {
    file.write(layout.head);
    if (layout.size > layout.head.size()) file.write_at(layout.size - 1, "", 1);  // the rest takes no room
  });
}

namespace {

/// Opens a file of this layout to write to it. Negative: there is none, but nothing or another file. Throws
/// InputError where that cannot be told.
int open_as_created(const std::filesystem::path& path, const detail::SafetensorsLayout& layout) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ELOOP) return -1;
    refuse_to_write(path, errno);
  }
  struct stat status {};
  std::string head(layout.head.size(), '\0');
  const bool is_same =
      ::fstat(descriptor, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == layout.size &&
      ::pread(descriptor, head.data(), head.size(), 0) == std::ssize(head) && head == layout.head;
  if (is_same) return descriptor;
  ::close(descriptor);
  return -1;
}

}  // namespace

bool SharedSafetensors::stands(const std::filesystem::path& path, const SafetensorsWriter::Contents& contents,
                               const std::map<std::string, std::string>& metadata) {
  const int descriptor = open_as_created(path, {path, contents, metadata});
  if (descriptor >= 0) ::close(descriptor);
  return descriptor >= 0;
}

SharedSafetensors::SharedSafetensors(const std::filesystem::path& path,
                                     const SafetensorsWriter::Contents& contents,
                                     const std::map<std::string, std::string>& metadata, bool others)
    : path_(path), layout_(path, contents, metadata), others_(others) {
  descriptor_ = open_as_created(path_, layout_);
  if (descriptor_ < 0) throw InputError(path_.string() + ": is not as it was left");
}

SharedSafetensors::~SharedSafetensors() { ::close(descriptor_); }

void SharedSafetensors::write(const std::string& name, std::int64_t begin, const at::Tensor& numbers) {
  layout_.each(name, begin, numbers, [&](std::uint64_t place, const void* bytes, std::size_t count) {
    if (count == 0) return;
    // NFS writes whole pages, also what another host has written beside these bytes, but of files with locks.
    // Systems that have no locks at all, such as Lustre by default, keep the places apart by themselves.
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(place);
    range.l_len = static_cast<off_t>(count);
    const bool is_locked = others_ && ::fcntl(descriptor_, F_SETLKW, &range) == 0;
    if (others_ && !is_locked && errno != ENOSYS && errno != EOPNOTSUPP) refuse_to_write(path_, errno);
    pwrite_all(descriptor_, path_, place, bytes, count);
    range.l_type = F_UNLCK;
    if (is_locked && ::fcntl(descriptor_, F_SETLK, &range) != 0) refuse_to_write(path_, errno);
    send(place, count);
  });
}

void SharedSafetensors::send(std::uint64_t place, std::uint64_t bytes) {
  constexpr std::uint64_t at_once = std::uint64_t{8} << 20;
  // Linux would begin when a tenth of memory waits. Nothing rests on this: flush() is what is sure.
  const auto start = [&] {
    const auto begin = static_cast<off64_t>(unsent_begin_);
    ::sync_file_range(descriptor_, begin, static_cast<off64_t>(unsent_end_) - begin, SYNC_FILE_RANGE_WRITE);
    unsent_begin_ = unsent_end_;
  };
  if (place != unsent_end_) {
    if (unsent_end_ > unsent_begin_) start();  // of no bytes it would mean all up to the file's end
    unsent_begin_ = place;
  }
  unsent_end_ = place + bytes;
  if (unsent_end_ - unsent_begin_ >= at_once) start();
}

void SharedSafetensors::flush() {
  if (::fsync(descriptor_) != 0) refuse_to_write(path_, errno);
}

SafetensorsAppender::SafetensorsAppender(const std::filesystem::path& path,
                                         const std::vector<std::string>& names,
                                         std::map<std::string, std::string> metadata)
    : path_(path), metadata_(std::move(metadata)), file_(path) {
  constexpr std::size_t of_entry = 64, of_number = 21, numbers = 10;  // two offsets, eight sizes
  room_ = dumped(path, {{"__metadata__", metadata_}}).size() + 8;
  for (const auto& name : names) room_ += dumped(path, name).size() + of_entry + numbers * of_number;
  room_ += (8 - room_ % 8) % 8;
  if (room_ > detail::header_limit)
    throw InputError("cannot write " + path.string() + ": a header for " + std::to_string(names.size()) +
                     " tensors would have " + std::to_string(room_) + " bytes; expected at most " +
                     std::to_string(detail::header_limit) + ", the format's limit");
  file_.write(std::string(as_bytes(room_).size() + room_, ' '));
}

void SafetensorsAppender::append(const std::string& name, const at::Tensor& tensor) {
  const auto plain = tensor.detach().cpu().contiguous();
  const MappedTensors::Info info = {plain.scalar_type(), plain.sizes().vec()};
  require_known(path_, {{name, info}});
  if (!placed_.emplace(name, Placed{info, end_, end_ + plain.nbytes()}).second)
    throw std::logic_error("tensor " + name + " is written twice");
  file_.write(plain.const_data_ptr(), plain.nbytes());
  end_ += plain.nbytes();
}

void SafetensorsAppender::commit() {
  Json header = Json::object();
  if (!metadata_.empty()) header["__metadata__"] = metadata_;
  for (const auto& [name, placed] : placed_) header[name] = entry_of(placed.info, placed.begin, placed.end);
  auto text = dumped(path_, header);
  if (text.size() > room_) throw std::logic_error("a header of safetensors has tensors that nobody named");
  text.append(room_ - text.size(), ' ');
  const auto length = as_bytes(room_);
  file_.write_at(0, length.data(), length.size());
  file_.write_at(length.size(), text.data(), text.size());
  file_.commit();
}

}  // namespace taugrid::store
