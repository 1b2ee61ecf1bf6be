// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What multiplies float32 on this host.
#pragma once

#include "kernels/full_products.hpp"

namespace taugrid::comm {

/// Whether LibTorch multiplies factors that are rounded to bfloat16 on this host, which is tried: with AMX it
/// does. With AVX512-BF16 alone oneDNN 3.10 multiplies whole float32 numbers, and so it does where
/// ONEDNN_MAX_CPU_ISA forbids AMX.
bool multiplies_bfloat16();

/// What multiplies float32 fastest here and keeps all digits: on AMD's processors with AVX-512 oneDNN, since
/// MKL takes AVX2 there; the BLAS on all others. Known by the processor and not measured, so that a run that
/// goes on after a stop computes as before.
HostProducts fastest_host_products();
/// The same for models whose matrices have so many numbers on the average: a call of oneDNN's takes 15 µs
/// more (Zen 4), which small products do not make up for.
HostProducts fastest_host_products(double numbers_of_matrix);

}  // namespace taugrid::comm
