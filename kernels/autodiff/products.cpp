// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/autodiff/products.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

namespace taugrid::autodiff {
namespace {

/// Writes a block's gradient, which may be undefined or name some rows alone, into its part of a flat one.
void put(const at::Tensor& gradient, at::Tensor part) {
  const at::NoGradGuard no_grad;
  if (!gradient.defined()) {
    part.zero_();
  } else if (gradient.is_sparse()) {
    part.zero_().view(gradient.sizes()).index_add_(0, gradient._indices()[0], gradient._values().to(part));
  } else {
    part.view(gradient.sizes()).copy_(gradient);
  }
}

std::vector<at::Tensor> trained_ones(const std::vector<at::Tensor>& blocks) {
  std::vector<at::Tensor> trained;
  for (const auto& block : blocks)
    if (block.requires_grad()) trained.push_back(block);
  return trained;
}

/// autograd::grad with respect to the blocks that need one; undefined for the others.
std::vector<at::Tensor> gradients_of(const at::Tensor& output, const at::Tensor& cotangent,
                                     const std::vector<at::Tensor>& blocks, bool keep, bool create) {
  const auto gradients = torch::autograd::grad({output}, trained_ones(blocks), {cotangent}, keep, create,
                                               /*allow_unused=*/true);
  std::vector<at::Tensor> all(blocks.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].requires_grad()) all[i] = gradients[next++];
  }
  return all;
}

}  // namespace

at::Tensor tangent_or_zeros(const Dual& x) {
  return x.tangent.defined() ? x.tangent : at::zeros_like(x.value);
}

std::vector<Dual> duals(const std::vector<at::Tensor>& blocks, const std::vector<at::Tensor>& tau_blocks) {
  std::vector<Dual> both;
  both.reserve(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) both.push_back({blocks[i], tau_blocks[i]});
  return both;
}

Dual jvp(const Layout& layout, const Function<Dual>& f, const at::Tensor& theta, const at::Tensor& tau) {
  const at::NoGradGuard no_grad;
  return linearised(layout.views(theta), layout.views(tau), f);
}

Dual linearised(const std::vector<at::Tensor>& blocks, const std::vector<at::Tensor>& tau_blocks,
                const Function<Dual>& f) {
  return f(duals(blocks, tau_blocks));
}

std::vector<at::Tensor> leaves(const Layout& layout, const at::Tensor& theta,
                               const std::vector<bool>& trained) {
  auto blocks = layout.views(theta.detach());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = blocks[i].detach().requires_grad_(trained.empty() || trained[i]);
  }
  return blocks;
}

std::vector<at::Tensor> trained_views(const std::vector<at::Tensor>& blocks, const at::Tensor& v) {
  std::vector<at::Tensor> views(blocks.size());
  std::int64_t from = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!blocks[i].requires_grad()) continue;
    views[i] = v.narrow(0, from, blocks[i].numel()).view(blocks[i].sizes());
    from += blocks[i].numel();
  }
  return views;
}

at::Tensor trained_part(const Layout& layout, const std::vector<bool>& trained, const at::Tensor& v) {
  if (trained.empty()) return v;
  std::vector<at::Tensor> parts = {v.narrow(0, 0, 0)};
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const auto& block = layout.blocks()[i];
    if (trained[i]) parts.push_back(v.narrow(0, block.offset, block.count));
  }
  return at::cat(parts);
}

Buckets::Buckets(const Layout& layout, const std::vector<bool>& trained, std::int64_t numbers,
                 std::function<void(const at::Tensor&)> ready)
    : ready_(std::move(ready)) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < layout.blocks().size(); ++i)
    at += trained.empty() || trained[i] ? layout.blocks()[i].count : 0;
  auto end = at;
  for (auto i = layout.blocks().size(); i-- > 0;) {
    if (!trained.empty() && !trained[i]) continue;
    at -= layout.blocks()[i].count;
    if (end - at < numbers && at > 0) continue;
    begin_.push_back(at);
    end_.push_back(end);
    end = at;
  }
}

void Buckets::hand_over(std::size_t b, const at::Tensor& flat) const {
  ready_(flat.narrow(0, begin_[b], end_[b] - begin_[b]));
}

void Buckets::all_ready(const at::Tensor& flat) const {
  for (std::size_t b = 0; b < size(); ++b) hand_over(b, flat);
}

/// A flat gradient that fills up, one leaf after the other.
class BucketedGradient {
 public:
  BucketedGradient(const Buckets& buckets, const at::TensorOptions& options)
      : buckets_(buckets), flat_(at::empty({buckets.end_.empty() ? 0 : buckets.end_[0]}, options)) {
    for (std::size_t b = 0; b < buckets.size(); ++b) left_.push_back(buckets.end_[b] - buckets.begin_[b]);
  }

