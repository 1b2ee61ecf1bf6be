// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// model_probe FOLDER INPUTS.safetensors OUTPUTS.safetensors [WRITE_FOLDER]
// INPUTS: pixels [n,c,h,w]; or ids [n,tokens], lengths [n] and perhaps types [n,tokens] and mask [n]; and,
// where products are wanted: tau [P] (by our layout, from tau.NAME tensors), scale [1], labels [n] and how
// logits are read: head [classes, features], with bias [classes] where it is affine; or words [classes]; or
// the labels' whole sequences [classes, longest], with sequence_lengths [classes]; or each sample's own text,
// labels then being its tokens [n, longest], −100 behind the end; or choices [n, choices, longest] of each
// sample, with choice_lengths and choice_given [n, choices] and labels as of Readout::Column; of all three
// perhaps rows [vocabulary, features], which are frozen. All is computed in the type of `scale`, float32
// without it. What is said of the folder though it is read is printed.
#include <cstdio>

#include "kernels/autodiff/products.hpp"
#include "kernels/tangent/ntk.hpp"
#include "suite/error.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/models/label_tree.hpp"
#include "suite/models/readout.hpp"
#include "suite/store/safetensors.hpp"

using namespace taugrid;
using autodiff::Dual;
using autodiff::Recorded;

namespace {

/// A flat vector from tensors named PREFIX + parameter name, as checkpoints hold them.
at::Tensor gather(const autodiff::Layout& layout, const store::TensorFile& in, const std::string& prefix) {
  auto flat = at::zeros({layout.size()}, in.tensors.at("scale").options());
  const auto views = layout.parameter_views(flat);
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto& parameter = layout.parameters()[i];
    views[i].copy_(parameter.turned(in.tensors.at(prefix + parameter.name)));
  }
  return flat;
}

void scatter(const autodiff::Layout& layout, store::TensorFile& out, const std::string& prefix,
             const at::Tensor& flat) {
  const auto views = layout.parameter_views(flat.contiguous());
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto& parameter = layout.parameters()[i];
    out.tensors[prefix + parameter.name] = parameter.turned(views[i]).clone(at::MemoryFormat::Contiguous);
  }
}

models::LabelTree tree(const models::Encoder& encoder, const store::TensorFile& in) {
  return models::label_tree(in.tensors.at("sequences"), in.tensors.at("sequence_lengths"),
                            encoder.decoder_start());
}

bool of_choices(const store::TensorFile& in) { return in.tensors.count("choices") != 0; }

bool of_texts(const store::TensorFile& in) {
  const auto labels = in.tensors.find("labels");
  return !of_choices(in) && labels != in.tensors.end() && labels->second.dim() == 2;
}

void give_decoder(const models::Encoder& encoder, const store::TensorFile& in, models::Batch& batch) {
  const auto n = batch.size();
  if (of_choices(in)) {
    const auto start = encoder.answers_in_line()
                           ? batch.inputs.gather(1, (batch.lengths - 1).unsqueeze(1)).squeeze(1)
                           : at::full({n}, encoder.decoder_start(), at::kLong);
    const auto line = models::choice_line(in.tensors.at("choices"), in.tensors.at("choice_lengths"),
                                          in.tensors.at("choice_given"), start);
    batch.decoder = line.decoder;
    batch.sees = line.sees;
    batch.scored = line.scored;
  } else if (of_texts(in)) {
    batch.decoder = models::shifted_right(in.tensors.at("labels"), encoder.decoder_start());
    const auto places = batch.decoder.size(1);
    batch.sees = models::sees_before(places).expand({n, places, places});
  } else if (in.tensors.count("sequences") != 0) {
    const auto given = tree(encoder, in);
    const auto places = given.paths.nodes;
    batch.decoder = given.decoder.expand({n, places});
    batch.sees = given.sees.expand({n, places, places});
  }
}

models::Readout readout(const models::Encoder& encoder, const store::TensorFile& in) {
  using Kind = models::Readout::Kind;
  if (of_texts(in) || of_choices(in) || in.tensors.count("sequences") != 0) {
    models::Readout answers{.kind = Kind::text, .vocabulary = encoder.takes().vocabulary};
    answers.paths.nodes = in.tensors.at("labels").size(-1);
    if (of_choices(in)) {
      answers.kind = Kind::choices;
      answers.most = in.tensors.at("choices").size(1);
    } else if (!of_texts(in)) {
      auto given = tree(encoder, in);
      answers.kind = Kind::sequences;
      answers.paths = given.paths;
      answers.lengths = given.lengths;
    }
    if (in.tensors.count("rows") != 0) answers.weight = in.tensors.at("rows");
    return answers;
  }
  if (in.tensors.count("words") != 0) return {.kind = Kind::words, .words = in.tensors.at("words")};
  if (in.tensors.count("bias") != 0)
    return {.kind = Kind::affine, .weight = in.tensors.at("head"), .bias = in.tensors.at("bias")};
  return {.weight = in.tensors.at("head"), .scale = in.tensors.at("scale").item<double>()};
}

