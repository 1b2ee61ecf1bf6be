// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The Kokkos kernels, on bare memory: arguments are checked by the caller.
#pragma once

#include <cstdint>
#include <span>

namespace taugrid::weights::detail {

/// Host: Kokkos' default host execution space. Device: its default execution space.
/// Portable: the device's gram kernel on the host, for tests.
enum class Space { host, device, portable };

/// Whether Kokkos' default execution space runs on the CUDA or HIP device of this index.
bool kokkos_runs_on_device(int index);

/// Throws std::logic_error unless Kokkos is initialised.
void require_kokkos();

/// alpha [K,T] row by row, in host memory; the rest in the space's memory. Returns when done.
template <class Scalar>
void combine_kokkos(Space space, std::int64_t length, const Scalar* theta0,
                    std::span<const Scalar* const> tau, std::span<const Scalar> alpha, std::int64_t rows,
                    Scalar* out);

/// Numbers of a chunk of vectors of this length: a Gram matrix is the sum of its chunks' ones, in order.
std::int64_t gram_chunk(std::int64_t length);

/// On the host: sums [chunks, T·(T+1)/2] of the pairs (0,0),(0,1),…,(1,1),… of a stretch of `length` numbers
/// that begins with a chunk; of what is left when `start` is subtracted, unless that is null.
template <class Scalar>
void gram_chunks(std::int64_t length, std::int64_t chunk, std::span<const Scalar* const> vectors,
                 const Scalar* start, double* sums);

/// gram [T,T] in host memory; the vectors in the space's memory, device or portable. Returns when done.
template <class Scalar>
void gram_kokkos(Space space, std::int64_t length, std::span<const Scalar* const> vectors, double* gram);

}  // namespace taugrid::weights::detail
