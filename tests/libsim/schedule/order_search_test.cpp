#include "libsim/schedule/generators/order_search.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "libsim/schedule/orders/letter_order.hpp"
#include "libsim/schedule/orders/makespan_bound.hpp"
#include "libsim/schedule/orders/order_timeline.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "tests/oracle/order_oracle.hpp"

namespace stagecraft::order_search_test {

namespace {

using Catch::Contains;

StageTicks ticks_of(ChunkCosts const& costs, CostTicks const& ticks) {
  return StageTicks{SplitTicks{ticks.of(costs.forward), ticks.of(costs.input_gradient),
                               ticks.of(costs.weight_gradient), ticks.of(costs.transfer)}};
}

/// The most chunks that some stage of an order holds until their weight gradients.
int most_held(PipelineOrder const& order) {
  int most = 0;
  for (std::size_t stage = 0; stage < order.stages.size(); ++stage) {
    most = std::max(most, most_in_flight(order, stage, InFlight::until_weight_gradient));
  }
  return most;
}

/// Every legal order of a stage with one chunk that holds at most `limit` microbatches.
std::vector<std::vector<std::uint16_t>> all_stage_orders(int microbatches,
                                                         double limit,
                                                         MemoryChanges const& memory = {}) {
  std::vector<std::uint16_t> letters;
  for (std::uint16_t each = 0; each < 3; ++each) {
    letters.insert(letters.end(), static_cast<std::size_t>(microbatches), each);
  }
  std::vector<std::vector<std::uint16_t>> orders;
  do {
    if (is_stage_legal(letters, 1, memory, limit)) orders.push_back(letters);
  } while (std::next_permutation(letters.begin(), letters.end()));
  return orders;
}

using StageOrders = std::vector<std::vector<std::uint16_t>>;

/// The least makespan of orders of one chunk per stage, each of those of its stage.
SimTime least_of(std::vector<StageOrders> const& stage_orders,
                 int microbatches,
                 StageTicks const& costs) {
  auto const stages = static_cast<int>(stage_orders.size());
  LetterOrder order{round_placement(stages, 1), microbatches, {}};
  LetterPlayer player{order.placement, microbatches, costs};
  std::vector<std::size_t> chosen(stage_orders.size());
  SimTime least = SimTime::max();
  while (true) {
    order.stages.clear();
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      order.stages.push_back(stage_orders[i][chosen[i]]);
    }
    if (auto const times = player.play(order)) least = std::min(least, times->makespan);
    std::size_t stage = 0;
    while (stage < chosen.size() && ++chosen[stage] == stage_orders[stage].size()) {
      chosen[stage++] = 0;
    }
    if (stage == chosen.size()) return least;
  }
}

/// The least makespan of all orders of one chunk per stage.
SimTime least_of_all(int stages, int microbatches, StageTicks const& costs, double limit) {
  return least_of({static_cast<std::size_t>(stages), all_stage_orders(microbatches, limit)},
                  microbatches, costs);
}

}  // namespace

TEST_CASE("letters are played as the orders that they stand for") {
  int played_orders = 0;
  for (auto const& entry : order_oracle()) {
    PipelineOrder const order = recorded_order(entry);
    auto const letters = letters_of(order);
    std::string const text = entry.at("orders").dump();
    bool const is_split = text.find('B') == std::string::npos;
    if (!letters || !is_split) continue;
    INFO(name_of_order(entry));
    ++played_orders;
    REQUIRE(order_of(*letters) == order);
    CostTicks const ticks{costs_of(entry), 1e6};
    LetterPlayer player{order.placement, order.microbatches, ticks_of(costs_of(entry), ticks)};
    SimTime const makespan = player.play(*letters)->makespan;
    REQUIRE(static_cast<double>(makespan.count()) / ticks.ticks_per_unit() ==
            entry.at("makespan").get<double>());
  }
  REQUIRE(played_orders > 30);
}

TEST_CASE("no recorded order undercuts the bound of its memory") {
  int bounded = 0;
  for (auto const& entry : order_oracle()) {
    PipelineOrder const order = recorded_order(entry);
    if (order.placement.copies() > 1) continue;
    INFO(name_of_order(entry));
    ++bounded;
    CostTicks const ticks{costs_of(entry), 1e6};
    SimTime const bound = makespan_bound(order.placement, order.microbatches,
                                         ticks_of(costs_of(entry), ticks), {}, most_held(order));
    REQUIRE(static_cast<double>(bound.count()) / ticks.ticks_per_unit() <=
            entry.at("makespan").get<double>());
  }
  REQUIRE(bounded == 60);
}

