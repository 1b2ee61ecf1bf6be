// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Rows of tokens, by heads and back, with padding and without: copies of whole stretches, each the other's
// transpose. ATen's strided copy takes three times as long for the few numbers of a head.
#include "kernels/autodiff/detail/heads.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstring>
#include <numeric>
#include <stdexcept>

#include "kernels/autodiff/detail/rules.hpp"

namespace taugrid::autodiff {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using Variables = torch::autograd::variable_list;

/// Where n samples' tokens lie: as rows of parts·heads vectors of `bytes`, and by heads.
struct Places {
  std::int64_t samples, tokens, heads;
  std::size_t bytes;
  const std::vector<std::int64_t>& lengths;  // none: of all samples `tokens`

  std::int64_t length(std::int64_t i) const {
    return lengths.empty() ? tokens : lengths[static_cast<std::size_t>(i)];
  }
};

/// Copies the rows to the parts, with zeros behind each sample's length, or the parts' to the rows.
template <bool split>
void copy(const Places& at, char* rows, const std::vector<char*>& parts) {
  std::vector<std::int64_t> first(static_cast<std::size_t>(at.samples) + 1, 0);
  for (std::int64_t i = 0; i < at.samples; ++i)
    first[static_cast<std::size_t>(i) + 1] = first[static_cast<std::size_t>(i)] + at.length(i);
  const auto stride = static_cast<std::size_t>(at.tokens) * at.bytes;  // from head to head
  const auto width = parts.size() * static_cast<std::size_t>(at.heads) * at.bytes;
  at::parallel_for(0, at.samples, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto length = static_cast<std::size_t>(at.length(i));
      for (std::size_t p = 0; p < parts.size(); ++p) {
        for (std::int64_t h = 0; h < at.heads; ++h) {
          char* of_head = parts[p] + static_cast<std::size_t>(i * at.heads + h) * stride;
          char* row = rows + static_cast<std::size_t>(first[static_cast<std::size_t>(i)]) * width +
                      (p * static_cast<std::size_t>(at.heads) + static_cast<std::size_t>(h)) * at.bytes;
          for (std::size_t t = 0; t < length; ++t, row += width)
            split ? std::memcpy(of_head + t * at.bytes, row, at.bytes)
                  : std::memcpy(row, of_head + t * at.bytes, at.bytes);
          if (split) std::memset(of_head + length * at.bytes, 0, stride - length * at.bytes);
        }
      }
    }
  });
}

char* bytes_of(const at::Tensor& x) { return static_cast<char*>(x.data_ptr()); }

Variables split(const at::Tensor& x, std::int64_t parts, std::int64_t heads, const Packing& packing) {
  const auto from = x.contiguous();
  const auto samples = packing ? static_cast<std::int64_t>(packing.lengths.size()) : x.size(0);
  const auto tokens = packing ? packing.tokens : x.size(1), d = x.size(-1) / (parts * heads);
  Variables tensors;
  std::vector<char*> to;
  for (std::int64_t p = 0; p < parts; ++p) {
    tensors.push_back(at::empty({samples * heads, tokens, d}, x.options()));
    to.push_back(bytes_of(tensors.back()));
  }
  copy<true>({samples, tokens, heads, static_cast<std::size_t>(d) * x.element_size(), packing.lengths},
             bytes_of(from), to);
  return tensors;
}

at::Tensor join(at::TensorList parts, std::int64_t heads, const Packing& packing) {
  std::vector<at::Tensor> from;
  std::vector<char*> bytes;
  for (const auto& part : parts) {
    from.push_back(part.contiguous());
    bytes.push_back(bytes_of(from.back()));
  }
  const auto samples = parts[0].size(0) / heads, tokens = parts[0].size(1), d = parts[0].size(2);
  const auto width = static_cast<std::int64_t>(parts.size()) * heads * d;
  const auto rows = packing ? at::empty({packing.rows(), width}, parts[0].options())
                            : at::empty({samples, tokens, width}, parts[0].options());
  copy<false>({samples, tokens, heads, static_cast<std::size_t>(d) * rows.element_size(), packing.lengths},
              bytes_of(rows), bytes);
  return rows;
}

