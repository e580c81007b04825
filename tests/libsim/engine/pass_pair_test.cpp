#include "libsim/engine/player/pass_pair.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/training/expert_overlap.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::pass_pair_test {
namespace {

SimTime ticks(std::int64_t count) { return SimTime{count}; }

/// A layer whose exchanges take `exchange` each: attention and router 10, experts 6, the sum of
/// tokens 1.
std::vector<PassNode> forward_layer(std::int64_t exchange) {
  return {{ticks(10), ticks(exchange)}, {ticks(6), ticks(exchange)}, {ticks(1), ticks(0)}};
}

/// Its backward: 1, 12 and 20.
std::vector<PassNode> backward_layer(std::int64_t exchange) {
  return {{ticks(1), ticks(exchange)}, {ticks(12), ticks(exchange)}, {ticks(20), ticks(0)}};
}

SimTime together(std::int64_t exchange, int slowdown_millionths = 0) {
  PairPlayer pair{slowdown_millionths};
  pair.together(forward_layer(exchange), backward_layer(exchange));
  return pair.end();
}

TEST_CASE("a forward and a backward hide the exchanges of each other, in Megatron-LM's order",
          "[engine]") {
  // Attention runs from 1 to 11, the experts' backward to 23, the experts to 29, attention's
  // backward to 49, the sum to 50: nothing waits, and all that remains is computation.
  REQUIRE(together(4) == ticks(50));
  // The first exchange ends at 21, the experts' backward at 33. Exchanges then follow each other
  // and end at 41, 61 and 81; the sum comes after the last.
  REQUIRE(together(20) == ticks(82));
}

TEST_CASE("passes without exchanges take no less beside each other", "[engine]") {
  PairPlayer pair{0};
  pair.forward(std::vector<PassNode>{{ticks(3), ticks(0)}});
  pair.together(std::vector<PassNode>{{ticks(10), ticks(0)}},
                std::vector<PassNode>{{ticks(20), ticks(0)}});
  pair.backward(backward_layer(5));  // a layer without a partner waits for its own exchanges
  REQUIRE(pair.end() == ticks(3 + 10 + 20 + (1 + 5 + 12 + 5 + 20)));
}

TEST_CASE("computation is slowed down while tokens of the other pass travel", "[engine]") {
  PairPlayer pair{500'000};
  // Of 10, 3 are done in the 6 in which tokens travel.
  pair.together(std::vector<PassNode>{{ticks(10), ticks(0)}},
                std::vector<PassNode>{{ticks(0), ticks(6)}});
  REQUIRE(pair.end() == ticks(13));
}

TEST_CASE("kernels that leave multiprocessors free are slowed down in all of the pair",
          "[engine]") {
  PairPlayer pair{500'000, true};
  pair.together(std::vector<PassNode>{{ticks(10), ticks(0)}},
                std::vector<PassNode>{{ticks(0), ticks(6)}});
  REQUIRE(pair.end() == ticks(20));
}

/// Four layers with a matrix of experts each, on two ranks; each rank has half of the experts.
TrainingConfig mixture(bool overlaps, int ranks = 2) {
  TrainingConfig config;
  config.model = gpt(4, 128, 8, 64, 1000);
  config.model.biases = false;
  config.model.experts = ExpertsConfig{.count = 4, .per_token = 1, .ffn_hidden = 256};
  config.parallel = {.data = ranks, .expert = ranks, .expert_overlap = overlaps};
  config.batch = {.global = 8, .micro = 1};
  settle_expert_overlap(config);
  return config;
}

System slow_network() {
  System system = invented_system();
  system.node.all_gather.value = {.latency = {0}, .bandwidth = {1e9}, .table = {}};
  system.calibration.overlap_slowdown.value = 0;
  return system;
}

TEST_CASE("the second task of a pair takes what the pair leaves of both", "[engine]") {
  System const system = slow_network();
  TrainingPlan const plan = make_plan(as_settled(mixture(true)));
  CostedPlan const costed{plan, system};
  std::vector<Task> const& tasks = plan.stages.front().tasks;
  std::vector<TaskProfile> const& profiles = costed.tasks(0);
  auto const second =
      std::ranges::find_if(tasks, [](Task const& task) { return task.beside >= 0; });
  REQUIRE(second != tasks.end());
  Task const& first = tasks[static_cast<std::size_t>(second->beside)];
  REQUIRE(first.kind == Task::Kind::forward);
  REQUIRE(second->kind == Task::Kind::backward);
  TaskProfile const& profile = profiles[static_cast<std::size_t>(second - tasks.begin())];
  REQUIRE(profile.hidden.sum() > SimTime{0});
  REQUIRE(profile.shares.sum() == profile.duration);
  // What both compute is not hidden, and neither is more than all exchanges.
  SimTime exchanges{0};
  for (TaskBlock const& of_task : blocks_in_order(plan.programs, *second)) {
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      exchanges += exchange_time(nodes_of(plan.programs.blocks[of_task.block].ops(pass),
                                          costed.blocks()[of_task.block].times(pass)));
    }
  }
  REQUIRE(profile.hidden.sum() <= exchanges);
}

TEST_CASE("what a pair hides of its exchanges counts as forward and backward by halves",
          "[engine]") {
  System system = slow_network();
  // Forward and backward send the same bytes: the backward returns the gradients of what the
  // forward sent. So half of what is hidden is the forward's, however much of it that is.
  for (double const bandwidth : {1e9, 1e12}) {
    CAPTURE(bandwidth);
    system.node.all_gather.value.bandwidth = {bandwidth};
    TrainingPlan const plan = make_plan(as_settled(mixture(true)));
    CostedPlan const costed{plan, system};
    auto const second = std::ranges::find_if(costed.tasks(0), [](TaskProfile const& profile) {
      return profile.hidden.sum() > SimTime{0};
    });
    REQUIRE(second != costed.tasks(0).end());
    double const both = static_cast<double>(second->hidden.sum().count());
    REQUIRE(static_cast<double>(second->hidden.forward.count()) == Approx(both / 2).epsilon(0.02));
  }
}

TEST_CASE("a pair loses the multiprocessors that DeepEP's kernels occupy while tokens travel",
          "[engine]") {
  System system = slow_network();
  system.node.all_gather.value.bandwidth = {1e12};  // exchanges end within what runs beside them
  system.accelerator.multiprocessors.value = 8;
  auto const hidden = [&](int occupied) {
    TrainingConfig config = mixture(true);
    config.dispatch = Dispatch::deepep;
    config.parallel.dispatch_multiprocessors = occupied;
    TrainingPlan const plan = make_plan(as_settled(config));
    CostedPlan const costed{plan, system};
    SimTime sum{0};
    for (TaskProfile const& profile : costed.tasks(0)) sum += profile.hidden.sum();
    return static_cast<double>(sum.count());
  };
  // A kernel loses as much of its speed as it lacks multiprocessors, for the time of the exchange.
  REQUIRE(hidden(2) > hidden(4));
  REQUIRE(hidden(2) - hidden(4) == Approx(hidden(4) - hidden(6)).epsilon(1e-3));
  REQUIRE(hidden(2) == Approx(3 * hidden(6)).epsilon(1e-3));  // 1 - 2/8 and 1 - 6/8 of them
}

TEST_CASE("an iteration of pairs is shorter by what they hide", "[engine]") {
  System const system = slow_network();
  TrainingPlan const plan = make_plan(as_settled(mixture(true)));
  CostedPlan const costed{plan, system};
  SimTime hidden{0};
  std::vector<TaskProfile> const& profiles = costed.tasks(0);
  visit_entries(plan.stages.front().program, [&](IssueEntry const& entry, std::int32_t) {
    if (entry.kind != IssueEntry::Kind::run) return;
    hidden += profiles[static_cast<std::size_t>(entry.task)].hidden.sum();
  });
  REQUIRE(hidden > SimTime{0});
  // On one stage the order of passes changes nothing but what runs beside what.
  SimTime const apart = simulate(make_plan(as_settled(mixture(false))), system).iteration;
  REQUIRE(simulate(plan, system).iteration == apart - hidden);
}

}  // namespace
}  // namespace stagecraft::pass_pair_test
