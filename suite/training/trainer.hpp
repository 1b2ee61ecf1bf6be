// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Fine-tuning of one task in one regime: batches by seed, and their updates. Papers 1, 3 and 4: AdamW on θ,
// cosine schedule with warm-up, gradient clipping, the readout frozen.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suite/comm/device.hpp"
#include "suite/study/batches.hpp"
#include "suite/training/update.hpp"

namespace taugrid::training {

class Trainer {
 public:
  /// Trains on task `t`; a joint regime does not read `t`. The samples of a step are dealt to the group's
  /// ranks. Training begins where the regime does, or, of a regime on f(x; θ), at another model `begin`. A
  /// joint regime trains on the tasks `of`, or on all where there are none.
  Trainer(const study::Study& study, const std::string& regime, const Training& training, std::size_t t,
          const comm::Communicator& group, const std::optional<models::State>& begin = std::nullopt,
          const std::vector<std::size_t>& of = {});

  /// Step number 0, 1, …; its loss before the update, on the device.
  LossValue step(std::int64_t number);

  const at::Tensor& theta() const { return update_.state().theta; }
  const models::State& state() const { return update_.state(); }
  void observe(std::vector<Update::Span>& spans) { update_.observe(spans); }
  /// What a regime of low rank has trained.
  const std::optional<Factors>& factors() const { return update_.factors(); }
  void save(store::TensorFile& file) const { update_.save(file); }

 private:
  struct Source {
    std::size_t task;
    study::Batches batches;
  };
  std::vector<Term> terms(std::int64_t step);
  std::vector<Term> take(std::int64_t step);
  void prepare(std::int64_t step);
  Term term(Source& source, std::int64_t turn, bool penalty) const;

  const study::Study& study_;
  const study::Regime& regime_;
  const Training& training_;
  const comm::Communicator& group_;
  Update update_;
  int from_;                    // the first stage that training changes, where those before are kept
  std::vector<Source> fitted_;  // one; of a joint regime, all tasks
  std::vector<Source> others_;  // penalised
  struct Coming {
    std::int64_t step;
    std::vector<Term> terms;
    comm::Beside work;
  };
  std::optional<Coming> coming_;  // on a GPU: the next batch, on its way there beside this step
};

}  // namespace taugrid::training
