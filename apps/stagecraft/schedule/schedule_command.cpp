#include <algorithm>
#include <cstdint>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/schedule/asked_schedule.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/pipeline_picture.hpp"
#include "libsim/report/schedule_tables.hpp"
#include "libsim/schedule/generators/order_search.hpp"
#include "libsim/schedule/orders/order_kind.hpp"
#include "libsim/schedule/unit_order.hpp"
#include "libsim/training/sharding_reader.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

namespace {

constexpr int largest_number = std::numeric_limits<int>::max();

std::vector<std::int64_t> read_sizes(CommandLine const& line) {
  std::vector<std::int64_t> sizes;
  for (std::string const& text : list_items(line.value("units"))) {
    sizes.push_back(whole_number("--units", text, 1, largest_number));
  }
  if (sizes.size() > 1) return sizes;
  throw CommandLineError{"--units", "'" + line.value("units") + "'",
                         "the elements of the root's unit and of each block, like 128,528,528"};
}

Sharding read_units_sharding(CommandLine const& line) {
  Diagnostics diagnostics;
  std::optional<YamlNode> const tree =
      parse_yaml(line.value("sharding"), "--sharding", diagnostics);
  diagnostics.throw_if_any();
  Sharding const sharding = read_sharding(ConfigNode{*tree, "sharding", diagnostics});
  diagnostics.throw_if_any();
  if (!sharding.shares_parameters()) {
    throw CommandLineError{"--sharding", "'" + line.value("sharding") + "'",
                           "a kind whose units gather: " + names_of_kinds([](auto const& kind) {
                             return kind.shares == SharedState::parameters;
                           })};
  }
  return sharding;
}

/// The name that PyTorch has for a type.
std::string_view torch_name(UnitType type, UnitType automatic) {
  switch (type == UnitType::automatic ? automatic : type) {
    case UnitType::fp32:
      return "float32";
    case UnitType::fp16:
      return "float16";
    case UnitType::bf16:
    case UnitType::automatic:
      break;
  }
  return "bfloat16";
}

/// The ranks that share a unit.
int ranks_of_unit(CommandLine const& line, Sharding const& sharding) {
  int const ranks = line.whole_number("ranks", 1, largest_number);
  int const group = sharding.group == 0 ? ranks : sharding.group;
  int const kept_among = sharding.reshard_after_forward.ranks;
  if (ranks % group != 0) {
    throw CommandLineError{"--sharding", "group " + std::to_string(group),
                           "0, or a divisor of --ranks (" + std::to_string(ranks) + ")"};
  }
  if (kept_among != 0 && group % kept_among != 0) {
    throw CommandLineError{"--sharding", "reshard_after_forward " + std::to_string(kept_among),
                           "auto, true, false, or a divisor of the ranks that share a unit (" +
                               std::to_string(group) + ")"};
  }
  return group;
}

/// The options of `stagecraft schedule --units`.
std::vector<Option> unit_options() {
  return {{.name = "units",
           .value = Value::text("E,E,..."),
           .description = "in place of --schedule, sharded units: the padded elements of the "
                          "root's parameters and of each block's; shows what a rank issues"},
          {.name = "sharding",
           .value = Value::text("SHARDING"),
           .fallback = "fsdp2",
           .description = "--units: the key sharding of a run file"},
          {.name = "ranks",
           .value = Value::text("N"),
           .fallback = "8",
           .description = "--units: all ranks, those with copies of shards included"},
          {.name = "recompute", .description = "--units: each block recomputes its forward"}};
}

/// The collectives and passes of one rank of a sharded run, in the order in which its host issues
/// them: "MB0 AG128:bfloat16 F0 ... BWD ... B0 RS128:float32".
///
/// MB<k> begins a microbatch and BWD its backward; AG<e>:<type> gathers a unit of e elements, F<i>
/// and B<i> compute block i, RS<e> reduces gradients, and AR<e> sums them over the copies of
/// shards. Types have PyTorch's names.
/// \throws CommandLineError, ConfigError
std::string unit_events(CommandLine const& line) {
  using Kind = UnitAction::Kind;
  std::vector<std::int64_t> const sizes = read_sizes(line);
  Sharding const sharding = read_units_sharding(line);
  int const ranks = line.whole_number("ranks", 1, largest_number);
  int const group = ranks_of_unit(line, sharding);
  for (std::int64_t const size : sizes) {
    if (size % group == 0) continue;
    throw CommandLineError{
        "--units", "'" + std::to_string(size) + "'",
        "padded sizes: multiples of the ranks that share a unit (" + std::to_string(group) + ")"};
  }
  UnitPolicy policy = unit_policy(sharding);
  policy.recomputes = line.has("recompute");
  UnitType const stored =
      sharding.stored_dtype == UnitType::automatic ? UnitType::fp32 : sharding.stored_dtype;
  std::string const gathered =
      ":" + std::string{torch_name(sharding.parameter_dtype, UnitType::bf16)};
  std::string const reduced = ":" + std::string{torch_name(sharding.reduce_dtype, stored)};
  int const microbatches =
      line.has("microbatches") ? line.whole_number("microbatches", 1, largest_number) : 1;
  std::string text;
  auto const append = [&](std::string const& event) { text += (text.empty() ? "" : " ") + event; };
  for (UnitAction const& action : unit_actions(
           {.units = static_cast<int>(sizes.size()), .has_root = true}, policy, microbatches)) {
    std::int64_t const size =
        action.kind == Kind::microbatch || action.kind == Kind::backward_begins
            ? 0
            : sizes[static_cast<std::size_t>(action.number)];
    std::string const block = std::to_string(action.number - 1);
    switch (action.kind) {
      case Kind::microbatch:
        append("MB" + std::to_string(action.number));
        break;
      case Kind::backward_begins:
        append("BWD");
        break;
      case Kind::gather:
      case Kind::gather_partly:
        append("AG" + std::to_string(size) + gathered);
        break;
      case Kind::forward:
      case Kind::recompute:
        append("F" + block);
        break;
      case Kind::backward:
        append("B" + block);
        break;
      case Kind::reduce:
        append("RS" + std::to_string(size) + reduced);
        if (group < ranks) append("AR" + std::to_string(size / group) + reduced);
        break;
      case Kind::free:
        break;
    }
  }
  return text;
}

/// The options of `stagecraft schedule`, but for --json.
std::vector<Option> schedule_options() {
  return {{.name = "schedule",
           .value = Value::word_of<OrderKind>(),
           .description = "the order of a stage's forwards and backwards"},
          {.name = "pipeline",
           .letter = 'p',
           .value = Value::text("P"),
           .description = "pipeline stages"},
          {.name = "microbatches",
           .letter = 'n',
           .value = Value::text("N"),
           .description = "microbatches per iteration"},
          {.name = "chunks",
           .letter = 'm',
           .value = Value::text("M"),
           .description = "interleaved kinds: chunks per stage (default: 1)"},
          {.name = "group",
           .value = Value::text("G"),
           .description = "interleaved: microbatches per group (default: P)"},
          {.name = "expert-overlap",
           .description = "interleaved: each steady forward overlaps a backward, so that one "
                          "computes while the experts of the other communicate"},
          {.name = "recompute-chunks",
           .value = Value::text("K"),
           .fallback = "0",
           .description = "group_interleaved: the first K chunks of a stage recompute"},
          {.name = "variant",
           .value = Value::word_of<OrderVariant>(),
           .fallback = "fixed",
           .description = "zbv: by a fixed rule, or fitted to costs and memory"},
          {.name = "fuse-adjacent",
           .value = Value::word({"true", "false"}),
           .description = "schedules that split backwards: true, to run an input gradient right "
                          "before its weight gradient as one whole backward; false, to split all "
                          "(default: as the schedule's public code does)"},
          {.name = "memory",
           .value = Value::text("F,I,W"),
           .fallback = "1,0,-1",
           .description =
               "zb_auto, zbv, searched: how a forward, input gradient and weight gradient change "
               "what a stage holds"},
          {.name = "memory-limit",
           .value = Value::text("X"),
           .description =
               "zb_auto, zbv, v_auto, searched: what a stage may hold, in forwards (default: as "
               "1F1B, P, or 2P of two chunks)"},
          {.name = "seed",
           .value = Value::text("S"),
           .fallback = "1",
           .description = "searched: of the random changes"},
          {.name = "iterations",
           .value = Value::text("N"),
           .fallback = "100000",
           .description = "searched: changes to try"},
          {.name = "seconds",
           .value = Value::text("T"),
           .fallback = "10",
           .description = "searched: a cap on the time for them"},
          {.name = "order",
           .value = Value::file("FILE", {"json"}),
           .description = "--schedule order: the file with the order, as --json prints it"},
          {.name = "forward",
           .value = Value::text("COST"),
           .fallback = "1",
           .description = "duration of a chunk's forward"},
          {.name = "input-gradient",
           .value = Value::text("COST"),
           .fallback = "1",
           .description = "duration of the part of a chunk's backward that other chunks wait for"},
          {.name = "weight-gradient",
           .value = Value::text("COST"),
           .fallback = "1",
           .description = "duration of the rest of a chunk's backward"},
          {.name = "backward",
           .value = Value::text("COST"),
           .description = "duration of a chunk's whole backward (default: the sum of its parts)"},
          {.name = "transfer",
           .value = Value::text("COST"),
           .fallback = "0",
           .description = "duration of a message, from its start to its arrival"},
          {.name = "p2p",
           .value = Value::word_of<P2p>(),
           .description = "blocking: a stage waits until its messages are over (default of gpipe, "
                          "1f1b and interleaved); overlapped: messages run beside computation"}};
}

int run_units(CommandLine const& line) {
  std::string const events = unit_events(line);
  if (line.has("json")) {
    nlohmann::ordered_json const document{{"schema", schedule_schema}, {"events", events}};
    std::cout << document.dump(1) << '\n';
  } else {
    std::cout << events << '\n';
  }
  return 0;
}

/// Refuses options of the one that is not asked for.
/// \throws CommandLineError
void check_what_is_asked(CommandLine const& line) {
  bool const has_units = line.has("units");
  std::vector<std::string> const others =
      has_units ? std::vector<std::string>{"schedule", "pipeline", "chunks", "group"}
                : std::vector<std::string>{"sharding", "ranks", "recompute"};
  for (std::string const& option : others) {
    if (!line.is_given(option)) continue;
    throw CommandLineError{"--" + option, "'" + line.value(option) + "'",
                           has_units ? "not with --units" : "only with --units"};
  }
}

int run_schedule(CommandLine const& line) {
  check_what_is_asked(line);
  if (line.has("units")) return run_units(line);
  AskedSchedule const asked = play_asked_schedule(line);
  if (line.has("json")) {
    std::cout << to_json(asked).dump(1) << '\n';
    return 0;
  }
  TextStyle const style = standard_output_style();
  std::cout << schedule_tables(asked.title, asked.order, asked.played, style.width) << '\n'
            << draw_pipeline(asked.played, style);
  return 0;
}

}  // namespace

Command schedule_command() {
  return {.name = "schedule",
          .summary = "a pipeline schedule alone: order, makespan, bubble, chunks in flight",
          .introduction =
              R"(usage: stagecraft schedule --schedule KIND -p STAGES -n MICROBATCHES [options]
       stagecraft schedule --units E,E,... [--sharding SHARDING] [-n MICROBATCHES] [options]

Shows a pipeline schedule alone: what each stage computes in which order, how long it takes, how
much of that is bubble, and how many chunks are in flight, each with its activations. Costs are
plain numbers in any unit, per chunk.
)",
          .examples = R"(  stagecraft schedule --schedule 1f1b -p 4 -n 8
  stagecraft schedule --schedule interleaved -p 4 -n 8 -m 2 --transfer 0.25
  stagecraft schedule --schedule zbv -p 4 -n 8 --weight-gradient 0.5 --json
  stagecraft schedule --units 128,528,528 --sharding fsdp2 -n 2
)",
          .options = joined_options({schedule_options(), unit_options(), {json_option()}}),
          .run = run_schedule};
}

}  // namespace stagecraft
