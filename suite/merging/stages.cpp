// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/stages.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "kernels/weights/backend.hpp"
#include "suite/error.hpp"
#include "suite/merging/layers.hpp"
#include "suite/merging/matrices/dealt_tensors.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

/// Whether a number holds for all tensors of all models.
bool is_plain(const config::Setting& setting) {
  return setting.cases.size() == 1 && setting.cases.front().filter.empty() &&
         setting.cases.front().values.size() == 1;
}

bool goes_over_layers(const config::Setting& setting) {
  return std::any_of(setting.cases.begin(), setting.cases.end(),
                     [](const auto& each) { return each.values.size() > 1; });
}

/// LibTorch's threads, set aside while it lives.
class OneThread {
 public:
  explicit OneThread(bool is_wanted) : before_(at::get_num_threads()) {
    if (is_wanted) at::set_num_threads(1);
  }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// The journal of a stage whose numbers come stretch by stretch.
class OfStage final : public Sink::Journal {
 public:
  OfStage(UnderWay& under_way, std::size_t number) : under_way_(under_way), number_(number) {}

  std::vector<Range> left(Range range) const override { return under_way_.left(number_, range); }
  std::vector<Counted> earlier() const override { return under_way_.earlier(number_); }
  void finish(const Counted& counted) override {
    constexpr std::int64_t at_least = std::int64_t{1} << 22;  // numbers of a line
    if (counted.range.begin != last_.range.end() || last_.range.count >= at_least) settle();
    if (last_.range.count == 0) last_.range.begin = counted.range.begin;
    last_.range.count += counted.range.count;
    last_.nonzero += counted.nonzero;
    last_.undecided += counted.undecided;
    last_.balance += counted.balance;
  }
  /// What was finished is handed on.
  void settle() {
    if (last_.range.count > 0) under_way_.finish(number_, last_);
    last_ = {};
  }

 private:
  UnderWay& under_way_;
  std::size_t number_;
  Counted last_;  ///< that is not handed on yet
};

/// How many threads merge the pieces of one of so many ranks' shares. A team of threads a stretch takes
/// longer than the stretch, while factors of matrices have a use for one.
std::size_t threads_for(const Stage::Share& share, int ranks) {
  constexpr double least = 1 << 22;    // numbers that a thread goes through, so that its start does not count
  constexpr double most_memory = 4e9;  // of all threads together
  if (share.flops > 0 || weights::backend().host != "Serial") return 1;
  // A launched rank has one thread, if nobody says more.
  const bool has_all = ranks == 1 || std::getenv("OMP_NUM_THREADS") != nullptr;
  const auto wanted =
      std::min({has_all ? static_cast<double>(at::get_num_threads()) : 1.0, share.visits / least,
                static_cast<double>(share.pieces.size()), most_memory / std::max(1.0, share.memory)});
  return static_cast<std::size_t>(std::max(1.0, wanted));
}

}  // namespace

Stage::Stage(const Recipe& recipe, const Recipe::Slice& slice, Place place, const Vocabulary* vocabulary,
             std::function<void()> go_on)
    : recipe_(recipe), slice_(slice), place_(place), start_(open_weights(slice.base_model)) {
  bool are_whole = true;
  for (const auto& source : slice.sources) {
    models_.push_back(open_model(recipe.models[source.model], start_));
    if (const auto* weights = std::get_if<Weights>(&models_.back()); weights != nullptr) {
      for (const auto& entry : weights->tensors()) names_.insert(entry.first);
      continue;
    }
    are_whole = false;
    require_takes_adapter(source);
  }
  if (!are_whole)
    for (const auto& entry : start_.tensors()) names_.insert(entry.first);
  if (recipe.is_sliced) {
    const auto& first = slice.sources.front();
    layers_ = first.layers.count;
    if (!slice.base) start_ = open_weights(recipe.models[first.model]);
    take_layers(start_, slice.base.value_or(first.layers), first.where, place);
    for (std::size_t i = 0; i < models_.size(); ++i)
      take_layers(std::get<Weights>(models_[i]), slice.sources[i].layers, slice.sources[i].where, place);
  }
  if (vocabulary != nullptr) vocabulary->arrange(start_, models_, place.begins);
  // A mean of models is one of vectors, too, which are exacter.
  is_of_models_ = recipe.is_of_models() && are_whole && !(recipe.adapter && recipe.method->factor(1));
  stacks_ = stacks_of(start_);
  vectors_ = std::make_unique<CheckpointVectors>(
      start_, models_, is_of_models_ ? CheckpointVectors::From::zero : CheckpointVectors::From::theta0,
      std::move(go_on));
  if (recipe.method->needs_start()) vectors_->require_one_start();
  plan();
}

