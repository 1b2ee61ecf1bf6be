// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/tally.hpp"

#include <algorithm>
#include <cmath>

#include "suite/experiments/regime.hpp"

namespace taugrid::experiments {
namespace {

// Numbers kept for a backward pass, as a multiple of a standard step's: counted by LibTorch's allocators
// (tests/suite/plan checks them).
constexpr double kept_linear = 1.3;   // values with their graph, tangents passing
constexpr double kept_tangent = 2.2;  // of passing numbers
constexpr double kept_hessian = 3.5;  // the graph of the gradient
constexpr double kept_gram = 2.3;
constexpr double gram_workspace = 4.0 * (1 << 27);  // bytes, as ntk_gram() takes

constexpr double header_bytes = 300;  // of a unit's file

double number(std::int64_t n) { return static_cast<double>(n); }

}  // namespace

Tally::Tally(const Study& study) : study_(study), ranks_(study.settings().ranks_per_unit) {
  load_.bytes_stored = header_bytes;
}

void Tally::add(schedule::Work work, double all_flops, double bytes) {
  load_.flops += all_flops;
  load_.working = std::max(load_.working, bytes);
  if (work.calls > 0 && work.inputs > 0) load_.work.push_back(std::move(work));
}

void Tally::exchange(std::int64_t numbers, std::int64_t times) {
  if (ranks_ > 1) add({"exchange", number(times), numbers, 0, number(numbers)}, 0, 0);
}

Tally& Tally::pass(const std::string& kind, std::int64_t inputs, std::int64_t times, double flops,
                   double passing) {
  const auto n = share(inputs), batch = std::min(n, study_.settings().evaluation_batch);
  // The last batch may be smaller: calls need not be whole.
  add({kind, number(times) * number(n) / number(std::max<std::int64_t>(1, batch)), batch, 0,
       number(batch) * flops},
      number(inputs * times) * flops, 4 * number(batch) * passing);
  exchange(inputs * study_.encoder().features(), times);
  return *this;
}

Tally& Tally::forward(std::int64_t inputs, std::int64_t times) {
  const auto& encoder = study_.encoder();
  return pass("forward", inputs, times, encoder.forward_flops(), encoder.passing_numbers());
}

Tally& Tally::tangent(std::int64_t inputs, std::int64_t times) {
  const auto& encoder = study_.encoder();
  return pass("tangent", inputs, times, 3 * encoder.forward_flops(),
              kept_tangent * encoder.passing_numbers());
}

Tally& Tally::logits(std::size_t t, std::int64_t inputs, std::int64_t times) {
  const auto classes = study_.task(t).head.size(0);
  const double f = logits_flops(study_.encoder(), inputs, classes);
  add({"logits", number(times), inputs, classes, f}, number(times) * f, 0);
  return *this;
}

Tally& Tally::divergence(std::int64_t inputs, std::int64_t times) {
  const double f = divergence_flops(study_.encoder(), inputs);
  add({"divergence", number(times), inputs, 0, f}, number(times) * f, 0);
  return *this;
}

Tally& Tally::train(const std::string& name, const Training& training, std::size_t t, std::int64_t steps) {
  const auto& r = regime(name);
  const auto& encoder = study_.encoder();
  const auto trained = 4 * number(trained_parameters(trained_blocks(r, study_.layout()), study_.layout()));
  const auto inputs = step_inputs(study_, name, training, t);
  const double passes = step_passes(r, study_.layout()) * encoder.forward_flops();
  // θ, two moments, this gradient and the last one; of a linear step also τ.
  const double bytes = (r.linear ? 2 : 1) * theta_bytes() + 4 * trained +
                       4 * number(share(inputs)) * encoder.kept_numbers() * (r.linear ? kept_linear : 1.0);
  add({"train/" + name, number(steps), share(inputs), 0, number(share(inputs)) * passes},
      number(steps * inputs) * passes, bytes);
  exchange(static_cast<std::int64_t>(trained / 4), steps);
  return *this;
}

Tally& Tally::hessian(bool linear, std::int64_t points, std::int64_t chunk, std::int64_t products,
                      std::int64_t basis) {
  const auto& encoder = study_.encoder();
  const auto n = share(points), at_once = std::min(n, chunk);
  const double f = encoder.forward_flops(), chunks = number(n) / number(std::max<std::int64_t>(1, at_once));
  // A call is a product, and includes the graph: made once where one chunk holds all, else for each product.
  // A linear product has no graph to keep: value 1, tangent 2, backward 2.
  const bool kept = n <= chunk;
  const double graph = linear ? 0 : 3, product = linear ? 5 : 6;
  const double passes = product + (kept ? graph / number(products) : graph);
  const double bytes = number(basis + 6) * theta_bytes() +
                       4 * number(at_once) * encoder.kept_numbers() * (linear ? kept_linear : kept_hessian);
  add({linear ? "hessian/linear" : "hessian/standard", number(products) * chunks, at_once, 0,
       number(at_once) * f * passes},
      number(products) * number(points) * f * passes, bytes);
  exchange(study_.layout().size(), products);
  return *this;
}

Tally& Tally::gram(std::int64_t rows, std::int64_t points, std::int64_t chunk, std::int64_t logits) {
  const auto& encoder = study_.encoder();
  const bool whole = points <= chunk;
  const auto recorded = whole ? points : rows + chunk;
  const double chunks = whole ? 1 : number(points) / number(chunk);
  double matrices = 0;
  for (const auto& block : study_.layout().blocks()) matrices += block.shape.size() > 1;
  const double products =
      4 * number(rows) * number(recorded) * number(encoder.tokens() * encoder.tokens()) * matrices;
  add({"gram", chunks, recorded, rows, gram_flops(encoder, recorded, rows, share(logits))},
      chunks * gram_flops(encoder, recorded, rows, logits),
      std::min(gram_workspace, products) + 4 * number(recorded) * kept_gram * encoder.kept_numbers());
  exchange(logits * rows * points, 1);
  return *this;
}

Tally& Tally::vectors(const std::string& name, const std::vector<std::size_t>& tasks) {
  const bool all_kept = study_.regimes().size() * study_.tasks() <= study_.kept_vectors();
  for (const auto t : tasks) {
    if (!all_kept) load_.bytes_read += theta_bytes();
    load_.keeps["vector/" + study_.checkpoint_folder(name, t).string()] = theta_bytes();
  }
  return *this;
}

Tally& Tally::sample(std::size_t t, Split split, std::int64_t n) {
  const auto side = study_.encoder().image_size();
  auto& bytes = load_.keeps["sample/" + study_.task_name(t) + "/" + split_name(split)];
  bytes = std::max(
      bytes, 4 * number(study_.sample_size(t, split, n)) * number(study_.encoder().channels() * side * side));
  return *this;
}

Tally& Tally::reads(double bytes) {
  load_.bytes_read += bytes;
  load_.held += bytes;
  return *this;
}

Tally& Tally::holds(double bytes) {
  held_ = std::max(held_, bytes);
  return *this;
}

Tally& Tally::checkpoint() {
  load_.files_stored += 2;
  load_.bytes_stored +=
      theta_bytes() + 120 * number(static_cast<std::int64_t>(study_.layout().parameters().size()));
  return *this;
}

Tally& Tally::stores(std::int64_t numbers, int bytes_each) {
  load_.bytes_stored += number(numbers) * bytes_each;
  return *this;
}

Tally& Tally::publishes(std::int64_t numbers, int bytes_each) {
  load_.bytes_published += number(numbers) * bytes_each;
  return *this;
}

schedule::Load Tally::load() const {
  auto all = load_;
  all.held += held_;
  return all;
}

double gram_flops(const models::Encoder& encoder, std::int64_t recorded, std::int64_t rows,
                  std::int64_t logits) {
  const double n = number(recorded), f = encoder.forward_flops(), p = number(encoder.layout().size());
  return n * f + number(logits) * (2 * n * f + 2 * number(rows) * n * p);
}

double logits_flops(const models::Encoder& encoder, std::int64_t n, std::int64_t classes) {
  return number(n * encoder.features()) * (4 + 2 * number(classes));
}

double divergence_flops(const models::Encoder& encoder, std::int64_t n) {
  return number(n * encoder.features()) * 10;
}

double features_bytes(const Study& study) {
  std::int64_t rows = 0;
  for (std::size_t t = 0; t < study.tasks_and_control(); ++t) {
    for (const auto split : {Split::test, Split::validation})
      rows += study.sample_size(t, split, study.settings().evaluation_points);
  }
  return 4.0 * number(rows * study.encoder().features());
}

schedule::WorkUnit unit(std::string key, const Tally& tally, std::vector<std::string> needs,
                        std::function<store::TensorFile(schedule::UnitContext&)> compute) {
  auto load = tally.load();
  const double cost = load.flops + load.bytes_read + load.bytes_stored;
  return {std::move(key), cost, std::move(needs), std::move(compute), std::move(load)};
}

}  // namespace taugrid::experiments
