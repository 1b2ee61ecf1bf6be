// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/training/kept_models.hpp"

#include <algorithm>
#include <utility>

#include "suite/training/trained_model.hpp"

namespace taugrid::training {

KeptModels::KeptModels(const study::Study& study, std::string regime, std::size_t t, Training how)
    : study_(study), regime_(std::move(regime)), t_(t), how_(std::move(how)) {}

std::filesystem::path KeptModels::folder(const Mark& mark) const {
  return study_.vectors.kept_folder(regime_, t_, mark.name());
}

std::int64_t KeptModels::last() const {
  std::int64_t last = 0;
  for (const auto& mark : how_.keep) last = std::max(last, updates_at(study_, how_, mark, t_));
  return last;
}

void KeptModels::write(std::int64_t done, const models::State& state) const {
  for (const auto& mark : how_.keep) {
    if (updates_at(study_, how_, mark, t_) == done)
      models::write_checkpoint(folder(mark), study_.model.encoder(), state, study_.model.fingerprint());
  }
}

std::map<std::string, std::string> KeptModels::fingerprints() const {
  std::map<std::string, std::string> all;
  for (const auto& mark : how_.keep)
    all[mark.name()] = models::fingerprint(models::read_checkpoint(folder(mark)).state);
  return all;
}

std::string KeptModels::verify(const std::map<std::string, std::string>& header) const {
  for (const auto& mark : how_.keep) {
    const auto wrong = verify_checkpoint(folder(mark), header, mark.name());
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace taugrid::training
