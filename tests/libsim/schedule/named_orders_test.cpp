#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "libsim/schedule/orders/order_timeline.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "tests/oracle/order_oracle.hpp"

namespace stagecraft::named_orders_test {

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

TEST_CASE("a kind of order places its chunks as its row of order_kinds says") {
  constexpr int stages = 4;
  int made = 0;
  for (OrderKindTraits const& row : order_kinds) {
    INFO(row.name);
    int const chunks = row.chunks > 0 ? row.chunks : 2;
    OrderRequest const request{
        .kind = row.kind, .stages = stages, .microbatches = 8, .chunks = chunks};
    // Rules with a steady-state loop, files and searches are made elsewhere.
    bool const is_here = row.kind != OrderKind::one_f_one_b && row.kind != OrderKind::order &&
                         row.kind != OrderKind::searched;
    if (!is_here) {
      REQUIRE_THROWS_AS(make_order(request), ScheduleError);
      continue;
    }
    PipelineOrder const order = make_order(request);
    REQUIRE(order.placement == (row.placement == PlacementShape::v ? v_placement(stages)
                                : row.placement == PlacementShape::bidirectional
                                    ? bidirectional_placement(stages)
                                    : round_placement(stages, chunks)));
    REQUIRE_NOTHROW(play_order(order, {}));  // it is legal
    ++made;
  }
  REQUIRE(made == 14);
}

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
  for (auto const kind :
       {OrderKind::zb_h1, OrderKind::zb_h2, OrderKind::zb_auto, OrderKind::interleaved_zb,
        OrderKind::zbv, OrderKind::v_half, OrderKind::v_min, OrderKind::one_f_one_b_v,
        OrderKind::dualpipev, OrderKind::dualpipe, OrderKind::group_interleaved}) {
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

TEST_CASE("ZB-H1 that splits every backward has the bubble rates that its paper prints") {
  for (PublishedRate const& row : published_rates) {
    CAPTURE(row.stages, row.microbatches, row.forward);
    OrderRequest const request{.kind = OrderKind::zb_h1,
                               .stages = row.stages,
                               .microbatches = row.microbatches,
                               .fuse_adjacent = false};
    REQUIRE(bubble_rate(play_named(request, costs_of(row))) == row.zb_h1);
  }
}

TEST_CASE("ZB-H1 that splits every backward leaves (p-1)(F + I - W) and holds p microbatches") {
  // Qi et al. 2023, section 2.2; with free transfers, W at most F and I.
  for (int const p : {1, 2, 3, 4, 7}) {
    for (int n = p; n <= 4 * p; ++n) {
      CAPTURE(p, n);
      OrderRequest const request{
          .kind = OrderKind::zb_h1, .stages = p, .microbatches = n, .fuse_adjacent = false};
      PlayedOrder const played =
          play_named(request, {.forward = 4, .input_gradient = 4, .weight_gradient = 3});
      REQUIRE(played.in_units(played.makespan) == 11 * n + (p - 1) * 5);
      for (std::size_t stage = 0; stage < played.stages.size(); ++stage) {
        REQUIRE(most_in_flight(make_order(request), stage, InFlight::until_weight_gradient) == p);
      }
    }
  }
}

TEST_CASE(
    "fusing adjacent gradients leaves no input gradient right before its own weight gradient") {
  OrderRequest const request{
      .kind = OrderKind::zb_h1, .stages = 2, .microbatches = 3, .fuse_adjacent = false};
  PipelineOrder const split = make_order(request);
  REQUIRE(texts_of(split) ==
          std::vector<std::string>{"F0.0 F1.0 I0.0 W0.0 F2.0 I1.0 W1.0 I2.0 W2.0",
                                   "F0.0 I0.0 F1.0 I1.0 W0.0 F2.0 I2.0 W1.0 W2.0"});
  REQUIRE(texts_of(with_fused_backwards(split)) ==
          std::vector<std::string>{"F0.0 F1.0 B0.0 F2.0 B1.0 B2.0",
                                   "F0.0 I0.0 F1.0 I1.0 W0.0 F2.0 I2.0 W1.0 W2.0"});
  OrderRequest fused{.kind = OrderKind::zbv, .stages = 4, .microbatches = 8, .fuse_adjacent = true};
  for (auto const& tasks : make_order(fused).stages) {
    for (std::size_t i = 1; i < tasks.size(); ++i) {
      ChunkRun gradient = tasks[i].run;
      if (gradient.pass != Pass::weight_gradient) continue;
      gradient.pass = Pass::input_gradient;
      REQUIRE_FALSE(tasks[i - 1].run == gradient);
    }
  }
  fused.kind = OrderKind::dualpipev;
  fused.fuse_adjacent = false;
  REQUIRE_THROWS_WITH(make_order(fused), Contains("dualpipev has whole backwards"));
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
      for (std::size_t stage = 0; stage < played.stages.size(); ++stage) {
        REQUIRE(most_in_flight(make_order(request), stage, InFlight::until_weight_gradient) ==
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

TEST_CASE("V-Half and V-Min leave the bubbles and hold the chunks of their closed forms") {
  // Of orders made by sail-sg's scheduler for F = I = W and n from 2p on: bubbles 3p-7 (p even, 1
  // for two) or 3p-4, and 4p-5 or 4p-7 (p a multiple of 3); 2 floor((p+2)/2) and 2 floor((p+4)/3)
  // chunks.
  for (int p = 2; p <= 9; ++p) {
    int const n = 2 * p;
    CAPTURE(p);
    OrderRequest const half{.kind = OrderKind::v_half, .stages = p, .microbatches = n};
    int const half_bubble = p == 2 ? 1 : p % 2 == 0 ? 3 * p - 7 : 3 * p - 4;
    PlayedOrder const played_half = play_named(half, {});
    REQUIRE(played_half.in_units(played_half.makespan) == 6 * n + half_bubble);
    OrderRequest const least{.kind = OrderKind::v_min, .stages = p, .microbatches = n};
    PlayedOrder const played_least = play_named(least, {});
    REQUIRE(played_least.in_units(played_least.makespan) ==
            6 * n + (p % 3 == 0 ? 4 * p - 7 : 4 * p - 5));
    int most_half = 0;
    int most_least = 0;
    for (std::size_t stage = 0; stage < static_cast<std::size_t>(p); ++stage) {
      most_half = std::max(
          most_half, most_in_flight(make_order(half), stage, InFlight::until_weight_gradient));
      most_least = std::max(
          most_least, most_in_flight(make_order(least), stage, InFlight::until_weight_gradient));
    }
    REQUIRE(most_half == 2 * ((p + 2) / 2));
    REQUIRE(most_least == 2 * ((p + 4) / 3));
  }
}

TEST_CASE("ZB-1P and ZB-2P have the bubble rates of ZB-H1 and the bound in their paper") {
  // Table 5 prints ZB-1p with the rates of ZB-H1. Memory as in the paper's model: of a layer,
  // 34h + 5as at the forward, 32h until the weight gradient.
  struct Model {
    double hidden;
    double heads;
    double zb_2p;
  };
  constexpr std::array<Model, 6> models{{{2304, 24, 0.0433},
                                         {2304, 24, 0.0026},
                                         {4096, 32, 0.0029},
                                         {4096, 32, 0.0022},
                                         {5120, 40, 0.0066},
                                         {5120, 40, 0.0054}}};
  for (std::size_t i = 0; i < models.size(); ++i) {
    PublishedRate const& row = published_rates.at(i);
    auto const& [hidden, heads, zb_2p] = models.at(i);
    CAPTURE(row.stages, row.microbatches, hidden);
    double const scores = 5 * heads * 1024;
    OrderRequest request{.kind = OrderKind::zb_auto,
                         .stages = row.stages,
                         .microbatches = row.microbatches,
                         .costs = costs_of(row),
                         .memory = {34 * hidden + scores, -2 * hidden - scores, -32 * hidden}};
    REQUIRE(bubble_rate(play_named(request, costs_of(row))) == row.zb_h1);
    request.memory_limit = 2 * row.stages;
    REQUIRE(bubble_rate(play_named(request, costs_of(row))) == zb_2p);
  }
}

TEST_CASE("orders that are fitted to a memory limit stay within it") {
  auto const most_held = [](OrderKind kind, int p, int limit) {
    PipelineOrder const order =
        make_order({.kind = kind, .stages = p, .microbatches = 3 * p, .memory_limit = limit});
    play_order(order, {});
    int most = 0;
    for (std::size_t stage = 0; stage < order.stages.size(); ++stage) {
      most = std::max(most, most_in_flight(order, stage, InFlight::until_weight_gradient));
    }
    return most;
  };
  for (int const p : {2, 4, 6}) {
    for (int limit = 1; limit <= 2 * p; ++limit) {
      CAPTURE(p, limit);
      REQUIRE(most_held(OrderKind::zb_auto, p, limit) <= limit);
      // No block of a V needs less than V-Min.
      if (limit >= 2 * ((p + 4) / 3)) REQUIRE(most_held(OrderKind::v_auto, p, limit) <= limit);
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
  REQUIRE_THAT(
      message({.kind = OrderKind::zb_auto, .stages = 4, .microbatches = 8, .memory_limit = 0.5}),
      Contains("memory limit: found '0.5' forwards, too few for stage 0 although"));
  // The first forward of a microbatch is held already.
  REQUIRE_THAT(message({.kind = OrderKind::zbv,
                        .stages = 4,
                        .microbatches = 8,
                        .chunks = 2,
                        .variant = OrderVariant::automatic,
                        .memory_limit = 0.5}),
               Contains("memory limit: found '0.5' forwards, which zbv exceeds: a stage would "
                        "hold 1; accepted: a larger limit"));
  REQUIRE_THAT(
      message({.kind = OrderKind::v_auto, .stages = 4, .microbatches = 8, .memory_limit = 2}),
      Contains("memory limit of v_auto: found '2' chunks; accepted: more"));
  REQUIRE_THAT(message({.kind = OrderKind::v_auto, .stages = 1, .microbatches = 8}),
               Contains("found '1'; accepted: at least 2"));
  REQUIRE_THAT(
      message({.kind = OrderKind::zb_auto, .stages = 2, .microbatches = 4, .memory = {1, 0.5, -1}}),
      Contains("accepted: f above 0, w not above 0, and f + i + w = 0"));
  REQUIRE_THAT(message({.kind = OrderKind::group_interleaved,
                        .stages = 4,
                        .microbatches = 8,
                        .chunks = 2,
                        .group = 5}),
               Contains("found '5'; accepted: 1 to p (4)"));
  REQUIRE_THAT(message({.kind = OrderKind::group_interleaved,
                        .stages = 4,
                        .microbatches = 8,
                        .chunks = 2,
                        .group = 2,
                        .recompute_chunks = 1}),
               Contains("found '2'; accepted: 1 with recomputed chunks"));
  REQUIRE_THAT(message({.kind = OrderKind::group_interleaved,
                        .stages = 4,
                        .microbatches = 8,
                        .chunks = 2,
                        .recompute_chunks = 3}),
               Contains("found '3'; accepted: 0 to 2"));
  REQUIRE_THAT(message({.kind = OrderKind::zbv, .stages = 0, .microbatches = 4}),
               Contains("pipeline stages: found '0'"));
}

}  // namespace stagecraft::named_orders_test
