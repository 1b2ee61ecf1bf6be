// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How good texts are that a model says, beside the right ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace taugrid::experiments {

/// The text of these tokens up to one of `ends` or a negative one: their pieces one behind the other, without
/// blanks at its ends.
std::string text_of(std::span<const std::int64_t> tokens, const std::vector<std::string>& pieces,
                    const std::vector<std::int64_t>& ends);

/// A text that is a number and nothing else.
std::optional<double> number_of(const std::string& text);

/// Pearson's correlation, and Spearman's, Pearson's of ranks, equal numbers sharing the mean of theirs. NaN
/// where either side has no spread.
double pearson(const std::vector<double>& x, const std::vector<double>& y);
double spearman(const std::vector<double>& x, const std::vector<double>& y);

/// SQuAD's (Rajpurkar et al., 2016): in small letters, without punctuation and articles, a blank between
/// words. Of letters beyond ASCII nothing is changed.
std::string normalised_answer(const std::string& text);
/// 1 where normalised answers are equal; 2·common/(words of both), of words as often as they stand there. Of
/// several right answers the best counts.
double exact_match(const std::string& said, const std::vector<std::string>& right);
double word_f1(const std::string& said, const std::vector<std::string>& right);

}  // namespace taugrid::experiments
