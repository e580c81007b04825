#include <catch2/catch.hpp>

#include "libsim/schedule/orders/order_timeline.hpp"
#include "tests/oracle/order_oracle.hpp"

namespace stagecraft::recorded_orders_test {

namespace {

std::vector<double> starts_of(PlayedOrder const& played) {
  std::vector<double> starts;
  for (StageRuns const& stage : played.stages) starts.push_back(played.in_units(stage.start));
  return starts;
}

std::vector<double> ends_of(PlayedOrder const& played) {
  std::vector<double> ends;
  for (StageRuns const& stage : played.stages) ends.push_back(played.in_units(stage.end));
  return ends;
}

std::vector<int> peaks_of(PipelineOrder const& order, InFlight until) {
  std::vector<int> peaks;
  for (std::size_t stage = 0; stage < order.stages.size(); ++stage) {
    peaks.push_back(most_in_flight(order, stage, until));
  }
  return peaks;
}

}  // namespace

TEST_CASE("a recorded order takes the time that the oracle's own simulator found") {
  REQUIRE(order_oracle().size() == 63);
  for (auto const& entry : order_oracle()) {
    INFO(name_of_order(entry));
    PlayedOrder const played = play_order(recorded_order(entry), costs_of(entry));
    REQUIRE(played.in_units(played.makespan) == entry.at("makespan").get<double>());
    REQUIRE(played.in_units(span_of(played)) == entry.at("max_rank_span").get<double>());
    REQUIRE(played.in_units(ideal_time(played)) == entry.at("ideal").get<double>());
    REQUIRE(starts_of(played) == entry.at("rank_start").get<std::vector<double>>());
    REQUIRE(ends_of(played) == entry.at("rank_end").get<std::vector<double>>());
  }
}

TEST_CASE("a recorded order with transfers of 0.25 takes the time that the oracle says") {
  int with_transfers = 0;
  for (auto const& entry : order_oracle()) {
    if (!entry.contains("mk_p2p025_async")) continue;
    INFO(name_of_order(entry));
    ++with_transfers;
    ChunkCosts costs = costs_of(entry);
    costs.transfer = 0.25;
    PlayedOrder const played = play_order(recorded_order(entry), costs);
    REQUIRE(played.in_units(played.makespan) == entry.at("mk_p2p025_async").get<double>());
  }
  REQUIRE(with_transfers > 20);
}

TEST_CASE("a recorded order holds as many chunks in flight as the oracle says") {
  for (auto const& entry : order_oracle()) {
    if (!entry.contains("peak_until_W")) continue;
    INFO(name_of_order(entry));
    PipelineOrder const order = recorded_order(entry);
    REQUIRE(peaks_of(order, InFlight::until_weight_gradient) ==
            entry.at("peak_until_W").get<std::vector<int>>());
    REQUIRE(peaks_of(order, InFlight::until_input_gradient) ==
            entry.at("peak_until_I").get<std::vector<int>>());
  }
}

TEST_CASE("a stage's time is computing, waiting for messages on their way, and bubble") {
  for (auto const& entry : order_oracle()) {
    INFO(name_of_order(entry));
    ChunkCosts costs = costs_of(entry);
    costs.transfer = 0.25;
    for (StageRuns const& stage : play_order(recorded_order(entry), costs).stages) {
      REQUIRE(stage.end == stage.busy + stage.transfer + stage.bubble);
      REQUIRE(stage.transfer >= SimTime{0});
      REQUIRE(stage.bubble >= SimTime{0});
    }
  }
}

TEST_CASE("an order that is read and written again is the same") {
  for (auto const& entry : order_oracle()) {
    REQUIRE(texts_of(recorded_order(entry)) == entry.at("orders").get<std::vector<std::string>>());
  }
}

}  // namespace stagecraft::recorded_orders_test
