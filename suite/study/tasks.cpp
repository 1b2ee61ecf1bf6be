// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/tasks.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>

#include "suite/data/crop.hpp"
#include "suite/error.hpp"
#include "suite/hash.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/safetensors.hpp"

namespace taugrid::study {
namespace {

/// Where both the task and the model's folder tell, the tokens are the model's own.
void require_tokenizer(const data::Task& task, const std::filesystem::path& model, const std::string& where) {
  const auto file = model / "tokenizer.json";
  std::ifstream in(file, std::ios::binary);
  if (task.tokenizer.empty() || !in) return;
  std::ostringstream text;
  text << in.rdbuf();
  if (const auto own = hexadecimal(fnv1a(text.str())); own != task.tokenizer)
    throw InputError(where + ": its tokens were made by a tokenizer.json with the hash " + task.tokenizer + "; " +
                     file.string() + " has " + own);
}

bool has_answers(const data::Task& task) {
  return task.head.kind == data::Head::Kind::sequences || task.head.kind == data::Head::Kind::text;
}

/// The task's answers are tokens of a model that has a decoder.
void require_answers(const data::Task& task, const models::Encoder& encoder, const Settings& settings,
                     const std::string& where) {
  const bool text = task.head.kind == data::Head::Kind::text;
  if (settings.trains_heads && !text) return;
  if (encoder.decoder_start() < 0 || settings.trains_heads)
    throw InputError(where + ": is answered by whole sequences of tokens; " +
                     (settings.trains_heads ? "[heads] trains classifiers of classes"
                                            : "the model " + settings.model.string() + " has no decoder"));
  const auto rows =
      encoder.layout().blocks()[static_cast<std::size_t>(encoder.vocabulary_block())].shape.front();
  const auto check = [&](const char* name, const at::Tensor& tokens) {
    if (const auto largest = tokens.max().item<std::int64_t>(); largest >= rows)
      throw InputError(where + ": " + name + " holds token " + std::to_string(largest) + "; the model " +
                       settings.model.string() + " has a vocabulary of " + std::to_string(rows));
  };
  if (!text) return check("/head/tokens", task.head.tokens);
  check("/train/targets", task.train.labels);
  check("/validation/targets", task.validation.labels);
  check("/test/targets", task.test.labels);
}

/// The task's inputs are what the model takes, and its head fits the model's features.
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
      if (split->lengths.max().item<std::int64_t>() > takes.tokens)
        throw InputError(where + ": holds a text of " +
                         std::to_string(split->lengths.max().item<std::int64_t>()) + " tokens; the model " +
                         settings.model.string() + " takes " + std::to_string(takes.tokens));
      if (split->inputs.max().item<std::int64_t>() >= takes.vocabulary)
        throw InputError(where + ": holds token " + std::to_string(split->inputs.max().item<std::int64_t>()) +
                         "; the model " + settings.model.string() + " has a vocabulary of " +
                         std::to_string(takes.vocabulary));
      if (split->types.defined() && split->types.max().item<std::int64_t>() >= takes.types)
        throw InputError(where + ": tells second texts by tokens' types; the model " + settings.model.string() +
                         " has one type");
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

/// Rows of θ0's vocabulary, and their biases, as constants. A model that is only counted with has zeros
/// there.
models::Readout frozen_words(const data::Head& head, const Model& model, bool counted) {
  const auto& encoder = model.encoder();
  models::Readout readout{.kind = models::Readout::Kind::affine,
                          .weight = at::zeros({head.tokens.size(0), encoder.width()}),
                          .bias = at::zeros({head.tokens.size(0)})};
  if (counted) return readout;
  const auto words = head.tokens.to(model.device());
  const auto theta = model.layout().views(model.theta0());
  readout.weight = theta[static_cast<std::size_t>(encoder.vocabulary_block())].index_select(0, words).clone();
  if (const auto bias = encoder.vocabulary_bias(); bias >= 0)
    readout.bias = theta[static_cast<std::size_t>(bias)].index_select(0, words).flatten().clone();
  return readout;
}

/// A T5 answers by sequences of tokens. Of a model that is only counted with, frozen rows are zeros.
models::Readout readout_of_answers(const data::Task& task, const Model& model, bool frozen, bool counted) {
  using Kind = models::Readout::Kind;
  const auto& encoder = model.encoder();
  const auto block = static_cast<std::size_t>(encoder.vocabulary_block());
  models::Readout readout{.kind = Kind::text, .vocabulary = model.layout().blocks()[block].shape.front()};
  if (task.head.kind == data::Head::Kind::sequences) {
    auto tree = models::label_tree(task.head.tokens, task.head.lengths, encoder.decoder_start());
    readout.kind = Kind::sequences;
    readout.paths = std::move(tree.paths);
    readout.lengths = std::move(tree.lengths);
  } else {
    readout.paths.nodes = task.train.labels.size(1);
  }
  if (frozen)
    readout.weight = counted ? at::zeros({1, 1}).expand({readout.vocabulary, encoder.width()})
                             : model.layout().views(model.theta0())[block].clone();
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

/// What the decoder is given, and what each of its places sees; of texts the former is by sample.
Tasks::Decoder decoder_of(const data::Task& task, const models::Readout& readout, const Model& model) {
  if (!readout.reads_places()) return {};
  if (readout.kind == models::Readout::Kind::text)
    return {{}, models::sees_before(readout.paths.nodes).to(model.device())};
  const auto tree = models::label_tree(task.head.tokens, task.head.lengths, model.encoder().decoder_start());
  return {tree.decoder.to(model.device()), tree.sees.to(model.device())};
}

}  // namespace

Tasks::Tasks(const Settings& settings, const Model& model, const MemoryBound& bound,
             std::vector<InputFile>* inputs)
    : model_(model),
      seed_(settings.seed),
      bound_(bound),
      folder_(settings.data),
      has_control_(!settings.control.empty()),
      pairs_(settings.pairs),
      heads_missing_(settings.trains_heads),
      frozen_(std::make_unique<FrozenStages>(
          model, settings.evaluation_batch, bound.samples,
          [this](std::size_t t, Split split, const at::Tensor& rows) { return raw_batch(t, split, rows); })) {
  for (std::size_t t = 0; t < settings.tasks.size(); ++t) add(t, settings, inputs);
  if (has_control_) {
    names_.push_back(settings.control);
    sources_.push_back({settings.control, settings.control, settings.tasks.size()});
    read(settings.control, settings, inputs);
  }
  if (inputs == nullptr) require_one_way_to_answer();
  for (const auto& task : tasks_) {
    readouts_.push_back(readout_of(*task, model, settings, inputs != nullptr).to(model.device()));
    channels_.emplace_back(at::tensor(task->mean, at::kFloat).to(model.device()),
                           at::tensor(task->std, at::kFloat).to(model.device()));
    decoders_.push_back(decoder_of(*task, readouts_.back(), model));
  }
}

void Tasks::require_one_way_to_answer() const {
  if (model_.decoded() == 0) return;
  for (std::size_t t = 0; t < tasks_.size(); ++t) {
    if (!has_answers(*tasks_[t]))
      throw InputError(file(t).string() +
                       ": has no answers of whole sequences of tokens; other tasks of this run have");
  }
}

models::Batch Tasks::read_by(std::size_t t, models::Batch batch) const {
  const auto& decoder = decoders_[t];
  if (!decoder.sees.defined()) return batch;
  const auto n = batch.size(), places = decoder.sees.size(0);
  batch.sees = decoder.sees.expand({n, places, places});
  if (decoder.tokens.defined()) batch.decoder = decoder.tokens.expand({n, places});
  return batch;
}

void Tasks::give_decoder(std::size_t t, Split split, const at::Tensor& rows, models::Batch& batch) const {
  batch = read_by(t, std::move(batch));
  if (!decoders_[t].sees.defined() || decoders_[t].tokens.defined()) return;
  batch.decoder =
      data::send(model_.device(), models::shifted_right(data(t).split(split).labels.index_select(0, rows),
                                                        model_.encoder().decoder_start()));
}

void Tasks::add(std::size_t t, const Settings& settings, std::vector<InputFile>* inputs) {
  const auto& data = settings.data_of(t);
  const auto seed = settings.variants.empty() ? 0 : settings.variants[t].seed;
  std::size_t first = 0;
  while (first < t && sources_[first].data != data) ++first;
  names_.push_back(settings.tasks[t]);
  sources_.push_back({data, seed == 0 ? data : data + "/" + std::to_string(seed), first});
  if (first == t) {
    read(data, settings, inputs);
  } else {
    tasks_.push_back(tasks_[first]);
  }
}

void Tasks::read(const std::string& name, const Settings& settings, std::vector<InputFile>* inputs) {
  InputFile input{name, folder_ / (name + ".h5"), "found"};
  const auto& encoder = model_.encoder();
  try {
    auto task = data::read_task(input.path);
    if (!model_.is_stand_in()) require_fit(task, encoder, settings, input.path.string());
    input.state = "found: " +
                  (task.head.kind == data::Head::Kind::text ? "answered by texts (" + task.head.metric + "), "
                                                            : std::to_string(task.classes()) + " classes, ") +
                  std::to_string(task.train.labels.size(0)) + " + " +
                  std::to_string(task.validation.labels.size(0)) + " + " +
                  std::to_string(task.test.labels.size(0)) + (task.modality == "text" ? " texts" : " images");
    if (model_.is_stand_in() && has_answers(task)) {  // no model answers in tokens here
      const auto classes = std::max<std::int64_t>(1, task.classes());
      task.head = {};
      task.head.weight = at::zeros({classes, encoder.width()});
    }
    tasks_.push_back(std::make_shared<const data::Task>(std::move(task)));
  } catch (const InputError& error) {
    if (inputs == nullptr) throw;
    input.missing = true;
    input.state = error.what();
    data::Task task;
    task.class_names.resize(10);
    task.head.weight = at::zeros({10, encoder.width()});
    if (model_.decoded() > 0) {
      task.head.kind = data::Head::Kind::sequences;
      task.head.tokens = at::arange(10, at::kLong).unsqueeze(1);
      task.head.lengths = at::ones({10}, at::kLong);
    }
    for (auto* split : {&task.train, &task.validation, &task.test})
      split->labels = at::zeros({1}, at::kLong).expand({1000000});
    tasks_.push_back(std::make_shared<const data::Task>(std::move(task)));
  }
  if (inputs != nullptr) inputs->push_back(std::move(input));
}

std::filesystem::path Tasks::head_file(const std::filesystem::path& run, std::size_t t) const {
  return run / "checkpoints" / "heads" / (name(t) + ".safetensors");
}

void Tasks::take_heads(const std::filesystem::path& run) const {
  if (!heads_missing_) return;
  for (std::size_t t = 0; t < with_control(); ++t) {
    const auto path = head_file(run, t);
    store::wait_for(path);
    const auto file = store::read_safetensors(path);
    auto& readout = readouts_[t];
    for (const auto& [name, tensor] : {std::pair{"weight", &readout.weight}, {"bias", &readout.bias}}) {
      const auto found = file.tensors.find(name);
      if (found == file.tensors.end() || found->second.sizes() != tensor->sizes())
        throw InputError(path.string() + ": its " + name + " is missing or not of " +
                         std::to_string(readout.classes()) +
                         " classes; expected the head that this run trained");
      *tensor = found->second.to(tensor->options());
    }
  }
  heads_missing_ = false;
}

std::string Tasks::space() const {
  std::set<std::string> spaces;
  for (const auto t : all()) spaces.insert(readouts_[t].space(model_.encoder()));
  return spaces.size() == 1 ? *spaces.begin() : "by task";
}

bool Tasks::read_words() const {
  return std::any_of(readouts_.begin(), readouts_.end(), [](const models::Readout& readout) {
    return readout.kind == models::Readout::Kind::words;
  });
}

std::vector<std::size_t> Tasks::all() const {
  std::vector<std::size_t> all(size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::size_t> Tasks::pairs_of(std::size_t t) const {
  std::vector<std::size_t> found;
  for (std::size_t p = 0; p < pairs_.size(); ++p)
    if (pairs_[p].first == t || pairs_[p].second == t) found.push_back(p);
  return found;
}

models::Batch Tasks::raw_batch(std::size_t t, Split split, const at::Tensor& rows) const {
  const auto& from = data(t).split(split);
  if (!from.lengths.defined()) return normalised(t, data::rows_on(model_.device(), from.inputs, rows));
  auto lengths = from.lengths.index_select(0, rows).to(at::kLong);
  const auto longest = rows.size(0) == 0 ? 1 : lengths.max().item<std::int64_t>();
  const auto cut = [&](const at::Tensor& tokens) {
    return data::send(model_.device(), tokens.index_select(0, rows).narrow(1, 0, longest).to(at::kLong).contiguous());
  };
  models::Batch batch{cut(from.inputs), std::move(lengths), {}};
  if (from.types.defined()) batch.types = cut(from.types);
  if (from.mask.defined())
    batch.mask = data::send(model_.device(), from.mask.index_select(0, rows).to(at::kLong));
  give_decoder(t, split, rows, batch);
  return batch;
}

models::Batch Tasks::normalised(std::size_t t, const at::Tensor& pictures) const {
  return models::pictures(data::normalised_images(pictures, channels_[t].first, channels_[t].second));
}

models::Batch Tasks::cropped_batch(std::size_t t, Split split, const at::Tensor& rows,
                                   const at::Tensor& boxes) const {
  const auto pictures = data::rows_on(model_.device(), data(t).split(split).inputs, rows);
  return normalised(t, data::resized_crops(pictures, boxes));
}

models::Batch Tasks::batch(std::size_t t, Split split, const at::Tensor& rows, int from) const {
  if (from == 0) return raw_batch(t, split, rows);
  return frozen_->run(first_alike(t), split, data(t).split(split).labels.size(0), rows, from);
}

at::Tensor Tasks::labels(std::size_t t, Split split, const at::Tensor& rows) const {
  return data::rows_on(model_.device(), data(t).split(split).labels, rows);
}

at::Tensor Tasks::sample_rows(std::size_t t, Split split, std::int64_t n) const {
  const auto rows = data(t).split(split).labels.size(0);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(
      seed_for(seed_, std::string("sample/") + split_name(split) + "/" + sources_[t].data));
  return at::randperm(rows, generator, at::kLong).narrow(0, 0, sample_size(t, split, n)).clone();
}

std::size_t Tasks::bytes(std::int64_t n) const {
  const auto takes = model_.encoder().takes();
  const auto each =
      takes.text()
          ? sizeof(std::int64_t) * static_cast<std::size_t>(takes.tokens)
          : sizeof(float) * static_cast<std::size_t>(takes.channels * takes.image_size * takes.image_size);
  return static_cast<std::size_t>(n) * each;
}

std::int64_t Tasks::sample_size(std::size_t t, Split split, std::int64_t n) const {
  return std::min(n, data(t).split(split).labels.size(0));
}

Sample Tasks::sample(std::size_t t, Split split, std::int64_t n, int from) const {
  t = first_alike(t);
  n = sample_size(t, split, n);
  const auto same = [&](const Kept& kept) {
    return kept.task == t && kept.split == split && kept.from == from;
  };
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (!same(*it) || it->sample.index.size(0) < n) continue;
    kept_.splice(kept_.begin(), kept_, it);
    // The first n of a larger one share its memory.
    const auto& whole = it->sample;
    return {whole.index.narrow(0, 0, n), whole.points.first(n), whole.labels.narrow(0, 0, n)};
  }
  kept_.remove_if(same);
  Sample sample;
  sample.index = sample_rows(t, split, n);
  sample.labels = labels(t, split, sample.index);
  if (from == 0 && bytes(n) > bound_.samples) {
    const auto& lengths = data(t).split(split).lengths;
    sample.points = Points(
        n,
        [this, t, split, rows = sample.index](const at::Tensor& which) {
          return raw_batch(t, split, rows.index_select(0, which));
        },
        lengths.defined() ? lengths.index_select(0, sample.index).to(at::kLong) : at::Tensor());
    return sample;
  }
  sample.points = batch(t, split, sample.index, from);
  kept_.push_front({t, split, from, sample});
  std::size_t held = 0;
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    held += it->sample.points.bytes();
    if (held <= bound_.samples || it == kept_.begin()) continue;
    kept_.erase(it, kept_.end());
    break;
  }
  return sample;
}

at::Tensor Tasks::sample_index(Split split, std::int64_t n) const {
  auto all = at::full({static_cast<std::int64_t>(size()), n}, -1, at::kLong);
  for (std::size_t t = 0; t < size(); ++t) {
    const auto index = sample_rows(t, split, n);
    all[static_cast<std::int64_t>(t)].narrow(0, 0, index.size(0)).copy_(index);
  }
  return all;
}

}  // namespace taugrid::study
