#include "libsim/schedule/generators/early_recompute.hpp"

#include <catch2/catch.hpp>

#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/schedule/orders/order_timeline.hpp"

namespace stagecraft::early_recompute_test {
namespace {

/// 1F1B of whole backwards.
PipelineOrder one_f_one_b(int p, int n) {
  PipelineOrder order{round_placement(p, 1), n, {}};
  for (int stage = 0; stage < p; ++stage) {
    auto& tasks = order.stages.emplace_back();
    int const ahead = std::min(n, p - 1 - stage);
    for (int i = 0; i < n + ahead; ++i) {
      if (i < n) tasks.push_back({{Pass::forward, MicrobatchId{i}, ChunkId{0}}});
      if (i >= ahead) tasks.push_back({{Pass::backward, MicrobatchId{i - ahead}, ChunkId{0}}});
    }
  }
  return order;
}

std::vector<RecomputeTimes> equal_times(int stages, RecomputeTimes const& times) {
  return std::vector<RecomputeTimes>(static_cast<std::size_t>(stages), times);
}

/// The same with recompute right before every backward that has none: what is part of a backward
/// that does not wait takes as long.
PipelineOrder with_all_recompute(PipelineOrder order) {
  for (auto& tasks : order.stages) {
    std::vector<OrderTask> made;
    for (OrderTask const& task : tasks) {
      OrderTask recompute = task;
      recompute.run.pass = Pass::recompute;
      bool const is_there = std::find(made.begin(), made.end(), recompute) != made.end();
      if (gives_gradient(task.run.pass) && !is_there) made.push_back(recompute);
      made.push_back(task);
    }
    tasks = made;
  }
  return order;
}

constexpr RecomputeTimes unit_times{.forward = SimTime{1},
                                    .backward = SimTime{3},
                                    .input_gradient = SimTime{2},
                                    .weight_gradient = SimTime{1},
                                    .recompute = SimTime{1}};

}  // namespace

TEST_CASE("recompute in the bubbles of 1F1B leaves only those of a run without it", "[schedule]") {
  auto const [p, n] = GENERATE(std::pair{2, 4}, std::pair{4, 8}, std::pair{4, 3}, std::pair{8, 24});
  CAPTURE(p, n);
  PipelineOrder const order = one_f_one_b(p, n);
  // As part of the backward: (n + p - 1)(F + R + B).
  PlayedOrder const whole = play_order(order, {.forward = 1, .backward = 3});
  REQUIRE(whole.in_units(whole.makespan) == (n + p - 1) * 4);
  PipelineOrder const early = with_early_recompute(order, equal_times(p, unit_times));
  // Each microbatch still takes F + R + B, but nobody waits for another's R.
  PlayedOrder const played = play_order(with_all_recompute(early), {.forward = 1, .backward = 2});
  REQUIRE(played.in_units(played.makespan) == n * 4 + (p - 1) * 3);
}

TEST_CASE("recompute that no wait hides stays in the backward", "[schedule]") {
  PipelineOrder const early = with_early_recompute(one_f_one_b(2, 3), equal_times(2, unit_times));
  // The last stage never waits. The first waits for each gradient: 2 and more after its forward.
  REQUIRE(order_text(early.stages[1]) == "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0");
  REQUIRE(order_text(early.stages[0]) == "F0.0 F1.0 R0.0 B0.0 F2.0 R1.0 B1.0 R2.0 B2.0");
  // A stage whose policy stores everything has nothing to recompute.
  std::vector<RecomputeTimes> times = equal_times(2, unit_times);
  times[0].recompute = SimTime{0};
  REQUIRE(with_early_recompute(one_f_one_b(2, 3), times) == one_f_one_b(2, 3));
}

TEST_CASE("what a window stores is not recomputed", "[schedule]") {
  std::vector<bool> stored(6);  // two virtual stages, three microbatches
  stored[1] = true;             // microbatch 1 of the first
  PipelineOrder const early =
      with_early_recompute(one_f_one_b(2, 3), equal_times(2, unit_times), stored);
  REQUIRE(order_text(early.stages[0]) == "F0.0 F1.0 R0.0 B0.0 F2.0 B1.0 R2.0 B2.0");
}

}  // namespace stagecraft::early_recompute_test
