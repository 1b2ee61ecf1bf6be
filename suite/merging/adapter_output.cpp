// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/adapter_output.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "suite/error.hpp"
#include "suite/merging/base_layers.hpp"
#include "suite/merging/layers.hpp"
#include "suite/merging/matrices/dealt_tensors.hpp"
#include "suite/merging/matrices/on_matrices.hpp"
#include "suite/store/adapter_writer.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/quoted.hpp"
#include "suite/store/safetensors.hpp"

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

constexpr const char* making_name = ".making";  // the folder of all that the adapter is put together of

/// The tensors of a matrix' file, which it keeps until the adapter is put together.
constexpr const char* of_a = "a";
constexpr const char* of_b = "b";
constexpr const char* of_figures = "figures";  // ‖Δ‖, ‖Δ − BA‖/‖Δ‖, how many numbers of Δ are not zero

class Writing {
 public:
  Writing(const Recipe& recipe, const Stage& stage)
      : recipe_(recipe), stage_(stage), base_layers_(recipe.base, stage.start().has("lm_head.weight")) {
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

  AdapterOutput adapter_in(const fs::path& folder, store::UnfinishedFolder* unfinished, const Making& making,
                           const std::function<void()>& go_on) {
    folder_ = folder;
    team_ = making.team;
    go_on_ = &go_on;
    if (unfinished != nullptr) lay_out(*unfinished);
    team_.wait_for_all("layout of the adapter's folder");
    const auto work = matrices();
    const auto costs = costs_of(work);
    left_to_do_ = std::accumulate(costs.begin(), costs.end(), 0.0) / team_.size();
    if (!stage_.is_tensor_by_tensor()) keep_vectors(making.see);
    factor(work, making.see);
    if (team_.rank() > 0) kept_.reset();
    team_.wait_for_all("factors of the adapter");
    if (base_layers_.are_renamed)
      output_.notes.push_back(
          "modules have the names of the base's file, and transformers 5 has others for some: where PEFT "
          "does not find one, transformers 4 does");
    if (team_.rank() == 0) put_together();
    team_.wait_for_all("files of the adapter");  // asleep
    const auto sums =
        team_.sums({std::llround(stage_.vectors().passes() * length()), std::llround(written_)});
    if (stage_.is_tensor_by_tensor()) output_.merged.passes = static_cast<double>(sums[0]) / length();
    output_.written = static_cast<double>(sums[1]);
    return std::move(output_);
  }

  std::vector<Load> loads(double read_a_number, int ranks) const {
    const auto& tensors = stage_.vectors().tensors();
    const auto count = static_cast<double>(stage_.vectors().count());
    const auto every = [](Range range) { return std::vector<Range>{range}; };
    const bool keeps = !stage_.is_tensor_by_tensor();
    std::vector<Load> all(static_cast<std::size_t>(ranks));
    if (keeps) {
      const auto shares = stage_.shares(ranks, every);
      for (std::size_t r = 0; r < all.size(); ++r)
        all[r] = {read_a_number * shares[r].visits, sizeof(float) * shares[r].numbers, shares[r].memory,
                  shares[r].flops};
    }
    const auto add = [&](std::size_t rank, std::size_t i, const Cost& cost, double written) {
      const auto numbers = static_cast<double>(tensors[i].range.count);
      all[rank].read += numbers * (keeps ? sizeof(float) : read_a_number * count);
      all[rank].written += written;
      all[rank].flops += cost.flops;
      all[rank].memory = std::max(all[rank].memory, cost.memory);
    };
    const auto work = matrices();
    const auto owner = dealt(costs_of(work), ranks);
    std::vector<bool> is_matrix(tensors.size());
    for (std::size_t k = 0; k < work.size(); ++k) {
      is_matrix[work[k].tensor] = true;
      add(static_cast<std::size_t>(owner[k]), work[k].tensor, work[k].cost, work[k].cost.factors);
      all.front().read += work[k].cost.factors;
      all.front().written += work[k].cost.factors;
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto numbers = static_cast<double>(tensors[i].range.count);
      if (!is_matrix[i]) add(0, i, {0, 3 * sizeof(float) * numbers, 0}, sizeof(float) * numbers);
    }
    return all;
  }

 private:
  fs::path vectors_path() const { return folder_ / making_name / "vectors.safetensors"; }
  fs::path factors_path(std::size_t i) const {
    return folder_ / making_name / ("factors." + std::to_string(i) + ".safetensors");
  }
  double length() const { return static_cast<double>(std::max<std::int64_t>(stage_.vectors().length(), 1)); }

  store::SafetensorsWriter::Contents all_vectors() const {
    store::SafetensorsWriter::Contents contents;
    for (const auto& tensor : stage_.vectors().tensors()) contents[tensor.name] = {at::kFloat, tensor.shape};
    return contents;
  }

  void lay_out(store::UnfinishedFolder& unfinished) const {
    const bool keeps = !stage_.is_tensor_by_tensor();
    if (unfinished.goes_on() && keeps && !store::SharedSafetensors::stands(vectors_path(), all_vectors(), {}))
      unfinished.start_anew();
    store::create_folders(folder_ / making_name);
    if (unfinished.goes_on()) return;
    if (keeps) store::SharedSafetensors::create(vectors_path(), all_vectors(), {});
    unfinished.begin();
  }

  /// λτ of all tensors into a file, whose zeros take no room.
  void keep_vectors(const std::function<void(double)>& see) {
    store::SharedSafetensors file(vectors_path(), all_vectors(), {}, team_.size() > 1);
    UnderWay under_way(team_, folder_, {stage_.vectors().length()}, [&] { file.flush(); });
    const auto shares = stage_.shares(team_.size(), [&](Range range) { return under_way.left(0, range); });
    const auto& share = shares[static_cast<std::size_t>(team_.rank())];
    const double before = stage_.vectors().come_to();
    done_ = flops_of_reading * share.visits + share.flops;
    left_to_do_ += done_;
    std::set<std::string> written;
    std::mutex mutex;
    try {
      const auto merged = stage_.merge(
          share, 0, under_way,
          [&](const std::string& name, std::int64_t from, const at::Tensor& tau) {
            (*go_on_)();
            const std::lock_guard lock(mutex);
            see(std::min(done_, flops_of_reading * (stage_.vectors().come_to() - before)) / left_to_do_);
            if (!written.contains(name) && !tau.any().item<bool>()) return;
            written.insert(name);
            file.write(name, from, tau);
            written_ += static_cast<double>(tau.nbytes());
          },
          Stage::Gives::vector);
      output_.merged.passes = merged.passes;
    } catch (const Interrupted&) {
      under_way.settle();
      throw;
    }
    file.flush();
    team_.wait_for_all("vectors of the adapter");
    kept_.emplace(vectors_path());
  }

  /// Flat; not defined where it is zero.
  at::Tensor vector(std::size_t i) {
    const auto& tensor = stage_.vectors().tensors()[i];
    (*go_on_)();
    if (tensor.range.count == 0) return {};
    const auto tau = kept_ ? kept_->tensor(tensor.name).flatten() : stage_.vector(i);
    nonzero_[i] = at::count_nonzero(tau).item<std::int64_t>();
    return nonzero_[i] > 0 ? tau : at::Tensor();
  }

  /// What a matrix takes to be factored.
  struct Cost {
    double flops, memory, factors;  ///< memory and factors in bytes
  };
  struct Matrix {
    std::size_t tensor;
    Cost cost;
  };

  /// All that get a product, if they changed.
  std::vector<Matrix> matrices() const {
    const auto& tensors = stage_.vectors().tensors();
    std::vector<Matrix> all;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto place = place_of(tensors[i]);
      if (place.part == Part::product || place.part == Part::embedding)
        all.push_back({i, cost_of(tensors[i], place)});
    }
    return all;
  }

