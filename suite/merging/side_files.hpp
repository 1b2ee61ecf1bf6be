// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a Hugging Face folder needs beside its weights: configuration, tokenizer, chat template, licence,
// custom code.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace taugrid::merging {

/// Names of tokenizers' files that only their own libraries read, such as sentencepiece's.
const std::set<std::string>& tokenizers_not_read();

/// Copies the content of the files of `base` that a merged model needs, under their own names, to the folder
/// `to`; those of the tokenizer are the folder `tokenizer`'s. Files that this does not know, such as a
/// trainer's state, stay behind. A sentence model's further modules come along with their weights, which all
/// `models` must have as the base has them, since they are not merged. `go_on` is called now and then, and
/// may throw. Throws InputError where there is no config.json, or a file cannot be read.
void copy_side_files(const std::filesystem::path& base, const std::filesystem::path& tokenizer,
                     const std::vector<std::filesystem::path>& models, const std::filesystem::path& to,
                     const std::function<void()>& go_on);

}  // namespace taugrid::merging
