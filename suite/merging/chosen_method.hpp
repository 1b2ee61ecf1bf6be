// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A merging method as a section of the experiment file chose it, and the units of what it takes of data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "suite/merging/method.hpp"

namespace taugrid::merging {

struct ChosenMethod {
  std::string method_name;  ///< in the table of methods
  std::string name;         ///< what stands for it in the keys of its units
  std::shared_ptr<const Method> method;

  /// The unit of what task t's data give; the method has parts.
  std::string part_key(const Study& study, const std::string& regime, std::size_t t) const;
  /// Keys of the units whose results a merge of these tasks' vectors takes, beside the vectors.
  std::vector<std::string> needs(const Study& study, const std::string& regime,
                                 const std::vector<std::size_t>& tasks) const;
  /// Adds these units, but for parts that another method has added.
  void add_units(std::vector<schedule::WorkUnit>& units, const Study& study, const std::string& regime,
                 const std::vector<std::size_t>& tasks, const schedule::RunFolder& folder) const;
};

}  // namespace taugrid::merging
