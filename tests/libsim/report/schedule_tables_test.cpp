#include "libsim/report/schedule_tables.hpp"

#include <catch2/catch.hpp>

#include "libsim/engine/player/schedule_timeline.hpp"
#include "libsim/schedule/schedule_layout.hpp"

namespace stagecraft::schedule_tables_test {

namespace {

std::string tables(ScheduleShape const& shape, ChunkCosts const& costs, int width) {
  PipelineSchedule const schedule = make_pipeline_schedule(shape);
  return schedule_tables("title", order_of(schedule), play_schedule(schedule, costs), width);
}

}  // namespace

TEST_CASE("the tables of 1F1B on two stages hold what one counts by hand") {
  // Transfers of 0.5. Stage 0: F0 0-1, sent by 1.5, F1 1.5-2.5, from then at its joint call. Stage
  // 1: F0 1.5-2.5, B0 2.5-4.5; gradient and F1's input travel until 5, F1 5-6, B1 6-8, sent by 8.5.
  // Stage 0: B0 5-7, B1 8.5-10.5. It waits 0.5 for each of three messages, and 2.5 to 4.5 and 7 to
  // 8 for stage 1; stage 1 waits 1 for stage 0, and 0.5 three times.
  std::string const text = tables({ScheduleKind::one_f_one_b, 2, 2, 1, 0, P2p::blocking},
                                  {.forward = 1, .backward = 2, .transfer = 0.5}, 100);
  REQUIRE(text ==
          "title\n"
          "makespan 10.5, ideal 6, bubble 75 % of ideal\n"
          "\n"
          "stage  in flight        busy    transfer      bubble         end\n"
          "    0          2           6         1.5           3        10.5\n"
          "    1          1           6         1.5           1         8.5\n"
          "\n"
          "stage  order: forward (F) or backward (B) of microbatch.chunk\n"
          "    0  F0.0 F1.0 B0.0 B1.0\n"
          "    1  F0.0 B0.0 F1.0 B1.0\n");
}

TEST_CASE("an order longer than the width ends between two computations") {
  std::string const text = tables({ScheduleKind::gpipe, 1, 1000, 1, 0, P2p::blocking}, {}, 40);
  REQUIRE_THAT(text, Catch::EndsWith("\n    0  F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 ...\n"));
}

}  // namespace stagecraft::schedule_tables_test
