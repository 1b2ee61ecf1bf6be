// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/task_fit.hpp"

#include <ATen/ATen.h>

#include "suite/error.hpp"
#include "suite/hash.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::study {
namespace {

/// Where both the task and the model's folder tell, the tokens are the model's own.
void require_tokenizer(const data::Task& task, const std::filesystem::path& model, const std::string& where) {
  const auto file = model / "tokenizer.json";
  if (task.tokenizer.empty() || !store::is_there(file)) return;
  if (const auto hash = hexadecimal(fnv1a(store::input_text(file, "the model's tokenizer")));
      hash != task.tokenizer)
    throw InputError(where + ": its tokens were made by a tokenizer.json with the hash " + task.tokenizer +
                     "; " + file.string() + " has " + hash);
}

/// How many tokens of an answer stand behind a text in its own line: all but the last.
std::int64_t behind_text(const data::Task& task, const data::Samples& split, const models::Encoder& encoder) {
  if (!encoder.answers_in_line()) return 0;
  if (task.head.kind == data::Head::Kind::text) return split.labels.size(1) - 1;
  if (task.head.kind == data::Head::Kind::choices) return split.choice_lengths.max().item<std::int64_t>() - 1;
  return task.head.kind == data::Head::Kind::sequences ? task.head.lengths.max().item<std::int64_t>() - 1 : 0;
}

/// The task's answers are tokens of a model that has a decoder.
void require_answers(const data::Task& task, const models::Encoder& encoder, const Settings& settings,
                     const std::string& where) {
  const bool of_rows = task.head.kind != data::Head::Kind::sequences;  // each has its own
  if (settings.trains_heads && !of_rows) return;
  if (encoder.decoder_start() < 0 || settings.trains_heads)
    throw InputError(
        where + ": is answered by whole sequences of tokens; " +
        (settings.trains_heads
             ? "[heads] trains classifiers of classes"
             : "the model " + settings.model.string() +
                   " is neither a T5 nor a decoder, which alone answer so; expected label words"));
  const auto rows =
      encoder.layout().blocks()[static_cast<std::size_t>(encoder.vocabulary_block())].shape.front();
  const auto check = [&](const char* name, const at::Tensor& tokens) {
    if (const auto largest = tokens.max().item<std::int64_t>(); largest >= rows)
      throw InputError(where + ": " + name + " holds token " + std::to_string(largest) + "; the model " +
                       settings.model.string() + " has a vocabulary of " + std::to_string(rows));
  };
  if (!of_rows) return check("/head/tokens", task.head.tokens);
  if (task.head.kind == data::Head::Kind::choices) {
    check("/train/choices", task.train.choices);
    check("/validation/choices", task.validation.choices);
    return check("/test/choices", task.test.choices);
  }
  check("/train/targets", task.train.labels);
  check("/validation/targets", task.validation.labels);
  check("/test/targets", task.test.labels);
}

}  // namespace

bool has_answers(const data::Task& task) {
  using Kind = data::Head::Kind;
  return task.head.kind == Kind::sequences || task.head.kind == Kind::text || task.head.kind == Kind::choices;
}

void require_fit(const data::Task& task, const models::Encoder& encoder, const Settings& settings,
                 const std::string& where) {
  const auto takes = encoder.takes();
  const auto& in = task.test.inputs;
  if (task.modality != (takes.text() ? "text" : "image"))
    throw InputError(where + ": holds " + (takes.text() ? "images" : "text") + "; the model " +
                     settings.model.string() + " takes " + (takes.text() ? "text" : "images"));
  if (!takes.text() && (in.size(1) != takes.image_size || in.size(2) != takes.image_size))
    throw InputError(where + ": inputs are not images of " + std::to_string(takes.image_size) +
                     " pixels a side, which the model " + settings.model.string() + " expects");
  if (!takes.text() && in.size(3) != takes.channels)
    throw InputError(where + ": inputs have " + std::to_string(in.size(3)) + " channels; the model " +
                     settings.model.string() + " expects " + std::to_string(takes.channels));
  if (takes.text()) {
    for (const auto* split : {&task.train, &task.validation, &task.test}) {
      const auto longest = split->lengths.max().item<std::int64_t>(),
                 behind = behind_text(task, *split, encoder);
      if (longest + behind > takes.tokens)
        throw InputError(where + ": holds a text of " + std::to_string(longest) + " tokens" +
                         (behind > 0 ? ", with " + std::to_string(behind) + " of an answer behind it" : "") +
                         "; the model " + settings.model.string() + " takes " + std::to_string(takes.tokens));
      if (split->inputs.max().item<std::int64_t>() >= takes.vocabulary)
        throw InputError(where + ": holds token " + std::to_string(split->inputs.max().item<std::int64_t>()) +
                         "; the model " + settings.model.string() + " has a vocabulary of " +
                         std::to_string(takes.vocabulary));
      if (split->types.defined() && split->types.max().item<std::int64_t>() >= takes.types)
        throw InputError(where + ": tells second texts by tokens' types; the model " +
                         settings.model.string() + " has one type");
      if (takes.mask && !split->mask.defined())
        throw InputError(where + ": holds texts without a mask; the model " + settings.model.string() +
                         " is a masked language model and expects prompts");
      if (!takes.mask && split->mask.defined())
        throw InputError(where + ": holds prompts; the model " + settings.model.string() +
                         " is no masked language model and reads no mask");
    }
    require_tokenizer(task, settings.model, where);
  }
  const auto& head = task.head;
  if (has_answers(task)) {
    require_answers(task, encoder, settings, where);
  } else if (!settings.trains_heads && head.kind == data::Head::Kind::words) {
    if (encoder.vocabulary_block() < 0)
      throw InputError(where + ": /head has label words; the model " + settings.model.string() +
                       " has neither a vocabulary nor a classifier to read them by");
    const auto rows =
        encoder.layout().blocks()[static_cast<std::size_t>(encoder.vocabulary_block())].shape.front();
    if (head.tokens.max().item<std::int64_t>() >= rows)
      throw InputError(
          where + ": /head/tokens holds " + std::to_string(head.tokens.max().item<std::int64_t>()) +
          "; the model " + settings.model.string() +
          (takes.text() ? " has a vocabulary of " : " has a classifier of ") + std::to_string(rows));
  } else if (!settings.trains_heads && head.weight.size(1) != encoder.width()) {
    throw InputError(where + ": /head/weight has rows of " + std::to_string(head.weight.size(1)) +
                     " numbers; the model's output has " + std::to_string(encoder.width()));
  }
}

}  // namespace taugrid::study
