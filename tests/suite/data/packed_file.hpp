// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Writes packed files, right and wrong, for the tests.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "suite/store/hdf5.hpp"

namespace taugrid::testing {

struct PackedFile {
  bool chunked = false;  ///< tensors do not lie in one piece
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::vector<std::string>> strings;
  std::map<std::string, std::string> texts;                                    // root attributes
  std::map<std::pair<std::string, std::string>, std::vector<double>> numbers;  // object, attribute

  void write(const std::filesystem::path& path) const {
    using store::handle_of;
    const store::Handle file =
        handle_of(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "file");
    const store::Handle links = handle_of(H5Pcreate(H5P_LINK_CREATE), "links");
    H5Pset_create_intermediate_group(links, 1);
    const store::Handle text = handle_of(H5Tcopy(H5T_C_S1), "text");
    H5Tset_size(text, H5T_VARIABLE);
    H5Tset_cset(text, H5T_CSET_UTF8);
    for (const auto& [name, tensor] : tensors) {
      const std::vector<hsize_t> shape(tensor.sizes().begin(), tensor.sizes().end());
      const store::Handle space =
          handle_of(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), name);
      const store::Handle layout = handle_of(H5Pcreate(H5P_DATASET_CREATE), name);
      if (chunked)
        H5Pset_chunk(layout, static_cast<int>(shape.size()), std::vector<hsize_t>(shape.size(), 1).data());
      const store::Handle data =
          handle_of(H5Dcreate2(file, name.c_str(), type_of(tensor), space, links, layout, H5P_DEFAULT), name);
      const at::Tensor plain = tensor.contiguous();
      H5Dwrite(data, type_of(tensor), H5S_ALL, H5S_ALL, H5P_DEFAULT, plain.data_ptr());
    }
    for (const auto& [name, values] : strings) {
      const hsize_t count = values.size();
      std::vector<const char*> pointers;
      for (const auto& value : values) {
        pointers.push_back(value.c_str());
      }
      const store::Handle space = handle_of(H5Screate_simple(1, &count, nullptr), name);
      const store::Handle data =
          handle_of(H5Dcreate2(file, name.c_str(), text, space, links, H5P_DEFAULT, H5P_DEFAULT), name);
      if (count > 0) {
        H5Dwrite(data, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data());
      }
    }
    for (const auto& [name, value] : texts) {
      const store::Handle space = handle_of(H5Screate(H5S_SCALAR), name);
      const store::Handle attribute =
          handle_of(H5Acreate2(file, name.c_str(), text, space, H5P_DEFAULT, H5P_DEFAULT), name);
      const char* pointer = value.c_str();
      H5Awrite(attribute, text, &pointer);
    }
    for (const auto& [where, values] : numbers) {
      const hsize_t count = values.size();
      const store::Handle object = handle_of(H5Oopen(file, where.first.c_str(), H5P_DEFAULT), where.first);
      const store::Handle space = handle_of(H5Screate_simple(1, &count, nullptr), where.second);
      const store::Handle attribute =
          handle_of(H5Acreate2(object, where.second.c_str(), H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT),
                    where.second);
      H5Awrite(attribute, H5T_IEEE_F64LE, values.data());
    }
  }

 private:
  static hid_t type_of(const at::Tensor& tensor) {
    switch (tensor.scalar_type()) {
      case at::kByte:
        return H5T_STD_U8LE;
      case at::kChar:
        return H5T_STD_I8LE;
      case at::kInt:
        return H5T_STD_I32LE;
      case at::kLong:
        return H5T_STD_I64LE;
      case at::kFloat:
        return H5T_IEEE_F32LE;
      default:
        return H5T_IEEE_F64LE;
    }
  }
};

}  // namespace taugrid::testing
