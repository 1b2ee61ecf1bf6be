// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/other_format.hpp"

namespace taugrid::store {

std::string other_format(std::string_view begin) {
  constexpr std::string_view zip("PK\3\4", 4), gzip("\x1f\x8b\x08", 3), none("\0\0\0\0", 4);
  if (begin.starts_with(zip)) return "a zip archive, as torch.save makes them (a pickle, which is not read)";
  if (begin.starts_with(gzip)) return "compressed by gzip";
  // A header's length has zeros here, whatever it begins with.
  if (begin.size() < 8 || begin.substr(4, 4) == none) return "";
  if (begin.starts_with("version https://git-lfs"))
    return "a pointer of Git LFS in the file's place (git lfs pull fetches the file)";
  if (begin.starts_with("\x89HDF")) return "an HDF5 file";
  if (begin.starts_with("GGUF")) return "a GGUF file";
  if (begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5) return "a pickle, which is not read";
  const auto first = begin.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && begin[first] == '<')
    return "a page of HTML or XML (a download that was answered with a page)";
  return "";
}

}  // namespace taugrid::store
