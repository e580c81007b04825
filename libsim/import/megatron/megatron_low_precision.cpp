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

/// What of a recipe's run is in 8 bits besides the products of linear layers, and what of these is
/// not.
/// Source: Megatron-LM, core/transformer/transformer_config.py, fp8_output_proj,
/// fp8_dot_product_attention, activation_func_fp8_input_store, first_last_layers_bf16, fp8_wgrad.
void read_parts(MegatronArguments& arguments, TrainingConfig const& config, LowPrecision& low) {
  auto const read = [&](std::string_view flag, bool& part, std::string const& wrong,
                        ModelledInstead const& instead) {
    if (!arguments.has(flag)) return;
    if (wrong.empty()) {
      part = true;
    } else {
      arguments.refuse(flag, wrong, instead);
    }
  };
  bool const is_mx = low.recipe == Recipe::mxfp8;
  read("fp8-output-proj", low.head,
       !is_mx                         ? "--fp8-recipe mxfp8"
       : config.model.tied_embeddings ? "--untie-embeddings-and-output-weights"
                                      : "",
       {"the head's product in 16 bits", "less time"});
  bool const attends_apart =
      config.model.attention != Attention::flash || config.parallel.context > 1;
  read("fp8-dot-product-attention", low.attention,
       attends_apart ? "flash attention without context parallelism" : "",
       {"core attention in 16 bits", "less time"});
  read("activation-func-fp8-input-store", low.activation_input, wrong_for_stored_input(config),
       {"the activation's input in 16 bits", "less memory"});
  read("no-fp8-wgrad", low.keep_high.wgrad, "", {});
  if (!arguments.has("first-last-layers-bf16")) return;
  if (low.recipe == Recipe::delayed) {
    arguments.refuse("first-last-layers-bf16", "a recipe other than delayed",
                     {"all layers in 8 bits", "more time"});
    return;
  }
  IntegerRange const layers{.smallest = 0, .largest = config.model.layers / 2};
  low.keep_high.first = arguments.integer("num-layers-at-start-in-bf16", layers).value_or(1);
  low.keep_high.last = arguments.integer("num-layers-at-end-in-bf16", layers).value_or(1);
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
  read_parts(arguments, config, low);
  return low;
}

LowPrecisionFlags low_precision_flags(LowPrecision const& low) {
  auto const* const found = std::ranges::find(recipe_names, low.recipe, &RecipeName::recipe);
  if (found == recipe_names.end()) return {};
  RecipeName const& row = *found;
  bool const is_hybrid = low.format == LowFormat::automatic ? find_recipe(low.recipe)->is_hybrid
                                                            : low.format == LowFormat::hybrid;
  std::string_view const narrow = &row.flags == &of_4_bits ? "e2m1" : "e4m3";
  LowPrecisionFlags flags{.values = {{row.flags.format, std::string{is_hybrid ? "hybrid" : narrow}},
                                     {row.flags.recipe, std::string{row.name}}}};
  if (low.parameters == LowOrHigh::low) {
    flags.switches.push_back(row.flags.param_gather);
    // Copies by blocks of rows and of columns have no buffer of their own that ranks could gather.
    if (low.recipe == Recipe::mxfp8) {
      flags.switches.push_back("reuse-grad-buf-for-mxfp8-param-ag");
    }
  }
  bool const keeps_layers = low.keep_high.first > 0 || low.keep_high.last > 0;
  for (auto const& [is_on, flag] : {std::pair{low.head, "fp8-output-proj"},
                                    {low.attention, "fp8-dot-product-attention"},
                                    {low.activation_input, "activation-func-fp8-input-store"},
                                    {low.keep_high.wgrad, "no-fp8-wgrad"},
                                    {keeps_layers, "first-last-layers-bf16"}}) {
    if (is_on) flags.switches.push_back(flag);
  }
  if (keeps_layers) {
    flags.values.emplace_back("num-layers-at-start-in-bf16", std::to_string(low.keep_high.first));
    flags.values.emplace_back("num-layers-at-end-in-bf16", std::to_string(low.keep_high.last));
  }
  return flags;
}

}  // namespace stagecraft
