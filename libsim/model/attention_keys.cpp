#include "libsim/model/attention_keys.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/model/model_keys.hpp"

namespace stagecraft {
namespace {

std::string const because = ", as model.latent_attention is given";

/// Which of each `period` layers attend fully.
struct WindowPeriod {
  std::int64_t period = 1;
  std::vector<std::int64_t> full;

  bool is_full(std::int64_t layer) const {
    return std::find(full.begin(), full.end(), layer % period) != full.end();
  }
};

WindowPeriod read_period(ConfigNode const& window) {
  WindowPeriod result;
  ConfigNode const period = window.child("period");
  if (period.exists()) result.period = period.integer({1, 100'000}).value_or(1);
  ConfigNode const full = window.child("full");
  if (!full.exists()) return result;
  if (!full.is_sequence()) {
    full.report("a list of layers below period (" + std::to_string(result.period) + ")");
    return result;
  }
  for (ConfigNode const& item : full.items()) {
    if (auto const layer = item.integer({0, result.period - 1})) result.full.push_back(*layer);
  }
  return result;
}

/// Reports `key` of `section`, where it is given, or whose default it is.
void refuse(ConfigNode const& section,
            std::string_view key,
            std::string_view value,
            std::string accepted) {
  ConfigNode const node = section.child(key);
  if (!node.is_sound()) return;
  if (node.exists()) return node.report(std::move(accepted));
  node.report("'" + std::string{value} + "' (the default)", std::move(accepted));
}

}  // namespace

void read_field(ConfigNode const& node, Cap<double> cap) {
  if (node.reads("off")) {
    cap.value = 0;
  } else if (auto const value = node.number({1e-3, 1e9})) {
    cap.value = *value;
  }
}

nlohmann::ordered_json to_json(Cap<double const> cap) {
  if (cap.value > 0) return cap.value;
  return "off";
}

void read_field(ConfigNode const& node, Window<std::int64_t> window) {
  if (node.reads("off")) {
    window.size = 0;
    return;
  }
  if (!node.is_map()) return node.report("off, or a map with the keys size, period and full");
  SectionReader keys{node};
  visit_keys(keys, window);
  keys.finish();
}

nlohmann::ordered_json to_json(Window<std::int64_t const> window) {
  if (window.size == 0) return "off";
  return {{"size", window.size}};
}

void read_field(ConfigNode const& node, LatentAttention& latents) {
  if (node.reads("off")) return;
  SectionReader keys{node};
  visit_keys(keys, latents);
  keys.finish();
}

nlohmann::ordered_json to_json(LatentAttention const& latents) {
  if (latents.key_rank == 0) return "off";
  SectionWriter keys;
  visit_keys(keys, latents);
  return keys.map();
}

void refuse_period(ConfigNode const& window) {
  for (std::string_view const key : {"period", "full"}) {
    ConfigNode const node = window.child(key);
    if (node.exists()) node.report_key(node.found(), "this key only in model.window");
  }
}

void apply_window_period(ModelConfig& model, ConfigNode const& section) {
  ConfigNode const window = section.child("window");
  if (!window.is_map()) return;
  WindowPeriod const layers = read_period(window);
  bool const is_sound = window.is_sound() && section.child("pattern").is_sound() &&
                        section.child("layers").is_sound();
  if (layers.full.empty() || !is_sound) return;
  std::int64_t const of_pattern = model.pattern.empty() ? 1 : pattern_layers(model);
  std::int64_t const both = std::lcm(of_pattern, layers.period);
  // A period that ends within itself is written to the last layer.
  std::int64_t const length = model.layers % both == 0 ? both : model.layers;
  std::vector<LayerRun> pattern;
  for (std::int64_t i = 0; i < length; ++i) {
    LayerConfig kind = written_kind(model, i);
    if (layers.is_full(i)) kind.window = 0;
    if (!pattern.empty() && pattern.back().kind == kind) {
      ++pattern.back().count;
    } else {
      pattern.push_back({.kind = kind, .count = 1});
    }
  }
  model.pattern = pattern;
  LayerConfig const& own = model;
  if (pattern.size() == 1 && pattern.front().kind == own) model.pattern.clear();
}

void settle_latents(ModelConfig& model, ConfigNode const& section) {
  if (!has_latents(model) || !section.child("latent_attention").is_sound()) return;
  LatentAttention const& latents = model.latent_attention;
  std::int64_t const head = latents.nope_dim + latents.rope_dim;
  if (model.head_dim != 0 && model.head_dim != head) {
    refuse(section, "head_dim", {}, std::to_string(head) + " (nope_dim + rope_dim)" + because);
  }
  model.head_dim = head;
  if (model.kv_heads != 0 && model.kv_heads != model.heads) {
    refuse(section, "kv_heads", {}, "model.heads (" + std::to_string(model.heads) + ")" + because);
  }
}

void check_latents(ModelConfig const& model, ConfigNode const& section) {
  if (!has_latents(model) || !section.child("latent_attention").is_sound()) return;
  if (model.latent_attention.rope_dim % 2 != 0) {
    section.child("latent_attention").child("rope_dim").report("an even number");
  }
  if (model.positions != Positions::rotary) {
    refuse(section, "positions", name_of(model.positions), "rotary" + because);
  }
  if (model.biases) refuse(section, "biases", "true", "false" + because);
  if (model.qkv_bias) refuse(section, "qkv_bias", "true", "false" + because);
  if (model.qk_norm != QkNorm::none) {
    refuse(section, "qk_norm", name_of(model.qk_norm), "none" + because);
  }
  for (LayerRun const& run : model.pattern) {
    if (!run.kind.biases && !run.kind.qkv_bias && run.kind.qk_norm == QkNorm::none) continue;
    section.child("pattern").report("a kind with biases, or norms of queries and keys",
                                    "kinds without biases and without qk_norm" + because);
    break;
  }
}

void settle_sinks(LayerConfig const& layer, ConfigNode const& section) {
  ConfigNode const sinks = section.child("sinks");
  if (!layer.sinks || layer.attention == Attention::flash || !sinks.is_sound()) return;
  if (sinks.exists()) return sinks.report("false, or model.attention flash");
  refuse(section, "attention", name_of(layer.attention), "flash, as the layers have sinks");
}

void settle_norms(LayerConfig const& layer, ConfigNode const& section) {
  if (layer.norms == NormPlaces::pre || layer.residual == Residual::sequential) return;
  ConfigNode const norms = section.child("norms");
  if (norms.exists() && norms.is_sound() && section.child("residual").is_sound()) {
    norms.report("pre, as model.residual is " + std::string{name_of(layer.residual)});
  } else {
    refuse(section, "residual", name_of(layer.residual),
           "sequential, as model.norms is " + std::string{name_of(layer.norms)});
  }
}

}  // namespace stagecraft