  /// Where the adapters' columns are known, what is left to factor has as many rows as they are.
  Cost cost_of(const NamedTensor& tensor, const Place& place) const {
    const auto numbers = static_cast<double>(tensor.range.count);
    if (numbers == 0) return {0, 0, 0};
    const auto m = static_cast<double>(tensor.shape.front()), n = numbers / m;
    double columns = 0;
    for (const auto& b : place.b) columns += static_cast<double>(b.size(1));
    const bool is_known = columns > 0 && columns < std::min(m, n) && stage_.is_tensor_by_tensor();
    const auto inner = is_known ? columns : std::min(m, n);
    auto rank = inner;
    if (recipe_.adapter->rank > 0) rank = std::min(rank, static_cast<double>(recipe_.adapter->rank));
    const double held = sizeof(double) * (3 * numbers + 4 * inner * (m + n));
    const double project = is_known ? 4 * m * n * columns : 0;
    const double factored =
        recipe_.adapter->is_exact() && is_known ? 0 : svd_flops(inner, is_known ? n : std::max(m, n));
    return {project + factored + 2 * m * n * rank, held, sizeof(float) * rank * (m + n)};
  }

  static std::vector<double> costs_of(const std::vector<Matrix>& work) {
    std::vector<double> costs;
    for (const auto& matrix : work) costs.push_back(matrix.cost.flops);
    return costs;
  }

