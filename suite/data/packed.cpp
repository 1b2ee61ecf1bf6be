// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/data/packed.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "suite/error.hpp"
#include "suite/store/hdf5.hpp"

namespace taugrid::data {

namespace {

using store::DatasetInfo;
using store::Element;
using store::Hdf5File;

constexpr double unit_tolerance = 1e-3;  // heads computed in half precision miss 1 by this much
constexpr double largest_scale = 1e6;    // CLIP stops at 100; logits stay far from overflow
constexpr double largest_pixel = 1e6;    // normalised; usual ones stay below 10

at::ScalarType scalar_of(Element element) {
  switch (element) {
    case Element::uint8:
      return at::kByte;
    case Element::int8:
      return at::kChar;
    case Element::int32:
      return at::kInt;
    case Element::int64:
      return at::kLong;
    case Element::float32:
      return at::kFloat;
    case Element::float64:
      return at::kDouble;
  }
  return at::kFloat;
}

/// A data set of this rank, stored as just this type, or, for int64, as any integer.
at::Tensor read(const Hdf5File& file, const std::string& name, Element element, std::size_t rank) {
  const DatasetInfo info = file.info(name);
  const bool any_integer = element == Element::int64 && info.integer;
  if ((info.element != element && !any_integer) || info.shape.size() != rank) {
    file.refuse(name, "expected " + std::string(any_integer ? "integer" : store::name_of(element)) + " of " +
                          std::to_string(rank) + " dimensions");
  }
  at::Tensor tensor = at::empty(info.shape, at::TensorOptions(scalar_of(element)));
  file.read(name, element, tensor.data_ptr(), tensor.nbytes());
  return tensor;
}

/// Images: of large tasks, each rank's own copy would fill a node's memory.
at::Tensor mapped(const Hdf5File& file, const std::string& name) {
  const DatasetInfo info = file.info(name);
  const auto data = info.shape.size() == 4 ? file.map(name, Element::uint8) : nullptr;
  if (data == nullptr) return read(file, name, Element::uint8, 4);
  return at::from_blob(
      const_cast<void*>(data.get()), info.shape, [data](void*) {}, at::TensorOptions(at::kByte));
}

/// The first entry outside low … high is refused by row and value.
void require_range(const Hdf5File& file, const std::string& name, const at::Tensor& values, std::int64_t low,
                   std::int64_t high) {
  const at::Tensor outside = ((values < low) | (values > high)).flatten().nonzero();
  if (outside.numel() > 0) {
    const auto position = outside[0].item<std::int64_t>();
    const auto per_row = std::max<std::int64_t>(1, values.numel() / values.size(0));
    file.refuse(name, "row " + std::to_string(position / per_row) + " holds " +
                          std::to_string(values.flatten()[position].item<std::int64_t>()) + "; expected " +
                          std::to_string(low) + " … " + std::to_string(high));
  }
}

void require_rows(const Hdf5File& file, const std::string& name, const at::Tensor& values,
                  std::int64_t rows) {
  if (values.size(0) != rows) {
    file.refuse(name, "has " + std::to_string(values.size(0)) + " rows; expected " + std::to_string(rows));
  }
}

void require_finite(const Hdf5File& file, const std::string& name, const at::Tensor& values) {
  const at::Tensor bad = at::isfinite(values).all(1).logical_not().nonzero();
  if (bad.numel() > 0) {
    file.refuse(name, "row " + std::to_string(bad[0].item<std::int64_t>()) + " has a NaN or an infinity");
  }
}

std::string text(const Hdf5File& file, const std::string& name) {
  const auto value = file.text_attribute("/", name);
  if (!value) {
    file.refuse("/", "attribute " + name + " is missing; expected text");
  }
  return *value;
}

/// One number a channel, finite as float32.
std::vector<float> channel_values(const Hdf5File& file, const std::string& name, std::int64_t channels,
                                  bool required) {
  const auto values = file.number_attribute("/", name);
  if (!values && !required) {
    return {};
  }
  constexpr double largest = std::numeric_limits<float>::max();
  if (!values || static_cast<std::int64_t>(values->size()) != channels ||
      !std::all_of(values->begin(), values->end(), [](double v) { return std::fabs(v) <= largest; })) {
    file.refuse("/", "attribute " + name + ": expected " + std::to_string(channels) +
                         " finite numbers of single precision, one a channel");
  }
  std::vector<float> result(values->begin(), values->end());
  if (name == "std" && std::any_of(result.begin(), result.end(), [](float v) { return !(v > 0); })) {
    file.refuse("/", "attribute std: expected numbers above 0");
  }
  return result;
}

/// Pictures, once their mean is subtracted and they are divided by their deviation, are of a size that a
/// network can take.
void require_normalisable(const Hdf5File& file, const std::vector<float>& mean,
                          const std::vector<float>& std) {
  for (std::size_t c = 0; c < mean.size(); ++c) {
    const double m = mean[c], largest = std::max(std::fabs(m), std::fabs(1 - m)) / std[c];
    if (!(largest <= largest_pixel))
      file.refuse("/", "attributes mean and std: a pixel of channel " + std::to_string(c) +
                           " would become as large as " + std::to_string(largest) + "; expected at most 1e6");
  }
}

/// Each prompt's mask lies in it, and is the same token everywhere.
at::Tensor read_mask(const Hdf5File& file, const std::string& name, const Samples& split) {
  const auto mask = read(file, name, Element::int32, 1);
  require_rows(file, name, mask, split.lengths.size(0));
  require_range(file, name, mask, 0, split.inputs.size(1) - 1);
  const at::Tensor outside = mask.ge(split.lengths).nonzero();
  if (outside.numel() > 0) {
    const auto row = outside[0].item<std::int64_t>();
    file.refuse(name, "row " + std::to_string(row) + " holds " +
                          std::to_string(mask[row].item<std::int64_t>()) + "; its text has " +
                          std::to_string(split.lengths[row].item<std::int64_t>()) + " tokens");
  }
  const at::Tensor tokens = split.inputs.gather(1, mask.to(at::kLong).unsqueeze(1)).squeeze(1);
  const at::Tensor other = tokens.ne(tokens[0]).nonzero();
  if (other.numel() > 0) {
    const auto row = other[0].item<std::int64_t>();
    file.refuse(name, "row " + std::to_string(row) + " leads to token " +
                          std::to_string(tokens[row].item<std::int64_t>()) + " and row 0 to token " +
                          std::to_string(tokens[0].item<std::int64_t>()) + "; expected the mask in both");
  }
  return mask;
}

/// Texts as labels: tokens, and −100 behind each one's end.
at::Tensor read_targets(const Hdf5File& file, const std::string& group, std::int64_t rows) {
  const std::string name = group + "/targets", of_lengths = group + "/target_lengths";
  const auto targets = read(file, name, Element::int32, 2),
             lengths = read(file, of_lengths, Element::int32, 1);
  require_rows(file, name, targets, rows);
  require_rows(file, of_lengths, lengths, rows);
  require_range(file, of_lengths, lengths, 1, targets.size(1));
  require_range(file, name, targets, 0, std::numeric_limits<std::int32_t>::max());
  const auto behind = at::arange(targets.size(1), at::kInt).unsqueeze(0).ge(lengths.unsqueeze(1));
  return targets.to(at::kLong).masked_fill_(behind, -100);
}

/// What each choice's score is divided by where they are compared: int64 [n, choices], 0 where there is none.
at::Tensor parts_of(const Hdf5File& file, const std::string& group, const Samples& split) {
  const std::string name = group + "/choice_letters";
  const auto there = split.choice_lengths.gt(0);
  if (!file.has(name)) return there.to(at::kLong);
  const auto letters = read(file, name, Element::int32, 2);
  if (letters.sizes() != there.sizes()) file.refuse(name, "is not of the shape of the choices");
  require_range(file, name, letters.where(there, 1), 1, std::numeric_limits<std::int32_t>::max());
  return letters.to(at::kLong).masked_fill_(there.logical_not(), 0);
}

/// Choices of each row's own, and labels made of them, of which one at least has tokens that are scored.
void read_choices(const Hdf5File& file, const std::string& group, std::int64_t classes, Samples& split) {
  const std::string name = group + "/choices", of_lengths = group + "/choice_lengths",
                    of_given = group + "/choice_given";
  split.choices = read(file, name, Element::int32, 3);
  split.choice_lengths = read(file, of_lengths, Element::int32, 2);
  split.choice_given =
      file.has(of_given) ? read(file, of_given, Element::int32, 2) : at::zeros_like(split.choice_lengths);
  const auto rows = split.inputs.size(0);
  if (split.choices.sizes().slice(0, 2) != at::IntArrayRef({rows, classes}))
    file.refuse(name, "expected " + std::to_string(rows) + " rows of " + std::to_string(classes) +
                          " choices, as many as /class_names has");
  for (const auto& [part, values] :
       {std::pair(&of_lengths, &split.choice_lengths), {&of_given, &split.choice_given}}) {
    if (values->sizes() != split.choices.sizes().slice(0, 2))
      file.refuse(*part, "is not of the shape of the choices");
    require_range(file, *part, *values, 0, split.choices.size(2));
  }
  require_range(file, name, split.choices, 0, std::numeric_limits<std::int32_t>::max());
  const auto scored = split.choice_lengths - split.choice_given;
  const auto there = split.choice_lengths.gt(0);
  const auto refuse_first = [&](const std::string& where, const at::Tensor& wrong, const char* what) {
    if (const auto first = wrong.nonzero(); first.numel() > 0)
      file.refuse(where, "row " + std::to_string(first[0][0].item<std::int64_t>()) + what);
  };
  refuse_first(of_given, there.logical_and(scored.lt(1)), " has a choice of which no token is scored");
  refuse_first(of_lengths, there.sum(1).lt(2), " has fewer than two choices");
  const auto right = split.labels.unsqueeze(1);
  refuse_first(of_lengths, there.gather(1, right).logical_not(), " has no tokens of its right choice");
  split.labels = at::cat({right, scored.to(at::kLong).gather(1, right), parts_of(file, group, split)}, 1);
}

Samples read_split(const Hdf5File& file, const std::string& group, const Task& task) {
  Samples split;
  const bool images = task.modality == "image";
  const std::string inputs = group + "/inputs";
  split.inputs = images ? mapped(file, inputs) : read(file, inputs, Element::int32, 2);
  const std::int64_t rows = split.inputs.size(0);
  if (split.inputs.numel() == 0) {
    file.refuse(inputs, "is empty; expected at least one sample");
  }
  if (task.head.kind == Head::Kind::text) {
    split.labels = read_targets(file, group, rows);
    split.references = file.strings(group + "/references");
    if (static_cast<std::int64_t>(split.references.size()) != rows)
      file.refuse(group + "/references", "has " + std::to_string(split.references.size()) +
                                             " rows; expected " + std::to_string(rows));
  } else {
    const std::string labels = group + "/labels";
    split.labels = read(file, labels, Element::int64, 1);
    require_rows(file, labels, split.labels, rows);
    require_range(file, labels, split.labels, 0, task.classes() - 1);
    if (task.head.kind == Head::Kind::choices) read_choices(file, group, task.classes(), split);
  }
  if (!images) {
    require_range(file, inputs, split.inputs, 0, std::numeric_limits<std::int32_t>::max());
    const std::string lengths = group + "/lengths";
    split.lengths = read(file, lengths, Element::int32, 1);
    require_rows(file, lengths, split.lengths, rows);
    require_range(file, lengths, split.lengths, 1, split.inputs.size(1));
    if (const std::string types = group + "/types"; file.has(types)) {
      split.types = read(file, types, Element::int32, 2);
      if (split.types.sizes() != split.inputs.sizes())
        file.refuse(types, "is not of the shape of the inputs");
      require_range(file, types, split.types, 0, 1);
    }
    if (const std::string mask = group + "/mask"; file.has(mask)) split.mask = read_mask(file, mask, split);
  }
  return split;
}

/// The splits of a task have the same parts, and mean the same by them.
void require_alike(const Hdf5File& file, const Task& task) {
  for (const auto& [group, split] : {std::pair("/validation", &task.validation), {"/test", &task.test}}) {
    const std::string name = group;
    if (split->inputs.sizes().slice(1) != task.train.inputs.sizes().slice(1))
      file.refuse(name + "/inputs", "samples differ in shape from those of /train/inputs");
    for (const auto& [part, here, there] : {std::tuple("/types", &split->types, &task.train.types),
                                            {"/mask", &split->mask, &task.train.mask}}) {
      if (here->defined() != there->defined())
        file.refuse(name + part, std::string("is ") + (here->defined() ? "there" : "missing") +
                                     ", and /train" + part + " is " +
                                     (there->defined() ? "there" : "missing") +
                                     "; expected it in all splits or in none");
    }
    if (file.has(name + "/choice_letters") != file.has("/train/choice_letters"))
      file.refuse(name,
                  "has choice_letters where /train has none, or the other way round; expected them in all "
                  "splits or in none");
    if (!split->mask.defined()) continue;
    const auto token = [](const Samples& samples) {
      return samples.inputs[0][samples.mask[0].item<std::int64_t>()].item<std::int64_t>();
    };
    if (token(*split) != token(task.train))
      file.refuse(name + "/mask", "leads to token " + std::to_string(token(*split)) +
                                      " and /train/mask to token " + std::to_string(token(task.train)) +
                                      "; expected the same mask");
  }
}

/// Each token of a text that answers has a piece.
void require_pieces(const Hdf5File& file, const Task& task) {
  for (const auto& [name, split] : {std::pair("/train/targets", &task.train),
                                    {"/validation/targets", &task.validation},
                                    {"/test/targets", &task.test}}) {
    const auto last = split->labels.max().item<std::int64_t>();
    if (last >= static_cast<std::int64_t>(task.head.pieces.size()))
      file.refuse(name, "holds token " + std::to_string(last) + ", and /head/pieces has " +
                            std::to_string(task.head.pieces.size()) + "; expected a piece of each token");
  }
}

Head::Kind head_kind(const Hdf5File& file) {
  const auto kind = file.text_attribute("/head", "kind").value_or("cosine");  // none before schema 2
  if (kind == "cosine") return Head::Kind::cosine;
  if (kind == "affine") return Head::Kind::affine;
  if (kind == "words") return Head::Kind::words;
  if (kind == "sequences") return Head::Kind::sequences;
  if (kind == "text") return Head::Kind::text;
  if (kind == "choices") return Head::Kind::choices;
  file.refuse("/head", "attribute kind: expected cosine, affine, words, sequences, text or choices");
}

void require_unit_rows(const Hdf5File& file, const std::string& name, const at::Tensor& rows) {
  const at::Tensor norms = rows.to(at::kDouble).square().sum(1).sqrt();
  const at::Tensor wrong = ((norms - 1).abs() > unit_tolerance).nonzero();
  if (wrong.numel() > 0) {
    const auto row = wrong[0].item<std::int64_t>();
    file.refuse(name, "row " + std::to_string(row) + " has length " +
                          std::to_string(norms[row].item<double>()) + "; expected 1");
  }
}

/// Every class has a sequence of its own.
void read_sequences(const Hdf5File& file, std::int64_t classes, Head& head) {
  const std::string name = "/head/tokens", of_lengths = "/head/lengths";
  head.tokens = read(file, name, Element::int64, 2);
  head.lengths = read(file, of_lengths, Element::int64, 1);
  require_rows(file, name, head.tokens, classes);
  require_rows(file, of_lengths, head.lengths, classes);
  require_range(file, of_lengths, head.lengths, 1, head.tokens.size(1));
  require_range(file, name, head.tokens, 0, std::numeric_limits<std::int32_t>::max());
  if (const std::string letters = "/head/letters"; file.has(letters)) {
    head.letters = read(file, letters, Element::int64, 1);
    require_rows(file, letters, head.letters, classes);
    require_range(file, letters, head.letters, 1, std::numeric_limits<std::int32_t>::max());
  }
  std::set<std::vector<std::int64_t>> seen;
  for (std::int64_t c = 0; c < classes; ++c) {
    const auto* row = head.tokens.const_data_ptr<std::int64_t>() + c * head.tokens.size(1);
    if (!seen.emplace(row, row + head.lengths[c].item<std::int64_t>()).second)
      file.refuse(name, "class " + std::to_string(c) + " has the tokens of one before it; expected its own");
  }
}

void read_text_head(const Hdf5File& file, Head& head) {
  head.metric = file.text_attribute("/head", "metric").value_or("");
  const auto& known = text_metrics();
  if (std::find(known.begin(), known.end(), head.metric) == known.end())
    file.refuse("/head", "attribute metric is \"" + head.metric +
                             "\"; expected spearman, exact_match, f1 or token_accuracy");
  head.pieces = file.strings("/head/pieces");
}

Head read_head(const Hdf5File& file, std::int64_t classes) {
  Head head;
  head.kind = head_kind(file);
  if (head.kind == Head::Kind::sequences) read_sequences(file, classes, head);
  if (head.kind == Head::Kind::text) read_text_head(file, head);
  if (head.kind == Head::Kind::sequences || head.kind == Head::Kind::text || head.kind == Head::Kind::choices)
    return head;
  if (head.kind == Head::Kind::words) {
    const std::string name = "/head/tokens";
    head.tokens = read(file, name, Element::int64, 1);
    require_rows(file, name, head.tokens, classes);
    require_range(file, name, head.tokens, 0, std::numeric_limits<std::int32_t>::max());
    if (std::get<0>(at::_unique(head.tokens)).size(0) != classes)
      file.refuse(name, "two classes share a word; expected one each");
    return head;
  }
  const std::string name = "/head/weight";
  head.weight = read(file, name, Element::float32, 2);
  require_rows(file, name, head.weight, classes);
  require_finite(file, name, head.weight);
  if (head.kind == Head::Kind::affine) {
    const std::string bias = "/head/bias";
    head.bias = read(file, bias, Element::float32, 1);
    require_rows(file, bias, head.bias, classes);
    if (!at::isfinite(head.bias).all().item<bool>()) file.refuse(bias, "has a NaN or an infinity");
    return head;
  }
  require_unit_rows(file, name, head.weight);
  const auto scale = file.number_attribute(name, "logit_scale");
  if (!scale || scale->size() != 1 || !(scale->front() > 0 && scale->front() <= largest_scale)) {
    file.refuse(name, "attribute logit_scale: expected one number above 0 and at most 1e6");
  }
  head.logit_scale = scale->front();
  return head;
}

}  // namespace

const char* split_name(Split split) {
  return split == Split::train ? "train" : split == Split::validation ? "validation" : "test";
}

std::vector<std::string> Samples::answers(std::int64_t row) const {
  std::istringstream lines(references.at(static_cast<std::size_t>(row)));
  std::vector<std::string> texts;
  for (std::string line; std::getline(lines, line);) texts.push_back(line);
  if (texts.empty()) texts.emplace_back();
  return texts;
}

const Samples& Task::split(Split which) const {
  return which == Split::train ? train : which == Split::validation ? validation : test;
}

Task read_task(const std::filesystem::path& path) {
  const Hdf5File file(path);
  Task task;
  task.name = text(file, "task");
  task.modality = text(file, "modality");
  task.source = text(file, "source");
  task.license = text(file, "license");
  task.group = file.text_attribute("/", "group").value_or("");
  task.tokenizer = file.text_attribute("/", "tokenizer").value_or("");
  if (task.modality != "image" && task.modality != "text") {
    file.refuse("/", "attribute modality: expected image or text");
  }
  if (task.modality == "image" && head_kind(file) == Head::Kind::choices)
    file.refuse("/head", "is of kind choices, and the inputs are images; expected texts");
  if (head_kind(file) != Head::Kind::text) {
    task.class_names = file.strings("/class_names");
    if (task.class_names.empty()) file.refuse("/class_names", "is empty; expected at least one class");
  }
  task.head = read_head(file, task.classes());
  task.train = read_split(file, "/train", task);
  task.validation = read_split(file, "/validation", task);
  task.test = read_split(file, "/test", task);
  require_alike(file, task);
  if (task.head.kind == Head::Kind::text) require_pieces(file, task);
  if (task.modality == "image") {
    task.mean = channel_values(file, "mean", task.train.inputs.size(3), true);
    task.std = channel_values(file, "std", task.train.inputs.size(3), true);
    require_normalisable(file, task.mean, task.std);
  }
  return task;
}

std::int64_t longest_text(const std::filesystem::path& path) {
  if (std::error_code error; !std::filesystem::exists(path, error)) return 0;  // the tasks say what is wrong
  const Hdf5File file(path);
  std::int64_t longest = 0;
  for (const auto* name : {"/train/lengths", "/validation/lengths", "/test/lengths"}) {
    if (!file.has(name)) continue;
    const auto lengths = read(file, name, Element::int32, 1);
    if (lengths.numel() > 0) longest = std::max(longest, lengths.max().item<std::int64_t>());
  }
  return longest;
}

const std::vector<std::string>& text_metrics() {
  static const std::vector<std::string> all = {"spearman", "exact_match", "f1", "token_accuracy"};
  return all;
}

std::int64_t places_to_decode(const std::filesystem::path& path) {
  if (std::error_code error; !std::filesystem::exists(path, error)) return 0;  // the tasks say what is wrong
  const Hdf5File file(path);
  if (!file.has("/head")) return 0;
  const auto kind = head_kind(file);
  if (kind == Head::Kind::text) {
    const auto shape = file.info("/train/targets").shape;
    return shape.size() == 2 ? shape.back() : 0;
  }
  if (kind == Head::Kind::choices) {
    std::int64_t most = 0;
    for (const std::string group : {"/train", "/validation", "/test"}) {
      const auto name = group + "/choice_lengths";
      const auto lengths = read(file, name, Element::int32, 2);
      const auto shape = file.info(group + "/choices").shape;
      if (shape.size() != 3 || lengths.numel() == 0) continue;  // the tasks say what is wrong with it
      require_range(file, name, lengths, 0, shape.back());
      most = std::max(most, lengths.sum(1).max().item<std::int64_t>());
    }
    return most;
  }
  if (kind != Head::Kind::sequences) return 0;
  Head head;
  read_sequences(file, static_cast<std::int64_t>(file.strings("/class_names").size()), head);
  std::set<std::vector<std::int64_t>> beginnings;
  for (std::int64_t c = 0; c < head.tokens.size(0); ++c) {
    const auto* row = head.tokens.const_data_ptr<std::int64_t>() + c * head.tokens.size(1);
    for (std::int64_t l = 0; l < head.lengths[c].item<std::int64_t>(); ++l) beginnings.emplace(row, row + l);
  }
  return static_cast<std::int64_t>(beginnings.size());
}

Pairs read_pairs(const std::filesystem::path& path) {
  const Hdf5File file(path);
  Pairs pairs;
  pairs.images = read(file, "/images", Element::uint8, 4);
  pairs.captions = file.strings("/captions");
  if (pairs.images.numel() == 0 || pairs.captions.empty()) {
    file.refuse("/images", "no pictures or no captions; expected at least one of each");
  }
  const std::int64_t rows = pairs.images.size(0);
  const auto captions = static_cast<std::int64_t>(pairs.captions.size());
  pairs.caption = read(file, "/caption", Element::int32, 1);
  require_rows(file, "/caption", pairs.caption, rows);
  require_range(file, "/caption", pairs.caption, 0, captions - 1);
  pairs.text_embedding = read(file, "/text_embedding", Element::float32, 2);
  require_rows(file, "/text_embedding", pairs.text_embedding, captions);
  require_finite(file, "/text_embedding", pairs.text_embedding);
  pairs.is_class_picture = read(file, "/is_class_picture", Element::int8, 1);
  require_rows(file, "/is_class_picture", pairs.is_class_picture, rows);
  require_range(file, "/is_class_picture", pairs.is_class_picture, 0, 1);
  pairs.class_picture_rank = read(file, "/class_picture_rank", Element::int32, 1);
  require_rows(file, "/class_picture_rank", pairs.class_picture_rank, rows);
  pairs.mean = channel_values(file, "mean", pairs.images.size(3), false);
  pairs.std = channel_values(file, "std", pairs.images.size(3), false);
  return pairs;
}

at::Tensor normalised_images(const at::Tensor& images, const at::Tensor& mean, const at::Tensor& std) {
  const auto channels = images.dim() == 4 ? images.size(3) : -1;
  if (images.scalar_type() != at::kByte || channels < 0 || mean.numel() != channels ||
      std.numel() != channels) {
    throw InputError("images: expected uint8 [n,h,w,c] and a mean and a std for each channel");
  }
  return images.permute({0, 3, 1, 2})
      .to(at::kFloat)
      .contiguous()
      .div_(255)
      .sub_(mean.view({1, channels, 1, 1}))
      .div_(std.view({1, channels, 1, 1}));
}

at::Tensor normalised_images(const at::Tensor& images, const std::vector<float>& mean,
                             const std::vector<float>& std) {
  return normalised_images(images, at::tensor(mean, at::kFloat).to(images.device()),
                           at::tensor(std, at::kFloat).to(images.device()));
}

at::Tensor send(at::Device device, const at::Tensor& tensor) {
  if (device.is_cpu()) return tensor;
  auto pinned = at::empty(tensor.sizes(), tensor.options().pinned_memory(true));
  pinned.copy_(tensor);
  return pinned.to(device, /*non_blocking=*/true);
}

at::Tensor rows_on(at::Device device, const at::Tensor& rows, const at::Tensor& index) {
  if (device.is_cpu()) return rows.index_select(0, index);
  auto shape = rows.sizes().vec();
  shape[0] = index.size(0);
  auto pinned = at::empty(shape, rows.options().pinned_memory(true));
  at::index_select_out(pinned, rows, 0, index);
  return pinned.to(device, /*non_blocking=*/true);
}

}  // namespace taugrid::data