TEST_CASE("the bound of a full pipeline is 3n + p - 1 for F = I = W and memory for 1F1B") {
  // ZB-H1 reaches it: (p-1)(F + I - W) of bubble.
  for (int const p : {1, 2, 4, 8}) {
    for (int n = p; n <= 4 * p; ++n) {
      CAPTURE(p, n);
      StageTicks const unit{SplitTicks{SimTime{1}, SimTime{1}, SimTime{1}, SimTime{0}}};
      REQUIRE(makespan_bound(round_placement(p, 1), n, unit, {}, p) == SimTime{3 * n + p - 1});
    }
  }
}

TEST_CASE("no order within its stages' rooms is faster than their bound") {
  // By hand: with room for one microbatch on the first stage, each makes its round trip of 12 alone
  // (forwards of 1 and 2, input gradients of 2 and 1, messages of 3 there and back). A weight
  // gradient of 1 follows the last, or, if the microbatch is held for it, each.
  StageTicks const costs{std::vector{SplitTicks{SimTime{1}, SimTime{1}, SimTime{1}, SimTime{3}},
                                     SplitTicks{SimTime{2}, SimTime{2}, SimTime{1}, SimTime{3}}}};
  int reached = 0;
  int raised = 0;
  for (double const for_weights : {0.0, 0.5, 1.0}) {
    MemoryChanges const memory{
        .forward = 1, .input_gradient = for_weights - 1, .weight_gradient = -for_weights};
    for (int const n : {1, 2, 3}) {
      auto const bound_of = [&](double first, double last) {
        HeldMemory const held{.in_flight = 1, .for_weights = for_weights};
        return makespan_bound(round_placement(2, 1), n, costs,
                              {.held = {held, held}, .room = {first, last}});
      };
      for (double const first : {1.0, 1.4, 1.9, 2.0, 3.0}) {
        for (double const last : {1.0, 2.0, 3.0}) {
          CAPTURE(for_weights, n, first, last);
          SimTime const least = least_of(
              {all_stage_orders(n, first, memory), all_stage_orders(n, last, memory)}, n, costs);
          SimTime const bound = bound_of(first, last).value();
          REQUIRE(bound <= least);
          reached += bound == least ? 1 : 0;
          raised += bound > bound_of(n, n).value() ? 1 : 0;
          if (first < 1.5) REQUIRE(bound >= SimTime{12 * n + 1});
          if (first < 1.5 && for_weights == 1) REQUIRE(bound == SimTime{13 * n});
        }
      }
      REQUIRE_FALSE(bound_of(0.9, 3).has_value());
    }
  }
  REQUIRE(reached > 30);
  REQUIRE(raised > 15);
}

TEST_CASE("a search finds the best of all orders of small pipelines, and no bound exceeds it") {
  struct Shape {
    int stages;
    int microbatches;
    int limit;
  };
  for (auto const& [p, n, limit] : {Shape{2, 2, 1}, Shape{2, 2, 2}, Shape{2, 3, 1}, Shape{2, 3, 2},
                                    Shape{2, 3, 3}, Shape{3, 2, 1}, Shape{3, 2, 2}}) {
    for (ChunkCosts const& costs :
         {ChunkCosts{}, ChunkCosts{.forward = 2, .input_gradient = 3, .weight_gradient = 1},
          ChunkCosts{.forward = 3, .transfer = 1, .input_gradient = 4, .weight_gradient = 5}}) {
      CAPTURE(p, n, limit, costs.forward);
      OrderRequest const request{.kind = OrderKind::searched,
                                 .stages = p,
                                 .microbatches = n,
                                 .costs = costs,
                                 .memory_limit = limit};
      FoundOrder const found = search_order(request, {.iterations = 3000});
      CostTicks const ticks{costs, 1e6};
      double const least =
          static_cast<double>(least_of_all(p, n, ticks_of(costs, ticks), limit).count()) /
          ticks.ticks_per_unit();
      PlayedOrder const played = play_order(found.order, costs);
      REQUIRE(played.in_units(played.makespan) == least);
      REQUIRE(found.lower_bound <= least);
      REQUIRE(most_held(found.order) <= limit);
    }
  }
}

TEST_CASE("adjacent halves that join are played as the whole backward that they are") {
  // Halves of 3 + 2, whole 4: the gradient of a whole backward is sent a unit later.
  ChunkCosts const costs{
      .forward = 2, .backward = 4, .transfer = 1, .input_gradient = 3, .weight_gradient = 2};
  StageTicks const ticks{SplitTicks{SimTime{2}, SimTime{3}, SimTime{2}, SimTime{1}, SimTime{1}}};
  int played_orders = 0;
  for (auto const& entry : order_oracle()) {
    auto const letters = letters_of(recorded_order(entry));
    if (!letters) continue;
    INFO(name_of_order(entry));
    LetterPlayer player{letters->placement, letters->microbatches, ticks};
    auto const times = player.play(*letters);
    PipelineOrder const joined = order_of(*letters, true);
    played_orders += joined == order_of(*letters) ? 0 : 1;
    PlayedOrder const played = play_order(joined, costs);
    REQUIRE(times.has_value());
    REQUIRE(static_cast<double>(times->makespan.count()) == played.in_units(played.makespan));
  }
  REQUIRE(played_orders > 30);
}

