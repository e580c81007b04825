#include <iostream>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/schedule/asked_schedule.hpp"
#include "apps/stagecraft/schedule/asked_units.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/pipeline_picture.hpp"
#include "libsim/report/schedule_tables.hpp"
#include "libsim/schedule/generators/order_search.hpp"
#include "libsim/schedule/orders/order_kind.hpp"
#include "libsim/training/training_names.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace {

/// The options of `stagecraft schedule --units`.
std::vector<Option> unit_options() {
  return {{.name = "units",
           .value = Value::text("E,E,..."),
           .description = "in place of --schedule, sharded units: the padded elements of the "
                          "root's parameters and of each block's; shows what a rank issues"},
          {.name = "sharding",
           .value = Value::text("SHARDING"),
           .fallback = "fsdp2",
           .description = "the key sharding of a run file. --units: how they are shared; "
                          "--schedule: shows what ranks communicate if stages are fsdp2"},
          {.name = "ranks",
           .value = Value::text("N"),
           .fallback = "8",
           .description = "--units: all ranks, those with copies of shards included"},
          {.name = "recompute", .description = "--units: each block recomputes its forward"},
          {.name = "max-active-stages",
           .value = Value::text("N"),
           .fallback = "3",
           .description = "--schedule with --sharding: stages of a rank whose parameters it holds"},
          {.name = "unshard-lookahead",
           .value = Value::word({"full", "auto"}),
           .fallback = "full",
           .description = "the same: full, to gather all of them ahead; auto, the next R + 2 on "
                          "rank R"},
          {.name = "defer-reduce-grad-wait",
           .value = Value::word({"true", "false"}),
           .fallback = "false",
           .description = "the same: true, to wait for a stage's reduction before the next one"}};
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
           .description = "interleaved kinds, gpipe (PyTorch's LoopedBFS): chunks per stage "
                          "(default: 1)"},
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
                : std::vector<std::string>{"ranks", "recompute"};
  for (std::string const& option : others) {
    if (!line.is_given(option)) continue;
    throw CommandLineError{"--" + option, "'" + line.value(option) + "'",
                           has_units ? "not with --units" : "only with --units"};
  }
}

/// What each rank communicates, and how many stages it gathers and holds.
std::string lowered_lines(LoweredOrder const& order) {
  std::string text;
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    text += "\nrank " + std::to_string(rank) + " gathers " +
            counted(order.unshards[rank], "stage") + " and holds at most " +
            std::to_string(order.most_unsharded[rank]) + ": " + lowered_text(order.ranks[rank]) +
            "\n";
  }
  return text;
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
  if (asked.lowered) std::cout << lowered_lines(*asked.lowered);
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
