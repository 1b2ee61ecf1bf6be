// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Bases without clusters (the later code of paper 2): from the Gram matrix alone, M bases that are
// combinations of the T vectors, by an autoencoder or by principal components
// (kernels/spectral/low_rank.hpp). What they keep of the vectors, and the accuracy of θ0 + ατ on every task,
// α by validation points, with τ
//   bases      the sum of the bases, as that code adds tasks;
//   recovered  the sum of the vectors that are made of them again. Of principal components that is Σ τ_t
//   itself,
//              whatever M: their entries add up to 0, and the mean is stored beside them.
#include "kernels/spectral/low_rank.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "suite/experiments/bases/task_bases.hpp"
#include "suite/experiments/edits/chosen_edit.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/ledger/results.hpp"
#include "suite/study/merged_tasks.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

std::vector<OutputGroup> low_rank_outputs() {
  return {
      {"/low_rank/R",
       "bases that are combinations of all vectors, and the models θ0 + ατ of two sums of them",
       together(
           {{{"method", "method", "", "pca or autoencoder", With{.text = true, .scale = "low_rank_method_R"}},
             {"bases", "bases", "", "how many", With{.element = Element::int64, .scale = "low_rank_bases_R"}},
             {"alpha", "alpha", "1", "α of the sum", With{.scale = "alpha_low_rank_R"}},
             {"sum", "sum", "", "what τ is: the sum of the bases, or of the vectors recovered from them",
              With{.text = true, .scale = "low_rank_sum_R"}},
             {"error", "method bases", "1", "‖V − V̂‖²_F / ‖V‖²_F"},
             {"encoder", "method bases task basis", "1",
              "a task's part in each basis, NaN beyond a row's bases"},
             {"decoder", "method bases basis task", "1",
              "a basis's part in each task, NaN beyond a row's bases"},
             {"validation_accuracy", "method bases sum alpha task", "1", "on validation points"},
             {"accuracy", "method bases sum task", "1", "on test points at the chosen α"},
             {"coefficient", "method bases sum", "1", "the chosen α"},
             {"absolute", "method bases sum", "1", "mean accuracy at the chosen α"},
             {"normalized", "method bases sum", "1", "mean normalised accuracy at the chosen α"},
             {"@methods", "", "", "all of `method`, with commas between"}},
            both_sample_rows()}),
       "[bases.low_rank]", 2}};
}

class LowRank final : public Experiment {
 public:
  struct Settings {
    std::vector<std::string> methods;
    std::vector<int> bases;
    std::vector<double> alpha;
    spectral::AutoencoderSettings autoencoder;
  };
  LowRank(const Study& study, Settings settings) : Experiment(study), settings_(std::move(settings)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto every = study_.tasks.all();
    const auto a = static_cast<std::int64_t>(settings_.alpha.size()),
               tasks = static_cast<std::int64_t>(every.size());
    for (const auto& name : study_.settings.vector_regimes) {
      std::vector<std::string> needs = study_.vectors.needs(name, every);
      const bool linear = regime(name).linear;  // whose outputs are sums of tangents that were computed once
      Tally tally(study_);
      for (int i = 0; i < (linear ? 1 : 3); ++i) tally.visit(name, every);
      if (!linear) tally.holds(8.0 * static_cast<double>(study_.model.layout().size()));
      for (const auto t : every) {
        const auto edit = merged_edit(name, every, at::ones({tasks}, at::kDouble));
        count_chosen(tally, edit, settings_.alpha, t, 2);
        add_missing(needs, {key::single_task(name, study_.tasks.name(t))});
        add_missing(needs, edit({1}).needs(study_, t));
      }
      each([&](std::size_t q, std::size_t row) {
        const auto m = static_cast<std::int64_t>(settings_.bases[row]), numbers = 2 * tasks * (m + a + 1) + 7;
        auto work = tally;
        work.stores(numbers + tasks * tasks);
        const auto& method = settings_.methods[q];
        units.push_back(unit(key::low_rank(name, method, static_cast<std::size_t>(m)), work, needs,
                             [this, name, method, m, &folder](schedule::UnitContext& context) {
                               return compute(name, method, m, folder, context);
                             }));
      });
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/low_rank", study_.settings.vector_regimes,
                     {{"method", length_of(settings_.methods)},
                      {"bases", length_of(settings_.bases)},
                      {"alpha", length_of(settings_.alpha)},
                      {"sum", 2},
                      {"basis", settings_.bases.back()}});
  }

