#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/program/command_line.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/engine/schedule_timeline.hpp"
#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/schedule_summary.hpp"
#include "libsim/plan/training_names.hpp"
#include "libsim/report/pipeline_picture.hpp"
#include "libsim/report/schedule_tables.hpp"

namespace stagecraft {

namespace {

/// More forwards than this are refused: their picture and order say nothing to a reader any more.
constexpr std::int64_t most_forwards = 1'000'000;

constexpr char const* stages_option = "--pipeline (-p)";
constexpr char const* microbatches_option = "--microbatches (-n)";

template <class Enum>
Enum choice(CommandLine const& line, char const* option) {
  line.needed(option, accepted_names<Enum>());
  return line.word<Enum>(option);
}

int needed_count(CommandLine const& line, char const* option) {
  line.needed(option, "a whole number from 1");
  return line.whole_number(option, 1, std::numeric_limits<int>::max());
}

/// Refuses, by the options' names, what the interleaved schedule does not take.
void check_interleaved(ScheduleShape const& shape) {
  int const p = shape.stages;
  int const n = shape.microbatches;
  auto const refuse = [](std::string const& option, int found, std::string const& accepted) {
    throw CommandLineError{option + ": found '" + std::to_string(found) +
                           "'; accepted with --schedule interleaved: " + accepted};
  };
  std::string const stages = "-p (" + std::to_string(p) + ")";
  if (p < 2) refuse(stages_option, p, "a whole number from 2");
  if (n < p) refuse(microbatches_option, n, "at least " + stages);
  std::string const groups = accepted_groups(n, p);
  if (shape.group != 0 && !is_group(shape.group, n, p)) {
    refuse("--group", shape.group,
           groups + " (from " + stages + " to -n (" + std::to_string(n) +
               "), the last group full or of at least -p)");
  }
  if (shape.group == 0 && !is_group(p, n, p)) {
    refuse(microbatches_option, n,
           "a multiple of " + stages + ", or --group with one of " + groups);
  }
}

ScheduleShape read_shape(CommandLine const& line) {
  constexpr int any = std::numeric_limits<int>::max();
  ScheduleShape shape;
  shape.kind = choice<ScheduleKind>(line, "schedule");
  bool const is_interleaved = shape.kind == ScheduleKind::interleaved;
  shape.stages = needed_count(line, "pipeline");
  shape.microbatches = needed_count(line, "microbatches");
  std::string const& chunks = line.value("chunks");
  shape.chunks = line.whole_number("chunks", 1, any);
  if (shape.chunks > 1 && !is_interleaved) {
    throw CommandLineError{"--chunks (-m): found '" + chunks +
                           "'; accepted: 1, or --schedule interleaved"};
  }
  if (line.has("group")) {
    std::string const& group = line.value("group");
    shape.group = line.whole_number("group", 1, any);
    if (!is_interleaved) {
      throw CommandLineError{"--group: found '" + group +
                             "'; accepted: only with --schedule interleaved"};
    }
  }
  shape.p2p = choice<P2p>(line, "p2p");

  std::int64_t const virtual_stages = std::int64_t{shape.stages} * shape.chunks;
  if (virtual_stages > most_forwards || virtual_stages * shape.microbatches > most_forwards) {
    throw CommandLineError{"-p x -m x -n: found '" + std::to_string(shape.stages) + " x " + chunks +
                           " x " + std::to_string(shape.microbatches) +
                           "'; accepted: a product of at most " + std::to_string(most_forwards)};
  }
  if (is_interleaved) check_interleaved(shape);
  return shape;
}

ChunkCosts read_costs(CommandLine const& line) {
  auto const cost = [&](std::string const& name) { return line.number_from_zero(name); };
  return {cost("forward"), cost("backward"), cost("transfer")};
}

nlohmann::ordered_json to_json(PipelineSchedule const& schedule, ScheduleTimeline const& played) {
  nlohmann::ordered_json orders = nlohmann::ordered_json::array();
  nlohmann::ordered_json in_flight = nlohmann::ordered_json::array();
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    orders.push_back(order_text(schedule, stage));
    in_flight.push_back(in_flight_chunks(schedule, stage));
  }
  return {{"orders", orders},
          {"makespan", played.in_units(played.timeline.makespan)},
          {"bubble_fraction", bubble_fraction(played.timeline)},
          {"in_flight_chunks", in_flight}};
}

int run_schedule(CommandLine const& line) {
  PipelineSchedule const schedule = make_pipeline_schedule(read_shape(line));
  ScheduleTimeline const played = play_schedule(schedule, read_costs(line));
  if (line.has("json")) {
    std::cout << to_json(schedule, played).dump(1) << '\n';
    return 0;
  }
  TextStyle const style = standard_output_style();
  std::cout << schedule_tables(schedule, played, style.width) << '\n'
            << draw_pipeline(played, style);
  return 0;
}

}  // namespace

Command schedule_command() {
  return {.name = "schedule",
          .summary = "a pipeline schedule alone: order, makespan, bubble, chunks in flight",
          .introduction =
              R"(usage: stagecraft schedule --schedule KIND -p STAGES -n MICROBATCHES [options]

Shows a pipeline schedule alone: what each rank computes in which order, how long it takes, how
much of that is bubble, and how many chunks are in flight, each with its activations. Costs are
plain numbers in any unit, per chunk.
)",
          .examples = R"(  stagecraft schedule --schedule 1f1b -p 4 -n 8
  stagecraft schedule --schedule interleaved -p 4 -n 8 -m 2 --transfer 0.25
  stagecraft schedule --schedule interleaved -p 4 -n 16 -m 2 --group 8 --p2p overlapped --json
)",
          .options = {{.name = "schedule",
                       .value = Value::word_of<ScheduleKind>(),
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
                       .fallback = "1",
                       .description = "interleaved: chunks per stage"},
                      {.name = "group",
                       .value = Value::text("G"),
                       .description = "interleaved: microbatches per group (default: P)"},
                      {.name = "forward",
                       .value = Value::text("COST"),
                       .fallback = "1",
                       .description = "duration of a chunk's forward"},
                      {.name = "backward",
                       .value = Value::text("COST"),
                       .fallback = "2",
                       .description = "duration of a chunk's backward"},
                      {.name = "transfer",
                       .value = Value::text("COST"),
                       .fallback = "0",
                       .description = "duration of a message, from its start to its arrival"},
                      {.name = "p2p",
                       .value = Value::word_of<P2p>(),
                       .fallback = "blocking",
                       .description = "blocking: a stage waits until its messages are over; "
                                      "overlapped: messages run beside computation"},
                      {.name = "json", .description = "print one JSON document"}},
          .run = run_schedule};
}

}  // namespace stagecraft
