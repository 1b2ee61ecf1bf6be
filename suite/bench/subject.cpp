// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/bench/subject.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "suite/models/registry.hpp"

namespace taugrid::bench {

std::shared_ptr<const Subject> subject_of(const Fixture& fixture) {
  auto subject = std::make_shared<Subject>();
  subject->encoder = &fixture.encoder();
  subject->start = fixture.start();
  subject->tau = fixture.tau(0);
  subject->pixels = fixture.pixels();
  subject->labels = fixture.labels();
  subject->head = fixture.head();
  return subject;
}

std::shared_ptr<const Subject> ntk_subject_of(const Fixture& fixture) {
  auto subject = std::make_shared<Subject>();
  subject->encoder = &fixture.ntk_encoder();
  subject->start.theta = fixture.ntk_theta();
  subject->pixels = fixture.pixels().narrow(0, 0, ntk_points);
  subject->head = fixture.head();
  return subject;
}

std::shared_ptr<const Subject> clip_b32(const Fixture& fixture, std::int64_t images) {
  const auto device = fixture.runtime().device();
  auto subject = std::make_shared<Subject>();
  subject->owned = models::make_encoder(R"({"model_type": "clip_vision_model"})", "ViT-B/32");
  subject->encoder = subject->owned.get();
  subject->start = subject->encoder->random_state(1).to(device);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(4);
  const auto weight = at::randn({classes, subject->encoder->width()}, generator);
  subject->head = models::Readout{.weight = weight / weight.norm(2, 1, true), .scale = 30.0}.to(device);
  subject->pixels = at::randn({images, 3, 224, 224}, generator).to(device);
  subject->labels = at::randint(0, classes, {images}, generator, at::kLong).to(device);
  return subject;
}

}  // namespace taugrid::bench