TEST_CASE("a search with costs by stage and whole backwards finds the best of small pipelines") {
  ChunkCosts const first{
      .forward = 2, .backward = 5, .transfer = 1, .input_gradient = 3, .weight_gradient = 3};
  ChunkCosts const last{
      .forward = 4, .backward = 6, .transfer = 1, .input_gradient = 4, .weight_gradient = 4};
  StageTicks const ticks{
      std::vector{SplitTicks{SimTime{2}, SimTime{3}, SimTime{3}, SimTime{1}, SimTime{1}},
                  SplitTicks{SimTime{4}, SimTime{4}, SimTime{4}, SimTime{1}, SimTime{2}}}};
  for (int const n : {2, 3}) {
    for (int limit = 1; limit <= n; ++limit) {
      CAPTURE(n, limit);
      FoundOrder const found = search_order({.stages = 2,
                                             .microbatches = n,
                                             .costs = first,
                                             .stage_costs = {first, last},
                                             .joins_backward = true,
                                             .memory_limit = limit},
                                            {.iterations = 3000});
      auto const least = static_cast<double>(least_of_all(2, n, ticks, limit).count());
      auto const letters = letters_of(found.order);
      REQUIRE(letters.has_value());
      LetterPlayer player{letters->placement, n, ticks};
      REQUIRE(static_cast<double>(player.play(*letters)->makespan.count()) == least);
      REQUIRE(found.lower_bound <= least);
      // The last stage alone: F 2, C 1, then n times F 4 and B 6.
      REQUIRE(found.lower_bound >= 3 + 10 * n);
      REQUIRE(most_held(found.order) <= limit);
    }
  }
}

TEST_CASE("a searched order is never worse than a named one within the limit") {
  ChunkCosts const costs{.forward = 18.522,
                         .backward = 27.423,
                         .transfer = 0.601,
                         .input_gradient = 18.086,
                         .weight_gradient = 9.337};
  for (int const limit : {2, 4, 6, 8}) {
    OrderRequest request{.stages = 4, .microbatches = 10, .costs = costs, .memory_limit = limit};
    FoundOrder const found = search_order(request, {.iterations = 500});
    double const makespan = [&] {
      PlayedOrder const played = play_order(found.order, costs);
      return played.in_units(played.makespan);
    }();
    REQUIRE(most_held(found.order) <= limit);
    REQUIRE(found.lower_bound <= makespan);
    for (OrderKind const kind : {OrderKind::zb_h1, OrderKind::zb_h2, OrderKind::zb_auto}) {
      request.kind = kind;
      PipelineOrder const named = make_order(request);
      if (most_held(named) > limit) continue;
      PlayedOrder const played = play_order(named, costs);
      REQUIRE(makespan <= played.in_units(played.makespan));
    }
  }
}

TEST_CASE(
    "equal seeds and iterations give equal orders, and the result says what ended the search") {
  OrderRequest const request{.stages = 4, .microbatches = 8, .chunks = 2, .memory_limit = 4};
  FoundOrder const first = search_order(request, {.seed = 7, .iterations = 400});
  FoundOrder const second = search_order(request, {.seed = 7, .iterations = 400});
  REQUIRE(first.order == second.order);
  REQUIRE(first.iterations == 400);
  REQUIRE(first.ended_by == SearchEnd::iterations);
  FoundOrder const capped = search_order(request, {.seed = 7, .iterations = 400, .seconds = 0});
  REQUIRE(capped.ended_by == SearchEnd::seconds);
  REQUIRE(capped.iterations == 0);
  // ZB-H1 reaches the bound at once.
  FoundOrder const at_bound = search_order({.stages = 4, .microbatches = 8}, {});
  REQUIRE(at_bound.ended_by == SearchEnd::bound);
  REQUIRE(at_bound.lower_bound == 27);
}

TEST_CASE("a memory limit that no order keeps is said to have none") {
  REQUIRE_THROWS_WITH(
      search_order({.stages = 4, .microbatches = 8, .memory_limit = 0.5}, {}),
      Contains("memory limit: found '0.5' forwards, within which no order was found"));
}

}  // namespace stagecraft::order_search_test