void Stage::require_takes_adapter(const Recipe::Source& source) const {
  const auto folder = recipe_.models[source.model].string();
  if (recipe_.method->needs_full_rank())
    throw InputError(
        fmt::format("{}: is an adapter, of whose matrices {} takes more singular vectors than they "
                    "have; expected parameters.space = \"core\"",
                    folder, recipe_.method_name));
  if (recipe_.is_sliced || recipe_.adds_models)
    throw InputError(fmt::format("{}: is an adapter; expected a whole model, whose own numbers {} takes",
                                 folder, recipe_.is_sliced ? "slices" : recipe_.method_name));
}

Stage::Place Stage::Place::of(const Recipe& recipe, std::size_t slice) {
  std::int64_t layers = 0;
  for (std::size_t s = 0; s < slice; ++s) layers += recipe.slices[s].sources.front().layers.count;
  return {layers, slice == 0, slice + 1 == recipe.slices.size()};
}

void take_layers(Weights& model, Range layers, const std::string& where, Stage::Place place) {
  const auto stacks = stacks_of(model);
  if (stacks.size() != 1)
    throw InputError(fmt::format("{}: {} has {} lists of layers; slices are of models that have one", where,
                                 model.folder().string(), stacks.size()));
  const auto& [stack, count] = *stacks.begin();
  if (layers.end() > count)
    throw InputError(fmt::format("{}: is [{}, {}], and {} has {} layers; expected a range within [0, {}]",
                                 where, layers.begin, layers.end(), model.folder().string(), count, count));
  model.rename([&](const std::string& name) {
    const auto layer = layer_named_in(name);
    if (!layer) return (is_before_layers(name) ? place.begins : place.ends) ? name : std::string();
    const auto offset = layer->layer - layers.begin;
    if (offset < 0 || offset >= layers.count) return std::string();
    return layer->stack + std::to_string(place.first_layer + offset) + layer->rest;
  });
}

double Stage::depth_of(const std::string& tensor) const {
  const auto layer = layer_named_in(tensor);
  if (!layer) return 0;
  const auto count = recipe_.is_sliced ? layers_ : stacks_.at(layer->stack);
  if (count < 2) return 1;
  const auto place = layer->layer - (recipe_.is_sliced ? place_.first_layer : 0);
  return static_cast<double>(place) / static_cast<double>(count - 1);
}

double Stage::value(const std::string& key, const std::string& tensor, const Recipe::Source* source) const {
  // The name that the tensor has in the source.
  std::string name = tensor;
  if (const auto layer = layer_named_in(tensor); layer && source != nullptr && recipe_.is_sliced)
    name =
        layer->stack + std::to_string(layer->layer - place_.first_layer + source->layers.begin) + layer->rest;
  std::string where;
  for (const auto* settings :
       {source != nullptr ? &source->own_settings : nullptr, &slice_.shared, &recipe_.shared}) {
    if (settings == nullptr) continue;
    const auto setting = settings->find(key);
    if (setting == settings->end()) continue;
    if (const auto number = setting->second.of(name, depth_of(tensor))) return *number;
    if (where.empty()) where = setting->second.where;
  }
  if (where.empty()) return 1;  // of a weight or of λ: nobody said any
  throw InputError(fmt::format("{}: says nothing of {}; expected an entry without filter at its end", where,
                               store::quoted(tensor)));
}

