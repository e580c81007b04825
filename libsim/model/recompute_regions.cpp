#include "libsim/model/recompute_regions.hpp"

#include <algorithm>

namespace stagecraft {

std::span<RecomputeRegion const> recompute_regions() {
  using enum RecomputeRegion::Kind;
  static std::vector<RecomputeRegion> const regions{
      {"core_attention", "core_attn", "core", checkpoint, {"core_attention"}},
      {"mlp", "mlp", "mlp", checkpoint, {"mlp"}},
      {"moe",
       "moe",
       "moe",
       checkpoint,
       {"router", "dispatch", "experts", "expert_activation", "combine", "shared_experts"}},
      {"moe_act", "moe_act", "act", discarded_outputs, {"expert_activation"}},
      {"shared_experts", "shared_experts", "shared", checkpoint, {"shared_experts"}},
      {"layernorm", "layernorm", "ln", discarded_outputs, {"attention_norm", "mlp_norm"}},
      {"mla_up_projection", "mla_up_proj", "up", discarded_outputs, {"mla_up_projection"}},
  };
  return regions;
}

RecomputeRegion const* find_region(std::string_view name) {
  for (RecomputeRegion const& region : recompute_regions()) {
    if (region.name == name) return &region;
  }
  return nullptr;
}

void sort_regions(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end(), [](std::string const& a, std::string const& b) {
    return find_region(a) < find_region(b);
  });
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

std::string region_names(std::string_view RecomputeRegion::*name) {
  std::string text;
  for (RecomputeRegion const& region : recompute_regions()) {
    text += (text.empty() ? "" : ", ") + std::string{region.*name};
  }
  return text;
}

std::string regions_text(std::vector<std::string> const& regions,
                         std::string_view RecomputeRegion::*name) {
  std::string text;
  for (std::string const& region : regions) {
    text += (text.empty() ? "" : "+") + std::string{find_region(region)->*name};
  }
  return text;
}

std::string short_names_text(std::vector<std::string> regions) {
  sort_regions(regions);
  std::string text;
  for (std::string const& region : regions) {
    std::string const shown{find_region(region)->short_name};
    text += (text.empty() ? "" : ", ") + (shown == region ? region : shown + " " + region);
  }
  return text;
}

}  // namespace stagecraft
