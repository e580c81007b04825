#include "libsim/schedule/orders/order_check.hpp"

#include <catch2/catch.hpp>

#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft::order_check_test {

namespace {

using Catch::Contains;

/// Of one chunk on each of the stages whose orders are given.
std::string refusal(std::vector<std::string> const& stages, int microbatches) {
  PipelineOrder order{round_placement(static_cast<int>(stages.size()), 1), microbatches, {}};
  for (std::string const& stage : stages) order.stages.push_back(read_order_text(stage));
  try {
    check_order(order);
  } catch (ScheduleError const& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an order with one forward and one backward, whole or in parts, of each task is legal") {
  REQUIRE(refusal({"F0.0 F1.0 B0.0 I1.0 W1.0"}, 2).empty());
  REQUIRE(refusal({"F0.0 R0.0 I0.0 W0.0", "F0.0 B0.0"}, 1).empty());
  REQUIRE(refusal({"F0.0 F1.0+B0.0 B1.0"}, 2).empty());
}

TEST_CASE("a task that is missing, repeated, too early or of no chunk is named with its stage") {
  struct Case {
    std::vector<std::string> stages;
    std::string message;
  };
  for (auto const& [stages, message] : std::vector<Case>{
           {{"F0.0 B0.0", "F0.0 I0.0"}, "stage 1: found no W0.0; accepted: F, and B or I and W"},
           {{"F0.0", "F0.0 B0.0"}, "stage 0: found no I0.0 or B0.0"},
           {{""}, "stage 0: found no F0.0"},
           {{"F0.0 F0.0 B0.0"}, "stage 0: found F0.0 twice; accepted: once"},
           {{"F0.0 W0.0 I0.0"}, "stage 0: found W0.0 before the end of I0.0; accepted: after it"},
           {{"B0.0 F0.0"}, "stage 0: found B0.0 before the end of F0.0"},
           {{"F0.0+B0.0"}, "stage 0: found B0.0 before the end of F0.0"},
           {{"F0.0 B0.0 W0.0"}, "found W0.0 and another backward of it; accepted: B, or I and W"},
           {{"F0.0 I0.0 B0.0"}, "found B0.0 and another backward of it"},
           {{"F0.0 I0.0 R0.0 W0.0"}, "found R0.0 after its backward; accepted: before it"},
           {{"R0.0 F0.0 B0.0"}, "found R0.0 before the end of F0.0"},
           {{"F0.0 F1.0 B0.0"}, "found F1.0; accepted: in chunk 0 microbatches 0 to 0"},
           {{"F0.0 F0.1 B0.0"}, "found F0.1; accepted: chunks 0 to 0"},
       }) {
    CAPTURE(message);
    REQUIRE_THAT(refusal(stages, 1), Contains(message));
  }
}

TEST_CASE("each direction of a bidirectional placement has its half of the microbatches") {
  PipelineOrder order{bidirectional_placement(2), 2, {}};
  order.stages = {read_order_text("F0.0 F1.1 B0.0 B1.1"), read_order_text("F1.1 F0.0 B0.0 B1.1")};
  REQUIRE_NOTHROW(check_order(order));
  order.stages[0] = read_order_text("F1.0 F1.1 B1.0 B1.1");
  REQUIRE_THROWS_WITH(check_order(order),
                      Contains("stage 0: found F1.0; accepted: in chunk 0 microbatches 0 to 0"));
  order.microbatches = 3;
  REQUIRE_THROWS_WITH(check_order(order),
                      Contains("found 3 microbatches; accepted: a multiple of 2"));
}

TEST_CASE("an order of other than one list per stage, or with a pair of three, is refused") {
  PipelineOrder order{round_placement(2, 1), 1, {read_order_text("F0.0 B0.0")}};
  REQUIRE_THROWS_WITH(check_order(order), Contains("found 1 stages; accepted: 2"));
  order = {round_placement(1, 1), 3, {read_order_text("F0.0 F1.0 F2.0 B0.0 B1.0 B2.0")}};
  order.stages[0][1].is_paired = true;
  REQUIRE_NOTHROW(check_order(order));
  order.stages[0][0].is_paired = true;
  REQUIRE_THROWS_WITH(check_order(order), Contains("accepted: pairs of two tasks"));
}

}  // namespace stagecraft::order_check_test
