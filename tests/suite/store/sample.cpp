// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Writes the files that test_store_python.py reads: FOLDER/results.h5 by all ranks,
// FOLDER/written.safetensors. Copies FOLDER/python.safetensors, if there, to FOLDER/copied.safetensors.
#include <ATen/ATen.h>
#include <mpi.h>

#include <filesystem>

#include "suite/store/results.hpp"
#include "suite/store/safetensors.hpp"

namespace {

void write_results(const std::filesystem::path& folder) {
  namespace store = taugrid::store;
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  store::ResultsWriter writer(folder / "results.h5", taugrid::comm::Communicator(MPI_COMM_WORLD));
  writer.attribute("/", "schema_version", std::int64_t{1});
  writer.attribute("/", "command_line", std::string("taugrid run ü.toml"));
  writer.attribute("/provenance", "hosts", std::vector<std::string>{"a", "b"});
  writer.attribute("/correct", "points", at::arange(6).view({3, 1, 2}));
  writer.attribute("/correct", "each", at::scalar_tensor(7, at::kLong));
  writer.scale("/tasks/name", {"mnist", "dtd", "größe"}, "task");
  writer.scale("/disentanglement/linear/alpha", at::tensor({-1.0, 0.0, 1.0, 2.0}, at::kFloat), "alpha");
  writer.create("/similarity/linear/cosine", store::Element::float64, {3, 3}, {"task", "task"}, "1");
  for (std::int64_t row = 0; row < 3; ++row) {
    const std::vector<double> numbers(3, static_cast<double>(row));
    std::vector<store::Slab> mine;
    if (row % ranks == rank) mine.push_back({{row, 0}, {1, 3}, numbers.data()});
    writer.write_slabs("/similarity/linear/cosine", mine);
  }
  writer.put("/addition/linear/absolute", at::scalar_tensor(0.5, at::kFloat), {});
  writer.create("/never/measured", store::Element::float32, {2}, {"pair"}, "s");
  writer.units({{"disentanglement/0", 0, 1.5, "cpu"}, {"ü", 1, 2.5, "H100"}});
  writer.commit();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  write_results(folder);
  taugrid::store::TensorFile file;
  file.metadata = {{"format", "pt"}};
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                          at::kChar, at::kByte, at::kBool}) {
    file.tensors[c10::toString(type)] = at::arange(6).reshape({2, 3}).to(type);
  }
  file.tensors["empty"] = at::empty({0, 4});
  file.tensors["scalar"] = at::scalar_tensor(2.5, at::kFloat);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    taugrid::store::write_safetensors(folder / "written.safetensors", file);
  }
  if (rank == 0 && std::filesystem::exists(folder / "python.safetensors")) {
    taugrid::store::write_safetensors(folder / "copied.safetensors",
                                      taugrid::store::read_safetensors(folder / "python.safetensors"));
  }
  MPI_Finalize();
  return 0;
}
