#include "libsim/import/megatron/megatron_context.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "libsim/import/number_ranges.hpp"
#include "libsim/training/context_checks.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view of_megatron = "context-parallel-size";
constexpr std::string_view of_deepspeed = "ds-sequence-parallel-size";
constexpr std::string_view sizes_flag = "hierarchical-context-parallel-sizes";

constexpr std::array<std::pair<std::string_view, ContextMethod>, 3> methods{
    {{"p2p", ContextMethod::ring},
     {"all_gather", ContextMethod::all_gather},
     {"a2a", ContextMethod::ulysses}}};

/// Reads the inner of two levels.
void read_levels(MegatronArguments& arguments, ParallelLayout& layout) {
  std::vector<std::string> const sizes = arguments.texts(sizes_flag);
  int const inner = static_cast<int>(arguments.integer(sizes_flag, degrees).value_or(1));
  bool const fits = sizes.size() == 2 && inner > 1 && layout.context % inner == 0 &&
                    sizes[1] == std::to_string(layout.context / inner);
  if (fits) {
    layout.context_inner = inner;
  } else {
    arguments.report(sizes_flag, "two numbers above 1 whose product is --context-parallel-size (" +
                                     std::to_string(layout.context) + "), for a2a+p2p");
  }
}

/// MindSpeed-LLM's name of the method. Its Ulysses repeats heads of keys and values that are too
/// few.
void read_algorithm(MegatronArguments& arguments, TrainingConfig& config) {
  constexpr std::string_view flag = "context-parallel-algo";
  ParallelLayout& layout = config.parallel;
  std::string const algorithm = arguments.text(flag).value_or("megatron_cp_algo");
  bool const has_heads =
      config.model.kv_heads % (std::int64_t{layout.tensor} * layout.context) == 0;
  if (algorithm == "ulysses_cp_algo" && has_heads) {
    layout.context_method = ContextMethod::ulysses;
  } else if (algorithm == "kvallgather_cp_algo") {
    layout.context_method = ContextMethod::all_gather;
  } else if (algorithm != "megatron_cp_algo") {
    arguments.refuse(flag,
                     "megatron_cp_algo, kvallgather_cp_algo, or ulysses_cp_algo with heads of keys "
                     "and values for all of its ranks",
                     {"a ring", "either way in time"});
  }
}

void read_method(MegatronArguments& arguments, ParallelLayout& layout) {
  constexpr std::string_view flag = "cp-comm-type";
  std::vector<std::string> const types = arguments.texts(flag);
  if (types.empty()) return;
  if (std::ranges::any_of(types, [&](std::string const& type) { return type != types.front(); })) {
    arguments.refuse(flag, "one type for all layers",
                     {"the first type in all layers", "either way in time"});
  }
  if (types.front() == "a2a+p2p") {
    read_levels(arguments, layout);
    return;
  }
  auto const* const found = std::ranges::find(methods, std::string_view{types.front()},
                                              [](auto const& method) { return method.first; });
  if (found == methods.end()) {
    arguments.report(flag, "p2p, all_gather, a2a, a2a+p2p");
  } else {
    layout.context_method = found->second;
  }
}

/// Leaves out what is not modelled of attention to sequences that ranks split.
void make_splittable(MegatronArguments& arguments, ModelConfig& model) {
  if (model.attention != Attention::flash) {
    arguments.refuse("attention-backend", "flash", {"flash attention", "more time and memory"});
    model.attention = Attention::flash;
  }
  if (model.attention_dropout.value_or(model.dropout) > 0) {
    arguments.refuse("attention-dropout", "0", {"attention without dropout", "more time"});
    model.attention_dropout = 0;
  }
}

}  // namespace

std::int64_t read_megatron_context(MegatronArguments& arguments, TrainingConfig& config) {
  std::int64_t const context = arguments.integer(of_megatron, degrees).value_or(1);
  std::int64_t const sequence = arguments.integer(of_deepspeed, degrees).value_or(1);
  std::int64_t const ranks = context * sequence;
  if (ranks == 1) return 1;
  bool const is_of_deepspeed = sequence > 1;
  std::string_view const flag = is_of_deepspeed ? of_deepspeed : of_megatron;
  bool const is_ignored = arguments.ignores(flag);
  if (!is_ignored && !arguments.is_strict()) make_splittable(arguments, config.model);
  bool const is_split = can_split_sequences(config.model) && (context == 1 || sequence == 1);
  if (!is_split || is_ignored) {
    arguments.refuse(flag,
                     "1, or a model of flash attention (--attention-backend flash) with "
                     "--attention-dropout 0",
                     {"whole sequences on every rank", "less memory"});
    return ranks;
  }
  if (ranks > degrees.largest) return ranks;
  config.parallel.context = static_cast<int>(ranks);
  if (is_of_deepspeed) {
    config.parallel.context_method = ContextMethod::ulysses;
  } else {
    read_algorithm(arguments, config);
    read_method(arguments, config.parallel);
  }
  return ranks;
}

}  // namespace stagecraft