Stage::Parameters Stage::parameters_of(const std::string& tensor) const {
  Parameters parameters;
  for (const auto& source : slice_.sources) parameters.weights.push_back(value("weight", tensor, &source));
  std::set<std::string> keys;  // of which the method itself does not have the value
  for (const auto& [key, setting] : recipe_.shared)
    if (!is_plain(setting)) keys.insert(key);
  for (const auto& entry : slice_.shared) keys.insert(entry.first);
  for (const auto& source : slice_.sources)
    for (const auto& entry : source.own_settings) keys.insert(entry.first);
  keys.erase("weight");
  keys.erase("lambda");
  for (const auto& key : keys) {
    const bool of_models =
        std::any_of(slice_.sources.begin(), slice_.sources.end(),
                    [&](const Recipe::Source& source) { return source.own_settings.contains(key); });
    auto& values = parameters.of_method[key];
    if (!of_models) {
      values = {value(key, tensor, nullptr)};
      continue;
    }
    const auto fallback = recipe_.defaults.find(key);
    for (const auto& source : slice_.sources) {
      const bool said =
          source.own_settings.contains(key) || slice_.shared.contains(key) || recipe_.shared.contains(key);
      values.push_back(said || fallback == recipe_.defaults.end() ? value(key, tensor, &source)
                                                                  : fallback->second);
    }
    if (std::all_of(values.begin(), values.end(), [&](double v) { return v == values.front(); }))
      values.resize(1);
  }
  return parameters;
}

std::shared_ptr<const VectorMethod> Stage::method_with(const Parameters& parameters) const {
  auto method = recipe_.method;
  for (const auto& [key, values] : parameters.of_method) {
    method = method->with(key, values);
    if (method != nullptr) continue;
    std::string where;
    for (const auto& source : slice_.sources)
      if (const auto setting = source.own_settings.find(key); setting != source.own_settings.end())
        where = setting->second.where;
    for (const auto* settings : {&slice_.shared, &recipe_.shared})
      if (const auto shared = settings->find(key); where.empty() && shared != settings->end())
        where = shared->second.where;
    throw InputError(fmt::format("{}: {} has no {} that may differ between models or tensors", where,
                                 recipe_.method_name, key));
  }
  return method;
}

void Stage::require_filters_fit() const {
  const auto look = [&](const config::Setting& setting) {
    for (const auto& each : setting.cases) {
      const bool fits = std::any_of(names_.begin(), names_.end(), [&](const std::string& name) {
        return name.find(each.filter) != std::string::npos;
      });
      if (!fits)
        throw InputError(fmt::format(
            "{}: the filter {} is in no tensor's name; expected a part of one, such as {}", setting.where,
            store::quoted(each.filter), store::quoted(vectors_->tensors().back().name)));
    }
    if (goes_over_layers(setting) && stacks_.empty())
      throw InputError(setting.where +
                       ": is a list over the layers, and no tensor's name has a layer (layers.N.)");
  };
  for (const auto& source : slice_.sources)
    for (const auto& entry : source.own_settings) look(entry.second);
  for (const auto* settings : {&slice_.shared, &recipe_.shared})
    for (const auto& entry : *settings) look(entry.second);
}

void Stage::plan() {
  require_filters_fit();
  const auto& tensors = vectors_->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto parameters = parameters_of(tensors[i].name);
    lambdas_.push_back(value("lambda", tensors[i].name, nullptr));
    if (!runs_.empty() && runs_.back().parameters == parameters) {
      runs_.back().end = i + 1;
      continue;
    }
    const auto known = std::find_if(runs_.begin(), runs_.end(), [&](const Run& run) {
      return run.parameters.of_method == parameters.of_method;
    });
    auto method = known != runs_.end() ? known->method : method_with(parameters);
    method->check(recipe_.where, parameters.weights);
    method->check_values(recipe_.where, parameters.weights.size());
    runs_.push_back({i, i + 1, std::move(parameters), std::move(method)});
  }
  require_one_vector();
}

// Each run and each slice is merged by itself.
void Stage::require_one_vector() const {
  if (runs_.size() < 2 && recipe_.slices.size() < 2) return;
  const bool spans =
      std::any_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.method->spans_tensors(); });
  if (!spans) return;
  throw InputError(fmt::format(
      "{}: {}, and {} looks at the whole vector; expected scope = \"tensor\", and of a sign's election "
      "zero_sign = \"positive\" or \"nobody\"",
      recipe_.where, runs_.size() > 1 ? "numbers differ between tensors" : "slices are merged one by one",
      recipe_.method_name));
}