  void put(std::int64_t from, std::int64_t count, const at::Tensor& gradient) {
    autodiff::put(gradient, flat_.narrow(0, from, count));
    std::size_t b = 0;
    while (buckets_.begin_[b] > from) ++b;
    left_[b] -= count;
    for (; next_ < left_.size() && left_[next_] == 0; ++next_) buckets_.hand_over(next_, flat_);
  }

  const at::Tensor& flat() const { return flat_; }

 private:
  const Buckets& buckets_;
  at::Tensor flat_;
  std::vector<std::int64_t> left_;  // of each bucket, numbers to come
  std::size_t next_ = 0;            // to hand over
};

namespace {

at::Tensor pull_back_by_buckets(const std::vector<at::Tensor>& blocks, const at::Tensor& output,
                                const at::Tensor& cotangent, at::ScalarType type, const Buckets& buckets) {
  BucketedGradient gradient(buckets, output.options().dtype(type).requires_grad(false));
  struct Leaf {
    at::Tensor block;
    std::int64_t from;
    unsigned hook = 0;
    bool put = false;
  };
  std::vector<Leaf> leaves;
  std::int64_t from = 0;
  for (const auto& block : blocks) {
    if (!block.requires_grad()) continue;
    leaves.push_back({block, from});
    from += block.numel();
  }
  for (auto& leaf : leaves) {
    leaf.hook = leaf.block.register_hook([&](const at::Tensor& g) {
      gradient.put(leaf.from, leaf.block.numel(), g);
      leaf.put = true;
    });
  }
  gradients_of(output, cotangent, blocks, false, false);
  for (auto leaf = leaves.rbegin(); leaf != leaves.rend(); ++leaf) {
    leaf->block.remove_hook(leaf->hook);
    if (!leaf->put) gradient.put(leaf->from, leaf->block.numel(), {});  // the output does not depend on it
  }
  return gradient.flat();
}

/// The gradients of the blocks that are trained, end to end.
at::Tensor end_to_end(const std::vector<at::Tensor>& blocks, const std::vector<at::Tensor>& gradients,
                      const at::TensorOptions& options) {
  std::int64_t n = 0, from = 0;
  for (const auto& block : blocks) n += block.requires_grad() ? block.numel() : 0;
  const auto flat = at::empty({n}, options);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!blocks[i].requires_grad()) continue;
    put(gradients[i], flat.narrow(0, from, blocks[i].numel()));
    from += blocks[i].numel();
  }
  return flat;
}

}  // namespace

at::Tensor pull_back(const std::vector<at::Tensor>& blocks, const at::Tensor& output,
                     const at::Tensor& cotangent, at::ScalarType type, const Buckets* buckets) {
  if (buckets != nullptr) return pull_back_by_buckets(blocks, output, cotangent, type, *buckets);
  return end_to_end(blocks, gradients_of(output, cotangent, blocks, false, false),
                    output.options().dtype(type).requires_grad(false));
}

ValueAndGradient gradient(const Layout& layout, const Function<at::Tensor>& loss, const at::Tensor& theta,
                          const std::vector<bool>& trained) {
  const auto blocks = leaves(layout, theta, trained);
  const auto value = loss(blocks);
  return {value.item<double>(), pull_back(blocks, value, at::ones_like(value), theta.scalar_type())};
}

HessianVectorProduct::HessianVectorProduct(const Layout& layout, const Function<at::Tensor>& loss,
                                           const at::Tensor& theta, const std::vector<bool>& trained)
    : blocks_(leaves(layout, theta, trained)) {
  const auto value = loss(blocks_);
  loss_ = value.item<double>();
  gradients_ = gradients_of(value, at::ones_like(value), blocks_, true, true);
}

at::Tensor HessianVectorProduct::gradient() const {
  const at::NoGradGuard no_grad;
  return end_to_end(blocks_, gradients_, blocks_.front().options().requires_grad(false));
}

at::Tensor HessianVectorProduct::operator()(const at::Tensor& v) const {
  const auto directions = trained_views(blocks_, v);
  std::vector<at::Tensor> outputs, cotangents;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    // A gradient that is constant, or that no parameter reaches, adds nothing to H.
    if (gradients_[i].defined() && gradients_[i].requires_grad()) {
      outputs.push_back(gradients_[i]);
      cotangents.push_back(directions[i]);
    }
  }
  if (outputs.empty()) return at::zeros_like(v);
  const auto wanted = trained_ones(blocks_);
  const auto products = torch::autograd::grad(outputs, wanted, cotangents, /*retain_graph=*/true,
                                              /*create_graph=*/false, /*allow_unused=*/true);
  if (!product_.defined()) product_ = at::empty_like(v);
  std::int64_t from = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    put(products[i], product_.narrow(0, from, wanted[i].numel()));
    from += wanted[i].numel();
  }
  return product_;
}

}  // namespace taugrid::autodiff
