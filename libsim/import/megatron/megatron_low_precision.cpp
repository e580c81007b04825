#include "libsim/import/megatron/megatron_low_precision.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/program/quantisation.hpp"
#include "libsim/training/low_precision/low_precision_reader.hpp"

namespace stagecraft {
namespace {

/// Recipes as --fp8-recipe has them; the first is its default.
/// Source: Megatron-LM, megatron/core/enums.py, Fp8Recipe.
constexpr std::array<std::pair<Recipe, std::string_view>, 4> recipe_names{
    {{Recipe::delayed, "delayed"},
     {Recipe::current, "tensorwise"},
     {Recipe::blockwise, "blockwise"},
     {Recipe::mxfp8, "mxfp8"}}};

}  // namespace

LowPrecision read_megatron_low_precision(MegatronArguments& arguments,
                                         TrainingConfig const& config) {
  // Former flags without a value stand for a format.
  std::string format = arguments.text("fp8-format").value_or("");
  std::string_view flag = "fp8-format";
  for (auto const& [former, meant] : {std::pair{"fp8-hybrid", "hybrid"}, {"fp8-e4m3", "e4m3"}}) {
    if (!format.empty() || !arguments.has(former)) continue;
    format = meant;
    flag = former;
  }
  if (format.empty()) {
    // Versions of Megatron-LM differ: some keep parameters in 8 bits then, others end.
    if (arguments.has("fp8-param-gather")) {
      arguments.refuse("fp8-param-gather", "--fp8-format beside it",
                       {"parameters in 16 bits", "less memory"});
    }
    for (std::string const idle : {"fp8-recipe", "reuse-grad-buf-for-mxfp8-param-ag"}) {
      if (arguments.has(idle)) arguments.note("--" + idle + " without --fp8-format: no effect");
    }
    return {};
  }
  std::string const name =
      arguments.text("fp8-recipe").value_or(std::string{recipe_names.front().second});
  auto const row =
      std::ranges::find(recipe_names, name, &std::pair<Recipe, std::string_view>::second);
  if (row == recipe_names.end()) {
    arguments.refuse("fp8-recipe", "delayed, tensorwise, blockwise, mxfp8",
                     {"matrix products in 16 bits", "less time"});
    return {};
  }
  bool const is_hybrid = format == "hybrid";
  if (!is_hybrid && format != "e4m3") {
    arguments.report(flag, "e4m3, hybrid");
    return {};
  }
  for (LayerRun const& run : layer_runs(config.model)) {
    if (unaligned_widths(config, run.kind, row->first).empty()) continue;
    arguments.refuse(flag,
                     "widths of which a rank has a multiple of " +
                         std::to_string(find_recipe(row->first)->alignment),
                     {"matrix products in 16 bits", "less time"});
    return {};
  }
  bool const has_overlap = config.parallel.shared_expert_overlap;
  if (has_overlap || !discarded_without_scale(config, row->first).empty()) {
    arguments.refuse(
        flag,
        has_overlap ? "a run without --moe-shared-expert-overlap"
                    : "a recipe other than delayed with --recompute-modules layernorm or moe_act",
        {"matrix products in 16 bits", "less time"});
    return {};
  }
  LowPrecision low{.recipe = row->first};
  if (is_hybrid != find_recipe(low.recipe)->is_hybrid) {
    low.format = is_hybrid ? LowFormat::hybrid : LowFormat::e4m3;
  }
  if (arguments.has("fp8-param-gather")) {
    std::string const wrong = wrong_for_low_parameters(config);
    if (wrong.empty()) {
      low.parameters = LowOrHigh::low;
    } else {
      arguments.refuse("fp8-param-gather", wrong,
                       {"parameters in 16 bits beside their copies in 8", "less time and memory"});
    }
  }
  return low;
}

LowPrecisionFlags low_precision_flags(LowPrecision const& low) {
  bool const is_hybrid = low.format == LowFormat::automatic ? find_recipe(low.recipe)->is_hybrid
                                                            : low.format == LowFormat::hybrid;
  auto const row =
      std::ranges::find(recipe_names, low.recipe, &std::pair<Recipe, std::string_view>::first);
  LowPrecisionFlags flags{.format = is_hybrid ? "hybrid" : "e4m3", .recipe = row->second};
  if (low.parameters == LowOrHigh::low) {
    flags.switches.push_back("fp8-param-gather");
    // Copies by blocks of rows and of columns have no buffer of their own that ranks could gather.
    if (low.recipe == Recipe::mxfp8) {
      flags.switches.push_back("reuse-grad-buf-for-mxfp8-param-ag");
    }
  }
  return flags;
}

}  // namespace stagecraft
