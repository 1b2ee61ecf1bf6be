// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Methods that look at the vectors' numbers at one place and at nothing else, x_t = w_t·τ_t:
//
//   magmax     τ = x_t of the largest |x_t|, the last of equal ones (Marczak et al. 2024)
//   emr        τ = γ·max |x_t| over those of sign γ, γ = sign(Σ x_t) (Huang et al. 2024): the vector that all
//              tasks share, to which EMR adds a mask and a factor for each. Where x_t cancel, τ is 0; the
//              authors' code takes −max |x_t| there
//   nearswap   τ = min(1, t/|x|)·x of one vector (mergekit): no number moves further than t
#include <ATen/ATen.h>

#include "suite/error.hpp"
#include "suite/merging/table.hpp"

namespace taugrid::merging {
namespace {

class NumberByNumber : public VectorMethod {
 public:
  bool is_number_by_number() const final { return true; }

 protected:
  /// τ of x.
  virtual at::Tensor merged(const std::vector<at::Tensor>& x) const = 0;

  std::int64_t run(const TaskVectors& vectors, const std::vector<double>& weights, const Sink& sink,
                   const Team&) const final {
    std::int64_t nonzero = 0;
    vectors.visit(vectors.all(), vectors.range(), 1,
                  [&](std::int64_t begin, std::span<const at::Tensor> tau) {
                    std::vector<at::Tensor> x;
                    for (std::size_t t = 0; t < tau.size(); ++t)
                      x.push_back(weights[t] == 1 ? tau[t] : tau[t] * weights[t]);
                    const auto put = merged(x);
                    nonzero += at::count_nonzero(put).item<std::int64_t>();
                    sink.put(begin, put);
                  });
    return nonzero;
  }
};

class MagMax final : public NumberByNumber {
 protected:
  at::Tensor merged(const std::vector<at::Tensor>& x) const override {
    auto largest = x.front();
    for (const auto& other : x) largest = at::where(other.abs() >= largest.abs(), other, largest);
    return largest;
  }
};

class Emr final : public NumberByNumber {
 protected:
  at::Tensor merged(const std::vector<at::Tensor>& x) const override {
    auto sign = at::zeros_like(x.front());
    for (const auto& each : x) sign += each;
    sign.sign_();
    auto largest = at::zeros_like(sign);
    for (const auto& each : x) largest = at::maximum(largest, each * sign);  // −|x_t| of other signs
    return sign * largest;
  }
};

class NearSwap final : public NumberByNumber {
 public:
  explicit NearSwap(double t) : t_(t) {}

  void check(const std::string& what, const std::vector<double>& w) const override {
    if (w.size() != 1)
      throw InputError(what + ": nearswap moves the base towards one model, and there are " +
                       std::to_string(w.size()));
    require_alike(what, "nearswap", w);
  }
  std::shared_ptr<const VectorMethod> with(const std::string& parameter,
                                           const std::vector<double>& values) const override {
    return parameter == "t" ? std::make_shared<NearSwap>(values.front()) : nullptr;
  }

 protected:
  at::Tensor merged(const std::vector<at::Tensor>& x) const override {
    constexpr double least =
        1e-6;  // as mergekit has it: numbers below this move by the share t/1e-6 where that is less than 1
    return x.front() * (t_ / x.front().abs().clamp_min(least)).clamp_max(1);
  }

 private:
  double t_;
};

std::shared_ptr<const VectorMethod> make_magmax(config::Section) { return std::make_shared<MagMax>(); }

std::shared_ptr<const VectorMethod> make_emr(config::Section) { return std::make_shared<Emr>(); }

std::shared_ptr<const VectorMethod> make_nearswap(config::Section parameters) {
  return std::make_shared<NearSwap>(
      parameters.real("t", "How far a number moves from the base's towards the model's", 1e-4, {0, 1}));
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(magmax, 63, make_magmax, nullptr,
                       "MagMax (Marczak et al. 2024): at each place the vectors' largest number")
TAUGRID_MERGING_METHOD(emr, 64, make_emr, nullptr,
                       "What tasks share in EMR-Merging (Huang et al. 2024), without each one's mask and "
                       "factor: the sign that is "
                       "elected at each place, with the largest number that has it")
TAUGRID_MERGING_METHOD(nearswap, 74, make_nearswap, nullptr,
                       "NearSwap (mergekit): from the base towards one model, no number further than t",
                       false)
