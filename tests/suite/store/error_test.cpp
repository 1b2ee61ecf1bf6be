// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/error.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using taugrid::as_line;

TEST(Line, ShowsLettersAndEscapesTheRest) {
  EXPECT_EQ(as_line("größe, θ0 of 猫 and 🐈"), "größe, θ0 of 猫 and 🐈");
  EXPECT_EQ(as_line("a\x1b[31m\nb\x7f\t"), "a\\x1b[31m\\x0ab\\x7f\\x09");
  EXPECT_EQ(as_line("\xc2\x9b[31m"), "\\xc2\\x9b[31m");  // an escape sequence of one byte, in UTF-8
  EXPECT_EQ(as_line("\xb2"
                    "020 \xff \xc3"),
            "\\xb2020 \\xff \\xc3");                                          // alone, never, cut off
  EXPECT_EQ(as_line("\xc0\xaf \xe0\x80\xaf"), "\\xc0\\xaf \\xe0\\x80\\xaf");  // longer than need be
  EXPECT_EQ(as_line("\xed\xa0\x80 \xf4\x90\x80\x80"),
            "\\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(as_line(std::string("a\0b", 3)), "a\\x00b");
}

TEST(Line, HasAMostAndLosesTheMiddleOfItsLongestWord) {
  const auto line = as_line("file " + std::string(2000, 'x') + " is missing");
  EXPECT_LE(line.size(), 480U);
  EXPECT_TRUE(line.starts_with("file xxx") && line.ends_with("xxx is missing")) << line;
  std::string letters;
  for (int i = 0; i < 1000; ++i) letters += "θ";
  const auto cut = as_line(letters);
  EXPECT_EQ(cut, as_line(cut));  // no letter is cut in two
}

}  // namespace
