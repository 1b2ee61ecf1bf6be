// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/detail/kokkos.hpp"

#include <Kokkos_Core.hpp>
#include <stdexcept>

#include "kernels/weights/backend.hpp"

namespace taugrid::weights {

Backend backend() {
  const auto part = [](int number) { return std::to_string(number); };
  return {part(KOKKOS_VERSION / 10000) + "." + part(KOKKOS_VERSION / 100 % 100) + "." +
              part(KOKKOS_VERSION % 100),
          Kokkos::DefaultHostExecutionSpace::name(), Kokkos::DefaultExecutionSpace::name()};
}

namespace detail {

bool kokkos_runs_on_device([[maybe_unused]] int index) {
#if defined(KOKKOS_ENABLE_CUDA)
  return Kokkos::is_initialized() && Kokkos::Cuda().cuda_device() == index;
#elif defined(KOKKOS_ENABLE_HIP)
  return Kokkos::is_initialized() && Kokkos::DefaultExecutionSpace().hip_device() == index;
#else
  return false;
#endif
}

void require_kokkos() {
  if (!Kokkos::is_initialized()) throw std::logic_error("Kokkos is not initialised");
}

}  // namespace detail
}  // namespace taugrid::weights