void save(AutogradContext* context, std::int64_t heads, const Packing& packing) {
  context->saved_data["heads"] = heads;
  context->saved_data["tokens"] = packing.tokens;
  context->saved_data["lengths"] = packing.lengths;
}
std::int64_t saved_heads(AutogradContext* context) { return context->saved_data["heads"].toInt(); }
Packing saved_packing(AutogradContext* context) {
  return {context->saved_data["lengths"].toIntVector(), context->saved_data["tokens"].toInt()};
}

struct Split : Function<Split> {
  static Variables forward(AutogradContext* context, const at::Tensor& x, std::int64_t parts,
                           std::int64_t heads, const Packing& packing) {
    save(context, heads, packing);
    return split(x, parts, heads, packing);
  }
  static Variables backward(AutogradContext* context, const Variables& gradients);
};

struct Join : Function<Join> {
  static at::Tensor forward(AutogradContext* context, at::TensorList parts, std::int64_t heads,
                            const Packing& packing) {
    save(context, heads, packing);
    context->saved_data["parts"] = static_cast<std::int64_t>(parts.size());
    return join(parts, heads, packing);
  }
  static Variables backward(AutogradContext* context, const Variables& gradients) {
    auto of_parts = Split::apply(gradients[0], context->saved_data["parts"].toInt(), saved_heads(context),
                                 saved_packing(context));
    of_parts.insert(of_parts.end(), 2, at::Tensor());  // of heads and packing
    return of_parts;
  }
};

Variables Split::backward(AutogradContext* context, const Variables& gradients) {
  return {Join::apply(at::TensorList(gradients), saved_heads(context), saved_packing(context)), {}, {}, {}};
}

}  // namespace

namespace detail {

std::vector<at::Tensor> split_heads(const at::Tensor& x, std::int64_t parts, std::int64_t heads,
                                    const Packing& packing) {
  if (x.is_cpu()) return Split::apply(x, parts, heads, packing);
  if (packing) throw std::logic_error("packed tokens on a device");
  // unbind, not select: its backward is one copy, where each select would fill and add a tensor of all parts.
  const auto n = x.size(0), tokens = x.size(1), d = x.size(2) / (parts * heads);
  return x.view({n, tokens, parts, heads, d})
      .permute({2, 0, 3, 1, 4})
      .reshape({parts, n * heads, tokens, d})
      .unbind(0);
}

at::Tensor join_heads(at::TensorList parts, std::int64_t heads, const Packing& packing) {
  if (parts[0].is_cpu()) return Join::apply(parts, heads, packing);
  if (packing) throw std::logic_error("packed tokens on a device");
  const auto& x = parts[0];
  const auto all = parts.size() == 1 ? x.unsqueeze(0) : at::stack(parts);
  return all.view({static_cast<std::int64_t>(parts.size()), -1, heads, x.size(1), x.size(2)})
      .permute({1, 3, 0, 2, 4})
      .flatten(2)
      .contiguous();
}

}  // namespace detail

at::Tensor pack_tokens(const at::Tensor& x, const Packing& packing) {
  return packing ? detail::join_heads(x, 1, packing) : x;
}

Dual pack_tokens(const Dual& x, const Packing& packing) {
  return {pack_tokens(x.value, packing), detail::tangent_of([&] {
            return x.tangent.defined() ? pack_tokens(x.tangent, packing) : at::Tensor();
          })};
}

// A sample's own gradient needs its tokens in a row of its own: these stay padded.
Recorded pack_tokens(const Recorded& x, const Packing&) { return x; }
// What is planned for is full sequences.
Counted pack_tokens(const Counted& x, const Packing&) { return x; }

at::Tensor unpack_tokens(const at::Tensor& rows, const Packing& packing) {
  return packing ? detail::split_heads(rows, 1, 1, packing)[0] : rows;
}

Dual unpack_tokens(const Dual& rows, const Packing& packing) {
  return {unpack_tokens(rows.value, packing), detail::tangent_of([&] {
            return rows.tangent.defined() ? unpack_tokens(rows.tangent, packing) : at::Tensor();
          })};
}

Recorded unpack_tokens(const Recorded& rows, const Packing&) { return rows; }
Counted unpack_tokens(const Counted& rows, const Packing&) { return rows; }

}  // namespace taugrid::autodiff
