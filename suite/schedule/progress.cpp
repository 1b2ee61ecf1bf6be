// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace taugrid::schedule {

using namespace std::chrono_literals;

namespace {

std::string duration(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
}

}  // namespace

Progress::Progress(std::FILE* out, int units, double cost, int units_before, double cost_before)
    : out_(out),
      terminal_(isatty(fileno(out)) != 0),
      units_(units),
      units_before_(units_before),
      units_done_(units_before),
      cost_(cost),
      cost_before_(cost_before),
      cost_done_(cost_before),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (terminal_ && !printed_text_.empty()) {
    std::fputc('\n', out_);
  }
}

void Progress::started(int unit, const std::string& key, double cost) { running_[unit] = {key, cost, 0, ""}; }

void Progress::advanced(int unit, double fraction, const std::string& detail) {
  if (const auto entry = running_.find(unit); entry != running_.end()) {
    entry->second.fraction = std::clamp(fraction, 0.0, 1.0);
    entry->second.detail = detail;
  }
}

void Progress::finished(int unit) {
  units_done_ += 1;
  if (const auto entry = running_.find(unit); entry != running_.end()) {
    cost_done_ += entry->second.cost;
    running_.erase(entry);
  }
}

void Progress::stopped(int unit) { running_.erase(unit); }

void Progress::refresh(bool now) {
  const auto time = std::chrono::steady_clock::now();
  if (!now && !printed_text_.empty() && time - printed_ < (terminal_ ? 200ms : 10s)) {
    return;
  }
  auto text = line(std::chrono::duration<double>(time - start_).count());
  if (terminal_) {
    fmt::print(out_, "\r\x1b[K{}", text);  // the cleared rest of the line
  } else if (text != printed_text_) {
    fmt::print(out_, "{}\n", text);
  }
  std::fflush(out_);
  printed_ = time;
  printed_text_ = std::move(text);
}

std::string Progress::line(double elapsed) const {
  double now = cost_done_;
  for (const auto& [unit, running] : running_) {
    now += running.cost * running.fraction;
  }
  const double share = cost_ > 0 ? now / cost_ : 1;
  auto text = fmt::format("# {}: {}/{} units, {:.0f} % of the predicted work", duration(elapsed), units_done_,
                          units_, 100 * share);
  if (const int units = units_done_ - units_before_; units > 0 && elapsed > 0) {
    text += fmt::format(", {:.3g} units/min", units / elapsed * 60);
  }
  // From this run's own pace: costs are relative, and earlier runs may have had other machines.
  if (now > cost_before_ && cost_ > now) {
    text += fmt::format(", about {} left", duration((cost_ - now) / (now - cost_before_) * elapsed));
  }
  int shown = 0;
  for (const auto& [unit, running] : running_) {
    if (shown == 3) {
      text += fmt::format(" and {} more", running_.size() - 3);
      break;
    }
    text += shown++ == 0 ? "; now " : ", ";
    text += running.key;
    if (running.fraction > 0) {
      text += fmt::format(" {:.0f} %", 100 * running.fraction);
    }
    if (!running.detail.empty()) {
      text += fmt::format(" ({})", running.detail);
    }
  }
  return text;
}

}  // namespace taugrid::schedule
