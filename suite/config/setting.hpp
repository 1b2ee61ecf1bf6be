// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A number of a merge that may differ between the tensors of a model, as mergekit's recipes have it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace taugrid::config {

struct Setting {
  struct Case {
    std::string filter;          ///< a part of the names that it is for; empty: of all
    std::vector<double> values;  ///< one, or some at equal distances from the first layer to the last
  };
  std::vector<Case> cases;  ///< the first whose filter fits has the say
  std::string where;        ///< "FILE:LINE: key", for messages

  /// The value of a tensor, at `depth` from 0 (the first layer) to 1 (the last one): interpolated linearly
  /// between the two nearest values. None where no filter fits.
  std::optional<double> of(const std::string& tensor, double depth) const;
};

}  // namespace taugrid::config
