// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "suite/error.hpp"
#include "suite/store/atomic_file.hpp"

namespace taugrid::store {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t header_limit = 100'000'000;  // the format's own limit
constexpr std::size_t dimension_limit = 64;          // LibTorch's

struct Type {
  std::string_view name;
  at::ScalarType scalar;
};
constexpr std::array<Type, 10> types = {{{"F64", at::kDouble},
                                         {"F32", at::kFloat},
                                         {"F16", at::kHalf},
                                         {"BF16", at::kBFloat16},
                                         {"I64", at::kLong},
                                         {"I32", at::kInt},
                                         {"I16", at::kShort},
                                         {"I8", at::kChar},
                                         {"U8", at::kByte},
                                         {"BOOL", at::kBool}}};

struct Entry {
  std::string name;
  at::ScalarType scalar = at::kFloat;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Names come from the file: kept short and on one line.
std::string quoted(const std::string& text) {
  const std::string shown = Json(text.substr(0, 100)).dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > 100 ? shown + "…" : shown;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), stream_(path, std::ios::binary) {
    std::error_code error;
    size_ = std::filesystem::file_size(path, error);
    if (error || !stream_) {
      refuse("cannot be read; expected a safetensors file");
    }
  }

  /// All tensors, or the one of that name.
  TensorFile read(const std::string& only = {}) {
    const Json header = read_header();
    TensorFile result;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(value, result);
      } else {
        entries.push_back(read_entry(name, value));
      }
    }
    check_layout(entries);
    for (const Entry& entry : entries) {
      if (!only.empty() && entry.name != only) continue;
      at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(entry.scalar));
      read_bytes(tensor.data_ptr(), data_start_ + entry.begin, entry.end - entry.begin);
      if (entry.scalar == at::kBool) {
        check_bool(entry, tensor);
      }
      result.tensors.emplace(entry.name, std::move(tensor));
    }
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw InputError(path_.string() + ": " + problem);
  }
  [[noreturn]] void refuse(const std::string& tensor, const std::string& problem) const {
    refuse("tensor " + quoted(tensor) + ": " + problem);
  }

  void read_bytes(void* data, std::uint64_t offset, std::uint64_t bytes) {
    stream_.seekg(static_cast<std::streamoff>(offset));
    if (bytes > 0 && !stream_.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes))) {
      refuse("cannot read " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset));
    }
  }

  Json read_header() {
    std::array<unsigned char, 8> raw{};
    if (size_ < raw.size()) {
      refuse("has " + std::to_string(size_) + " bytes; a safetensors file has at least 8");
    }
    read_bytes(raw.data(), 0, raw.size());
    std::uint64_t length = 0;
    for (std::size_t i = raw.size(); i-- > 0;) {
      length = length << 8 | raw[i];
    }
    if (length > header_limit) {
      refuse("header length " + std::to_string(length) + "; at most " + std::to_string(header_limit) +
             " is allowed");
    }
    if (length > size_ - raw.size()) {
      refuse("header length " + std::to_string(length) + " exceeds the file's " + std::to_string(size_) +
             " bytes; the file is truncated or no safetensors file");
    }
    data_start_ = raw.size() + length;
    std::string text(length, '\0');
    read_bytes(text.data(), raw.size(), length);
    return parse(text);
  }

  Json parse(const std::string& text) const {
    // The parser keeps the last of several equal keys, so they are caught as they pass.
    std::vector<std::set<std::string>> seen;
    const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
      if (depth > 3) {
        refuse("header is nested too deeply; expected tensors with dtype, shape and data_offsets");
      }
      if (event == Json::parse_event_t::object_start) {
        seen.emplace_back();
      } else if (event == Json::parse_event_t::object_end) {
        seen.pop_back();
      } else if (event == Json::parse_event_t::key) {
        const std::string& key = value.get_ref<const std::string&>();
        if (!seen.back().insert(key).second) {
          refuse("header has the key " + quoted(key) + " twice");
        }
      }
      return true;
    };
    Json header;
    try {
      header = Json::parse(text, watch);
    } catch (const Json::exception& error) {
      refuse("header is not JSON: " + quoted(error.what()));
    }
    if (!header.is_object()) {
      refuse("header is not a JSON object");
    }
    return header;
  }

  void read_metadata(const Json& value, TensorFile& result) const {
    if (!value.is_object()) {
      refuse("__metadata__ is not an object of texts");
    }
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) {
        refuse("__metadata__ " + quoted(key) + " is not text");
      }
      result.metadata.emplace(key, text.get<std::string>());
    }
  }

  Entry read_entry(const std::string& name, const Json& value) const {
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets")) {
      refuse(name, "expected an object of dtype, shape and data_offsets");
    }
    Entry entry;
    entry.name = name;
    const Json& type = value["dtype"];
    const auto* known = std::find_if(types.begin(), types.end(),
                                     [&](const Type& t) { return type.is_string() && type == t.name; });
    if (known == types.end()) {
      refuse(name, "unknown dtype " + (type.is_string() ? quoted(type.get<std::string>()) : "(no text)") +
                       "; expected one of F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL");
    }
    entry.scalar = known->scalar;
    const std::uint64_t bytes = bytes_of_shape(entry, value["shape"]);
    const Json& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      refuse(name, "data_offsets are not two non-negative integers");
    }
    entry.begin = offsets[0].get<std::uint64_t>();
    entry.end = offsets[1].get<std::uint64_t>();
    const std::uint64_t available = size_ - data_start_;
    if (entry.begin > entry.end || entry.end > available) {
      refuse(name, "data_offsets " + std::to_string(entry.begin) + " … " + std::to_string(entry.end) +
                       " lie outside the file's " + std::to_string(available) + " bytes of data");
    }
    if (entry.end - entry.begin != bytes) {
      refuse(name, "shape and dtype take " + std::to_string(bytes) + " bytes, data_offsets span " +
                       std::to_string(entry.end - entry.begin));
    }
    return entry;
  }

  std::uint64_t bytes_of_shape(Entry& entry, const Json& shape) const {
    if (!shape.is_array() || shape.size() > dimension_limit) {
      refuse(entry.name, "shape is not a list of at most " + std::to_string(dimension_limit) + " integers");
    }
    std::int64_t product = static_cast<std::int64_t>(c10::elementSize(entry.scalar));
    bool empty = false;
    for (const Json& extent : shape) {
      if (!extent.is_number_unsigned()) {
        refuse(entry.name, "shape has an entry that is not a non-negative integer");
      }
      const auto value = extent.get<std::uint64_t>();
      // Zeros are left out of the product: strides must not overflow either.
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
          __builtin_mul_overflow(product, std::max<std::int64_t>(1, static_cast<std::int64_t>(value)),
                                 &product)) {
        refuse(entry.name, "the product of the shape overflows");
      }
      empty = empty || value == 0;
      entry.shape.push_back(static_cast<std::int64_t>(value));
    }
    return empty ? 0 : static_cast<std::uint64_t>(product);
  }

  void check_layout(std::vector<Entry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    std::uint64_t reached = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != reached) {
        refuse(entry.name, "data begins at " + std::to_string(entry.begin) +
                               ", but the tensor before it ends at " + std::to_string(reached) +
                               (entry.begin < reached ? "; tensors overlap" : "; there is a gap"));
      }
      reached = entry.end;
    }
    if (reached != size_ - data_start_) {
      refuse(std::to_string(size_ - data_start_ - reached) + " bytes follow the last tensor; expected none");
    }
  }

  void check_bool(const Entry& entry, const at::Tensor& tensor) const {
    const auto* bytes = static_cast<const unsigned char*>(tensor.data_ptr());
    if (std::any_of(bytes, bytes + tensor.numel(), [](unsigned char b) { return b > 1; })) {
      refuse(entry.name, "a BOOL is neither 0 nor 1");
    }
  }

  const std::filesystem::path& path_;
  std::ifstream stream_;
  std::uint64_t size_ = 0;
  std::uint64_t data_start_ = 0;
};

