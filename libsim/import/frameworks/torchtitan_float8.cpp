#include "libsim/import/frameworks/torchtitan_float8.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/model/low_precision.hpp"
#include "libsim/units/parse_number.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view converters_key = "model.converters";
constexpr std::string_view key_of_2024 = "float8.enable_float8_linear";

/// A recipe of torchao.float8 and what a run file calls it.
/// Source: torchao, float8/config.py, Float8LinearRecipeName.
struct Float8Recipe {
  std::string_view name;
  std::string_view recipe;
  bool keeps_high_wgrad = false;
};
constexpr std::array float8_recipes{Float8Recipe{"tensorwise", "current"},
                                    Float8Recipe{"rowwise", "rowwise"},
                                    Float8Recipe{"rowwise_with_gw_hp", "rowwise", true}};

/// A list, which a command line has as one text.
std::vector<std::string> list_of(FrameworkKeys& keys, std::string_view key) {
  std::vector<std::string> items;
  auto const node = keys.find(key);
  if (node && node->is_sequence()) {
    for (ConfigNode const& item : node->items()) items.push_back(item.text().value_or(""));
  } else if (node) {
    std::string const text = keys.text(key).value_or("");
    for (std::string_view const item : split_text(text, ",")) items.emplace_back(item);
  }
  return items;
}

/// The layer of `layers.I.`; nullopt if a filter is another one.
std::optional<std::int64_t> layer_of(std::string_view filter) {
  constexpr std::string_view start = "layers.";
  if (!filter.starts_with(start) || !filter.ends_with('.') || filter.size() <= start.size()) {
    return std::nullopt;
  }
  return parse_number<std::int64_t>(filter.substr(start.size(), filter.size() - start.size() - 1));
}

/// The first and last layers of a model of which a filter has all; nullopt if it has others.
std::optional<KeepHigh> kept_layers(std::set<std::int64_t> filtered, std::int64_t layers) {
  KeepHigh kept;
  while (filtered.erase(kept.first) > 0) ++kept.first;
  while (filtered.erase(layers - 1 - kept.last) > 0) ++kept.last;
  return filtered.empty() ? std::optional{kept} : std::nullopt;
}

/// Reads the layers that stay high. Reports what a run file cannot say of the filter: here the head
/// stays high, and all other linear layers do not.
void read_filter(FrameworkKeys& keys,
                 std::string const& key,
                 std::int64_t layers,
                 nlohmann::ordered_json& low) {
  bool has_head = false;
  bool has_others = false;
  std::set<std::int64_t> filtered;
  for (std::string const& filter : list_of(keys, key)) {
    auto const layer = layer_of(filter);
    if (layer) filtered.insert(*layer);
    has_head = has_head || filter == "output";
    has_others = has_others || (!layer && filter != "output");
  }
  // Source: torchtitan, float8.py of 2024, which filters `fqn != "output"`.
  if (!has_head && !keys.is_true(key_of_2024)) {
    keys.note(key + " without output: the head multiplies in 16 bits here, and in 8 there");
  }
  auto const kept = kept_layers(std::move(filtered), layers);
  if (has_others || !kept) {
    keys.leave_out(key, OmittedEffect::large, "either way",
                   "all linear layers but the head multiply in 8 bits");
    return;
  }
  if (kept->first > 0) low["keep_high"]["first"] = kept->first;
  if (kept->last > 0) low["keep_high"]["last"] = kept->last;
}

}  // namespace

void read_torchtitan_float8(FrameworkKeys& keys,
                            FrameworkOptions const& options,
                            bool has_units,
                            FrameworkRun& run,
                            nlohmann::ordered_json& sharding) {
  std::vector<std::string> converters = list_of(keys, converters_key);
  if (keys.is_true(key_of_2024)) converters.emplace_back("float8");
  if (converters.empty()) return;
  std::string const section =
      converters.front() == "quantize.linear.float8" ? converters.front() : "float8";
  bool const is_known = converters.size() == 1 && converters.front() == section;
  ModelConfig const model = model_of(run, options);
  if (!is_known || has_experts(model)) {
    keys.leave_out(converters_key, OmittedEffect::large, "less time",
                   "products are in model.precision");
    return;
  }
  std::string const recipe_key = section + ".recipe_name";
  std::string const name = keys.text(recipe_key).value_or("tensorwise");
  auto const row = std::ranges::find(float8_recipes, name, &Float8Recipe::name);
  if (row == float8_recipes.end()) {
    keys.report(recipe_key, "tensorwise, rowwise, rowwise_with_gw_hp");
    return;
  }
  nlohmann::ordered_json low{{"recipe", row->recipe}, {"implementation", "torchao"}};
  if (row->keeps_high_wgrad) low["keep_high"] = {{"wgrad", true}};
  read_filter(keys, section + ".filter_fqns", model.layers, low);
  run.sections["low_precision"] = low;
  std::string const gather_key = section + ".enable_fsdp_float8_all_gather";
  bool const gathers_low = keys.is_true(gather_key);
  if (gathers_low && keys.has(recipe_key)) {
    keys.report(gather_key, "false beside recipe_name, as torchtitan asserts");
  } else if (gathers_low && has_units) {
    sharding["parameter_dtype"] = "low";
    if (!keys.is_true(section + ".precompute_float8_dynamic_scale_for_fsdp")) {
      keys.note(section +
                ".precompute_float8_dynamic_scale_for_fsdp is false: an all-reduce of each "
                "weight's largest element before it is gathered is left out");
    }
  }
}

}  // namespace stagecraft
