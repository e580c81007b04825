#include <iostream>

#include "apps/program/command_line.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/schedule/asked_schedule.hpp"
#include "apps/stagecraft/schedule/schedule_options.hpp"
#include "apps/stagecraft/schedule/schedule_output.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/report/pipeline_picture.hpp"
#include "libsim/report/schedule_tables.hpp"

namespace stagecraft {

namespace {

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

Shows a pipeline schedule alone: what each stage computes in which order, how long it takes, how
much of that is bubble, and how many chunks are in flight, each with its activations. Costs are
plain numbers in any unit, per chunk.
)",
          .examples = R"(  stagecraft schedule --schedule 1f1b -p 4 -n 8
  stagecraft schedule --schedule interleaved -p 4 -n 8 -m 2 --transfer 0.25
  stagecraft schedule --schedule zbv -p 4 -n 8 --weight-gradient 0.5 --json
)",
          .options = joined_options({schedule_options(), {json_option()}}),
          .run = run_schedule};
}

}  // namespace stagecraft