void Stage::put(const CheckpointVectors& vectors, Gives gives, std::int64_t begin, const at::Tensor& tau,
                const Write& write) const {
  const auto& tensors = vectors.tensors();
  const auto end = begin + tau.numel();
  auto first =
      std::upper_bound(tensors.begin(), tensors.end(), begin,
                       [](std::int64_t place, const auto& each) { return place < each.range.end(); });
  // Tensors of one λ together.
  for (auto at = begin; at < end;) {
    const auto lambda = lambdas_[static_cast<std::size_t>(first - tensors.begin())];
    while (first != tensors.end() && first->range.begin < end &&
           lambdas_[static_cast<std::size_t>(first - tensors.begin())] == lambda)
      ++first;
    const auto until = first == tensors.end() ? end : std::min(end, first->range.begin);
    const auto part = tau.narrow(0, at - begin, until - at);
    gives == Gives::model ? vectors.add_to_theta0(at, part, lambda, write)
                          : scale(vectors, at, part, lambda, write);
    at = until;
  }
}

void Stage::scale(const CheckpointVectors& vectors, std::int64_t begin, const at::Tensor& tau, double lambda,
                  const Write& write) const {
  vectors.each_part(begin, tau, [&](const std::string& name, std::int64_t from, const at::Tensor& part) {
    at::Tensor buffer;
    write(name, from,
          is_of_models_ ? at::sub(part, start_.numbers(name, from, part.numel(), buffer).to(at::kFloat))
                        : at::mul(part, lambda));
  });
}

std::vector<Stage::Share::Piece> Stage::pieces() const {
  // Small tensors together, so that a piece's own cost does not count; what is longer is cut where it may be.
  constexpr std::int64_t together = std::int64_t{1} << 20, longest = std::int64_t{1} << 25;
  std::vector<Share::Piece> all;
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    const auto& run = runs_[r];
    if (run.method->spans_tensors()) continue;
    bool is_open = false;
    for (auto i = run.begin; i < run.end; ++i) {
      const auto& tensor = vectors_->tensors()[i];
      if (tensor.range.count == 0) continue;
      if (run.method->is_number_by_number() && tensor.range.count > longest) {
        for (auto at = tensor.range.begin; at < tensor.range.end(); at += longest) {
          const auto count = std::min(longest, tensor.range.end() - at);
          all.push_back({{{tensor.name, {count}, {at, count}}}, r});
        }
        is_open = false;
        continue;
      }
      if (!is_open) all.push_back({{}, r});
      all.back().tensors.push_back(tensor);
      is_open = all.back().range().count < together;
    }
  }
  return all;
}

std::vector<Stage::Share> Stage::shares(int ranks, const Left& left) const {
  const auto count = vectors_->count();
  const auto visits = [&](const MergeWork& work, std::int64_t numbers) {
    return work.passes * static_cast<double>(count) * static_cast<double>(numbers);
  };
  const auto memory = [&](const MergeWork& work) {  // stretches of all vectors, of θ0 and of τ
    const auto at_once =
        std::max(work.at_once, static_cast<double>(TaskVectors::stretch(count, 1, TaskVectors::from_files)));
    return work.bytes + sizeof(float) * static_cast<double>(count + 2) * at_once;
  };
  auto all = pieces();
  std::erase_if(all, [&](const auto& piece) { return left(piece.range()).empty(); });
  std::vector<MergeWork> works;
  std::vector<double> costs;
  for (const auto& piece : all) {
    works.push_back(runs_[piece.run].method->work(piece.tensors, count));
    costs.push_back(works.back().flops + flops_of_reading * visits(works.back(), piece.range().count));
  }
  const auto owner = dealt(costs, ranks);
  std::vector<Share> shares(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& share = shares[static_cast<std::size_t>(owner[i])];
    share.visits += visits(works[i], all[i].range().count);
    share.numbers += static_cast<double>(all[i].range().count);
    share.flops += works[i].flops;
    share.memory = std::max(share.memory, memory(works[i]));
    share.pieces.push_back(std::move(all[i]));
  }
  for (auto& share : shares) {
    share.threads = threads_for(share, ranks);
    share.memory *= static_cast<double>(share.threads);
  }
  for (const auto& run : runs_) {
    if (!run.method->spans_tensors()) continue;
    const auto work = run.method->work(vectors_->tensors(), count);
    for (auto& share : shares) {
      const auto mine = comm::rows_a_rank(vectors_->length(), ranks);
      share.numbers += static_cast<double>(mine);
      share.visits += visits(work, run.method->shares_places() ? mine : vectors_->length());
      share.flops += work.flops;
      share.memory = std::max(share.memory, memory(work));
    }
  }
  return shares;
}

