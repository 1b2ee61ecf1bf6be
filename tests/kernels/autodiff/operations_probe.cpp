// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// operations_probe INPUTS.safetensors OUTPUTS.safetensors
// INPUTS: for each case its data, "CASE/x" and others, its blocks "CASE/p0", "CASE/p1", … and tangents
// "CASE/t0", …; all float64, or all of a case float32. A case is a function of its blocks with output [n,
// columns].
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <limits>
#include <map>
#include <stdexcept>
#include <string>

#include "kernels/autodiff/ops.hpp"
#include "kernels/autodiff/packing.hpp"
#include "kernels/autodiff/products.hpp"
#include "kernels/tangent/fisher.hpp"
#include "kernels/tangent/ntk.hpp"
#include "suite/store/safetensors.hpp"

using namespace taugrid;
using autodiff::Activation;
using autodiff::Counted;
using autodiff::Dual;
using autodiff::Recorded;

namespace {

/// The data of one case, by name.
struct Data {
  const std::map<std::string, at::Tensor>& all;
  std::string prefix;
  bool has(const std::string& name) const { return all.count(prefix + name) != 0; }
  at::Tensor operator()(const std::string& name) const {
    return has(name) ? all.at(prefix + name) : at::Tensor{};
  }
};

/// One case's function, for whatever kind of numbers.
template <class T>
T function_of(const std::string& name, const Data& data, const std::vector<T>& p) {
  using namespace autodiff;
  const auto x = [&] { return constant(data("x"), p[0]); };
  if (name == "linear") return autodiff::linear(x(), p[0], p[1]);
  if (name == "linear_without_bias") return autodiff::linear(x(), p[0]);
  if (name == "linear_of_tokens") return weighted_tokens(autodiff::linear(x(), p[0], p[1]), data("weights"));
  if (name == "weight_and_bias_used_twice") {
    return autodiff::linear(activate(autodiff::linear(x(), p[0], p[1]), Activation::gelu), p[0], p[1]);
  }
  if (name == "lookup") return weighted_tokens(lookup(p[0], data("places")), data("weights"));
  if (name == "words") return word_logits(autodiff::linear(x(), p[0]), p[1], data("words"));
  if (name == "words_with_biases") return word_logits(autodiff::linear(x(), p[0]), p[1], p[2], data("words"));
  if (name == "token_at") {
    const auto h = activate(lookup(p[0], data("places")), Activation::gelu);
    return word_logits(token_at(h, data("place")), p[0], p[1], data("words"));
  }
  if (name == "tied") {  // the same table is looked up, multiplied by in a layer, and read out
    const auto h = activate(autodiff::linear(lookup(p[0], data("places")), p[1]), Activation::gelu);
    return word_logits(weighted_tokens(h, data("weights")), p[0], data("words"));
  }
  if (name == "table_as_weight") {  // a lookup crossed with a matrix product of the same block
    return autodiff::linear(weighted_tokens(lookup(p[0], data("places")), data("weights")), p[0]);
  }
  if (name == "convolve") return mean_places(activate(convolve(x(), p[0], 3, 2, 1), Activation::gelu));
  if (name == "convolve_few_channels")
    return mean_places(activate(convolve(x(), p[0], 1, 2, 0), Activation::gelu));
  if (name == "convolve_with_bias") {
    const auto h = activate(convolve(x(), p[0], p[1], 2, 2, 0), Activation::gelu);
    return mean_places(activate(convolve(h, p[2], p[3], 1, 1, 0), Activation::gelu));
  }
  if (name == "convolve_depthwise")
    return mean_places(activate(convolve_depthwise(x(), p[0], p[1]), Activation::gelu));
  if (name == "convolve_depthwise_used_twice") {
    const auto once =
        convolve_depthwise(activate(convolve(x(), p[2], 1, 1, 0), Activation::gelu), p[0], p[1]);
    return mean_places(convolve_depthwise(activate(once, Activation::gelu), p[0], p[1]));
  }
  if (name == "scale")
    return autodiff::scale(activate(autodiff::scale(autodiff::linear(x(), p[0]), p[1]), Activation::gelu),
                           p[2]);
  if (name == "channels") {
    const auto h = activate(autodiff::linear(channels_last(x()), p[0], p[1]), Activation::gelu);
    return mean_places(channels_first(autodiff::scale(h, p[2])));
  }
  if (name == "filter_used_twice") {
    const auto h = activate(convolve(x(), p[0], 3, 1, 1), Activation::gelu);
    return mean_places(activate(convolve(h, p[0], 3, 2, 0), Activation::gelu));
  }
  if (name == "max_pool") {
    const auto h = activate(convolve(x(), p[0], 3, 1, 1), Activation::gelu);
    return mean_places(activate(max_pool(h, 3, 2, 1), Activation::gelu));
  }
  if (name == "thin_out") {
    const auto h = activate(convolve(x(), p[0], 3, 1, 1), Activation::gelu);
    return mean_places(activate(convolve(thin_out(h, 2, 4), p[1], 3, 1, 1), Activation::gelu));
  }
  if (name == "batch_norm" || name == "batch_norm_used_twice") {
    const auto norm = [&](const T& of) {
      return batch_norm(of, p[1], p[2], data("mean"), data("variance"), 1e-3, nullptr);
    };
    auto h = activate(norm(convolve(x(), p[0], 1, 1, 0)), Activation::gelu);
    if (name != "batch_norm") h = activate(norm(h), Activation::gelu);
    return mean_places(h);
  }
  if (name == "convolve_normed" || name == "tiled_and_normed") {
    const auto mean = data("mean"), variance = data("variance");
    const BatchNorm<T> norm{p[1], p[2], mean, variance, 1e-3, nullptr};
    const auto stride = name == "tiled_and_normed" ? 1 : 2;
    const auto h = convolve_normed<T>(convolve(x(), p[0], 1, 1, 0), true, p[3], 3, stride, 1, norm);
    return mean_places(activate(convolve_normed<T>(h, false, p[4], 3, 1, 1, norm), Activation::gelu));
  }
  if (name == "tiled") {
    auto h = activate(convolve(x(), p[0], 1, 1, 0), Activation::gelu);
    h = activate(convolve(h, p[1], p[2], 3, 1, 1), Activation::gelu);
    return mean_places(activate(convolve(h, p[3], 3, 1, 1), Activation::gelu));
  }
  if (name == "layer_norm") return layer_norm(autodiff::linear(x(), p[0]), p[1], p[2], 1e-3);
  if (name == "layer_norm_used_twice") {
    const auto h = layer_norm(autodiff::linear(x(), p[0]), p[1], p[2], 1e-3);
    return weighted_tokens(layer_norm(autodiff::add(h, autodiff::linear(h, p[0])), p[1], p[2], 1e-3),
                           data("weights"));
  }
  if (name == "quick_gelu") return activate(autodiff::linear(x(), p[0]), Activation::quick_gelu);
  if (name == "rms_norm") return rms_norm(autodiff::linear(x(), p[0]), p[1], 1e-3);
  if (name == "rms_norm_used_twice") {
    const auto h = rms_norm(autodiff::linear(x(), p[0]), p[1], 1e-3);
    return weighted_tokens(rms_norm(autodiff::add(h, autodiff::linear(h, p[0])), p[1], 1e-3),
                           data("weights"));
  }
  if (name == "gated_gelu") {
    const auto gate = scale(autodiff::linear(x(), p[1]), 0.7);
    return autodiff::multiply(activate(autodiff::linear(x(), p[0]), Activation::gelu_tanh), gate);
  }
  if (name == "relative_attention" || name == "relative_attention_used_twice") {
    const auto attend = [&](const T& h) {
      return relative_attention(autodiff::linear(h, p[0]), p[1], data("buckets"), 2, data("mask"));
    };
    const auto h = attend(x());
    return weighted_tokens(name == "relative_attention" ? h : attend(h), data("weights"));
  }
  if (name == "cross_attention") {
    const auto h = autodiff::linear(x(), p[0]);
    const auto query = autodiff::linear(some_tokens(h, 0, 1), p[1]);
    const auto read = cross_attention(query, autodiff::linear(h, p[2]), 2, data("mask"));
    return weighted_tokens(join_tokens(read, some_tokens(h, 1, 2)), data("weights"));
  }
  if (name == "packed_attention") {  // every kind of it, where some texts are shorter
    const auto lengths = data("mask").eq(0).sum(1);
    const auto* each = lengths.const_data_ptr<std::int64_t>();
    const Packing packing{{each, each + lengths.numel()}, data("mask").size(1)};
    T h = autodiff::linear(pack_tokens(x(), packing), p[0], p[1]);
    h = attention(h, 2, data("mask"), packing);
    h = relative_attention(autodiff::linear(h, p[2]), p[3], data("buckets"), 2, data("mask"), packing);
    const T kv = autodiff::linear(h, p[4]);
    h = unpack_tokens(h, packing);
    const T read = cross_attention(some_tokens(h, 0, 1), kv, 2, data("mask"), packing);
    return weighted_tokens(join_tokens(read, some_tokens(h, 1, 2)), data("weights"));
  }
  if (name == "silu") return activate(autodiff::linear(x(), p[0]), Activation::silu);
  if (name == "gated_silu") return gated(autodiff::linear(x(), p[0]), Activation::silu);
  if (name == "gated_gelu_tanh") return gated(autodiff::linear(x(), p[0]), Activation::gelu_tanh);
  if (name == "soft_cap") return soft_cap(autodiff::linear(x(), p[0]), 0.8);
  if (name == "centred_norm") return rms_norm(autodiff::linear(x(), p[0]), plus(p[1], 1), 1e-3);
  if (name == "grouped_attention" || name == "capped_attention") {
    const GroupedHeads heads{4, 2, 0.6, name == "capped_attention" ? 0.7 : 0};
    const T read =
        grouped_attention(autodiff::linear(x(), p[0]), autodiff::linear(x(), p[1]), heads, data("causal"));
    return weighted_tokens(read, data("weights"));
  }
  if (name == "decoder" || name == "packed_decoder") {
    const auto lengths = data("lengths");
    const auto* each = lengths.const_data_ptr<std::int64_t>();
    const auto packing =
        name == "decoder" ? Packing{} : Packing{{each, each + lengths.numel()}, data("causal").size(0)};
    const Rotation rotation{data("cos"), data("sin")};
    const T h = pack_tokens(x(), packing);
    T q = norm_heads(autodiff::linear(h, p[0]), plus(p[2], 1), 2, 1e-3);
    T kv = norm_heads(autodiff::linear(h, p[1]), p[3], 1, 1e-3);
    q = rotate_heads(q, rotation, 2, packing);
    kv = rotate_heads(kv, rotation, 1, packing);
    const T read = grouped_attention(q, kv, {2, 1, 0.6}, data("causal"), packing);
    return weighted_tokens(unpack_tokens(read, packing), data("weights"));
  }
  if (name == "decoder_at_the_last_token") {  // each sample's query has a place and a mask of its own
    const auto last = data("last"), keys = at::arange(data("causal").size(0), at::kLong).unsqueeze(0);
    const auto mask = at::zeros({last.size(0), keys.size(1)}, at::kDouble)
                          .masked_fill_(keys > last.unsqueeze(1), -std::numeric_limits<double>::infinity());
    T q = as_tokens(token_at(x(), last));
    q = rotate_heads(autodiff::linear(q, p[0]),
                     {data("cos").index_select(0, last), data("sin").index_select(0, last)}, 2);
    const T kv = rotate_heads(autodiff::linear(x(), p[1]), {data("cos"), data("sin")}, 1);
    return flatten_tokens(grouped_attention(q, kv, {2, 1, 0.6}, mask.unsqueeze(1)));
  }
  if (name == "gelu") return activate(autodiff::linear(x(), p[0]), Activation::gelu);
  if (name == "relu") return activate(autodiff::linear(x(), p[0]), Activation::relu);
  if (name == "attention")
    return weighted_tokens(attention(autodiff::linear(x(), p[0], p[1]), 2, {}), data("weights"));
  if (name == "masked_attention") {
    return weighted_tokens(attention(autodiff::linear(x(), p[0], p[1]), 2, data("mask")), data("weights"));
  }
  if (name == "add")
    return autodiff::add(autodiff::linear(x(), p[0]),
                         activate(autodiff::linear(x(), p[1]), Activation::gelu));
  if (name == "tokens") {
    const auto h = add_position(prepend_token(p[1], autodiff::linear(x(), p[0])), p[2]);
    return autodiff::add(first_token(attention(autodiff::linear(h, p[3]), 1, {})),
                         weighted_tokens(h, data("weights")));
  }
  if (name == "positions_from_the_second")
    return weighted_tokens(activate(add_position(autodiff::linear(x(), p[0]), p[1], 1), Activation::gelu),
                           data("weights"));
  if (name == "normalise_rows") return normalise_rows(autodiff::linear(x(), p[0]));
  if (name == "cosine_logits")
    return cosine_logits(normalise_rows(autodiff::linear(x(), p[0])), data("head"), 7.5);
  if (name == "affine_logits") return affine_logits(autodiff::linear(x(), p[0]), data("head"), data("bias"));
  throw std::invalid_argument("unknown case " + name);
}

/// L = Σ sin f, whose second derivatives mix all outputs' derivatives.
at::Tensor loss_of(const at::Tensor& f) { return f.sin().sum(); }

void measure(const std::string& name, const Data& data, store::TensorFile& out) {
  autodiff::Layout layout;
  std::vector<at::Tensor> values, tangents;
  for (int b = 0; data.has(fmt::format("p{}", b)); ++b) {
    const auto block = fmt::format("p{}", b);
    values.push_back(data(block).flatten());
    tangents.push_back(data(fmt::format("t{}", b)).flatten());
    layout.add(autodiff::Kind::mlp_weight, {block}, data(block).sizes().vec());
  }
  const auto theta = at::cat(values), tau = at::cat(tangents);
  const auto put = [&](const char* what, const at::Tensor& tensor) {
    out.tensors[name + "/" + what] = tensor.detach().clone();
  };
  const auto function = [&]<class T>(const std::vector<T>& p) { return function_of<T>(name, data, p); };

  const auto dual = autodiff::jvp(
      layout, [&](const std::vector<Dual>& p) { return function(p); }, theta, tau);
  put("value", dual.value);
  put("tangent", dual.tangent);
  const auto loss = [&](const std::vector<at::Tensor>& p) { return loss_of(function(p)); };
  put("gradient", autodiff::gradient(layout, loss, theta).gradient);
  put("hessian_product", autodiff::HessianVectorProduct(layout, loss, theta)(tau));
  {
    const auto blocks = autodiff::leaves(layout, theta);
    const auto linear = autodiff::linearised(blocks, layout.views(tau),
                                             [&](const std::vector<Dual>& p) { return function(p); });
    put("linearised", linear.value.detach() + linear.tangent);
    put("pulled_back", autodiff::pull_back(blocks, linear.value, data("cotangent"), at::kDouble));
  }

  const auto recorded = [&](const std::vector<Recorded>& p) { return function(p); };
  autodiff::Recording recording;
  autodiff::record(layout, recorded, theta, recording);
  put("recorded", recording.output);
  put("per_sample", autodiff::per_sample_gradients(layout, recording, data("cotangent"), true));
  auto squares = at::ones_like(theta);  // added to
  tangent::add_squared_gradients(layout, recording, data("cotangent"), false, squares);
  put("squares", squares);
  const auto n = dual.value.size(0);
  put("gram", tangent::ntk_gram(layout, recorded, theta, {0, 1}, {0, n}));
  put("gram_in_little_space", tangent::ntk_gram(layout, recorded, theta, {0, 1}, {1, n - 1}, 64));

  const auto counted = autodiff::count(
      layout, [&](const std::vector<Counted>& p) { return function(p); }, autodiff::Meter::Pass::value);
  put("flops", at::full({1}, counted.flops(), at::kDouble));
}

/// Batch norm by the batch's own statistics, of plain values alone: loss, gradient and what was found; also
/// as one rank of several does it, the others having no sample.
void measure_batch_statistics(const Data& data, store::TensorFile& out, bool of_ranks) {
  autodiff::Layout layout;
  std::vector<at::Tensor> values;
  for (const auto* block : {"p0", "p1", "p2"}) {
    values.push_back(data(block).flatten());
    layout.add(autodiff::Kind::norm, {block}, data(block).sizes().vec());
  }
  autodiff::BatchStatistics batch;
  if (of_ranks) batch.sum_over_ranks = [](at::Tensor&) {};
  const std::string name = of_ranks ? "batch_statistics_of_ranks/" : "batch_statistics/";
  const auto loss = [&](const std::vector<at::Tensor>& p) {
    batch.moments.clear();
    const auto h =
        autodiff::batch_norm(autodiff::convolve(data("x"), p[0], 1, 1, 0), p[1], p[2], {}, {}, 1e-3, &batch);
    return loss_of(autodiff::mean_places(autodiff::activate(h, Activation::gelu)));
  };
  const auto theta = at::cat(values);
  const auto gradient = autodiff::gradient(layout, loss, theta);
  out.tensors[name + "loss"] = at::full({1}, gradient.value, at::kDouble);
  out.tensors[name + "gradient"] = gradient.gradient;
  out.tensors[name + "mean"] = batch.moments.at(0).detach().clone();
  out.tensors[name + "variance"] = batch.moments.at(1).detach().clone();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  at::set_num_threads(1);
  const auto in = store::read_safetensors(argv[1]);
  store::TensorFile out;
  for (const auto& [name, first_block] : in.tensors) {
    const auto slash = name.find("/p0");
    if (slash == std::string::npos) continue;
    const auto which = name.substr(0, slash);
    const Data data{in.tensors, which + "/"};
    if (which == "batch_statistics") {
      for (const bool of_ranks : {false, true}) measure_batch_statistics(data, out, of_ranks);
    } else {
      measure(which, data, out);
    }
  }
  // Floating-point traps would stop within libraries too: Sleef's erf of AVX2 converts large numbers to int32
  // and throws the result away, ATen's exp(−∞) is right and raises FE_INVALID.
  for (const auto& [name, numbers] : out.tensors) {
    if (at::isfinite(numbers).all().item<bool>()) continue;
    fmt::print(stderr, "operations_probe: {} has a number that is not finite\n", name);
    return 1;
  }
  store::write_safetensors(argv[2], out);
  return 0;
}
