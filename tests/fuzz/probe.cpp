// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Whether clang has its fuzzer.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }
