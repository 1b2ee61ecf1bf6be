// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Packed files that are nearly right, as the fuzzer's bytes say.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <string>

namespace taugrid::fuzz {

/// Images of HDF5 files: a small packed task, or pairs, whose objects are, where the bytes say so, left out,
/// of another type, shape, layout or filter, links, groups, without data, or of other values. All bytes zero:
/// right.
std::string build_task(FuzzedDataProvider& bytes);
std::string build_pairs(FuzzedDataProvider& bytes);

}  // namespace taugrid::fuzz
