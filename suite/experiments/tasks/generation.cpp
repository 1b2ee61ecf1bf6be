// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What models say, decoded greedily, on test points of the tasks that are answered by texts: of θ0, of each
// task's own model, and of sums of all task vectors. A task's own metric is `value` (/tasks/metric names it):
// Spearman's correlation of the numbers said with the right ones, what is no number counting as 0
// (FusionBench's published models are measured so); SQuAD's exact match or F1, or the share of the text's
// tokens that are ranked first behind the right ones before them.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "suite/error.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/experiments/tasks/text_metrics.hpp"
#include "suite/ledger/results.hpp"
#include "suite/study/task_sets.hpp"

namespace taugrid::experiments {
namespace {

/// `model`: a regime, or the name of θ0.
std::string generation_key(const std::string& model, const std::string& task) {
  return key::of("generation", model, task);
}

std::vector<OutputGroup> generation_outputs() {
  const auto measures = [](const std::string& roles) {
    const auto measure = [&](const std::string& name, const std::string& meaning) {
      return Output{name, roles, "1", meaning + ", NaN of tasks that are not answered by texts"};
    };
    return std::vector<Output>{
        measure("value", "the task's own metric, as /tasks/metric names it"),
        measure("exact_match", "SQuAD's"),
        measure("f1", "SQuAD's, of words"),
        measure("token_accuracy",
                "the share of the text's tokens that are ranked first behind the right ones before them"),
        measure("pearson", "correlation of the numbers said with the right ones"),
        measure("spearman", "rank correlation of these"),
        measure("no_number", "how many said no number, of tasks measured by Spearman")};
  };
  const auto rows = sample_rows("test", "generation_point");
  return {{"/generation/R", "what each task's own model says, decoded greedily; or θ0, R being its name",
           together({measures("task"),
                     {{"tokens", "task generation_point generated_token", "",
                       "what is said, −1 behind the end", With{.element = Element::int32}},
                      rows}}),
           "[generation]", 2},
          {"/generation_sum/R", "what θ0 + α Σ τ says",
           together({{{"alpha", "alpha", "1", "α of the sum", With{.scale = "alpha_generation_R"}}},
                     measures("alpha task"),
                     {rows}}),
           "[generation]", 2}};
}

const std::vector<std::string> text_measures = {"value",   "exact_match", "f1",       "token_accuracy",
                                                "pearson", "spearman",    "no_number"};

class Generation final : public Experiment {
 public:
  Generation(const Study& study, std::int64_t tokens, std::int64_t points, std::vector<double> alpha)
      : Experiment(study), tokens_(tokens), points_(points), alpha_(std::move(alpha)) {}

  bool runs_by_stages() const override { return true; }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto add = [&](const std::string& model, std::size_t t, const std::vector<Edit>& edits,
                         const std::vector<std::string>& needs) {
      units.push_back(unit(generation_key(model, study_.tasks.name(t)), tally(t, edits), needs,
                           [this, t, edits, &folder](schedule::UnitContext& context) {
                             return measured(t, edits, folder, context);
                           }));
    };
    for (const auto t : tasks()) {
      add(study_.model.name(), t, {Edit::start()}, {});
      for (const auto& name : study_.settings.vector_regimes)
        add(name, t, edits(name, t), study_.vectors.needs(name, study_.tasks.all()));
    }
  }

  std::vector<WrittenGroup> written() const override {
    const std::map<std::string, std::int64_t> sizes = {
        {"generation_point", points_}, {"generated_token", tokens_}, {"alpha", length_of(alpha_)}};
    auto groups = groups_of("/generation", {study_.model.name()}, sizes);
    for (const auto* parent : {"/generation", "/generation_sum"})
      for (auto& group : groups_of(parent, study_.settings.vector_regimes, sizes)) groups.push_back(group);
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    put(out, done, study_.model.name(), false);
    for (const auto& name : study_.settings.vector_regimes) put(out, done, name, true);
  }

