#include "libsim/schedule/orders/order_text.hpp"

#include <catch2/catch.hpp>

#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft::order_text_test {

TEST_CASE("an order's text has the letter of each pass, and a plus within a pair") {
  std::vector<OrderTask> const tasks{{{Pass::forward, MicrobatchId{12}, ChunkId{0}}, false},
                                     {{Pass::forward, MicrobatchId{1}, ChunkId{1}}, true},
                                     {{Pass::backward, MicrobatchId{0}, ChunkId{3}}, false},
                                     {{Pass::recompute, MicrobatchId{2}, ChunkId{0}}, false},
                                     {{Pass::input_gradient, MicrobatchId{2}, ChunkId{0}}, false},
                                     {{Pass::weight_gradient, MicrobatchId{2}, ChunkId{0}}, false}};
  std::string const text = "F12.0 F1.1+B0.3 R2.0 I2.0 W2.0";
  REQUIRE(order_text(tasks) == text);
  REQUIRE(read_order_text(text) == tasks);
  REQUIRE(read_order_text("  F0.0   B0.0 ").size() == 2);
  REQUIRE(read_order_text("").empty());
}

TEST_CASE("a word that is no task is refused by name") {
  for (std::string const word : {"X0.0", "F", "F0", "F0.", "F.0", "F-1.0", "F0.0x", "F0.0+",
                                 "+B0.0", "F0.0+B0.0+W0.0", "F9999999999.0", "f0.0"}) {
    REQUIRE_THROWS_WITH(read_order_text("F0.0 " + word),
                        Catch::Contains("order: found '" + word + "'; accepted: one of F, B, I"));
  }
}

}  // namespace stagecraft::order_text_test
