// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// G[i,j] = ⟨vᵢ, vⱼ⟩. The vectors are cut into chunks whose size depends on their length alone; each chunk's
// sums are stored, and added in order at the end, so that the result does not depend on who computed which.
//
// Memory model: T·P·sizeof(Scalar) bytes; T·(T+1)·P flops.
#include <Kokkos_Core.hpp>
#include <algorithm>

#include "kernels/weights/detail/gram_host.hpp"
#include "kernels/weights/detail/kokkos.hpp"

namespace taugrid::weights::detail {
namespace {


template <class Scalar>
struct ChunkOnHost {
  const Scalar* const* vectors;
  const Scalar* start;
  int count;
  std::int64_t length, chunk_size;
  double* sums;  // [chunks, pairs]

  void operator()(const std::int64_t chunk) const {
    const std::int64_t begin = chunk * chunk_size;
    const std::int64_t end = std::min(length, begin + chunk_size);
    double* mine = sums + chunk * (static_cast<std::int64_t>(count) * (count + 1) / 2);
    if (count == 1) {
      HostGram<Scalar, 1>(vectors, count, start)(begin, end, mine);
    } else if (count == 2) {
      HostGram<Scalar, 2>(vectors, count, start)(begin, end, mine);
    } else {
      HostGram<Scalar, gram_tile>(vectors, count, start)(begin, end, mine);
    }
  }
};

template <class Scalar>
struct Vector {
  const Scalar* data;
};

// One team takes one tile of pairs over one chunk; teams of the same chunk are neighbours and share the
// cache.
template <class Scalar, class Execution>
struct ChunkOnDevice {
  static constexpr int tile = 4;
  using Memory = typename Execution::memory_space;
  using Team = typename Kokkos::TeamPolicy<Execution>::member_type;

  Kokkos::View<Vector<Scalar>*, Memory> vectors;
  std::int64_t length, chunk_size;
  int tiles;                                                  // along a side
  Kokkos::View<double***, Kokkos::LayoutRight, Memory> sums;  // [chunks, T, T], i ≤ j

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const int pair_tiles = tiles * (tiles + 1) / 2;
    const std::int64_t chunk = team.league_rank() / pair_tiles;
    int row = 0, column = team.league_rank() % pair_tiles;
    for (; column >= tiles - row; ++row) column -= tiles - row;
    column += row;
    const int count = static_cast<int>(vectors.extent(0));
    const Scalar* left[tile];
    const Scalar* right[tile];
    double sum[tile][tile];
    for (int r = 0; r < tile; ++r) {  // beyond the last vector the last again; not stored
      left[r] = vectors(row * tile + r < count ? row * tile + r : count - 1).data;
      right[r] = vectors(column * tile + r < count ? column * tile + r : count - 1).data;
      for (int c = 0; c < tile; ++c) sum[r][c] = 0;
    }
    const std::int64_t begin = chunk * chunk_size;
    const std::int64_t end = begin + chunk_size < length ? begin + chunk_size : length;
    for (std::int64_t k = begin + team.team_rank(); k < end; k += team.team_size()) {
      double y[tile];
      for (int c = 0; c < tile; ++c) y[c] = static_cast<double>(right[c][k]);
      for (int r = 0; r < tile; ++r) {
        const auto x = static_cast<double>(left[r][k]);
        for (int c = 0; c < tile; ++c) sum[r][c] += x * y[c];
      }
    }
    for (int r = 0; r < tile; ++r) {
      for (int c = 0; c < tile; ++c) {
        team.team_reduce(Kokkos::Sum<double>(sum[r][c]));
        const int i = row * tile + r, j = column * tile + c;
        if (team.team_rank() == 0 && i <= j && j < count) sums(chunk, i, j) = sum[r][c];
      }
    }
  }
};

template <class Execution, class Scalar>
void run_on_device(std::int64_t length, std::span<const Scalar* const> vectors, double* gram) {
  using Kernel = ChunkOnDevice<Scalar, Execution>;
  const auto chunk_size = gram_chunk(length), chunks = (length + chunk_size - 1) / chunk_size;
  const auto count = vectors.size();
  Kernel kernel;
  kernel.length = length;
  kernel.chunk_size = chunk_size;
  kernel.tiles = (static_cast<int>(count) + Kernel::tile - 1) / Kernel::tile;
  kernel.vectors = decltype(kernel.vectors)("vectors", count);
  kernel.sums = decltype(kernel.sums)("gram", static_cast<std::size_t>(chunks), count, count);
  const auto vectors_on_host = Kokkos::create_mirror_view(kernel.vectors);
  for (std::size_t t = 0; t < count; ++t) vectors_on_host(t).data = vectors[t];
  Kokkos::deep_copy(kernel.vectors, vectors_on_host);
  const int league = static_cast<int>(chunks) * kernel.tiles * (kernel.tiles + 1) / 2;
  const Execution execution;
  Kokkos::parallel_for("taugrid::weights::gram",
                       Kokkos::TeamPolicy<Execution>(execution, league, Kokkos::AUTO), kernel);
  execution.fence();
  const auto sums = Kokkos::create_mirror_view(kernel.sums);
  Kokkos::deep_copy(sums, kernel.sums);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i; j < count; ++j) {
      double total = 0;
      for (std::size_t chunk = 0; chunk < sums.extent(0); ++chunk) total += sums(chunk, i, j);
      gram[i * count + j] = gram[j * count + i] = total;
    }
  }
}

}  // namespace

std::int64_t gram_chunk(std::int64_t length) {
  constexpr std::int64_t most = 1024, smallest = 16;  // chunks; blocks a chunk
  const std::int64_t blocks = (length + gram_block - 1) / gram_block;
  return std::max(smallest, (blocks + most - 1) / most) * gram_block;
}

template <class Scalar>
void gram_chunks(std::int64_t length, std::int64_t chunk, std::span<const Scalar* const> vectors,
                 const Scalar* start, double* sums) {
  using Execution = Kokkos::DefaultHostExecutionSpace;
  const ChunkOnHost<Scalar> kernel{vectors.data(), start, static_cast<int>(vectors.size()),
                                   length,         chunk, sums};
  const Execution execution;
  const std::int64_t chunks = (length + chunk - 1) / chunk;
  Kokkos::parallel_for("taugrid::weights::gram",
                       Kokkos::RangePolicy<Execution, Kokkos::IndexType<std::int64_t>>(execution, 0, chunks),
                       kernel);
  execution.fence();
}

template <class Scalar>
void gram_kokkos(Space space, std::int64_t length, std::span<const Scalar* const> vectors, double* gram) {
  switch (space) {
    case Space::device:
      return run_on_device<Kokkos::DefaultExecutionSpace>(length, vectors, gram);
    case Space::host:
    case Space::portable:
      return run_on_device<Kokkos::DefaultHostExecutionSpace>(length, vectors, gram);
  }
}

template void gram_chunks(std::int64_t, std::int64_t, std::span<const float* const>, const float*, double*);
template void gram_chunks(std::int64_t, std::int64_t, std::span<const double* const>, const double*, double*);
template void gram_kokkos(Space, std::int64_t, std::span<const float* const>, double*);
template void gram_kokkos(Space, std::int64_t, std::span<const double* const>, double*);

}  // namespace taugrid::weights::detail
