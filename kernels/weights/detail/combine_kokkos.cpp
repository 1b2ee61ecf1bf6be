// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// out[k] = θ0 + Σₜ alpha[k,t]·tau[t], by blocks of the vectors. A work item takes one block through all K and
// T while it stays in cache, in tiles of a few rows k and a few terms t whose sizes the compiler knows.
//
// Memory model: (1 + T + K)·P·sizeof(Scalar) bytes; 2·K·T·P flops.
#include <Kokkos_Core.hpp>

#include "kernels/weights/detail/kokkos.hpp"

#if defined(__clang__)
#define TAUGRID_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__) && !defined(__NVCC__)
#define TAUGRID_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#else
#define TAUGRID_INDEPENDENT_ITERATIONS
#endif

namespace taugrid::weights::detail {
namespace {

// Kokkos reads View<T**> as two dimensions, so a View of pointers needs this wrapper.
template <class Scalar>
struct Vector {
  const Scalar* data;
};

template <class Scalar, class Execution, int Width>
class Combine {
 public:
  using Memory = typename Execution::memory_space;
  using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;

  Kokkos::View<const Scalar*, Memory, Unmanaged> theta0;
  Kokkos::View<Vector<Scalar>*, Memory> tau;
  Kokkos::View<Scalar**, Kokkos::LayoutRight, Memory> alpha;
  Kokkos::View<Scalar**, Kokkos::LayoutRight, Memory, Unmanaged> out;

  KOKKOS_FUNCTION void operator()(const std::int64_t block) const {
    const std::int64_t begin = block * Width;
    const std::int64_t rest = static_cast<std::int64_t>(theta0.extent(0)) - begin;
    const int size = rest < Width ? static_cast<int>(rest) : Width;
    const int rows = static_cast<int>(alpha.extent(0));
    int k = 0;
    for (; k + 4 <= rows; k += 4) all_terms<4>(k, begin, size);
    for (; k + 2 <= rows; k += 2) all_terms<2>(k, begin, size);
    for (; k < rows; ++k) all_terms<1>(k, begin, size);
  }

 private:
  template <int Rows>
  KOKKOS_FUNCTION void all_terms(const int k, const std::int64_t begin, const int size) const {
    const int terms = static_cast<int>(tau.extent(0));
    if (terms == 0) tile<Rows, 0>(k, 0, begin, size);
    int t = 0;
    for (; t + 8 <= terms; t += 8) tile<Rows, 8>(k, t, begin, size);
    for (; t + 4 <= terms; t += 4) tile<Rows, 4>(k, t, begin, size);
    for (; t + 2 <= terms; t += 2) tile<Rows, 2>(k, t, begin, size);
    for (; t < terms; ++t) tile<Rows, 1>(k, t, begin, size);
  }

  // The first tile of a row starts from θ0, later ones go on from what is in out.
  template <int Rows, int Terms>
  KOKKOS_FUNCTION void tile(const int k, const int t, const std::int64_t begin, const int size) const {
    const Scalar* from[Rows];
    Scalar* to[Rows];
    const Scalar* terms[Terms + 1];
    Scalar factor[Rows][Terms + 1];
    for (int r = 0; r < Rows; ++r) {
      to[r] = &out(k + r, begin);
      from[r] = t == 0 ? &theta0(begin) : to[r];
      for (int s = 0; s < Terms; ++s) factor[r][s] = alpha(k + r, t + s);
    }
    for (int s = 0; s < Terms; ++s) terms[s] = tau(t + s).data + begin;
    TAUGRID_INDEPENDENT_ITERATIONS
    for (int i = 0; i < size; ++i) {
      for (int r = 0; r < Rows; ++r) {
        Scalar sum = from[r][i];
        for (int s = 0; s < Terms; ++s) sum += factor[r][s] * terms[s][i];
        to[r][i] = sum;
      }
    }
  }
};

// Width: a page of each vector on a host, so that a block of several vectors stays in the first caches; on a
// device one element, so that neighbouring threads read neighbouring elements.
template <class Execution, int Width, class Scalar>
void run(std::int64_t length, const Scalar* theta0, std::span<const Scalar* const> tau,
         std::span<const Scalar> alpha, std::int64_t rows, Scalar* out) {
  using Kernel = Combine<Scalar, Execution, Width>;
  Kernel kernel;
  const std::size_t terms = tau.size();
  kernel.theta0 = decltype(kernel.theta0)(theta0, static_cast<std::size_t>(length));
  kernel.out = decltype(kernel.out)(out, static_cast<std::size_t>(rows), static_cast<std::size_t>(length));
  kernel.tau = decltype(kernel.tau)("tau", terms);
  kernel.alpha = decltype(kernel.alpha)("alpha", static_cast<std::size_t>(rows), terms);
  const auto tau_on_host = Kokkos::create_mirror_view(kernel.tau);
  const auto alpha_on_host = Kokkos::create_mirror_view(kernel.alpha);
  for (std::size_t t = 0; t < terms; ++t) {
    tau_on_host(t).data = tau[t];
    for (std::size_t k = 0; k < static_cast<std::size_t>(rows); ++k)
      alpha_on_host(k, t) = alpha[k * terms + t];
  }
  Kokkos::deep_copy(kernel.tau, tau_on_host);
  Kokkos::deep_copy(kernel.alpha, alpha_on_host);
  const Execution execution;
  const std::int64_t blocks = (length + Width - 1) / Width;
  Kokkos::parallel_for("taugrid::weights::combine",
                       Kokkos::RangePolicy<Execution, Kokkos::IndexType<std::int64_t>>(execution, 0, blocks),
                       kernel);
  execution.fence();
}

}  // namespace

template <class Scalar>
void combine_kokkos(Space space, std::int64_t length, const Scalar* theta0,
                    std::span<const Scalar* const> tau, std::span<const Scalar> alpha, std::int64_t rows,
                    Scalar* out) {
  constexpr int page = 4096 / sizeof(Scalar);
  switch (space) {
    case Space::host:
      return run<Kokkos::DefaultHostExecutionSpace, page>(length, theta0, tau, alpha, rows, out);
    case Space::device:
      return run<Kokkos::DefaultExecutionSpace, 1>(length, theta0, tau, alpha, rows, out);
    case Space::portable:
      return run<Kokkos::DefaultHostExecutionSpace, 1>(length, theta0, tau, alpha, rows, out);
  }
}

template void combine_kokkos(Space, std::int64_t, const float*, std::span<const float* const>,
                             std::span<const float>, std::int64_t, float*);
template void combine_kokkos(Space, std::int64_t, const double*, std::span<const double* const>,
                             std::span<const double>, std::int64_t, double*);

}  // namespace taugrid::weights::detail