Stage::Seen Stage::merge_pieces(const Share& share, std::size_t number, UnderWay& under_way,
                                const Write& write, Gives gives) const {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> is_over = false;
  std::mutex mutex;  // of all that follows
  std::exception_ptr failure;
  Seen seen;
  const auto merge_some = [&](const CheckpointVectors& vectors) {
    try {
      for (auto i = next++; !is_over && i < share.pieces.size(); i = next++) {
        const auto& piece = share.pieces[i];
        const auto& run = runs_[piece.run];
        const PartOfVectors part(vectors, piece.tensors);
        const auto merged = run.method->merge(
            part, run.parameters.weights,
            Sink([&](std::int64_t begin, const at::Tensor& tau) { put(vectors, gives, begin, tau, write); }));
        const auto length = static_cast<double>(part.length());
        const auto count = std::llround(merged.density * length);
        const std::lock_guard lock(mutex);
        seen.nonzero += count;
        seen.visited += merged.passes * length;
        under_way.finish(number, {piece.range(), count});
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      is_over = true;
    }
  };
  struct AnotherFailed {};
  const auto go_on = [&] {
    if (is_over) throw AnotherFailed();
  };
  std::vector<std::jthread> others;
  for (std::size_t k = 1; k < share.threads; ++k)
    others.emplace_back([&, own_vectors = vectors_->again(go_on)] {
      const at::NoGradGuard no_grad;
      at::set_num_threads(1);
      merge_some(*own_vectors);
    });
  merge_some(*vectors_);
  others.clear();  // waits
  if (failure) std::rethrow_exception(failure);
  return seen;
}

Merged Stage::merge(const Share& share, std::size_t number, UnderWay& under_way, const Write& write,
                    Gives gives) const {
  const auto length = [](const TaskVectors& vectors) { return static_cast<double>(vectors.length()); };
  const OneThread alone(share.flops == 0);
  auto [nonzero, visited] = merge_pieces(share, number, under_way, write, gives);
  if (under_way.team().rank() == 0)
    for (const auto& part : under_way.earlier(number)) nonzero += part.nonzero;
  for (const auto& run : runs_) {
    if (!run.method->spans_tensors() || vectors_->length() == 0) continue;
    const auto& method = *run.method;
    const auto see = [&](std::int64_t begin, const at::Tensor& tau) {
      put(*vectors_, gives, begin, tau, write);
    };
    OfStage journal(under_way, number);
    const auto merged =
        method.merge(*vectors_, run.parameters.weights,
                     method.shares_places() ? Sink(see, journal) : Sink(see), under_way.team());
    journal.settle();
    if (under_way.team().rank() > 0) continue;  // all ranks have the same
    nonzero += std::llround(merged.density * length(*vectors_));
    visited += merged.passes * length(*vectors_);
  }
  under_way.settle();
  under_way.team().wait_for_all("a stage of the merge");  // asleep: others may need long
  const auto totals = under_way.team().sums({nonzero, std::llround(visited)});
  const auto all = std::max(1.0, length(*vectors_));
  return {static_cast<double>(totals[0]) / all, static_cast<double>(totals[1]) / all};
}

bool Stage::is_tensor_by_tensor() const {
  return !is_of_models_ && std::all_of(runs_.begin(), runs_.end(), [&](const Run& run) {
    return run.method->factor(vectors_->count()).has_value();
  });
}

at::Tensor Stage::vector(std::size_t i) const {
  const auto run = std::find_if(runs_.begin(), runs_.end(), [&](const Run& each) { return i < each.end; });
  const auto& tensor = vectors_->tensors().at(i);
  const PartOfVectors part(*vectors_, {tensor});
  auto merged = at::zeros({tensor.range.count}, at::kFloat);
  run->method->merge(part, run->parameters.weights, [&](std::int64_t begin, const at::Tensor& tau) {
    merged.narrow(0, begin - tensor.range.begin, tau.numel()).copy_(tau);
  });
  return merged.mul_(lambdas_[i]);
}

std::vector<std::unique_ptr<Stage>> stages_of(const Recipe& recipe, const Vocabulary* vocabulary,
                                              const std::function<void()>& go_on) {
  std::vector<std::unique_ptr<Stage>> stages;
  for (std::size_t s = 0; s < recipe.slices.size(); ++s)
    stages.push_back(
        std::make_unique<Stage>(recipe, recipe.slices[s], Stage::Place::of(recipe, s), vocabulary, go_on));
  return stages;
}

}  // namespace taugrid::merging
