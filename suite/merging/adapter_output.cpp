// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/adapter_output.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "suite/error.hpp"
#include "suite/merging/base_layers.hpp"
#include "suite/merging/layers.hpp"
#include "suite/store/adapter_writer.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double rounding = 1e-5;  // of float32 numbers that were added up, at most, relative to their norm

std::string module_of(const std::string& name) { return name.substr(0, name.rfind('.')); }
std::string last_step(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// What becomes of a tensor that changed.
enum class Part { product, embedding, module, bias, none };

struct Place {
  Part part = Part::none;
  bool transposed = false;      ///< (BA)ᵀ is added
  std::vector<at::Tensor> b{};  ///< the adapters' B, where all models are adapters
};

/// The weight of a linear layer, by its name: PEFT's names of embeddings are others, and it has none for
/// parameters of no layer.
bool is_linear(const NamedTensor& tensor) {
  if (tensor.shape.size() != 2 || !tensor.name.ends_with(".weight")) return false;
  const auto module = last_step(module_of(tensor.name));
  if (module.find("embed") != std::string::npos || module == "relative_attention_bias") return false;
  return layer_named_in(tensor.name).has_value() || module == "lm_head" || module == "visual_projection" ||
         module == "text_projection";
}

class Writing {
 public:
  Writing(const Recipe& recipe, const Stage& stage, const fs::path& folder,
          const std::function<void()>& go_on)
      : recipe_(recipe),
        stage_(stage),
        folder_(folder),
        go_on_(go_on),
        base_layers_(recipe.base, stage.start().has("lm_head.weight")) {
    for (const auto& model : stage.models()) {
      const auto* adapter = std::get_if<Adapter>(&model);
      if (adapter != nullptr) adapters_.push_back(adapter);
    }
    are_adapters_ = adapters_.size() == stage.models().size();
    if (!are_adapters_ && recipe.adapter->is_exact())
      throw InputError(recipe.adapter->where +
                       ": has neither a rank nor a share, and not all models are adapters, whose ranks "
                       "would add up; expected one of them");
  }

  AdapterOutput made() {
    if (!stage_.is_tensor_by_tensor()) keep_vectors();
    const auto& tensors = stage_.vectors().tensors();
    store::AdapterWriter::Room room;
    for (const auto& tensor : tensors) {
      room.modules.push_back(module_of(tensor.name));
      room.whole.push_back(tensor.name);
    }
    store::AdapterWriter out(folder_, recipe_.base.string(), {}, room);
    // A bias has another name where its module has a product, and none of its own where that is whole.
    std::vector<std::size_t> later;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto place = place_of(tensors[i]);
      if (place.part == Part::product || place.part == Part::embedding) {
        add_product(out, i, place);
      } else {
        later.push_back(i);
      }
    }
    if (output_.matrices.empty())
      throw InputError(recipe_.where +
                       ": no matrix of a layer differs from the base's; expected one, since PEFT loads no "
                       "adapter without");
    for (const auto i : later)
      if (place_of(tensors[i]).part == Part::module) add_module(out, i);
    for (const auto i : later)
      if (place_of(tensors[i]).part == Part::bias) add_bias(out, i);
    for (const auto i : later)
      if (place_of(tensors[i]).part == Part::none) leave_out(i);
    if (transposed_) out.store_transposed();
    out.commit();
    double nonzero = 0;
    for (const auto& entry : nonzero_) nonzero += static_cast<double>(entry.second);
    output_.merged = {nonzero / static_cast<double>(stage_.vectors().length()), stage_.vectors().passes()};
    if (kept_) {
      kept_.reset();
      fs::remove(folder_ / kept_name);
    }
    return std::move(output_);
  }

 private:
  static constexpr const char* kept_name = "vectors.safetensors";

  /// λτ of all tensors into a file, whose zeros take no room.
  void keep_vectors() {
    store::SafetensorsWriter::Contents contents;
    for (const auto& tensor : stage_.vectors().tensors()) contents[tensor.name] = {at::kFloat, tensor.shape};
    store::SafetensorsWriter file(folder_ / kept_name, contents, {});
    for (const auto& tensor : stage_.vectors().tensors())
      if (tensor.range.count > 0) file.write(tensor.name, tensor.range.count - 1, at::zeros({1}, at::kFloat));
    std::set<std::string> written;
    stage_.merge_vectors([&](const std::string& name, std::int64_t from, const at::Tensor& tau) {
      go_on_();
      if (!written.contains(name) && !tau.any().item<bool>()) return;
      written.insert(name);
      file.write(name, from, tau);
    });
    file.commit();
    kept_.emplace(folder_ / kept_name);
  }

  /// Flat; not defined where it is zero.
  at::Tensor vector(std::size_t i) {
    const auto& tensor = stage_.vectors().tensors()[i];
    go_on_();
    if (tensor.range.count == 0) return {};
    const auto tau = kept_ ? kept_->tensor(tensor.name).flatten() : stage_.vector(i);
    nonzero_[i] = at::count_nonzero(tau).item<std::int64_t>();
    return nonzero_[i] > 0 ? tau : at::Tensor();
  }

  Place place_of(const NamedTensor& tensor) const {
    Place place;
    bool is_whole = false, has_product = false, is_embedding = false;
    for (const auto* adapter : adapters_) {
      if (!adapter->changes(tensor.name)) continue;
      const auto form = adapter->form(tensor.name);
      is_whole = is_whole || form.whole;
      if (!form.b.defined()) continue;
      has_product = true;
      is_embedding = is_embedding || form.embedding;
      place.transposed = place.transposed || form.transposed;
      place.b.push_back(form.b);
    }
    const bool is_weight = tensor.name.ends_with(".weight");
    if (has_product && !is_whole) {
      place.part = is_embedding ? Part::embedding : Part::product;
    } else if (!is_whole && is_linear(tensor) && !is_tied(tensor)) {
      place.part = Part::product;
      const auto module = last_step(module_of(tensor.name));
      place.transposed = base_layers_.has_conv1d &&
                         (module == "c_attn" || module == "c_proj" || module == "c_fc" || module == "q_attn");
    } else if (is_weight) {
      place.part = (!is_whole && is_tied(tensor)) || !has_floats_alone(module_of(tensor.name)) ? Part::none
                                                                                               : Part::module;
    } else if (tensor.name.ends_with(".bias")) {
      place.part = Part::bias;
    }
    if (!are_adapters_) place.b.clear();
    return place;
  }

  /// An embedding that is the head, too, or a head that is stored beside it: a change of one alone would part
  /// them.
  bool is_tied(const NamedTensor& tensor) const {
    return base_layers_.is_tied(tensor.name, tensor.shape);
  }

  /// Names of all tensors that stand directly in a module.
  std::vector<std::string> tensors_of(const std::string& module) const {
    std::vector<std::string> names;
    for (const auto& entry : stage_.start().tensors())
      if (entry.first.starts_with(module + ".") && module_of(entry.first) == module)
        names.push_back(entry.first);
    return names;
  }
  bool has_floats_alone(const std::string& module) const {
    const auto names = tensors_of(module);
    return std::all_of(names.begin(), names.end(), [&](const auto& name) {
      return at::isFloatingType(stage_.start().tensors().at(name).scalar) &&
             !name.ends_with("running_mean") && !name.ends_with("running_var");
    });
  }

  /// Throws InputError where a number is too large for the type.
  at::Tensor as_written(const at::Tensor& numbers, std::optional<at::ScalarType> base_type,
                        const std::string& name) const {
    const auto type = recipe_.type().value_or(base_type.value_or(at::kFloat));
    auto written = numbers.to(type).contiguous();
    if (!at::isfinite(written).all().item<bool>())
      throw InputError(fmt::format("{}: the merged {} has numbers that {} cannot hold", recipe_.base.string(),
                                   store::quoted(name), at::toString(type)));
    return written;
  }

  void add_product(store::AdapterWriter& out, std::size_t i, const Place& place) {
    const auto& tensor = stage_.vectors().tensors()[i];
    auto tau = vector(i);
    if (!tau.defined()) return;
    auto delta = tau.view({tensor.shape[0], -1}).to(at::kDouble);
    tau.reset();
    if (!at::isfinite(delta).all().item<bool>())
      throw InputError(fmt::format("{}: what is merged of {} has numbers beyond float32",
                                   recipe_.base.string(), store::quoted(tensor.name)));
    if (place.transposed) delta = delta.t();
    auto [b, a] = factors(delta, place, tensor.name);
    const auto rank = a.size(0);
    b = as_written(b, std::nullopt, tensor.name);
    a = as_written(a, std::nullopt, tensor.name);
    const double norm = delta.norm().item<double>();
    const auto rest = at::addmm(delta, b.to(at::kDouble), a.to(at::kDouble), 1, -1);
    output_.matrices.push_back({tensor.name, rank, norm, rest.norm().item<double>() / norm});
    const auto module = module_of(tensor.name);
    if (place.part == Part::embedding) {
      out.add_embedding(module, a, b);
      return;
    }
    // A filter's A goes from the inputs to r channels, and its B goes on from each point alone.
    if (tensor.shape.size() > 2) {
      auto of_a = tensor.shape;
      of_a[0] = rank;
      std::vector<std::int64_t> of_b(tensor.shape.size(), 1);
      of_b[0] = tensor.shape[0];
      of_b[1] = rank;
      a = a.view(of_a);
      b = b.view(of_b);
    }
    transposed_ = transposed_ || place.transposed;
    out.add(module, a, b);
  }

  /// B and A in double.
  std::pair<at::Tensor, at::Tensor> factors(const at::Tensor& delta, const Place& place,
                                            const std::string& name) const {
    at::Tensor left, inner = delta;  // Δ = left · inner where the adapters' columns are known
    if (!place.b.empty()) {
      left = std::get<0>(at::linalg_qr(at::cat(place.b, 1)));
      inner = at::mm(left.t(), delta);
      const auto rest = at::addmm(delta, left, inner, 1, -1).norm().item<double>();
      if (rest > rounding * delta.norm().item<double>()) {
        left.reset();
        inner = delta;
      }
    }
    if (recipe_.adapter->is_exact()) {
      if (!left.defined())
        throw InputError(fmt::format(
            "{}: asks for the adapters' own ranks, and {} gives {} another; expected a rank or a share",
            recipe_.adapter->where, recipe_.method_name, store::quoted(name)));
      if (left.size(1) > delta.size(1)) return {delta, at::eye(delta.size(1), delta.options())};
      return {left, inner};
    }
    const auto [u, s, vh] = at::linalg_svd(inner, /*full_matrices=*/false);
    const auto rank = rank_of(s, delta);
    const auto root = s.narrow(0, 0, rank).sqrt();
    auto b = u.narrow(1, 0, rank) * root;
    if (left.defined()) b = at::mm(left, b);
    return {b, root.unsqueeze(1) * vh.narrow(0, 0, rank)};
  }

  /// The rank is at least 1, at most what is asked for, and no more than float32's rounding leaves.
  std::int64_t rank_of(const at::Tensor& values, const at::Tensor& delta) const {
    const auto least = static_cast<double>(std::max(delta.size(0), delta.size(1))) *
                       std::numeric_limits<float>::epsilon() * values[0].item<double>();
    auto rank = values.gt(least).sum().item<std::int64_t>();
    if (recipe_.adapter->rank > 0) rank = std::min(rank, recipe_.adapter->rank);
    if (recipe_.adapter->share < 1) {
      const auto energies = values.square().cumsum(0);
      const double asked = recipe_.adapter->share * energies[-1].item<double>();
      rank = std::min(rank, energies.lt(asked).sum().item<std::int64_t>() + 1);
    }
    return std::max<std::int64_t>(rank, 1);
  }

  /// θ0 + λτ in its type, [shape].
  at::Tensor merged(const std::string& name) {
    const auto& tensors = stage_.vectors().tensors();
    const auto start = stage_.start().tensor(name);
    const auto place =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& tensor) { return tensor.name == name; });
    if (place == tensors.end()) return start;
    const auto tau = vector(static_cast<std::size_t>(place - tensors.begin()));
    if (!tau.defined()) return start;
    return as_written(start.to(at::kFloat).add(tau.view(start.sizes())), start.scalar_type(), name);
  }

  void add_module(store::AdapterWriter& out, std::size_t i) {
    const auto& name = stage_.vectors().tensors()[i].name;
    const auto module = module_of(name);
    if (!vector(i).defined()) return;
    std::map<std::string, at::Tensor> tensors;
    for (const auto& tensor : tensors_of(module)) {
      tensors[last_step(tensor)] = merged(tensor);
      output_.whole.push_back(tensor);
      whole_.insert(tensor);
    }
    out.add_module(module, tensors);
  }

  void add_bias(store::AdapterWriter& out, std::size_t i) {
    const auto& name = stage_.vectors().tensors()[i].name;
    if (whole_.contains(name) || !vector(i).defined()) return;
    out.add_bias(module_of(name), merged(name));
    output_.whole.push_back(name);
  }

  void leave_out(std::size_t i) {
    const auto& name = stage_.vectors().tensors()[i].name;
    const auto tau = vector(i);
    if (whole_.contains(name) || !tau.defined()) return;
    const auto start = stage_.start().tensor(name).to(at::kDouble).norm().item<double>();
    const auto norm = tau.to(at::kDouble).norm().item<double>();
    const auto how_far = start > 0 ? fmt::format("by {:.3g} % of its norm", 100 * norm / start)
                                   : fmt::format("which is zero, by {:.3g}", norm);
    output_.notes.push_back(fmt::format(
        "{}: differs from the base's {}, and is not in the adapter: PEFT has no place for {}",
        store::quoted(name), how_far,
        name.ends_with(".weight") ? "what is tied or has counters" : "what is no weight or bias"));
  }

  const Recipe& recipe_;
  const Stage& stage_;
  const fs::path& folder_;
  const std::function<void()>& go_on_;
  BaseLayers base_layers_;
  std::vector<const Adapter*> adapters_;
  bool are_adapters_ = false, transposed_ = false;
  std::optional<store::MappedTensors> kept_;
  std::set<std::string> whole_;
  std::map<std::size_t, std::int64_t> nonzero_;  ///< numbers of λτ, by tensor
  AdapterOutput output_;
};

}  // namespace

AdapterOutput write_adapter(const Recipe& recipe, const Stage& stage, const fs::path& folder,
                            const std::function<void()>& go_on) {
  return Writing(recipe, stage, folder, go_on).made();
}

}  // namespace taugrid::merging
