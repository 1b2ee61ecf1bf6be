// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Reinforced Agent Merging, for sparse vectors as reinforcement learning leaves them (Yuan et al. 2026,
// arXiv:2601.13572; mergekit). Vector t counts where |τ_t| > ε, and c is how many vectors count at a place:
//
//   ram         τ = Σ τ_t / c over those that count
//   ramplus_tl  numbers of one vector alone are multiplied by λ_t = 1 + r · min(ρ_t, α), where ρ_t, in each
//               tensor by itself, is at how many places vector t counts with others, by how many it does
//               alone
#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "suite/merging/table.hpp"

namespace taugrid::merging {
namespace {

struct Rescaling {
  double r, most;
};

class Ram final : public VectorMethod {
 public:
  Ram(const char* name, double epsilon, std::optional<Rescaling> rescaling)
      : name_(name), epsilon_(epsilon), rescaling_(rescaling) {}

  void check(const std::string& what, const std::vector<double>& weights) const override {
    require_alike(what, name_, weights);
  }
  /// Places are counted in a pass of their own.
  MergeWork work(const std::vector<NamedTensor>&, std::size_t) const override {
    return {.passes = rescaling_ ? 2.0 : 1.0};
  }
  std::shared_ptr<const VectorMethod> with(const std::string& parameter,
                                           const std::vector<double>& values) const override {
    auto other = std::make_shared<Ram>(*this);
    if (values.size() > 1) return nullptr;
    if (parameter == "epsilon") {
      other->epsilon_ = values.front();
    } else if (parameter == "r" && rescaling_) {
      other->rescaling_->r = values.front();
    } else if (parameter == "max_ratio" && rescaling_) {
      other->rescaling_->most = values.front();
    } else {
      return nullptr;
    }
    return other;
  }

 protected:
  std::int64_t run(const TaskVectors& vectors, const std::vector<double>&, const Sink& sink,
                   const Team&) const override {
    std::int64_t nonzero = 0;
    const auto merge_part = [&](Range range, const std::vector<double>& lambda) {
      each(vectors, range, [&](std::int64_t begin, const Places& at) {
        auto merged = at::zeros_like(at.tau.front());
        for (std::size_t t = 0; t < at.tau.size(); ++t) {
          const auto alone = lambda.empty() ? at.tau[t] : at.tau[t] * lambda[t];
          merged += at::where(at.counts[t], at::where(at.several, at.tau[t] / at.count, alone), 0.0F);
        }
        nonzero += at::count_nonzero(merged).item<std::int64_t>();
        sink.put(begin, merged);
      });
    };
    if (!rescaling_) {
      merge_part(vectors.range(), {});
      return nonzero;
    }
    for (const auto& tensor : vectors.tensors()) merge_part(tensor.range, lambdas(vectors, tensor.range));
    return nonzero;
  }

 private:
  struct Places {
    std::span<const at::Tensor> tau;
    std::vector<at::Tensor> counts;  ///< whether each vector does
    at::Tensor count, several;       ///< c, at least 1, and whether it is 2 or more
  };

  template <class See>
  void each(const TaskVectors& vectors, Range range, const See& see) const {
    vectors.visit(vectors.all(), range, 1, [&](std::int64_t begin, std::span<const at::Tensor> tau) {
      Places at{tau, {}, at::zeros_like(tau.front()), {}};
      for (const auto& x : tau) {
        at.counts.push_back(x.abs() > epsilon_);
        at.count += at.counts.back();
      }
      at.several = at.count > 1;
      at.count.clamp_min_(1);
      see(begin, at);
    });
  }

  std::vector<double> lambdas(const TaskVectors& vectors, Range range) const {
    std::vector<std::int64_t> shared(vectors.count()), alone(vectors.count());
    each(vectors, range, [&](std::int64_t, const Places& at) {
      for (std::size_t t = 0; t < at.counts.size(); ++t) {
        const auto both = at::count_nonzero(at.counts[t] & at.several).item<std::int64_t>();
        shared[t] += both;
        alone[t] += at::count_nonzero(at.counts[t]).item<std::int64_t>() - both;
      }
    });
    std::vector<double> lambda;
    for (std::size_t t = 0; t < shared.size(); ++t) {  // of none alone the ratio is beyond any bound
      const double ratio = alone[t] > 0    ? static_cast<double>(shared[t]) / static_cast<double>(alone[t])
                           : shared[t] > 0 ? rescaling_->most
                                           : 0;
      lambda.push_back(1 + rescaling_->r * std::min(ratio, rescaling_->most));
    }
    return lambda;
  }

  const char* name_;
  double epsilon_;
  std::optional<Rescaling> rescaling_;
};

double read_epsilon(config::Section& parameters) {
  return parameters.real("epsilon", "A vector counts where its number is larger in magnitude", 1e-5, {0, 1});
}

std::shared_ptr<const VectorMethod> make_ram(config::Section parameters) {
  return std::make_shared<Ram>("ram", read_epsilon(parameters), std::nullopt);
}

std::shared_ptr<const VectorMethod> make_ramplus_tl(config::Section parameters) {
  const double epsilon = read_epsilon(parameters);
  const double r = parameters.real(
      "r", "How much numbers of one vector alone grow with the ratio of its shared places to those", 0.1,
      {0, 1e3});
  const double most =
      parameters.real("max_ratio", "α, the largest ratio that counts (mergekit: alpha)", 0.2, {0, 1e3});
  return std::make_shared<Ram>("ramplus_tl", epsilon, Rescaling{r, most});
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    ram, 67, make_ram, nullptr,
    "Reinforced Agent Merging (Yuan et al. 2026): at each place the mean of the vectors that changed there",
    false)
TAUGRID_MERGING_METHOD(
    ramplus_tl, 68, make_ramplus_tl, nullptr,
    "RAM+ (Yuan et al. 2026), tensor by tensor as in mergekit: RAM, with numbers that one vector alone "
    "changed made larger, the more places it shares",
    false)
