#include "libsim/import/frameworks/torchtitan_float8.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view converters_key = "model.converters";

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

/// What of the filter is not said: the head stays high, and all other linear layers do not.
void read_filter(FrameworkKeys& keys, std::string const& key) {
  std::vector<std::string> const filtered = list_of(keys, key);
  bool const has_head = std::ranges::find(filtered, "output") != filtered.end();
  if (!has_head) {
    keys.note(key + " without output: the head multiplies in 16 bits here, and in 8 there");
  }
  if (filtered.size() > (has_head ? 1U : 0U)) {
    keys.leave_out(key, OmittedEffect::large, "either way",
                   "all linear layers but the head multiply in 8 bits");
  }
}

}  // namespace

void read_torchtitan_float8(FrameworkKeys& keys,
                            FrameworkOptions const& options,
                            bool has_units,
                            FrameworkRun& run,
                            nlohmann::ordered_json& sharding) {
  std::vector<std::string> converters = list_of(keys, converters_key);
  if (keys.is_true("float8.enable_float8_linear")) converters.emplace_back("float8");
  if (converters.empty()) return;
  std::string const section =
      converters.front() == "quantize.linear.float8" ? converters.front() : "float8";
  bool const is_known = converters.size() == 1 && converters.front() == section;
  if (!is_known || has_experts(model_of(run, options))) {
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
  run.sections["low_precision"] = low;
  read_filter(keys, section + ".filter_fqns");
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
