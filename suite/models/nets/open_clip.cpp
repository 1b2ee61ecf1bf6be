// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// CLIPs of open_clip, their image tower where its trunk is timm's ConvNeXt. transformers has no class for
// them: config.json is open_clip's own model_cfg beside a model_type.
#include <map>
#include <nlohmann/json.hpp>

#include "suite/models/nets/convnext.hpp"
#include "suite/models/nets/nets.hpp"

namespace taugrid::models {
namespace {

/// timm's models by name; `depths`, `dims` and others of its arguments stand in a name's place.
void read_trunk(const Keys& keys, const nlohmann::json& vision, ConvNextConfig& config) {
  struct Size {
    std::vector<std::int64_t> depths, widths;
    double epsilon = 1e-6;
  };
  static const std::map<std::string, Size> sizes = {
      {"convnext_tiny", {{3, 3, 9, 3}, {96, 192, 384, 768}}},
      {"convnext_small", {{3, 3, 27, 3}, {96, 192, 384, 768}}},
      {"convnext_base", {{3, 3, 27, 3}, {128, 256, 512, 1024}}},
      {"convnext_large", {{3, 3, 27, 3}, {192, 384, 768, 1536}}},
      {"convnext_xlarge", {{3, 3, 27, 3}, {256, 512, 1024, 2048}}},
      {"convnext_xxlarge", {{3, 4, 30, 3}, {384, 768, 1536, 3072}, 1e-5}}};
  Size size;
  const auto name = keys.word("timm_model_name", "");
  if (const auto known = sizes.find(name); known != sizes.end()) {
    size = known->second;
  } else if (!name.empty() || !vision.contains("depths") || !vision.contains("dims")) {
    std::string all;
    for (const auto& [each, of] : sizes) all += (all.empty() ? "" : ", ") + each;
    keys.refuse("timm_model_name is '" + name + "'; expected one of " + all +
                ", or depths and dims without it");
  }
  config.depths = keys.integers("depths", size.depths, 16, 1000);
  config.widths = keys.integers("dims", size.widths, 16);
  config.epsilon = config.inner_epsilon = keys.real("norm_eps", size.epsilon);
  config.patch = keys.integer("patch_size", config.patch);
  config.channels = keys.integer("in_chans", config.channels);
  config.layer_scale = keys.real("ls_init_value", config.layer_scale);
}

}  // namespace

std::unique_ptr<Encoder> make_open_clip(const nlohmann::json& json, const std::string& where,
                                        const std::filesystem::path&) {
  const Keys keys(json, where);
  if (!json.contains("vision_cfg") || !json["vision_cfg"].is_object())
    keys.refuse("vision_cfg is missing; expected an object");
  if (!json.contains("embed_dim")) keys.refuse("embed_dim is missing; expected an integer");
  const auto& vision = json["vision_cfg"];
  const Keys tower(vision, where + ": vision_cfg");
  ConvNextConfig config;
  config.wrapping = {"ConvNextWithProjection", "visual.trunk."};
  config.names = {"stem.0", "stem.1",  "stages.", "downsample.", "blocks.",  "conv_dw",
                  "norm",   "mlp.fc1", "mlp.fc2", "gamma",       "head.norm"};
  read_trunk(tower, vision, config);
  config.image = tower.integer("image_size", config.image, 10'000);
  config.projected = keys.integer("embed_dim", 0);
  const auto projection = tower.word("timm_proj", "linear");
  if (projection != "linear" && projection != "mlp")
    tower.refuse("timm_proj is '" + projection + "'; expected linear or mlp");
  config.projection =
      projection == "linear" ? ConvNextConfig::Projection::linear : ConvNextConfig::Projection::mlp;
  config.projection_bias = tower.flag("timm_proj_bias", false);
  const auto pool = tower.word("timm_pool", "avg");
  if (!pool.empty() && pool != "avg") tower.refuse("timm_pool is '" + pool + "'; expected avg or nothing");
  check_groups(tower, config, "dims");
  return convnext_of(std::move(config), json.dump(2) + "\n");
}

}  // namespace taugrid::models
