// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "suite/error.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/input_json.hpp"
#include "suite/store/other_format.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::store::detail {
namespace {

using Json = nlohmann::json;

constexpr std::size_t most_values = 2'000'000;       // those of some 250,000 tensors
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

class Reader {
 public:
  Reader(const std::filesystem::path& path, std::istream& stream) : path_(path), stream_(stream) {
    std::error_code error;
    size_ = std::filesystem::file_size(path, error);
    if (error || !stream_) refuse("cannot be read; expected a safetensors file");
  }

  SafetensorsHeader read() {
    const Json header = read_header();
    SafetensorsHeader result;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(value, result);
      } else {
        result.entries.push_back(read_entry(name, value));
      }
    }
    check_layout(result.entries);
    for (auto& entry : result.entries) {
      entry.begin += data_start_;
      entry.end += data_start_;
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
    if (size_ == 0) refuse("is empty; expected a safetensors file");
    if (size_ < raw.size()) {
      refuse("has " + std::to_string(size_) + " bytes; a safetensors file has at least 8");
    }
    read_bytes(raw.data(), 0, raw.size());
    std::uint64_t length = 0;
    for (std::size_t i = raw.size(); i-- > 0;) {
      length = length << 8 | raw[i];
    }
    if (length > header_limit || length > size_ - raw.size()) refuse_other_formats();
    if (length > header_limit) {
      refuse("header length " + std::to_string(length) + "; at most " + std::to_string(header_limit) +
             " is allowed");
    }
    if (length > size_ - raw.size()) {
      refuse("header length " + std::to_string(length) + " exceeds the file's " + std::to_string(size_) +
             " bytes; the file is cut short or no safetensors file");
    }
    data_start_ = raw.size() + length;
    std::string text(length, '\0');
    read_bytes(text.data(), raw.size(), length);
    return parse(text);
  }

  /// Names what others leave in a safetensors file's place, if it is that.
  void refuse_other_formats() {
    std::string begin(std::min<std::uint64_t>(size_, 64), '\0');
    read_bytes(begin.data(), 0, begin.size());
    if (const auto format = other_format(begin); !format.empty())
      refuse("is " + format + "; expected a safetensors file");
  }

  Json parse(const std::string& text) {
    // Three deep: tensors, a tensor's parts, and its shape. The parser would keep the last of equal keys.
    const auto header = bounded_json(
        text, {.deepest = 3, .most_values = most_values, .once = true}, [&](const auto& problem) {
          refuse_other_formats();
          refuse("header " + problem + "; expected tensors with dtype, shape and data_offsets");
        });
    if (!header.is_object()) {
      refuse("header is not a JSON object");
    }
    return header;
  }

  void read_metadata(const Json& value, SafetensorsHeader& result) const {
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

  TensorEntry read_entry(const std::string& name, const Json& value) const {
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets")) {
      refuse(name, "expected an object of dtype, shape and data_offsets");
    }
    TensorEntry entry;
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
                       " lie outside the file's " + std::to_string(available) +
                       " bytes of data; the file is cut short or its header is wrong");
    }
    if (entry.end - entry.begin != bytes) {
      refuse(name, "shape and dtype take " + std::to_string(bytes) + " bytes, data_offsets span " +
                       std::to_string(entry.end - entry.begin));
    }
    return entry;
  }

  std::uint64_t bytes_of_shape(TensorEntry& entry, const Json& shape) const {
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

  void check_layout(std::vector<TensorEntry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
      return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    std::uint64_t reached = 0;
    for (const TensorEntry& entry : entries) {
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

  const std::filesystem::path& path_;
  std::istream& stream_;
  std::uint64_t size_ = 0;
  std::uint64_t data_start_ = 0;
};

}  // namespace

std::ifstream open_safetensors(const std::filesystem::path& path) {
  // Opening a FIFO would wait for somebody who writes to it.
  if (const auto kind = other_than_file(path); !kind.empty())
    throw InputError(path.string() + ": is " + kind + "; expected a safetensors file");
  return std::ifstream(path, std::ios::binary);
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& path, std::istream& stream) {
  return Reader(path, stream).read();
}

void require_bool(const std::filesystem::path& path, const std::string& tensor, const std::byte* bytes,
                  std::uint64_t count) {
  if (std::any_of(bytes, bytes + count, [](std::byte b) { return b > std::byte{1}; }))
    throw InputError(path.string() + ": tensor " + quoted(tensor) + ": a BOOL is neither 0 nor 1");
}

std::optional<std::string_view> safetensors_type(at::ScalarType scalar) {
  for (const Type& type : types) {
    if (type.scalar == scalar) return type.name;
  }
  return std::nullopt;
}

}  // namespace taugrid::store::detail