  /// The numbers of the tensors whose factors an earlier start has left, of the shapes that they must have.
  std::vector<std::int64_t> factored() const {
    std::vector<std::int64_t> finished;
    for (std::size_t i = 0; i < stage_.vectors().tensors().size(); ++i)
      if (fs::exists(factors_path(i)) && are_factors(factors_path(i), i))
        finished.push_back(static_cast<std::int64_t>(i));
    return finished;
  }

  bool are_factors(const fs::path& path, std::size_t i) const {
    try {
      const auto& tensor = stage_.vectors().tensors()[i];
      const auto file = store::MappedTensors(path).tensors();
      const auto is = [&](const char* name, std::size_t dimensions) {
        const auto entry = file.find(name);
        return entry != file.end() && entry->second.shape.size() == dimensions;
      };
      if (!is(of_figures, 1) || file.at(of_figures).shape.front() != 3 ||
          file.at(of_figures).scalar != at::kDouble)
        return false;
      if (file.size() == 1) return true;  // a matrix that did not change
      if (file.size() != 3 || !is(of_a, 2) || !is(of_b, 2) || tensor.range.count == 0) return false;
      auto rows = tensor.shape.front(), columns = tensor.range.count / rows;
      if (place_of(tensor).transposed) std::swap(rows, columns);
      const auto &a = file.at(of_a).shape, &b = file.at(of_b).shape;
      return a[1] == columns && b[0] == rows && a[0] == b[1] && a[0] > 0;
    } catch (const InputError&) {
      return false;
    }
  }

  /// This rank's part of the matrices that no earlier start has factored.
  void factor(std::vector<Matrix> work, const std::function<void(double)>& see) {
    const auto finished = team_.joined(team_.rank() == 0 ? factored() : std::vector<std::int64_t>{});
    std::erase_if(work, [&](const Matrix& matrix) {
      return std::find(finished.begin(), finished.end(), static_cast<std::int64_t>(matrix.tensor)) !=
             finished.end();
    });
    const auto costs = costs_of(work);
    const auto owner = dealt(costs, team_.size());
    double mine = 0, spent = 0;
    for (std::size_t k = 0; k < work.size(); ++k)
      if (owner[k] == team_.rank()) mine += costs[k];
    for (std::size_t k = 0; k < work.size(); ++k) {
      if (owner[k] != team_.rank()) continue;
      const auto file = factors_of(work[k].tensor);
      store::write_safetensors(factors_path(work[k].tensor), file);
      for (const auto& entry : file.tensors) written_ += static_cast<double>(entry.second.nbytes());
      spent += costs[k];
      see((done_ + spent) / std::max(1.0, done_ + mine));
    }
  }

