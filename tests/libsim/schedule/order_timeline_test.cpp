#include "libsim/schedule/orders/order_timeline.hpp"

#include <catch2/catch.hpp>

#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft::order_timeline_test {

namespace {

using Catch::Contains;

PipelineOrder order_of_texts(Placement const& placement,
                             int microbatches,
                             std::vector<std::string> const& stages) {
  PipelineOrder order{placement, microbatches, {}};
  for (std::string const& stage : stages) order.stages.push_back(read_order_text(stage));
  return order;
}

}  // namespace

TEST_CASE("stages that wait for each other in a circle are named with what they wait for") {
  // Stage 0 wants the gradient before it sends the second forward; stage 1 wants that first.
  PipelineOrder const order =
      order_of_texts(round_placement(2, 1), 2, {"F0.0 B0.0 F1.0 B1.0", "F0.0 F1.0 B0.0 B1.0"});
  REQUIRE_THROWS_AS(play_order(order, {}), ScheduleError);
  REQUIRE_THROWS_WITH(play_order(order, {}),
                      Contains("stages that wait for each other:") &&
                          Contains("\n  stage 0 waits with B0.0 for I0.0 of stage 1") &&
                          Contains("\n  stage 1 waits with F1.0 for F1.0 of stage 0"));
}

TEST_CASE("a pair starts when both halves can and both end with it") {
  // Stage 1: F0 1-2, B0 2-4. Stage 0: F0 0-1, the pair waits for B0's gradient until 4 and takes
  // 1 + 2; so F1 reaches stage 1 at 7 and not at 5.
  PipelineOrder const order =
      order_of_texts(round_placement(2, 1), 2, {"F0.0 F1.0+B0.0 B1.0", "F0.0 B0.0 F1.0 B1.0"});
  PlayedOrder const played = play_order(order, {});
  auto const& runs = played.stages[0].runs;
  REQUIRE(played.in_units(runs[1].start) == 4);
  REQUIRE(played.in_units(runs[1].end) == 7);
  REQUIRE(played.in_units(runs[2].start) == 4);
  REQUIRE(played.in_units(runs[2].end) == 7);
  REQUIRE(played.in_units(played.stages[1].runs[2].start) == 7);
}

TEST_CASE("a message takes the transfer between stages, and none within a stage") {
  // In the V, stage 1 turns: F0 of chunk 1 follows F0 of chunk 0 at once.
  PipelineOrder const order =
      order_of_texts(v_placement(2), 1, {"F0.0 F0.1 B0.1 B0.0", "F0.0 F0.1 B0.1 B0.0"});
  PlayedOrder const played = play_order(order, {.transfer = 10});
  // F 0-1, hop, F 11-12, F 12-13, hop, F 23-24, B 24-26, hop, B 36-38, B 38-40, hop, B 50-52.
  REQUIRE(played.in_units(played.makespan) == 52);
  REQUIRE(played.in_units(played.stages[0].transfer) == 20);
  REQUIRE(played.in_units(played.stages[1].transfer) == 20);
  REQUIRE(played.in_units(played.stages[1].start) == 11);
}

TEST_CASE("recompute costs a forward, is busy time, and is not part of the ideal") {
  PipelineOrder const order = order_of_texts(round_placement(1, 1), 1, {"F0.0 R0.0 I0.0 W0.0"});
  PlayedOrder const played =
      play_order(order, {.forward = 3, .input_gradient = 5, .weight_gradient = 7});
  REQUIRE(played.in_units(played.makespan) == 18);
  REQUIRE(played.in_units(played.stages[0].busy) == 18);
  REQUIRE(played.in_units(ideal_time(played)) == 15);
  REQUIRE(bubble_fraction(played) == 0.2);
}

TEST_CASE("a stage that starts late and ends late has a span below the makespan") {
  PipelineOrder const order =
      order_of_texts(round_placement(2, 1), 1, {"F0.0 I0.0 W0.0", "F0.0 I0.0 W0.0"});
  // Stage 0: F 0-1, I 3-4, W 4-5. Stage 1: F 1-2, I 2-3, W 3-4.
  PlayedOrder const played = play_order(order, {});
  REQUIRE(played.in_units(played.makespan) == 5);
  REQUIRE(played.in_units(span_of(played)) == 5);
  REQUIRE(played.in_units(played.stages[1].end - played.stages[1].start) == 3);
}

}  // namespace stagecraft::order_timeline_test