std::optional<std::string_view> type_name(at::ScalarType scalar) {
  for (const Type& type : types) {
    if (type.scalar == scalar) {
      return type.name;
    }
  }
  return std::nullopt;
}

}  // namespace

TensorFile read_safetensors(const std::filesystem::path& path) { return Reader(path).read(); }

at::Tensor read_tensor(const std::filesystem::path& path, const std::string& name) {
  auto file = Reader(path).read(name);
  if (file.tensors.empty()) throw InputError(path.string() + ": has no tensor " + quoted(name));
  return file.tensors.begin()->second;
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  // Wide types first keeps every tensor aligned; within a width by name.
  std::vector<std::pair<std::string, at::Tensor>> ordered(file.tensors.begin(), file.tensors.end());
  for (const auto& [name, tensor] : ordered) {
    if (!tensor.defined() || !type_name(tensor.scalar_type()) || name == "__metadata__") {
      throw InputError("cannot write " + path.string() + ": tensor " + quoted(name) +
                       " has a name or type that safetensors lacks");
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  Json header = Json::object();
  if (!file.metadata.empty()) {
    header["__metadata__"] = file.metadata;
  }
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : ordered) {
    const std::uint64_t end = offset + tensor.nbytes();
    header[name] = {{"dtype", *type_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    throw InputError("cannot write " + path.string() + ": a name or the metadata is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>(text.size() >> 8 * i & 0xff);
  }
  write_atomically(path, [&](AtomicFile& out) {
    out.write(length.data(), length.size());
    out.write(text);
    for (const auto& entry : ordered) {
      const at::Tensor plain = entry.second.detach().cpu().contiguous();
      out.write(plain.data_ptr(), plain.nbytes());
    }
  });
}

void require_finite(const TensorFile& file, const std::filesystem::path& path) {
  for (const auto& [name, tensor] : file.tensors) {
    if (at::isFloatingType(tensor.scalar_type()) && !at::isfinite(tensor).all().item<bool>()) {
      throw InputError((path.empty() ? "" : path.string() + ": ") + "tensor " + quoted(name) +
                       " has a NaN or an infinity; expected finite numbers");
    }
  }
}

}  // namespace taugrid::store