 private:
  study::TaskSet tasks() const {
    study::TaskSet set;
    for (const auto t : study_.tasks.all())
      if (study_.readouts.of(t).kind == models::Readout::Kind::text) set.push_back(t);
    return set;
  }

  /// The task's own model, and the sums of all tasks' vectors.
  std::vector<Edit> edits(const std::string& name, std::size_t t) const {
    std::vector<Edit> all = {Edit::sum(name, {t}, {1})};
    for (const auto alpha : alpha_) all.push_back(Edit::sum(name, study_.tasks.all(), {alpha}));
    return all;
  }

  /// An encoder's pass a point and, for each token, the decoder's over those before: two passes in all. Where
  /// answers stand in the text's line, all of it runs again for each token.
  Tally tally(std::size_t t, const std::vector<Edit>& edits) const {
    Tally work(study_);
    const auto n = study_.samples.size(t, Split::test, points_);
    work.sample(t, Split::test, n);
    const auto& last = edits.back();
    if (!last.tasks.empty() && !study_.model.by_stages()) work.visit(last.regime, last.tasks);
    const auto passes = study_.model.encoder().answers_in_line() ? 1 + tokens_ : 2;
    for (const auto& edit : edits) {
      if (study_.model.by_stages()) {
        work.by_stages(edit.tasks, {.models = 1,
                                    .inputs = n,
                                    .batch = study_.settings.evaluation_batch,
                                    .at_once = study::StageWeights::inputs_at_once(study_, tokens_),
                                    .flops = study_.model.cost().forward(),
                                    .times = passes,
                                    .how = {.tangent = edit.is_linear()}});
      } else if (edit.is_linear()) {
        work.tangent(t, n, passes);
      } else {
        work.forward(t, n, passes);
      }
    }
    const auto models = std::ssize(edits);
    return work.stores(std::ssize(text_measures) * models).stores(n * tokens_, 4);
  }

  /// What a unit has of one model: `tokens`, and each measure.
  store::TensorFile measured(std::size_t t, const study::Said& said) const {
    const auto& task = study_.tasks.data(t);
    const auto ends = study_.model.encoder().decoder_ends();
    const auto rows = study_.samples.rows(t, Split::test, points_);
    const auto n = rows.size(0);
    double matches = 0, f1 = 0;
    std::int64_t failures = 0, wanted = 0, right = 0;
    std::vector<double> numbers, right_numbers;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto* spoken = said.tokens.const_data_ptr<std::int64_t>() + i * tokens_;
      const auto text = text_of({spoken, static_cast<std::size_t>(tokens_)}, task.head.pieces, ends);
      const auto references = task.test.answers(rows[i].item<std::int64_t>());
      matches += exact_match(text, references);
      f1 += word_f1(text, references);
      const auto number = number_of(text);
      failures += !number.has_value();
      numbers.push_back(number.value_or(0));
      right_numbers.push_back(number_of(references.front()).value_or(0));
      right += said.right[i].item<std::int64_t>();
      wanted += task.test.labels[rows[i].item<std::int64_t>()].ge(0).sum().item<std::int64_t>();
    }
    const auto share = [&](double sum, std::int64_t of) { return sum / static_cast<double>(of); };
    const bool correlated = task.head.metric == "spearman";
    const auto of_numbers = [&](double value) { return correlated ? value : std::nan(""); };
    std::map<std::string, double> scores = {{"exact_match", share(matches, n)},
                                            {"f1", share(f1, n)},
                                            {"token_accuracy", share(static_cast<double>(right), wanted)},
                                            {"pearson", of_numbers(pearson(numbers, right_numbers))},
                                            {"spearman", of_numbers(spearman(numbers, right_numbers))},
                                            {"no_number", of_numbers(static_cast<double>(failures))}};
    scores["value"] = scores.at(task.head.metric);
    store::TensorFile file;
    file.tensors["tokens"] = said.tokens.to(at::kInt);
    for (const auto& what : text_measures) file.tensors[what] = at::full({}, scores.at(what), at::kDouble);
    return file;
  }

