// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/label_tree.hpp"

#include <ATen/ATen.h>

#include <map>
#include <utility>

namespace taugrid::models {

LabelTree label_tree(const at::Tensor& labels, const at::Tensor& lengths, std::int64_t start) {
  struct Edge {
    std::int64_t number;
    std::int64_t place = -1;  // behind it; −1: no label goes on there
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Edge> edges;  // of a place and a token
  std::vector<std::int64_t> tokens = {start}, parents = {-1}, node, token;
  std::vector<std::vector<std::int64_t>> of_label;
  LabelTree tree;
  for (std::int64_t c = 0; c < labels.size(0); ++c) {
    const auto length = lengths[c].item<std::int64_t>();
    tree.lengths.push_back(length);
    of_label.emplace_back();
    std::int64_t place = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const auto next = labels[c][i].item<std::int64_t>();
      const auto [entry, fresh] =
          edges.try_emplace({place, next}, Edge{static_cast<std::int64_t>(node.size())});
      if (fresh) {
        node.push_back(place);
        token.push_back(next);
      }
      auto& edge = entry->second;
      of_label.back().push_back(edge.number);
      if (i + 1 == length) break;
      if (edge.place < 0) {
        edge.place = static_cast<std::int64_t>(tokens.size());
        tokens.push_back(next);
        parents.push_back(place);
      }
      place = edge.place;
    }
  }
  const auto places = static_cast<std::int64_t>(tokens.size());
  tree.decoder = at::tensor(tokens, at::kLong);
  tree.sees = at::eye(places).to(at::kBool);
  for (std::int64_t i = 0; i < places; ++i)
    for (auto above = parents[static_cast<std::size_t>(i)]; above >= 0;
         above = parents[static_cast<std::size_t>(above)])
      tree.sees[i][above] = true;
  tree.paths = {at::tensor(node, at::kLong), at::tensor(token, at::kLong),
                at::zeros({static_cast<std::int64_t>(node.size()), labels.size(0)}), places};
  for (std::size_t c = 0; c < of_label.size(); ++c)
    for (const auto edge : of_label[c]) tree.paths.member[edge][static_cast<std::int64_t>(c)] = 1;
  return tree;
}

ChoiceLine choice_line(const at::Tensor& tokens, const at::Tensor& lengths, const at::Tensor& given,
                       const at::Tensor& start) {
  const auto longest = tokens.size(2);
  const auto places = lengths.size(0) == 0 ? 1 : lengths.sum(1).max().item<std::int64_t>();
  const auto there = at::arange(longest, lengths.options()).lt(lengths.unsqueeze(2)).flatten(1);
  // The tokens that there are, in their order; behind them others, which nothing sees or is read for.
  const auto order = there.logical_not().to(at::kByte).argsort(true, 1, false).narrow(1, 0, places);
  const auto in_use = there.gather(1, order);
  const auto choice = order.div(longest, "floor"), depth = order.remainder(longest);
  const auto token = tokens.flatten(1).gather(1, order);
  const auto before = at::cat({start.unsqueeze(1), token.narrow(1, 0, places - 1)}, 1);
  ChoiceLine line;
  line.decoder = at::where(depth.eq(0), start.unsqueeze(1), before);
  const auto on_the_way =
      choice.unsqueeze(2).eq(choice.unsqueeze(1)).logical_and(depth.unsqueeze(2).ge(depth.unsqueeze(1)));
  line.sees = on_the_way.logical_and(in_use.unsqueeze(2)).logical_or(at::eye(places, on_the_way.options()));
  const auto is_scored = in_use.logical_and(depth.ge(given.gather(1, choice)));
  line.scored = at::stack({token, choice}, 2).masked_fill(is_scored.logical_not().unsqueeze(2), -1);
  return line;
}

at::Tensor shifted_right(const at::Tensor& targets, std::int64_t start) {
  const auto before = targets.narrow(1, 0, targets.size(1) - 1).clamp_min(0);
  return at::cat({at::full({targets.size(0), 1}, start, targets.options()), before}, 1);
}

at::Tensor sees_before(std::int64_t places) { return at::ones({places, places}, at::kBool).tril(); }

}  // namespace taugrid::models