  void write(Results& out, const Finished& done) const override {
    const auto q = static_cast<std::int64_t>(settings_.methods.size()),
               k = static_cast<std::int64_t>(settings_.bases.size()),
               most = std::int64_t{settings_.bases.back()},
               a = static_cast<std::int64_t>(settings_.alpha.size()),
               tasks = static_cast<std::int64_t>(study_.tasks.size());
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/low_rank/" + name;
      out.put(group + "/method", settings_.methods);
      out.put(group + "/bases", at::tensor(settings_.bases, at::kInt).to(at::kLong));
      out.put(group + "/alpha", settings_.alpha);
      out.put(group + "/sum", std::vector<std::string>{"bases", "recovered"});
      const auto unknown = [&](std::vector<std::int64_t> more) {
        more.insert(more.begin(), {q, k});
        return at::full(more, std::nan(""), at::kDouble);
      };
      std::map<std::string, at::Tensor> all = {{"error", unknown({})},
                                               {"encoder", unknown({tasks, most})},
                                               {"decoder", unknown({most, tasks})},
                                               {"validation_accuracy", unknown({2, a, tasks})},
                                               {"accuracy", unknown({2, tasks})}};
      for (const auto* what : {"coefficient", "absolute", "normalized"}) all[what] = unknown({2});
      each([&](std::size_t i, std::size_t row) {
        const auto m = static_cast<std::size_t>(settings_.bases[row]);
        const auto tensors =
            done.folder.read_unit(done.world, key::low_rank(name, settings_.methods[i], m)).tensors;
        for (auto& [what, values] : all) {
          auto part = values[static_cast<std::int64_t>(i)][static_cast<std::int64_t>(row)];
          if (what == "encoder") part = part.narrow(1, 0, static_cast<std::int64_t>(m));
          if (what == "decoder") part = part.narrow(0, 0, static_cast<std::int64_t>(m));
          part.copy_(tensors.at(what));
        }
      });
      for (const auto& [what, values] : all) out.put(group + "/" + what, values);
      out.attribute(group, "methods", fmt::format("{}", fmt::join(settings_.methods, ", ")));
      for (const auto split : {Split::test, Split::validation})
        out.put(group + "/" + prefix_of(split) + "sample_index", study_.samples.index(split, points()));
    }
  }

 private:
  void each(const std::function<void(std::size_t q, std::size_t row)>& see) const {
    for (std::size_t q = 0; q < settings_.methods.size(); ++q)
      for (std::size_t row = 0; row < settings_.bases.size(); ++row) see(q, row);
  }

  store::TensorFile compute(const std::string& name, const std::string& method, std::int64_t m,
                            const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    const auto all = study_.tasks.all();
    const auto gram = study_.vectors.gram(context.group, name, all).cpu();
    const auto seed = study::seed_for(study_.settings.seed, fmt::format("autoencoder/{}", m));
    const auto low_rank = method == "pca" ? spectral::principal_components(gram, m)
                                          : spectral::autoencoder(gram, m, settings_.autoencoder, seed);
    const auto recovered = low_rank.encoder.mm(low_rank.decoder) + low_rank.rest;
    const auto single = own_accuracies(study_, folder, name, all);
    const EditedOutputs models(study_, folder, context.group);
    std::map<std::string, std::vector<at::Tensor>> rows;
    double done = 0;  // of two kinds of sums
    for (const auto& coefficients : {low_rank.encoder.sum(1), recovered.sum(1)}) {
      const auto factors = coefficients.contiguous();
      const auto tau = regime(name).linear ? at::Tensor() : combined(study_, name, all, factors);
      const auto sum =
          at_chosen_alpha(all, settings_.alpha, single,
                          outcomes_of(study_, models, merged_edit(name, all, factors, tau), context),
                          [&](double share) { context.progress((done + share) / 2, "tasks"); });
      for (const auto* what : {"validation_accuracy", "accuracy", "coefficient", "absolute", "normalized"})
        rows[what].push_back(sum.tensors.at(what));
      ++done;
    }
    store::TensorFile file;
    file.tensors = {{"encoder", low_rank.encoder.contiguous()},
                    {"decoder", low_rank.decoder.contiguous()},
                    {"recovered", recovered.contiguous()},
                    {"error", at::full({}, spectral::relative_error(gram, low_rank), at::kDouble)}};
    for (const auto& [what, values] : rows) file.tensors[what] = at::stack(values);
    return file;
  }

  Settings settings_;
};

std::unique_ptr<Experiment> make_low_rank(config::Config& config, const Study& study) {
  auto section = config.optional_section("bases.low_rank", of_low_rank);
  if (!section) return nullptr;
  study::require_vectors(study, "bases.low_rank");
  study::refuse_filter(study, "bases.low_rank");
  LowRank::Settings settings;
  auto choice = read_low_rank(*section, study);
  settings.methods = std::move(choice.methods);
  settings.bases = std::move(choice.bases);
  settings.alpha = addition_grid(*section);
  settings.autoencoder.steps = section->integer("steps", "Steps of the autoencoder", 6000, {1, 1e7});
  settings.autoencoder.learning_rate =
      section->real("learning_rate", "The rate of its Adam, constant", 0.01, {0, 10});
  settings.autoencoder.temperature = section->real(
      "temperature", "What its numbers are divided by before the softmax over tasks", 5, {1e-6, 1e6});
  settings.autoencoder.weight_decay =
      section->real("weight_decay", "Times which its numbers are added to their gradients", 1e-6, {0, 1});
  return std::make_unique<LowRank>(study, std::move(settings));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(low_rank, 98, make_low_rank, low_rank_outputs)
