// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/tasks/text_metrics.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>

namespace taugrid::experiments {
namespace {

std::string stripped(const std::string& text) {
  constexpr auto blanks = " \t\r\n";
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<double> ranks(const std::vector<double>& x) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  std::vector<double> places(x.size());
  for (std::size_t i = 0; i < order.size();) {
    auto end = i;
    while (end < order.size() && x[order[end]] == x[order[i]]) ++end;
    const double mean = 0.5 * static_cast<double>(i + end + 1);  // of i + 1 … end
    for (; i < end; ++i) places[order[i]] = mean;
  }
  return places;
}

double one_f1(const std::string& said, const std::string& right) {
  const auto mine = words_of(normalised_answer(said)), theirs = words_of(normalised_answer(right));
  if (mine.empty() || theirs.empty()) return mine.empty() && theirs.empty() ? 1 : 0;
  std::map<std::string, int> left;
  for (const auto& word : theirs) ++left[word];
  int common = 0;
  for (const auto& word : mine)
    if (left[word]-- > 0) ++common;
  return 2.0 * common / static_cast<double>(mine.size() + theirs.size());
}

template <class F>
double best(const std::vector<std::string>& right, F&& of) {
  double score = 0;
  for (const auto& each : right) score = std::max(score, static_cast<double>(of(each)));
  return score;
}

}  // namespace

std::string text_of(std::span<const std::int64_t> tokens, const std::vector<std::string>& pieces,
                    const std::vector<std::int64_t>& ends) {
  std::string text;
  for (const auto token : tokens) {
    if (token < 0 || std::find(ends.begin(), ends.end(), token) != ends.end()) break;
    if (static_cast<std::size_t>(token) < pieces.size()) text += pieces[static_cast<std::size_t>(token)];
  }
  return stripped(text);
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || next != end || !std::isfinite(value)) return {};
  return value;
}

double pearson(const std::vector<double>& x, const std::vector<double>& y) {
  const auto mean = [](const std::vector<double>& of) {
    return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
  };
  const double of_x = mean(x), of_y = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - of_x) * (y[i] - of_y);
    xx += (x[i] - of_x) * (x[i] - of_x);
    yy += (y[i] - of_y) * (y[i] - of_y);
  }
  if (!(xx > 0) || !(yy > 0)) return std::numeric_limits<double>::quiet_NaN();
  return xy / std::sqrt(xx) / std::sqrt(yy);
}

double spearman(const std::vector<double>& x, const std::vector<double>& y) {
  return pearson(ranks(x), ranks(y));
}

std::string normalised_answer(const std::string& text) {
  std::string plain;
  for (const char each : text) {
    const auto c = static_cast<unsigned char>(each);
    if (c < 128 && std::ispunct(c) != 0) continue;
    plain += c < 128 ? static_cast<char>(std::tolower(c)) : each;
  }
  std::string answer;
  for (const auto& word : words_of(plain)) {
    if (word == "a" || word == "an" || word == "the") continue;
    answer += (answer.empty() ? "" : " ") + word;
  }
  return answer;
}

double exact_match(const std::string& said, const std::vector<std::string>& right) {
  const auto mine = normalised_answer(said);
  return best(right, [&](const std::string& each) { return normalised_answer(each) == mine; });
}

double word_f1(const std::string& said, const std::vector<std::string>& right) {
  return best(right, [&](const std::string& each) { return one_f1(said, each); });
}

}  // namespace taugrid::experiments
