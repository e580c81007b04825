#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "libsim/schedule/order_timeline.hpp"
#include "libsim/schedule/schedule_error.hpp"
#include "tests/oracle/order_oracle.hpp"

namespace stagecraft {

namespace {

using Catch::Contains;

PlayedOrder play_named(OrderRequest const& request, ChunkCosts const& costs) {
  return play_order(make_order(request), costs);
}

/// A row of table 5 of the zero-bubble paper with its profiled times (table 9), in ms.
struct PublishedRate {
  int stages;
  int microbatches;
  double forward;
  double input_gradient;
  double weight_gradient;
  double transfer;
  double zb_h1;  ///< bubble rate
  double zb_h2;  ///< likewise
};

/// Qi et al. 2023, arXiv:2401.10241, tables 5 and 9.
constexpr std::array<PublishedRate, 6> published_rates{{
    {8, 24, 18.522, 18.086, 9.337, 0.601, 0.1585, 0.1083},
    {8, 64, 18.546, 18.097, 9.321, 0.762, 0.0674, 0.0444},
    {8, 24, 29.718, 29.444, 19.927, 0.527, 0.1323, 0.0698},
    {8, 32, 29.802, 29.428, 19.53, 0.577, 0.1045, 0.0559},
    {16, 48, 11.347, 11.248, 8.132, 0.377, 0.1397, 0.0672},
    {16, 64, 11.307, 11.254, 8.101, 0.379, 0.1088, 0.0516},
}};

ChunkCosts costs_of(PublishedRate const& row) {
  return {.forward = row.forward,
          .backward = row.input_gradient + row.weight_gradient,
          .transfer = row.transfer,
          .input_gradient = row.input_gradient,
          .weight_gradient = row.weight_gradient};
}

/// (span - ideal) / span, to the four digits of the paper.
double bubble_rate(PlayedOrder const& played) {
  double const span = played.in_units(span_of(played));
  return std::round(1e4 * (1 - played.in_units(ideal_time(played)) / span)) / 1e4;
}

}  // namespace

TEST_CASE("a named schedule makes the order that the public scheduler made") {
  for (auto const& entry : order_oracle()) {
    OrderRequest const request = request_of(entry);
    INFO(name_of_order(entry));
    PipelineOrder const order = make_order(request);
    REQUIRE(texts_of(order) == entry.at("orders").get<std::vector<std::string>>());
    REQUIRE(order.placement == placement_of_order(entry));
  }
  REQUIRE(order_oracle().size() == 63);
}

TEST_CASE("every order of a named schedule is legal for all microbatches that it accepts") {
  for (auto const kind : {OrderKind::zb_h1, OrderKind::zb_h2, OrderKind::interleaved_zb,
                          OrderKind::zbv, OrderKind::dualpipev, OrderKind::dualpipe}) {
    int accepted = 0;
    for (int p = 1; p <= 6; ++p) {
      for (int n = 1; n <= 4 * p + 1; ++n) {
        CAPTURE(name_of(kind), p, n);
        PipelineOrder order;
        try {
          order = make_order({.kind = kind, .stages = p, .microbatches = n, .chunks = 2});
        } catch (ScheduleError const&) {
          continue;
        }
        ++accepted;
        REQUIRE_NOTHROW(play_order(order, {}));
      }
    }
    REQUIRE(accepted >= 9);
  }
}

TEST_CASE("ZB-H2 has the bubble rates that its paper prints") {
  for (PublishedRate const& row : published_rates) {
    CAPTURE(row.stages, row.microbatches, row.forward);
    OrderRequest const request{
        .kind = OrderKind::zb_h2, .stages = row.stages, .microbatches = row.microbatches};
    REQUIRE(bubble_rate(play_named(request, costs_of(row))) == row.zb_h2);
  }
}

TEST_CASE("ZB-H2 leaves (p-1)(F + I - 2W) in the span and holds 2p - 1 microbatches") {
  // Qi et al. 2023, section 2.2; with free transfers, W at most F and I.
  for (int const p : {1, 2, 3, 4, 7}) {
    for (int n = 2 * p - 1; n <= 5 * p; ++n) {
      CAPTURE(p, n);
      OrderRequest const request{.kind = OrderKind::zb_h2, .stages = p, .microbatches = n};
      PlayedOrder const played =
          play_named(request, {.forward = 4, .input_gradient = 4, .weight_gradient = 3});
      REQUIRE(played.in_units(span_of(played)) == 11 * n + (p - 1) * 2);
      for (std::size_t rank = 0; rank < played.ranks.size(); ++rank) {
        REQUIRE(most_in_flight(make_order(request), rank, InFlight::until_weight_gradient) ==
                2 * p - 1);
      }
    }
  }
}

TEST_CASE("quick ZB-H1 leaves (p-1)(F + I - W) of bubble where F = I = W and n >= p") {
  for (int const p : {1, 2, 3, 5, 8}) {
    for (int n = p; n <= 4 * p; ++n) {
      CAPTURE(p, n);
      PlayedOrder const played =
          play_named({.kind = OrderKind::zb_h1, .stages = p, .microbatches = n}, {});
      REQUIRE(played.in_units(played.makespan) == 3 * n + (p - 1));
    }
  }
}

TEST_CASE("DualPipe and DualPipeV leave the bubble of their README, and hold PP + 1 chunks") {
  // deepseek-ai/DualPipe: (PP/2-1)(F&B + B - 3W), of 2p stages in the V; here F=1, B=2, W=1, F&B=3.
  for (int const p : {2, 4, 6, 8}) {
    for (int n = 2 * p; n <= 5 * p; n += 2) {
      CAPTURE(p, n);
      OrderRequest const v{.kind = OrderKind::dualpipev, .stages = p, .microbatches = n};
      PlayedOrder const in_v = play_named(v, {});
      REQUIRE(in_v.in_units(in_v.makespan) == 6 * n + 2 * (p - 1));
      REQUIRE(most_in_flight(make_order(v), 0, InFlight::until_weight_gradient) == 2 * p + 1);
      OrderRequest const both{.kind = OrderKind::dualpipe, .stages = p, .microbatches = n};
      PlayedOrder const played = play_named(both, {});
      REQUIRE(played.in_units(played.makespan) == 3 * n + 2 * (p / 2 - 1));
      REQUIRE(most_in_flight(make_order(both), 0, InFlight::until_weight_gradient) == p + 1);
    }
  }
}

TEST_CASE("ZB-V has no bubble in its span from 2p - 1 microbatches on, and p - 1 in the makespan") {
  for (int const p : {1, 2, 3, 4, 8}) {
    for (int n = 2 * p - 1; n <= 4 * p; ++n) {
      CAPTURE(p, n);
      PlayedOrder const played =
          play_named({.kind = OrderKind::zbv, .stages = p, .microbatches = n}, {});
      REQUIRE(played.in_units(span_of(played)) == 6 * n);
      REQUIRE(played.in_units(played.makespan) == 6 * n + p - 1);
    }
  }
}

TEST_CASE("a shape that a schedule does not take is refused with what it takes") {
  auto const message = [](OrderRequest const& request) {
    try {
      make_order(request);
    } catch (ScheduleError const& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  REQUIRE_THAT(message({.kind = OrderKind::zb_h2, .stages = 4, .microbatches = 6}),
               Contains("found '6'; accepted: at least 2p - 1 (7)"));
  REQUIRE_THAT(message({.kind = OrderKind::dualpipev, .stages = 4, .microbatches = 7}),
               Contains("found '7'; accepted: at least 2p (8)"));
  REQUIRE_THAT(message({.kind = OrderKind::dualpipe, .stages = 3, .microbatches = 8}),
               Contains("pipeline stages of dualpipe: found '3'; accepted: an even number"));
  REQUIRE_THAT(message({.kind = OrderKind::dualpipe, .stages = 4, .microbatches = 9}),
               Contains("microbatches of dualpipe: found '9'; accepted: an even number"));
  REQUIRE_THAT(message({.kind = OrderKind::dualpipe, .stages = 4, .microbatches = 6}),
               Contains("found '6'; accepted: at least 2p (8)"));
  // floor(11/4) = 2 groups do not divide 11.
  REQUIRE_THAT(
      message({.kind = OrderKind::interleaved_zb, .stages = 4, .microbatches = 11, .chunks = 2}),
      Contains("found '11'; accepted: a multiple of floor(n/p) (2)"));
  REQUIRE_THAT(
      message(
          {.kind = OrderKind::interleaved, .stages = 2, .microbatches = 4, .expert_overlap = true}),
      Contains("found '1'; accepted: at least 2 on several stages"));
  REQUIRE_THAT(message({.kind = OrderKind::zbv, .stages = 0, .microbatches = 4}),
               Contains("pipeline stages: found '0'"));
}

}  // namespace stagecraft