int probe(int argc, char** argv) {
  const auto checkpoint = models::read_checkpoint(argv[1]);
  for (const auto& note : checkpoint.notes) std::printf("%s\n", note.c_str());
  const auto& encoder = *checkpoint.encoder;
  const auto& layout = encoder.layout();
  const auto in = store::read_safetensors(argv[2]);
  const auto type = in.tensors.count("scale") != 0 ? in.tensors.at("scale").scalar_type() : at::kFloat;
  const auto theta = checkpoint.state.theta.to(type);
  const auto batch = [&]() -> models::Batch {
    if (in.tensors.count("pixels") != 0) return models::pictures(in.tensors.at("pixels"));
    models::Batch text{in.tensors.at("ids"), in.tensors.at("lengths"), {}};
    if (in.tensors.count("types") != 0) text.types = in.tensors.at("types");
    if (in.tensors.count("mask") != 0) text.mask = in.tensors.at("mask");
    give_decoder(encoder, in, text);
    return text;
  }();
  models::Given given{batch};
  const auto& statistics = checkpoint.state.buffers;
  if (statistics.defined()) given.buffers = encoder.buffers().views(statistics.to(type));
  store::TensorFile out;
  out.tensors["ends"] = at::tensor(encoder.decoder_ends(), at::kLong);
  {
    const at::NoGradGuard no_grad;
    out.tensors["encoded"] = encoder.encode(layout.views(theta), given);
  }
  if (in.tensors.count("labels") != 0) {
    const auto head = readout(encoder, in);
    const auto output = [&]<class T>(const std::vector<T>& p) {
      return head.output(encoder, p, encoder.encode(p, given), batch);
    };
    const auto labels = in.tensors.at("labels");
    const auto tau = gather(layout, in, "tau.");
    const auto dual = autodiff::jvp(
        layout, [&](const std::vector<Dual>& p) { return output(p); }, theta, tau);
    out.tensors["jvp"] = dual.tangent;
    out.tensors["logits"] = head.logits(dual.value).detach();
    out.tensors["correct"] = head.correct(out.tensors["logits"], labels).to(at::kLong);
    const auto loss = [&](const std::vector<at::Tensor>& p) {
      return head.loss(head.logits(output(p)), labels) / head.loss_items(labels);
    };
    const auto gradient = autodiff::gradient(layout, loss, theta);
    out.tensors["loss"] = at::full({1}, gradient.value);
    scatter(layout, out, "gradient.", gradient.gradient);
    scatter(layout, out, "hvp.", autodiff::HessianVectorProduct(layout, loss, theta)(tau));
    if (of_texts(in)) {
      store::write_safetensors(argv[3], out);
      return 0;
    }
    out.tensors["jvp_logits"] =
        autodiff::jvp(
            layout, [&](const std::vector<Dual>& p) { return head.logits(output(p)); }, theta, tau)
            .tangent;

    const auto logits = [&](const std::vector<Recorded>& p) { return head.logits(output(p)); };
    autodiff::Recording recording;
    autodiff::record(layout, logits, theta, recording);
    const auto per_sample =
        autodiff::per_sample_gradients(layout, recording, at::ones_like(recording.output).detach());
    out.tensors["per_sample_norm"] = per_sample.norm(2, 1);
    scatter(layout, out, "per_sample_sum.", per_sample.sum(0));
    const auto n = batch.size();
    out.tensors["gram"] = tangent::ntk_gram(layout, logits, theta, {0, 1}, {0, n});
    out.tensors["gram_factors"] = tangent::ntk_gram(layout, logits, theta, {0, 1}, {1, n - 1}, 64);
    if (encoder.mixes_in_training()) {  // as in training: by the batch's own statistics
      autodiff::BatchStatistics of_batch;
      given.statistics = &of_batch;
      const auto trained = autodiff::gradient(layout, loss, theta);
      out.tensors["training_loss"] = at::full({1}, trained.value);
      scatter(layout, out, "training_gradient.", trained.gradient);
      for (std::size_t i = 0; i < of_batch.moments.size(); ++i)
        out.tensors["found." + encoder.buffers().parameters()[i].name] = of_batch.moments[i].detach().clone();
    }
  }
  store::write_safetensors(argv[3], out);
  if (argc > 4) models::write_checkpoint(argv[4], encoder, checkpoint.state);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    return probe(argc, argv);
  } catch (const InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
