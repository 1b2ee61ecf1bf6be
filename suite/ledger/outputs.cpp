// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/ledger/outputs.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <stdexcept>

#include "suite/study/correctness.hpp"

namespace taugrid::ledger {
namespace {

const std::string correct_group = "/correct";

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream rest(text);
  for (std::string part; std::getline(rest, part, at);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

bool in_capitals(const std::string& word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isupper(c); });
}

/// Words in capitals, between underscores, become the names that they stand for.
std::string with_names(const std::string& text, const std::map<std::string, std::string>& names) {
  std::string all;
  for (const auto& word : split(text, '_')) {
    const auto name = names.find(word);
    all += (all.empty() ? "" : "_") + (name != names.end() ? name->second : word);
  }
  return all;
}

}  // namespace

std::vector<std::string> roles_of(const Output& output) { return split(output.roles, ' '); }

Output sample_rows(const std::string& split, const std::string& role, const std::string& prefix) {
  return {prefix + "sample_index", "task " + role, "",
          "rows of the " + split + " points in the task's data, −1 behind the end",
          With{.element = store::Element::int64}};
}

std::vector<Output> both_sample_rows() {
  return {sample_rows(), sample_rows("validation", "evaluation_point", "validation_")};
}

std::vector<WrittenGroup> groups_of(const std::string& parent, const Names& names, const Lengths& lengths,
                                    const Names& without) {
  std::vector<WrittenGroup> groups;
  for (const auto& name : names) groups.push_back({parent + "/" + name, lengths, without});
  return groups;
}

std::vector<Output> together(std::vector<std::vector<Output>> parts) {
  std::vector<Output> all;
  for (auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Contents::Contents(const study::Study& study, std::vector<OutputGroup> declared,
                   std::vector<WrittenGroup> written)
    : declared_(std::move(declared)), written_(std::move(written)) {
  const auto& settings = study.settings;
  common_ = {{"task", static_cast<std::int64_t>(study.tasks.size())},
             {"pair", static_cast<std::int64_t>(study.tasks.pairs().size())},
             {"side", 2},
             {"evaluation_point", settings.evaluation_points},
             {"control_point", settings.control_points},
             {"validation_control_point", settings.control_points},
             {bits_role, study::bytes_of_bits(settings.evaluation_points)}};
}

std::optional<DeclaredOutput> Contents::match(const OutputGroup& group, const std::string& path) const {
  const auto at = path.find('@');
  auto left = split(path.substr(0, at), '/');
  const auto pattern = split(group.path, '/');
  if (left.size() < pattern.size()) return std::nullopt;
  DeclaredOutput declared{&group, nullptr, "", {}, false};
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (in_capitals(pattern[i]))
      declared.names[pattern[i]] = left[i];
    else if (pattern[i] != left[i])
      return std::nullopt;
    declared.place += "/" + left[i];
  }
  std::string name;
  for (std::size_t i = pattern.size(); i < left.size(); ++i) name += (name.empty() ? "" : "/") + left[i];
  if (at != std::string::npos) name += path.substr(at);
  for (const auto& output : group.outputs) {
    const auto word = output.name.substr(output.name.starts_with('@') ? 1 : 0);
    const bool any =
        in_capitals(word) && name.starts_with('@') == output.name.starts_with('@') && !name.empty();
    if (output.name != name && !any) continue;
    declared.output = &output;
    return declared;
  }
  return std::nullopt;
}

DeclaredOutput Contents::find(const std::string& path, std::optional<std::int64_t> dimensions) const {
  const bool bits = path.starts_with(correct_group + "/");
  const auto of = bits ? path.substr(correct_group.size(), path.find('@') - correct_group.size()) : path;
  for (const auto& group : declared_) {
    auto declared = match(group, of);
    if (!declared || (bits && !declared->output->details.correct)) continue;
    declared->bits = bits;
    if (!dimensions || this->dimensions(*declared).size() == static_cast<std::size_t>(*dimensions))
      return *declared;
  }
  throw std::logic_error("results.h5: " + path +
                         " is written, but no experiment declares it with as many dimensions");
}

std::vector<std::string> Contents::dimensions(const DeclaredOutput& declared) const {
  std::vector<std::string> all;
  for (const auto& role : roles_of(*declared.output)) {
    const auto& outputs = declared.group->outputs;
    const bool scaled = std::any_of(outputs.begin(), outputs.end(), [&](const Output& each) {
      return each.name == role && !each.details.scale.empty();
    });
    all.push_back(scaled ? declared.place + "/" + role : with_names(role, declared.names));
  }
  if (declared.bits) all.emplace_back(bits_role);
  return all;
}

std::string Contents::scale(const DeclaredOutput& declared) const {
  return with_names(declared.output->details.scale, declared.names);
}

std::optional<std::vector<std::int64_t>> Contents::lengths_of(const DeclaredOutput& declared) const {
  auto roles = roles_of(*declared.output);
  if (declared.bits) roles.emplace_back(bits_role);
  std::vector<std::int64_t> shape;
  for (const auto& role : roles) {
    const std::int64_t* length = nullptr;
    for (const auto& group : written_) {
      const auto entry = group.lengths.find(role);
      if (group.path == declared.place && entry != group.lengths.end()) length = &entry->second;
    }
    if (const auto shared = common_.find(role); length == nullptr && shared != common_.end())
      length = &shared->second;
    if (length == nullptr) return std::nullopt;
    shape.push_back(*length);
  }
  return shape;
}

std::vector<std::int64_t> Contents::shape(const DeclaredOutput& declared) const {
  const auto known = lengths_of(declared);
  if (!known)
    throw std::logic_error("results.h5: the lengths of " + declared.place + "/" + declared.output->name +
                           " are not said before it is written");
  return *known;
}

Contents::Size Contents::size() const {
  Size size;
  std::set<std::string> counted;
  for (const auto& group : written_) {
    for (const auto& pattern : declared_) {
      for (const auto& output : pattern.outputs) {
        const auto& none = group.without;
        if (output.name.starts_with('@') || std::find(none.begin(), none.end(), output.name) != none.end())
          continue;
        auto declared = match(pattern, group.path + "/" + output.name);
        if (!declared || declared->place != group.path) continue;
        for (const bool bits : {false, true}) {
          if (bits && !output.details.correct) continue;
          declared->bits = bits;
          const auto known = lengths_of(*declared);
          if (!known || !counted.insert((bits ? correct_group : "") + group.path + "/" + output.name).second)
            continue;
          double bytes = bits ? 1.0 : static_cast<double>(store::bytes_of(output.details.element));
          for (const auto length : *known) bytes *= static_cast<double>(length);
          size.data_sets += bytes > 0 ? 1 : 0;
          size.bytes += bytes;
        }
      }
    }
  }
  return size;
}

}  // namespace taugrid::ledger
