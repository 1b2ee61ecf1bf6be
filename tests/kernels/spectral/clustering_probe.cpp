// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Clusters matrices that a Python test chose: from the standard input T and T·T numbers, as often as there
// are any. A line each k from 1 to T has the labels of T tasks, and last the adjusted Rand index with the
// line before, of k = 1 with itself.
#include <ATen/ATen.h>

#include <cstdint>
#include <iostream>

#include "kernels/spectral/clustering.hpp"

int main() {
  std::cout.precision(17);
  std::int64_t tasks = 0;
  while (std::cin >> tasks) {
    auto similarity = at::empty({tasks, tasks}, at::kDouble);
    auto* numbers = similarity.mutable_data_ptr<double>();
    for (std::int64_t i = 0; i < tasks * tasks; ++i) std::cin >> numbers[i];
    std::vector<std::int64_t> before;
    for (std::int64_t k = 1; k <= tasks; ++k) {
      const auto labels = taugrid::spectral::spectral_partition(similarity, k, 7);
      for (const auto label : labels) std::cout << label << ' ';
      std::cout << taugrid::spectral::adjusted_rand_index(k == 1 ? labels : before, labels) << '\n';
      before = labels;
    }
  }
}
