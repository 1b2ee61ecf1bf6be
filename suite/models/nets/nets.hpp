// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The architectures that the suite brings, see registry.hpp.
#pragma once

#include "suite/models/registry.hpp"

namespace taugrid::models {

/// CLIP's image tower (Hugging Face: CLIPVisionModelWithProjection), from its own config.json or a whole
/// CLIP's.
std::unique_ptr<Encoder> make_clip_vision(const nlohmann::json& config, const std::string& where,
                                          const std::filesystem::path& folder);

/// ConvNeXt (Hugging Face: ConvNextModel, ConvNextForImageClassification).
std::unique_ptr<Encoder> make_convnext(const nlohmann::json& config, const std::string& where,
                                       const std::filesystem::path& folder);

/// The image tower of a CLIP of open_clip whose trunk is timm's ConvNeXt.
std::unique_ptr<Encoder> make_open_clip(const nlohmann::json& config, const std::string& where,
                                        const std::filesystem::path& folder);

/// BERT and RoBERTa as encoders of texts, pooled as a sentence-transformers folder says.
std::unique_ptr<Encoder> make_bert(const nlohmann::json& config, const std::string& where,
                                   const std::filesystem::path& folder);

/// Decoder-only language models, read at a prompt's last token (Hugging Face: LlamaForCausalLM, and those of
/// Mistral, Qwen2, Qwen3, Gemma2 and Gemma3).
std::unique_ptr<Encoder> make_decoder(const nlohmann::json& config, const std::string& where,
                                      const std::filesystem::path& folder);

/// GPT-2, read as the other decoders (Hugging Face: GPT2LMHeadModel).
std::unique_ptr<Encoder> make_gpt2(const nlohmann::json& config, const std::string& where,
                                   const std::filesystem::path& folder);

/// A multilayer perceptron over a picture's numbers, with torchvision.ops.MLP's names.
std::unique_ptr<Encoder> make_mlp(const nlohmann::json& config, const std::string& where,
                                  const std::filesystem::path& folder);

/// Residual networks of basic blocks with batch norm, with torchvision's names.
std::unique_ptr<Encoder> make_resnet(const nlohmann::json& config, const std::string& where,
                                     const std::filesystem::path& folder);

/// T5 and Flan-T5 (Hugging Face: T5ForConditionalGeneration), the decoder's first generated step.
std::unique_ptr<Encoder> make_t5(const nlohmann::json& config, const std::string& where,
                                 const std::filesystem::path& folder);

/// Vision Transformers (Hugging Face: ViTModel, ViTForImageClassification).
std::unique_ptr<Encoder> make_vit(const nlohmann::json& config, const std::string& where,
                                  const std::filesystem::path& folder);

}  // namespace taugrid::models