  /// The adapter's files, of what all ranks have made.
  void put_together() {
    const auto& tensors = stage_.vectors().tensors();
    store::AdapterWriter::Room room;
    for (const auto& tensor : tensors) {
      room.modules.push_back(module_of(tensor.name));
      room.whole.push_back(tensor.name);
    }
    const auto built = folder_ / making_name / "adapter";  // a kill leaves nothing of it in the result
    store::AdapterWriter out(built, recipe_.base.string(), {}, room);
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
    std::error_code ignored;
    written_ += static_cast<double>(fs::file_size(built / "adapter_model.safetensors", ignored));
    for (const char* name : {"adapter_model.safetensors", "adapter_config.json"})
      store::publish(built / name, folder_ / name);
    double nonzero = 0;
    for (const auto& entry : nonzero_) nonzero += static_cast<double>(entry.second);
    output_.merged.density = nonzero / length();
    kept_.reset();
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
      place.transposed = base_layers_.is_conv1d(tensor.name);
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
  bool is_tied(const NamedTensor& tensor) const { return base_layers_.is_tied(tensor.name, tensor.shape); }

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

  /// B and A of a matrix as they are written, and how near they come.
  store::TensorFile factors_of(std::size_t i) {
    const auto& tensor = stage_.vectors().tensors()[i];
    const auto place = place_of(tensor);
    auto tau = vector(i);
    if (!tau.defined()) return {{{of_figures, at::zeros({3}, at::kDouble)}}, {}};
    auto delta = tau.view({tensor.shape[0], -1}).to(at::kDouble);
    tau.reset();
    if (!at::isfinite(delta).all().item<bool>())
      throw InputError(fmt::format("{}: what is merged of {} has numbers beyond float32",
                                   recipe_.base.string(), store::quoted(tensor.name)));
    if (place.transposed) delta = delta.t();
    auto [b, a] = factors(delta, place, tensor.name);
    b = as_written(b, std::nullopt, tensor.name);
    a = as_written(a, std::nullopt, tensor.name);
    const double norm = delta.norm().item<double>();
    const auto rest = at::addmm(delta, b.to(at::kDouble), a.to(at::kDouble), 1, -1);
    const auto figures =
        at::tensor({norm, rest.norm().item<double>() / norm, static_cast<double>(nonzero_[i])}, at::kDouble);
    return {{{of_a, a}, {of_b, b}, {of_figures, figures}}, {}};
  }

  void add_product(store::AdapterWriter& out, std::size_t i, const Place& place) {
    const auto& tensor = stage_.vectors().tensors()[i];
    (*go_on_)();
    store::wait_for(factors_path(i));
    const auto file = store::read_safetensors(factors_path(i));
    const auto& figures = file.tensors.at(of_figures);
    nonzero_[i] = std::llround(figures[2].item<double>());
    if (nonzero_[i] == 0) return;
    auto a = file.tensors.at(of_a), b = file.tensors.at(of_b);
    const auto rank = a.size(0);
    output_.matrices.push_back({tensor.name, rank, figures[0].item<double>(), figures[1].item<double>()});
    const auto module = module_of(tensor.name);
    if (place.part == Part::embedding) {
      out.add_embedding(module, a, b);
      return;
    }
    // A filter's A goes from the inputs to r channels, and its B goes on from each point alone.
    if (tensor.shape.size() > 2) {
      auto filters = tensor.shape;
      filters[0] = rank;
      std::vector<std::int64_t> points(tensor.shape.size(), 1);
      points[0] = tensor.shape[0];
      points[1] = rank;
      a = a.view(filters);
      b = b.view(points);
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
    auto rank = numerical_rank(values, delta);
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
  BaseLayers base_layers_;
  fs::path folder_;
  Team team_;
  const std::function<void()>* go_on_ = nullptr;
  std::vector<const Adapter*> adapters_;
  bool are_adapters_ = false, transposed_ = false;
  std::optional<store::MappedTensors> kept_;
  std::set<std::string> whole_;
  std::map<std::size_t, std::int64_t> nonzero_;  ///< numbers of λτ, by tensor
  double written_ = 0;                           ///< bytes
  /// Flops of this rank, about: of λτ, where that is kept, and of all that it has to do.
  double done_ = 0, left_to_do_ = 0;
  AdapterOutput output_;
};

}  // namespace

AdapterOutput write_adapter(const Recipe& recipe, const Stage& stage, const fs::path& folder,
                            store::UnfinishedFolder* unfinished, const Making& making,
                            const std::function<void()>& go_on) {
  return Writing(recipe, stage).adapter_in(folder, unfinished, making, go_on);
}

void remove_making(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder / making_name, ignored);
}

std::vector<Load> adapter_loads(const Recipe& recipe, const Stage& stage, double read_a_number, int ranks) {
  return Writing(recipe, stage).loads(read_a_number, ranks);
}

}  // namespace taugrid::merging
