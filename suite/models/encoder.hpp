// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A model is a pure function f(θ, x), cut into stages: an embedding makes states of a batch (stage 0), stages
// 1 … L change them, and features are read of the last ones (stage L + 1). An architecture writes its stages
// once, as templates over the kinds of numbers; nets/ has a file for each.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/autodiff/layout.hpp"
#include "kernels/autodiff/ops.hpp"
#include "suite/models/batch.hpp"
#include "suite/models/state.hpp"

namespace taugrid::models {

using Files = std::map<std::string, std::string>;  ///< path in a model's folder → text

template <class T>
using Blocks = std::vector<T>;  ///< θ, cut as the model's layout says

/// What f takes besides θ.
struct Given {
  Batch batch;
  std::vector<at::Tensor> buffers = {};  ///< views of State::buffers, by block; empty where a model has none
  /// Set in training where samples mix: the batch's own statistics take the place of the stored ones.
  autodiff::BatchStatistics* statistics = nullptr;
};

/// How much of a stage's output is needed.
enum class Reach {
  whole,  ///< all of it
  read    ///< what features() reads of the last stage: a class token alone, say
};

/// The stages, for one kind of numbers.
template <class T>
class Stages {
 public:
  virtual ~Stages() = default;
  virtual T embed(const Blocks<T>& p, const Given& x) const = 0;
  /// The output of stage l = 1 … L, from that of the one before.
  virtual T stage(int l, const Blocks<T>& p, T h, const Given& x, Reach reach) const = 0;
  /// [n, features] of the last stage's output, of which `reach` is there.
  virtual T features(const Blocks<T>& p, T h, const Given& x, Reach reach) const = 0;
};

/// What batches a model takes.
struct Takes {
  std::int64_t image_size = 0, channels = 0;  ///< of pictures
  std::int64_t vocabulary = 0, tokens = 0;    ///< of text: ids below `vocabulary`, at most so many
  std::int64_t types = 1;                     ///< of text: kinds of tokens, 2 where it tells a second text
  bool mask = false;                          ///< of text: prompts, of which it reads the mask
  bool text() const { return vocabulary > 0; }
};

class Encoder : public Stages<at::Tensor>,
                public Stages<autodiff::Dual>,
                public Stages<autodiff::Recorded>,
                public Stages<autodiff::Counted> {
 public:
  using Stages<at::Tensor>::embed, Stages<at::Tensor>::stage, Stages<at::Tensor>::features;
  using Stages<autodiff::Dual>::embed, Stages<autodiff::Dual>::stage, Stages<autodiff::Dual>::features;
  using Stages<autodiff::Recorded>::embed, Stages<autodiff::Recorded>::stage,
      Stages<autodiff::Recorded>::features;
  using Stages<autodiff::Counted>::embed, Stages<autodiff::Counted>::stage,
      Stages<autodiff::Counted>::features;

  virtual const autodiff::Layout& layout() const = 0;
  /// The layout of State::buffers, in the order in which the model normalises: a mean, a variance, a mean, ….
  virtual const autodiff::Layout& buffers() const;
  /// Name of the architecture as in config.json ("CLIPVisionModelWithProjection").
  virtual std::string architecture() const = 0;
  /// The text of config.json, as Hugging Face writes it.
  virtual std::string config_json() const = 0;
  /// Further small files of its folder that say what the model is, path in the folder → text.
  virtual Files beside_config() const { return {}; }
  virtual int stages() const = 0;          ///< L
  virtual std::int64_t width() const = 0;  ///< of the features
  virtual Takes takes() const = 0;
  /// The block [rows, width()] that label words are rows of: of the vocabulary, or of the classifier that the
  /// model brings; −1 where there is neither.
  virtual int vocabulary_block() const { return -1; }
  /// The block [rows, 1] of their biases; −1 where there is none.
  virtual int vocabulary_bias() const { return -1; }
  /// Logits z of the vocabulary are cap·tanh(z/cap) (Gemma 2); 0 where they are not capped.
  virtual double logit_cap() const { return 0; }
  /// Where the features lie, in words.
  virtual const char* space() const { return "encoder output"; }
  /// Whether the output of stage l begins with a decoder's states, Batch::decoded() of them, its encoder's
  /// output behind.
  virtual bool decodes(int l) const {
    static_cast<void>(l);
    return false;
  }
  /// Whether the places of Batch::decoder stand in the text's own line: in every stage's output, the
  /// embedding's among them, before the text's tokens. The first of them is the text's last token, whatever
  /// it is given.
  virtual bool answers_in_line() const { return false; }
  /// The token that a decoder begins with; −1 where there is no decoder. With Batch::decoder its features are
  /// [n, places, width()].
  virtual std::int64_t decoder_start() const { return -1; }
  /// The tokens that end what a decoder says.
  virtual std::vector<std::int64_t> decoder_ends() const { return {}; }
  /// Whether a checkpoint's tensor, for which the model has no use, is one that its architecture brings
  /// along: a constant, or a part of another tower.
  virtual bool passes_over(const std::string& tensor) const = 0;
  /// What a tensor that is passed over must hold, to bfloat16's digits; undefined where nothing is known.
  virtual at::Tensor constant(const std::string& tensor) const;
  /// A start at random, as Hugging Face initialises this architecture; the same on every platform for one
  /// seed.
  virtual State random_state(std::uint64_t seed) const = 0;
  /// Whether open_clip draws this architecture, too, as the tangent-space paper starts from it.
  virtual bool is_drawn_by_open_clip() const { return false; }
  /// A start at random as open_clip draws it. Throws std::logic_error where it does not.
  virtual State random_state_of_open_clip(std::uint64_t seed) const;

  /// Samples of a batch mix in training where a model has buffers: it normalises by the batch. Everywhere
  /// else (evaluation, tangents, Hessian and NTK products, penalties) stored statistics hold and samples do
  /// not mix.
  bool mixes_in_training() const { return buffers().size() > 0; }

  /// f(θ, x) [n, width()]; stages that have run already (Batch::from) are left out. Of the last stage only
  /// what is read of it is computed.
  template <class T>
  T encode(const Blocks<T>& p, const Given& x) const {
    return go_on(std::max(x.batch.from, 1), p, begin(p, x), x);
  }
  /// The inputs of a model without buffers.
  template <class T>
  T encode(const Blocks<T>& p, const Batch& x) const {
    return encode(p, Given{x});
  }
  /// The output of stage `last` (0: of the embedding), all of it.
  template <class T>
  T run_to(int last, const Blocks<T>& p, const Given& x) const {
    T h = begin(p, x);
    for (int l = std::max(x.batch.from, 1); l <= last; ++l) h = stage(l, p, std::move(h), x, Reach::whole);
    return h;
  }
  /// Stages `first` … L and the features, from the output `h` of stage first − 1, which may be of other
  /// parameters.
  template <class T>
  T go_on(int first, const Blocks<T>& p, T h, const Given& x) const {
    auto reach = Reach::whole;
    for (int l = first; l <= stages(); ++l) {
      if (l == stages()) reach = Reach::read;
      h = stage(l, p, std::move(h), x, reach);
    }
    return features(p, std::move(h), x, reach);
  }
  /// One step of encode(): the embedding (part 0), stage `part`, or the features (L + 1), of the last stage
  /// as much as `reach` says. `h` is what the part before gave. `p` needs the blocks of this stage alone,
  /// where no stage uses another's.
  template <class T>
  T part(int part, const Blocks<T>& p, T h, const Given& x, Reach reach) const {
    if (part == 0) return embed(p, x);
    if (part > stages()) return features(p, std::move(h), x, reach);
    return stage(part, p, std::move(h), x, part == stages() ? reach : Reach::whole);
  }
  /// As encode(); `visit(l, h)` sees all of every stage's output, l = 0 … L.
  template <class T>
  T visit(const Blocks<T>& p, const Given& x, const std::function<void(int, const T&)>& see) const {
    T h = begin(p, x);
    see(std::max(x.batch.from - 1, 0), h);
    for (int l = std::max(x.batch.from, 1); l <= stages(); ++l) {
      h = stage(l, p, std::move(h), x, Reach::whole);
      see(l, h);
    }
    return features(p, std::move(h), x, Reach::whole);
  }

 private:
  template <class T>
  T begin(const Blocks<T>& p, const Given& x) const {
    return x.batch.from > 0 ? autodiff::constant(x.batch.hidden, p.front()) : embed(p, x);
  }
};

/// Implements each kind's virtual functions by Net's templates embed_of, stage_of and features_of.
template <class Net, class... Kinds>
class Staged;
template <class Net>
class Staged<Net> : public Encoder {};
template <class Net, class T, class... Others>
class Staged<Net, T, Others...> : public Staged<Net, Others...> {
 public:
  using Staged<Net, Others...>::embed, Staged<Net, Others...>::stage, Staged<Net, Others...>::features;
  T embed(const Blocks<T>& p, const Given& x) const final { return net().embed_of(p, x); }
  T stage(int l, const Blocks<T>& p, T h, const Given& x, Reach reach) const final {
    return net().stage_of(l, p, std::move(h), x, reach);
  }
  T features(const Blocks<T>& p, T h, const Given& x, Reach reach) const final {
    return net().features_of(p, std::move(h), x, reach);
  }

 private:
  const Net& net() const { return static_cast<const Net&>(*this); }
};

/// What an architecture derives from: class Mine : public Net<Mine>.
template <class Mine>
using Net = Staged<Mine, at::Tensor, autodiff::Dual, autodiff::Recorded, autodiff::Counted>;

/// The first stage that uses a trained block (`trained`: a flag a block, empty for all): what lies below
/// gives the same output for every θ that training can reach.
int first_trained_stage(const autodiff::Layout& layout, const std::vector<bool>& trained);

/// A batch of n random samples of the right shape, sequences of `tokens` (0: of full length), the decoder
/// being given `decoded` tokens (0: its start).
Batch random_batch(const Encoder& encoder, std::int64_t n, std::int64_t tokens = 0, std::int64_t decoded = 0);

}  // namespace taugrid::models