  /// What a unit has of these models: of the first as above, and of sums behind it each measure, stacked.
  store::TensorFile measured(std::size_t t, const std::vector<Edit>& edits, const schedule::RunFolder& folder,
                             schedule::UnitContext& context) const {
    const EditedOutputs models(study_, folder, context.group);
    store::TensorFile file;
    std::map<std::string, std::vector<at::Tensor>> sums;
    for (std::size_t k = 0; k < edits.size(); ++k) {
      const auto before = [&](double share) {
        context.stop_if_requested();
        context.progress((static_cast<double>(k) + share) / static_cast<double>(edits.size()), "tokens");
      };
      auto of_model = measured(t, models.said(edits[k], t, Split::test, points_, tokens_, before));
      if (k == 0) {
        file = std::move(of_model);
      } else {
        for (const auto& what : text_measures) sums[what].push_back(of_model.tensors.at(what));
      }
    }
    for (const auto& [what, values] : sums) file.tensors["sum_" + what] = at::stack(values);
    return file;
  }

  void put(Results& out, const Finished& done, const std::string& name, bool sums) const {
    const auto count = static_cast<std::int64_t>(study_.tasks.size()),
               a = static_cast<std::int64_t>(alpha_.size());
    const auto group = "/generation/" + name, of_sums = "/generation_sum/" + name;
    auto tokens = at::full({count, points_, tokens_}, -1, at::kInt);
    std::map<std::string, at::Tensor> scores;
    for (const auto& what : text_measures) {
      scores[what] = at::full({count}, std::nan(""), at::kDouble);
      if (sums) scores["sum_" + what] = at::full({a, count}, std::nan(""), at::kDouble);
    }
    for (const auto t : tasks()) {
      const auto file = done.folder.read_unit(done.world, generation_key(name, study_.tasks.name(t)));
      const auto k = static_cast<std::int64_t>(t);
      const auto& said = file.tensors.at("tokens");
      tokens[k].narrow(0, 0, said.size(0)).copy_(said);
      for (auto& [what, values] : scores) values.select(-1, k).copy_(file.tensors.at(what));
    }
    const auto rows = study_.samples.index(Split::test, points_);
    for (const auto& what : text_measures) out.put(group + "/" + what, scores.at(what));
    out.put(group + "/tokens", tokens);
    out.put(group + "/sample_index", rows);
    if (!sums) return;
    out.put(of_sums + "/alpha", alpha_);
    for (const auto& what : text_measures) out.put(of_sums + "/" + what, scores.at("sum_" + what));
    out.put(of_sums + "/sample_index", rows);
  }

  std::int64_t tokens_, points_;
  std::vector<double> alpha_;
};

std::unique_ptr<Experiment> make_generation(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "generation",
      "What models say, decoded greedily, on the tasks that are answered by texts, and their metrics");
  if (!section) return nullptr;
  const auto tokens = section->integer("tokens", "Tokens that are decoded at most", 32, {1, 1e4});
  const auto& takes = study.model.encoder().takes();
  if (study.model.encoder().answers_in_line() && study.model.tokens() + tokens - 1 > takes.tokens)
    section->refuse("tokens", fmt::format("is {}, behind texts of {}; the model takes {} tokens in all",
                                          tokens, study.model.tokens(), takes.tokens));
  const auto points =
      section->integer("points", {"Test points a task", {.fallback = "data.evaluation_points"}},
                       study.settings.evaluation_points, {1, 1e7});
  auto alpha =
      section->alpha_grid("alpha", {"Coefficients α at which θ0 + α Σ τ is decoded"}, {1}, coefficients);
  bool any = study.model.is_stand_in();
  for (const auto t : study.tasks.all())
    any =
        any || study.readouts.of(t).kind == models::Readout::Kind::text || study.tasks.data(t).source.empty();
  if (!any)
    throw InputError(
        "section [generation] has no task that is answered by texts; expected one, such as stsb");
  return std::make_unique<Generation>(study, tokens, points, std::move(alpha));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(generation, 95, make_generation, generation_outputs)
