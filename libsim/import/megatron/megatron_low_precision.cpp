#include "libsim/import/megatron/megatron_low_precision.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/program/quantisation.hpp"
#include "libsim/training/low_precision/low_precision_reader.hpp"

namespace stagecraft {
namespace {

/// The flags of one width.
struct WidthFlags {
  std::string_view format;
  std::string_view recipe;
  std::string_view param_gather;
};
constexpr WidthFlags of_8_bits{"fp8-format", "fp8-recipe", "fp8-param-gather"};
constexpr WidthFlags of_4_bits{"fp4-format", "fp4-recipe", "fp4-param-gather"};

struct RecipeName {
  Recipe recipe;
  WidthFlags const& flags;
  std::string_view name;  ///< as the recipe's flag has it
};
/// The first of a width is the default of its flag.
/// Source: Megatron-LM, megatron/core/enums.py, Fp8Recipe, Fp4Recipe.
constexpr std::array<RecipeName, 5> recipe_names{{{Recipe::delayed, of_8_bits, "delayed"},
                                                  {Recipe::current, of_8_bits, "tensorwise"},
                                                  {Recipe::blockwise, of_8_bits, "blockwise"},
                                                  {Recipe::mxfp8, of_8_bits, "mxfp8"},
                                                  {Recipe::nvfp4, of_4_bits, "nvfp4"}}};

/// The recipe that the flags of a width name; null, and left out, if it is not modelled.
RecipeName const* read_recipe(MegatronArguments& arguments, WidthFlags const& flags) {
  std::string accepted;
  std::optional<std::string> const given = arguments.text(flags.recipe);
  for (RecipeName const& row : recipe_names) {
    if (&row.flags != &flags) continue;
    if (!given || *given == row.name) return &row;
    accepted += (accepted.empty() ? "" : ", ") + std::string{row.name};
  }
  arguments.refuse(flags.recipe, accepted, {"matrix products in 16 bits", "less time"});
  return nullptr;
}

/// Flags of a recipe without a format, which alone turns it on.
void note_flags_without_format(MegatronArguments& arguments) {
  for (WidthFlags const& flags : {of_8_bits, of_4_bits}) {
    std::string const missing = "--" + std::string{flags.format};
    // Versions of Megatron-LM differ: some keep such parameters then, others end.
    if (arguments.has(flags.param_gather)) {
      arguments.refuse(flags.param_gather, missing + " beside it",
                       {"parameters in 16 bits", "less memory"});
    }
    if (arguments.has(flags.recipe)) {
      arguments.note("--" + std::string{flags.recipe} + " without " + missing + ": no effect");
    }
  }
  constexpr std::string_view reuse = "reuse-grad-buf-for-mxfp8-param-ag";
  if (arguments.has(reuse)) {
    arguments.note("--" + std::string{reuse} + " without --fp8-format: no effect");
  }
}

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
  std::optional<std::string> const of_fp4 = arguments.text(of_4_bits.format);
  if (of_fp4) {
    if (!format.empty()) {
      arguments.report(flag, "none of --fp8-format and --fp4-format if the other is given");
      return {};
    }
    flag = of_4_bits.format;
    format = *of_fp4;
  }
  if (format.empty()) {
    note_flags_without_format(arguments);
    return {};
  }
  WidthFlags const& flags = of_fp4 ? of_4_bits : of_8_bits;
  RecipeName const* const row = read_recipe(arguments, flags);
  if (row == nullptr) return {};
  bool const is_hybrid = format == "hybrid";
  if (of_fp4 ? format != "e2m1" : !is_hybrid && format != "e4m3") {
    arguments.report(flag, of_fp4 ? "e2m1" : "e4m3, hybrid");
    return {};
  }
  for (LayerRun const& run : layer_runs(config.model)) {
    if (unaligned_widths(config, run.kind, row->recipe).empty()) continue;
    arguments.refuse(flag,
                     "widths of which a rank has a multiple of " +
                         std::to_string(find_recipe(row->recipe)->alignment),
                     {"matrix products in 16 bits", "less time"});
    return {};
  }
  bool const has_overlap = config.parallel.shared_expert_overlap;
  if (has_overlap || !discarded_without_scale(config, row->recipe).empty()) {
    arguments.refuse(
        flag,
        has_overlap ? "a run without --moe-shared-expert-overlap"
                    : "a recipe other than delayed with --recompute-modules layernorm or moe_act",
        {"matrix products in 16 bits", "less time"});
    return {};
  }
  LowPrecision low{.recipe = row->recipe};
  if (is_hybrid != find_recipe(low.recipe)->is_hybrid) {
    low.format = is_hybrid ? LowFormat::hybrid : LowFormat::e4m3;
  }
  if (arguments.has(flags.param_gather)) {
    std::string const wrong = wrong_for_low_parameters(config);
    if (wrong.empty()) {
      low.parameters = LowOrHigh::low;
    } else {
      arguments.refuse(
          flags.param_gather, wrong,
          {"parameters in 16 bits beside their quantised copies", "less time and memory"});
    }
  }
  return low;
}

LowPrecisionFlags low_precision_flags(LowPrecision const& low) {
  bool const is_hybrid = low.format == LowFormat::automatic ? find_recipe(low.recipe)->is_hybrid
                                                            : low.format == LowFormat::hybrid;
  RecipeName const& row = *std::ranges::find(recipe_names, low.recipe, &RecipeName::recipe);
  std::string_view const narrow = &row.flags == &of_4_bits ? "e2m1" : "e4m3";
  LowPrecisionFlags flags{
      .values = {{row.flags.format, is_hybrid ? "hybrid" : narrow}, {row.flags.recipe, row.name}}};
  if (low.parameters == LowOrHigh::low) {
    flags.switches.push_back(row.flags.param_gather);
    // Copies by blocks of rows and of columns have no buffer of their own that ranks could gather.
    if (low.recipe == Recipe::mxfp8) {
      flags.switches.push_back("reuse-grad-buf-for-mxfp8-param-ag");
    }
  }
  return flags;
}

}  // namespace stagecraft
