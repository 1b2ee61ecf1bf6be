// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/study.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "kernels/autodiff/products.hpp"
#include "suite/comm/device.hpp"
#include "suite/error.hpp"
#include "suite/experiments/regime.hpp"

namespace taugrid::experiments {
namespace {

constexpr std::size_t vector_memory = std::size_t{4} << 30;  // bytes of task vectors kept

const data::Split& split_of(const data::Task& task, Split split) {
  return split == Split::train ? task.train : split == Split::validation ? task.validation : task.test;
}

}  // namespace

std::uint64_t seed_for(std::uint64_t seed, const std::string& purpose) {
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ (seed * 0x9e3779b97f4a7c15ULL);
  for (const unsigned char c : purpose) hash = (hash ^ c) * 0x100000001b3ULL;
  return hash >> 1;  // at::randperm's generator takes it as it is; the sign bit stays free
}

Study::Study(config::Config& config, std::vector<Input>* inputs, at::Device device) : device_(device) {
  auto run = config.section("run");
  settings_.name = run.word("name", "taugrid");
  settings_.seed = static_cast<std::uint64_t>(run.integer("seed", 0, {0, 1e15}));
  settings_.threads = static_cast<int>(run.integer("threads_per_rank", 1, {1, 1024}));
  settings_.ranks_per_unit = static_cast<int>(run.integer("ranks_per_unit", 1, {1, 1e6}));

  settings_.precision = run.word("precision", "float32", {"float32", "tf32", "bf16"});
  // The host's own reduced precisions are left alone: its numbers are the same everywhere.
  if (device_.is_cuda()) at::globalContext().setAllowTF32CuBLAS(settings_.precision == "tf32");

  auto model = config.section("model");
  settings_.model = model.required_path("path");
  settings_.random_init = model.word("init", "pretrained", {"pretrained", "random"}) == "random";

  auto data = config.section("data");
  settings_.data = data.required_path("folder");
  settings_.tasks = data.required_words("tasks");
  if (settings_.tasks.empty()) data.refuse("tasks", "names no task");
  settings_.evaluation_points = data.integer("evaluation_points", 256, {1, 1e9});
  settings_.evaluation_batch = data.integer("evaluation_batch", 128, {1, 1e6});

  settings_.control = data.word("control", "");
  if (std::find(settings_.tasks.begin(), settings_.tasks.end(), settings_.control) != settings_.tasks.end())
    data.refuse("control", "\"" + settings_.control + "\" is also one of the tasks");

  if (config.has("finetune")) read_regimes(config.section("finetune"), inputs);

  read_model(inputs);
  theta0_name_ = settings_.random_init ? "random" : "pretrained";
  if (inputs == nullptr) fingerprint_ = models::fingerprint(theta0());
  check_given(inputs);
  if (checkpoint_.theta.defined()) checkpoint_.theta = checkpoint_.theta.to(device_);

  for (const auto& name : settings_.tasks) read_task(name, inputs);
  if (has_control()) read_task(settings_.control, inputs);
  for (const auto& task : tasks_) {
    heads_.push_back({task->head.to(device_), task->logit_scale});
    channels_.emplace_back(at::tensor(task->mean, at::kFloat).to(device_),
                           at::tensor(task->std, at::kFloat).to(device_));
  }
  for (std::size_t i = 0; i < tasks(); ++i) {
    for (std::size_t j = i + 1; j < tasks(); ++j) pairs_.emplace_back(i, j);
  }
}

at::Tensor Study::random_theta() const {
  return encoder().random_theta(seed_for(settings_.seed, "theta0")).to(device_);
}

at::Tensor Study::sums(at::IntArrayRef shape) const {
  return at::zeros(shape, at::TensorOptions(at::kDouble).device(device_));
}

void Study::read_regimes(config::Section section, std::vector<Input>* inputs) {
  settings_.regimes = section.words("regimes", {"standard", "linear"}, regime_names());
  for (const auto& name : settings_.regimes)
    (regime(name).joint ? joint_regimes_ : vector_regimes_).push_back(name);

  // Whose task vectors are wanted besides. A regime that is given needs none to start from.
  const auto holds = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  std::vector<std::string> makers;
  for (const auto& name : regime_names()) {
    if (!regime(name).joint && regime(name).source.empty()) makers.push_back(name);
  }
  if (section.has("given")) given_regimes_ = section.required_words("given", makers);
  std::vector<std::string> needed;
  for (const auto& name : settings_.regimes) {
    const auto& r = regime(name);
    const auto& other = r.source.empty() ? r.start : r.source;
    if (other.empty() || holds(settings_.regimes, other) || holds(given_regimes_, name)) continue;
    if (holds(given_regimes_, other) || holds(needed, other)) continue;
    if (!section.has("checkpoints")) {
      auto list = "\"" + other + "\"";
      for (const auto& each : settings_.regimes) list += ", \"" + each + "\"";
      section.refuse("regimes", name + " needs the task vectors of " + other +
                                    ": train them too, with --set '" + "finetune.regimes=[" + list +
                                    "]', or name those of another run with finetune.checkpoints = "
                                    "\"RUN/checkpoints\"");
    }
    needed.push_back(other);
  }
  read_given(section, needed, inputs);
}

// What is trained and what is given is said by the configuration alone, never by what lies in a folder today.
void Study::read_given(config::Section section, std::vector<std::string> needed, std::vector<Input>* inputs) {
  settings_.checkpoints = section.path("checkpoints", {});
  if (settings_.checkpoints.empty()) {
    if (section.has("given")) section.refuse("given", "has no folder; name it in finetune.checkpoints");
    return;
  }
  needed.insert(needed.begin(), given_regimes_.begin(), given_regimes_.end());
  given_regimes_ = needed;
  section.words("given", given_regimes_);  // into the resolved configuration
  if (given_regimes_.empty())
    section.refuse("checkpoints", "no regime is taken from there; name those in finetune.given");
  for (const auto& name : given_regimes_) {
    Input input{name, settings_.checkpoints / name, "found"};
    for (const auto& task : settings_.tasks) {
      const auto file = input.path / task / "model.safetensors";
      if (std::filesystem::exists(file)) continue;
      if (inputs == nullptr) section.refuse("checkpoints", file.string() + " is not there");
      input.missing = true;
      input.state = file.string() + " is not there";
      break;
    }
    if (inputs != nullptr) inputs->push_back(std::move(input));
  }
}

// Converted checkpoints come with the model they started from; our own name it in their headers.
void Study::check_given(std::vector<Input>* inputs) const {
  const auto pretrained = settings_.checkpoints / "pretrained";
  if (given_regimes_.empty() || inputs != nullptr ||
      !std::filesystem::exists(pretrained / "model.safetensors"))
    return;
  const auto start = models::read_checkpoint(pretrained).theta;
  if (start.sizes() != theta0().sizes() || models::fingerprint(start) != fingerprint_) {
    throw InputError(pretrained.string() + ": is not the model " + settings_.model.string() +
                     ", so its fine-tuned models make no task vectors of it");
  }
}

void Study::read_model(std::vector<Input>* inputs) {
  Input input{"model", settings_.model, settings_.random_init ? "architecture found" : "found"};
  try {
    checkpoint_ = settings_.random_init ? models::read_architecture(settings_.model)
                                        : models::read_checkpoint(settings_.model);
    if (settings_.random_init && inputs == nullptr) checkpoint_.theta = random_theta();
  } catch (const InputError& error) {
    if (inputs == nullptr) throw;
    input.missing = true;
    input.state = error.what();
    // Hugging Face's own defaults: the shape of CLIP ViT-B/32.
    checkpoint_.encoder = models::make_encoder(R"({"model_type": "clip_vision_model"})", "stand-in");
    stand_in_ = true;
    input.state += "; work is counted as for CLIP ViT-B/32";
  }
  if (inputs != nullptr) inputs->push_back(std::move(input));
}

void Study::read_task(const std::string& name, std::vector<Input>* inputs) {
  Input input{name, settings_.data / (name + ".h5"), "found"};
  try {
    auto task = data::read_task(input.path);
    const auto& in = task.test.inputs;
    const auto side = encoder().image_size();
    if (!stand_in_ && (task.modality != "image" || in.size(1) != side || in.size(2) != side)) {
      throw InputError(input.path.string() + ": inputs are not images of " + std::to_string(side) +
                       " pixels a side, which the model " + settings_.model.string() + " expects");
    }
    if (!stand_in_ && task.head.size(1) != encoder().features()) {
      throw InputError(input.path.string() + ": /head/weight has rows of " +
                       std::to_string(task.head.size(1)) + " numbers; the model's output has " +
                       std::to_string(encoder().features()));
    }
    input.state = "found: " + std::to_string(task.head.size(0)) + " classes, " +
                  std::to_string(task.train.labels.size(0)) + " + " +
                  std::to_string(task.validation.labels.size(0)) + " + " +
                  std::to_string(task.test.labels.size(0)) + " images";
    tasks_.push_back(std::make_unique<data::Task>(std::move(task)));
  } catch (const InputError& error) {
    if (inputs == nullptr) throw;
    input.missing = true;
    input.state = error.what();
    data::Task task;
    task.head = at::zeros({10, encoder().features()});
    for (auto* split : {&task.train, &task.validation, &task.test})
      split->labels = at::zeros({1}, at::kLong).expand({1000000});
    tasks_.push_back(std::make_unique<data::Task>(std::move(task)));
  }
  if (inputs != nullptr) inputs->push_back(std::move(input));
}

std::string Study::pair_name(std::size_t p) const {
  return task_name(pairs_[p].first) + "+" + task_name(pairs_[p].second);
}

const char* split_name(Split split) {
  return split == Split::train ? "train" : split == Split::validation ? "validation" : "test";
}

at::Tensor Study::sample_rows(std::size_t t, Split split, std::int64_t n) const {
  const auto rows = split_of(task(t), split).labels.size(0);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(
      seed_for(settings_.seed, std::string("sample/") + split_name(split) + "/" + task_name(t)));
  return at::randperm(rows, generator, at::kLong).narrow(0, 0, sample_size(t, split, n)).clone();
}

std::int64_t Study::sample_size(std::size_t t, Split split, std::int64_t n) const {
  return std::min(n, split_of(task(t), split).labels.size(0));
}

// On a GPU, all that evaluation needs, as far as a fifth of its memory holds it.
std::size_t Study::kept_samples() const {
  return device_.is_cuda() ? static_cast<std::size_t>(comm::gpu_memory() / 5) : std::size_t{2} << 30;
}

Sample Study::sample(std::size_t t, Split split, std::int64_t n) const {
  n = sample_size(t, split, n);
  for (auto it = samples_.begin(); it != samples_.end(); ++it) {
    const auto& [of, kind, kept] = *it;
    if (of != t || kind != split || kept.index.size(0) < n) continue;
    samples_.splice(samples_.begin(), samples_, it);
    // The first n of a larger one share its memory.
    return {kept.index.narrow(0, 0, n), kept.pixels.narrow(0, 0, n), kept.labels.narrow(0, 0, n)};
  }
  samples_.remove_if([&](const auto& kept) { return std::get<0>(kept) == t && std::get<1>(kept) == split; });
  Sample sample;
  sample.index = sample_rows(t, split, n);
  sample.pixels = pixels(t, split, sample.index);
  sample.labels = labels(t, split, sample.index);
  samples_.emplace_front(t, split, sample);
  std::size_t bytes = 0;
  const auto most = kept_samples();
  for (auto it = samples_.begin(); it != samples_.end(); ++it) {
    bytes += std::get<2>(*it).pixels.nbytes();
    if (bytes <= most || it == samples_.begin()) continue;
    samples_.erase(it, samples_.end());
    break;
  }
  return sample;
}

at::Tensor Study::pixels(std::size_t t, Split split, const at::Tensor& rows) const {
  return data::normalised_images(data::rows_on(device_, split_of(task(t), split).inputs, rows),
                                 channels_[t].first, channels_[t].second);
}

at::Tensor Study::labels(std::size_t t, Split split, const at::Tensor& rows) const {
  return data::rows_on(device_, split_of(task(t), split).labels, rows);
}

at::Tensor Study::sample_index(Split split, std::int64_t n) const {
  auto all = at::full({static_cast<std::int64_t>(tasks()), n}, -1, at::kLong);
  for (std::size_t t = 0; t < tasks(); ++t) {
    const auto index = sample_rows(t, split, n);
    all[static_cast<std::int64_t>(t)].narrow(0, 0, index.size(0)).copy_(index);
  }
  return all;
}

std::vector<std::string> Study::linear_regimes() const {
  std::vector<std::string> names;
  for (const auto& name : regimes()) {
    if (regime(name).linear) names.push_back(name);
  }
  return names;
}

bool Study::trains(const std::string& name) const {
  return regime(name).source.empty() &&
         std::find(given_regimes_.begin(), given_regimes_.end(), name) == given_regimes_.end();
}

std::vector<std::string> Study::vector_needs(const std::string& name, std::size_t t) const {
  const auto& source = regime(name).source;
  if (!source.empty()) return vector_needs(source, t);
  if (!trains(name)) return {};
  return {"finetune/" + name + "/" + task_name(t)};
}

std::vector<std::string> Study::vector_needs(const std::string& name,
                                             const std::vector<std::size_t>& tasks) const {
  std::vector<std::string> keys;
  for (const auto t : tasks) {
    for (const auto& key : vector_needs(name, t)) keys.push_back(key);
  }
  return keys;
}

std::vector<std::string> Study::start_needs(const std::string& name, std::size_t t) const {
  const auto& start = regime(name).start;
  return start.empty() ? std::vector<std::string>{} : vector_needs(start, t);
}

std::vector<std::size_t> Study::all_tasks() const {
  std::vector<std::size_t> all(tasks());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::filesystem::path Study::checkpoint_folder(const std::string& name, std::size_t t) const {
  const auto& source = regime(name).source;
  if (!source.empty()) return checkpoint_folder(source, t);
  return (trains(name) ? folder_ / "checkpoints" : settings_.checkpoints) / name / task_name(t);
}

std::filesystem::path Study::joint_folder(const std::string& name) const {
  return folder_ / "checkpoints" / name / "joint";
}

at::Tensor Study::task_vector(const std::string& regime, std::size_t t) const {
  const auto key = checkpoint_folder(regime, t).string();
  for (auto it = vectors_.begin(); it != vectors_.end(); ++it) {
    if (it->first == key) {
      vectors_.splice(vectors_.begin(), vectors_, it);
      return it->second;
    }
  }
  auto tuned = models::read_checkpoint(checkpoint_folder(regime, t));
  if (tuned.theta.size(0) != layout().size()) {
    throw InputError(checkpoint_folder(regime, t).string() + ": holds another architecture than " +
                     settings_.model.string());
  }
  if (!tuned.start.empty() && tuned.start != fingerprint_) {
    throw InputError(checkpoint_folder(regime, t).string() + ": was trained from another θ0 (" + tuned.start +
                     ") than " + settings_.model.string() + " (" + fingerprint_ + ")");
  }
  vectors_.emplace_front(key, tuned.theta.to(device_).sub_(theta0()));
  while (vectors_.size() > kept_vectors()) vectors_.pop_back();
  return vectors_.front().second;
}

std::size_t Study::kept_vectors() const {
  return std::max<std::size_t>(2,
                               vector_memory / (sizeof(float) * static_cast<std::size_t>(layout().size())));
}

std::vector<at::Tensor> Study::task_vectors(const std::string& regime) const {
  std::vector<at::Tensor> all;
  for (std::size_t t = 0; t < tasks(); ++t) all.push_back(task_vector(regime, t));
  return all;
}

at::Tensor Study::task_vector_sum(const std::string& regime, const std::vector<std::size_t>& tasks) const {
  auto key = regime;
  for (const auto t : tasks) key += "/" + task_name(t);
  if (sum_.first != key) {
    auto sum = at::zeros_like(theta0());
    for (const auto t : tasks) sum.add_(task_vector(regime, t));
    sum_ = {key, sum};
  }
  return sum_.second;
}

template <class F>
at::Tensor Study::by_shards(const comm::Communicator& group, const at::Tensor& pixels, const char* what,
                            F&& f) const {
  const at::NoGradGuard no_grad;
  const auto n = pixels.size(0);
  const auto share = group.share_of(n);
  // As many rows on each rank.
  auto mine = at::zeros({comm::rows_a_rank(n, group.size()), encoder().features()}, theta0().options());
  for (auto i = share.begin; i < share.end(); i += settings_.evaluation_batch) {
    const auto m = std::min(settings_.evaluation_batch, share.end() - i);
    mine.narrow(0, i - share.begin, m).copy_(f(pixels.narrow(0, i, m)));
  }
  if (group.size() == 1) return mine;
  return group.all_gather(mine, what).narrow(0, 0, n).clone();
}

at::Tensor Study::encode(const comm::Communicator& group, const at::Tensor& theta,
                         const at::Tensor& pixels) const {
  const auto blocks = layout().views(theta.to(compute_type()));
  return by_shards(group, pixels, "gathering features",
                   [&](const at::Tensor& x) { return encoder().encode(blocks, x.to(compute_type())); });
}

at::Tensor Study::tangent(const comm::Communicator& group, const at::Tensor& tau,
                          const at::Tensor& pixels) const {
  const auto start = theta0().to(compute_type()), direction = tau.to(compute_type());
  return by_shards(group, pixels, "gathering tangents", [&](const at::Tensor& x) {
    const auto input = x.to(compute_type());
    return autodiff::jvp(
               layout(), [&](const std::vector<autodiff::Dual>& p) { return encoder().encode(p, input); },
               start, direction)
        .tangent;
  });
}

}  // namespace taugrid::experiments
