// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/autodiff/packing.hpp"
#include "suite/models/batch.hpp"

namespace taugrid::models {

/// How a batch of texts lies without its padding; not at all where no text is padded, and on a device, which
/// would have to be told the lengths.
autodiff::Packing packing_of(const Batch& batch);

}  // namespace taugrid::models
