// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/readouts.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "suite/error.hpp"
#include "suite/models/label_tree.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/safetensors.hpp"
#include "suite/study/task_fit.hpp"

namespace taugrid::study {
namespace {

/// Rows of θ0's vocabulary, and their biases, as constants. A model that is only counted with has zeros
/// there.
models::Readout frozen_words(const data::Head& head, const Model& model, bool counted) {
  const auto& encoder = model.encoder();
  models::Readout readout{.kind = models::Readout::Kind::affine,
                          .weight = at::zeros({head.tokens.size(0), encoder.width()}),
                          .bias = at::zeros({head.tokens.size(0)}),
                          .cap = encoder.logit_cap()};
  if (counted) return readout;
  const auto words = head.tokens.to(model.device());
  const auto rows = [&](int block) {
    return model.start_block(static_cast<std::size_t>(block)).index_select(0, words).clone();
  };
  readout.weight = rows(encoder.vocabulary_block());
  if (const auto bias = encoder.vocabulary_bias(); bias >= 0) readout.bias = rows(bias).flatten();
  return readout;
}

/// A decoder answers by sequences of tokens. Of a model that is only counted with, frozen rows are zeros.
models::Readout readout_of_answers(const data::Task& task, const Model& model, bool frozen, bool counted) {
  using Kind = models::Readout::Kind;
  const auto& encoder = model.encoder();
  if (frozen && encoder.logit_cap() > 0)
    throw InputError(
        "model.label_words is \"frozen\", and the model caps its logits (final_logit_softcapping), "
        "of which answers of several tokens are not read from frozen rows; expected \"trained\"");
  const auto block = static_cast<std::size_t>(encoder.vocabulary_block());
  models::Readout readout{.kind = Kind::text, .vocabulary = model.layout().blocks()[block].shape.front()};
  if (task.head.kind == data::Head::Kind::sequences) {
    auto tree = models::label_tree(task.head.tokens, task.head.lengths, encoder.decoder_start());
    readout.kind = Kind::sequences;
    readout.paths = std::move(tree.paths);
    readout.lengths = std::move(tree.lengths);
    readout.letters = task.head.letters;
  } else if (task.head.kind == data::Head::Kind::choices) {
    readout.kind = Kind::choices;
    readout.most = task.classes();
  } else {
    readout.paths.nodes = task.train.labels.size(1);
  }
  if (frozen)
    readout.weight = counted ? at::zeros({1, 1}).expand({readout.vocabulary, encoder.width()})
                             : model.start_block(block).clone();
  return readout;
}

models::Readout readout_of(const data::Task& task, const Model& model, const Settings& settings,
                           bool counted) {
  using Kind = models::Readout::Kind;
  const auto& head = task.head;
  if (settings.trains_heads)
    return {.kind = Kind::affine,
            .weight = at::zeros({task.classes(), model.encoder().width()}),
            .bias = at::zeros({task.classes()})};
  switch (head.kind) {
    case data::Head::Kind::sequences:
    case data::Head::Kind::text:
    case data::Head::Kind::choices:
      return readout_of_answers(task, model, settings.words_frozen, counted);
    case data::Head::Kind::affine:
      return {.kind = Kind::affine, .weight = head.weight, .bias = head.bias};
    case data::Head::Kind::words:
      if (settings.words_frozen) return frozen_words(head, model, counted);
      return {.kind = Kind::words, .words = head.tokens};
    case data::Head::Kind::cosine:
      break;
  }
  return {.weight = head.weight, .scale = head.logit_scale};
}

}  // namespace

Readouts::Readouts(const Settings& settings, const Model& model, const Tasks& tasks, bool dry_run)
    : model_(model), tasks_(tasks), heads_missing_(settings.trains_heads) {
  if (!dry_run) require_one_way_to_answer();
  for (std::size_t t = 0; t < tasks.with_control(); ++t) {
    readouts_.push_back(readout_of(tasks.data(t), model, settings, dry_run).to(model.device()));
    decoders_.push_back(decoder_of(tasks.data(t), readouts_.back(), model));
  }
}

Readouts::Decoder Readouts::decoder_of(const data::Task& task, const models::Readout& readout,
                                       const Model& model) {
  if (!readout.reads_places() || readout.kind == models::Readout::Kind::choices) return {};
  if (readout.kind == models::Readout::Kind::text)
    return {{}, models::sees_before(readout.paths.nodes).to(model.device())};
  const auto tree = models::label_tree(task.head.tokens, task.head.lengths, model.encoder().decoder_start());
  return {tree.decoder.to(model.device()), tree.sees.to(model.device())};
}

void Readouts::require_one_way_to_answer() const {
  if (model_.decoded() == 0) return;
  for (std::size_t t = 0; t < tasks_.with_control(); ++t) {
    if (!has_answers(tasks_.data(t)))
      throw InputError(tasks_.file(t).string() +
                       ": has no answers of whole sequences of tokens; other tasks of this run have");
  }
}

models::Batch Readouts::read_by(std::size_t t, models::Batch batch) const {
  const auto& decoder = decoders_[t];
  if (!decoder.sees.defined()) return batch;
  const auto n = batch.size(), places = decoder.sees.size(0);
  batch.sees = decoder.sees.expand({n, places, places});
  if (decoder.tokens.defined()) batch.decoder = decoder.tokens.expand({n, places});
  return batch;
}

models::Batch Readouts::read_rows(std::size_t t, Split split, const at::Tensor& rows,
                                  models::Batch batch) const {
  if (readouts_[t].kind == models::Readout::Kind::choices)
    return with_choices(t, split, rows, std::move(batch));
  batch = read_by(t, std::move(batch));
  if (!decoders_[t].sees.defined() || decoders_[t].tokens.defined()) return batch;
  const auto& answers = tasks_.data(t).split(split).labels;
  batch.decoder = data::send(model_.device(), models::shifted_right(answers.index_select(0, rows),
                                                                    model_.encoder().decoder_start()));
  return batch;
}

models::Batch Readouts::with_choices(std::size_t t, Split split, const at::Tensor& rows,
                                     models::Batch batch) const {
  const auto& from = tasks_.data(t).split(split);
  const auto of_rows = [&](const at::Tensor& x) { return x.index_select(0, rows).to(at::kLong); };
  auto start = at::full({rows.size(0)}, model_.encoder().decoder_start(), at::kLong);
  if (model_.encoder().answers_in_line())
    start = of_rows(from.inputs).gather(1, of_rows(from.lengths).sub(1).unsqueeze(1)).squeeze(1);
  const auto lengths = of_rows(from.choice_lengths);
  const auto line = models::choice_line(of_rows(from.choices), lengths, of_rows(from.choice_given), start);
  batch.places = lengths.sum(1);
  batch.decoder = data::send(model_.device(), line.decoder);
  batch.sees = data::send(model_.device(), line.sees);
  batch.scored = data::send(model_.device(), line.scored);
  return batch;
}

bool Readouts::read_choices() const {
  return std::any_of(readouts_.begin(), readouts_.end(), [](const models::Readout& readout) {
    return readout.kind == models::Readout::Kind::choices;
  });
}

std::filesystem::path Readouts::head_file(const std::filesystem::path& run, std::size_t t) const {
  return run / "checkpoints" / "heads" / (tasks_.name(t) + ".safetensors");
}

void Readouts::take_heads(const std::filesystem::path& run) const {
  if (!heads_missing_) return;
  for (std::size_t t = 0; t < tasks_.with_control(); ++t) {
    const auto path = head_file(run, t);
    store::wait_for(path);
    const auto file = store::read_safetensors(path);
    auto& readout = readouts_[t];
    for (const auto& [name, tensor] : {std::pair{"weight", &readout.weight}, {"bias", &readout.bias}}) {
      const auto tensor_of_file = file.tensors.find(name);
      if (tensor_of_file == file.tensors.end() || tensor_of_file->second.sizes() != tensor->sizes())
        throw InputError(path.string() + ": its " + name + " is missing or not of " +
                         std::to_string(readout.classes()) +
                         " classes; expected the head that this run trained");
      *tensor = tensor_of_file->second.to(tensor->options());
    }
  }
  heads_missing_ = false;
}

std::string Readouts::space() const {
  std::set<std::string> spaces;
  for (const auto t : tasks_.all()) spaces.insert(readouts_[t].space(model_.encoder()));
  return spaces.size() == 1 ? *spaces.begin() : "by task";
}

bool Readouts::read_words() const {
  return std::any_of(readouts_.begin(), readouts_.end(), [](const models::Readout& readout) {
    return readout.kind == models::Readout::Kind::words;
  });
}

}  // namespace taugrid::study
