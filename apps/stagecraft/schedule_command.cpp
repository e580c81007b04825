#include "apps/stagecraft/schedule_command.hpp"

#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/engine/schedule_timeline.hpp"
#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/schedule_summary.hpp"
#include "libsim/plan/training_words.hpp"
#include "libsim/report/pipeline_picture.hpp"
#include "libsim/report/schedule_tables.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

/// More forwards than this are refused: their picture and order say nothing to a reader any more.
constexpr std::int64_t most_forwards = 1'000'000;

constexpr char const* introduction =
    "usage: stagecraft schedule --schedule KIND -p STAGES -n MICROBATCHES [options]\n\n"
    "Shows a pipeline schedule alone: what each rank computes in which order, how long it takes, "
    "how\n"
    "much of that is bubble, and how many chunks are in flight, each with its activations. Costs "
    "are\n"
    "plain numbers in any unit, per chunk.\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft schedule --schedule 1f1b -p 4 -n 8\n"
    "  stagecraft schedule --schedule interleaved -p 4 -n 8 -m 2 --transfer 0.25\n"
    "  stagecraft schedule --schedule interleaved -p 4 -n 16 -m 2 --group 8 --p2p overlapped "
    "--json\n";

po::options_description describe_options() {
  auto const text = [] { return po::value<std::string>(); };
  po::options_description options{"options"};
  auto add = options.add_options();
  add("schedule", text()->value_name(choice_of<ScheduleKind>()), "in which order a rank does what");
  add("pipeline,p", text()->value_name("P"), "pipeline stages");
  add("microbatches,n", text()->value_name("N"), "microbatches an iteration");
  add("chunks,m", text()->value_name("M")->default_value("1"), "interleaved: chunks a stage");
  add("group", text()->value_name("G"), "interleaved: microbatches a group (default: P)");
  add("forward", text()->value_name("COST")->default_value("1"), "forward of one chunk");
  add("backward", text()->value_name("COST")->default_value("2"), "backward of one chunk");
  add("transfer", text()->value_name("COST")->default_value("0"),
      "one message, from its start to its arrival");
  add("p2p", text()->value_name(choice_of<P2p>())->default_value("blocking"),
      "blocking: a rank stands still until its messages are over; overlapped: they travel beside "
      "computation");
  add("json", "print one JSON document");
  add("help,h", "print this");
  return options;
}

constexpr char const* stages_option = "--pipeline (-p)";
constexpr char const* microbatches_option = "--microbatches (-n)";
constexpr char const* from_one = "a whole number from 1";

/// One of the words that an option accepts.
template <class Enum>
Enum choice(po::variables_map const& values, std::string const& name) {
  std::string const word = needed(values, name, "--" + name, accepted_words<Enum>());
  std::vector<std::string> words;
  words.reserve(std::size(Words<Enum>::all));
  for (auto const& entry : Words<Enum>::all) words.emplace_back(entry.second);
  return *parse_word<Enum>(one_of("--" + name, word, words));
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

ScheduleShape read_shape(po::variables_map const& values) {
  constexpr int any = std::numeric_limits<int>::max();
  ScheduleShape shape;
  shape.kind = choice<ScheduleKind>(values, "schedule");
  bool const is_interleaved = shape.kind == ScheduleKind::interleaved;
  shape.stages =
      whole_number(stages_option, needed(values, "pipeline", stages_option, from_one), 1, any);
  shape.microbatches = whole_number(
      microbatches_option, needed(values, "microbatches", microbatches_option, from_one), 1, any);
  std::string const chunks = values["chunks"].as<std::string>();
  shape.chunks = whole_number("--chunks (-m)", chunks, 1, any);
  if (shape.chunks > 1 && !is_interleaved) {
    throw CommandLineError{"--chunks (-m): found '" + chunks +
                           "'; accepted: 1, or --schedule interleaved"};
  }
  if (values.count("group") > 0) {
    std::string const group = values["group"].as<std::string>();
    shape.group = whole_number("--group", group, 1, any);
    if (!is_interleaved) {
      throw CommandLineError{"--group: found '" + group +
                             "'; accepted: only with --schedule interleaved"};
    }
  }
  shape.p2p = choice<P2p>(values, "p2p");

  std::int64_t const virtual_stages = std::int64_t{shape.stages} * shape.chunks;
  if (virtual_stages > most_forwards || virtual_stages * shape.microbatches > most_forwards) {
    throw CommandLineError{"-p x -m x -n: found '" + std::to_string(shape.stages) + " x " + chunks +
                           " x " + std::to_string(shape.microbatches) +
                           "'; accepted: a product of at most " + std::to_string(most_forwards)};
  }
  if (is_interleaved) check_interleaved(shape);
  return shape;
}

ChunkCosts read_costs(po::variables_map const& values) {
  auto const cost = [&](std::string const& name) {
    return number_from_zero("--" + name, values[name].as<std::string>());
  };
  return {cost("forward"), cost("backward"), cost("transfer")};
}

nlohmann::ordered_json to_json(PipelineSchedule const& schedule, ScheduleTimeline const& played) {
  nlohmann::ordered_json orders = nlohmann::ordered_json::array();
  nlohmann::ordered_json in_flight = nlohmann::ordered_json::array();
  for (StageSchedule const& stage : schedule.stages) {
    orders.push_back(order_text(stage));
    in_flight.push_back(in_flight_chunks(stage));
  }
  return {{"orders", orders},
          {"makespan", played.in_units(played.timeline.makespan)},
          {"bubble_fraction", bubble_fraction(played.timeline)},
          {"in_flight_chunks", in_flight}};
}

}  // namespace

int schedule_command(std::vector<std::string> const& arguments) {
  po::options_description const options = describe_options();
  po::variables_map const values = parse_options(arguments, options);
  if (values.count("help") > 0) {
    std::cout << introduction << options << examples;
    return 0;
  }
  PipelineSchedule const schedule = make_pipeline_schedule(read_shape(values));
  ScheduleTimeline const played = play_schedule(schedule, read_costs(values));
  if (values.count("json") > 0) {
    std::cout << to_json(schedule, played).dump(1) << '\n';
    return 0;
  }
  TextStyle const style = standard_output_style();
  std::cout << schedule_tables(schedule, played, style.width) << '\n'
            << draw_pipeline(played, style);
  return 0;
}

}  // namespace stagecraft
