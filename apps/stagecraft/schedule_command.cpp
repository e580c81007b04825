#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/program/command_line.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/schedule_options.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/report/pipeline_picture.hpp"
#include "libsim/report/schedule_tables.hpp"
#include "libsim/schedule/order_file.hpp"
#include "libsim/schedule/order_text.hpp"

namespace stagecraft {

namespace {

nlohmann::ordered_json to_json(AskedSchedule const& asked) {
  PipelineOrder const& order = asked.order;
  PlayedOrder const& played = asked.played;
  using Json = nlohmann::ordered_json;
  Json orders = Json::array();
  Json in_flight = Json::array();
  Json until_input_gradient = Json::array();
  Json starts = Json::array();
  Json ends = Json::array();
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    orders.push_back(order_text(order.ranks[rank]));
    in_flight.push_back(most_in_flight(order, rank, InFlight::until_weight_gradient));
    until_input_gradient.push_back(most_in_flight(order, rank, InFlight::until_input_gradient));
    starts.push_back(played.in_units(played.ranks[rank].start));
    ends.push_back(played.in_units(played.ranks[rank].end));
  }
  Json document{{"orders", orders},
                {"placement", name_of(shape_of(order.placement))},
                {"makespan", played.in_units(played.makespan)},
                {"span", played.in_units(span_of(played))},
                {"ideal", played.in_units(ideal_time(played))},
                {"bubble_fraction", bubble_fraction(played)},
                {"rank_start", starts},
                {"rank_end", ends},
                {"in_flight_chunks", in_flight},
                {"in_flight_until_input_gradient", until_input_gradient}};
  if (asked.found) {
    document["lower_bound"] = asked.found->lower_bound;
    document["iterations"] = asked.found->iterations;
    document["ended_by"] = name_of(asked.found->ended_by);
  }
  return document;
}

int run_schedule(CommandLine const& line) {
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

Shows a pipeline schedule alone: what each rank computes in which order, how long it takes, how
much of that is bubble, and how many chunks are in flight, each with its activations. Costs are
plain numbers in any unit, per chunk.
)",
          .examples = R"(  stagecraft schedule --schedule 1f1b -p 4 -n 8
  stagecraft schedule --schedule interleaved -p 4 -n 8 -m 2 --transfer 0.25
  stagecraft schedule --schedule zbv -p 4 -n 8 --weight-gradient 0.5 --json
)",
          .options = joined_options(
              {schedule_options(), {{.name = "json", .description = "print one JSON document"}}}),
          .run = run_schedule};
}

}  // namespace stagecraft
