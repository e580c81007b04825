#include "libsim/schedule/orders/order_file.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft::order_file_test {

namespace {

using Catch::Contains;

std::filesystem::path written(std::string const& text) {
  // Tests run side by side as processes of their own.
  auto const path = std::filesystem::temp_directory_path() /
                    ("stagecraft_order_file_test_" + std::to_string(::getpid()) + ".json");
  std::ofstream{path} << text;
  return path;
}

}  // namespace

TEST_CASE("an order file has one text per stage, and a placement") {
  PipelineOrder const order = read_order_file(
      written(R"({"makespan": 4, "placement": "v", "orders": ["F0.0 F0.1 B0.1 B0.0"]})"));
  REQUIRE(order.microbatches == 1);
  REQUIRE(order.placement == v_placement(1));
  REQUIRE(order_text(order.stages[0]) == "F0.0 F0.1 B0.1 B0.0");
  PipelineOrder const loop =
      read_order_file(written(R"({"orders": ["F0.0 F1.0 B0.0 B1.0", "F0.0 B0.0 F1.0 B1.0"]})"));
  REQUIRE(loop.microbatches == 2);
  REQUIRE(loop.placement == round_placement(2, 1));
}

TEST_CASE("a file that is no order is refused with what an order file has") {
  REQUIRE_THROWS_WITH(read_order_file("/nowhere/x.json"),
                      Contains("found no file '/nowhere/x.json'"));
  REQUIRE_THROWS_WITH(read_order_file(written("{")), Contains("which is not JSON"));
  REQUIRE_THROWS_WITH(read_order_file(written("[]")), Contains("found no list `orders`"));
  REQUIRE_THROWS_WITH(read_order_file(written(R"({"orders": []})")),
                      Contains("found no list `orders`"));
  REQUIRE_THROWS_WITH(read_order_file(written(R"({"orders": [7]})")),
                      Contains("found 7 in `orders`; accepted: one text per stage"));
  REQUIRE_THROWS_WITH(read_order_file(written(R"({"orders": ["F0.0"], "placement": "w"})")),
                      Contains("found \"w\"; accepted: loop, v, bidirectional"));
  REQUIRE_THROWS_WITH(read_order_file(written(R"({"orders": ["F900000.0"]})")),
                      Contains("found microbatch 900000 and chunk 0 among 1 tasks"));
}

TEST_CASE("the shape of a placement is known from its places") {
  for (int const stages : {2, 3, 8}) {
    REQUIRE(shape_of(v_placement(stages)) == PlacementShape::v);
    REQUIRE(shape_of(bidirectional_placement(stages)) == PlacementShape::bidirectional);
    REQUIRE(shape_of(round_placement(stages, 1)) == PlacementShape::loop);
    REQUIRE(shape_of(round_placement(stages, 2)) == PlacementShape::loop);
  }
}

}  // namespace stagecraft::order_file_test
