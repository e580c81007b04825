#include "tests/oracle/schedule_oracle.hpp"

#include <catch2/catch.hpp>

#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/schedule/schedule_layout.hpp"

namespace stagecraft::schedule_oracle_test {

TEST_CASE("every stage computes in the order that Megatron-LM was seen to compute") {
  REQUIRE(schedule_oracle().size() == 119);
  P2p const p2p = GENERATE(P2p::blocking, P2p::overlapped);
  for (auto const& entry : schedule_oracle()) {
    INFO(name_of(entry));
    std::vector<std::string> orders;
    for (auto const& tasks : order_of(make_pipeline_schedule(shape_of(entry, p2p))).stages) {
      orders.push_back(order_text(tasks));
    }
    REQUIRE(orders == entry.at("orders").get<std::vector<std::string>>());
  }
}

TEST_CASE("every stage holds as many chunks in flight as the recorded order says") {
  for (auto const& entry : schedule_oracle()) {
    INFO(name_of(entry));
    PipelineOrder const order = order_of(make_pipeline_schedule(shape_of(entry, P2p::blocking)));
    std::vector<int> peaks;
    for (std::size_t stage = 0; stage < order.stages.size(); ++stage) {
      peaks.push_back(most_in_flight(order, stage, InFlight::until_weight_gradient));
    }
    REQUIRE(peaks == entry.at("peak").get<std::vector<int>>());
  }
}

}  // namespace stagecraft::schedule_oracle_test
