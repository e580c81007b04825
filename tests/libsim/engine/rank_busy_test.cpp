#include "libsim/engine/rank_busy.hpp"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/training/settled_config.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/uneven_runs.hpp"

/// The time of ranks whose experts compute different numbers of rows.
namespace stagecraft::rank_busy_test {
namespace {

using Rows = std::vector<std::int64_t>;

/// Four layers of 4 experts, one per token; 64 tokens a microbatch, `replicas` of them, of which
/// two share the experts.
TrainingConfig mixture(int replicas, Routing routing) {
  TrainingConfig config;
  config.model = gpt(4, 128, 8, 64, 1000);
  config.model.experts = ExpertsConfig{.count = 4, .per_token = 1, .ffn_hidden = 256};
  config.parallel = {.data = replicas, .expert = 2};
  config.batch = {.global = replicas, .micro = 1};
  config.routing = std::move(routing);
  return config;
}

/// Layer by layer.
Routing counted(std::vector<Rows> const& layers) {
  CountsFile file{"counts.csv", {}};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    file.layers.push_back({static_cast<std::int64_t>(i), every_microbatch, layers[i]});
  }
  return {.counts = SharedCounts{std::move(file)}};
}

StageResult stage_of(TrainingConfig const& config) {
  return simulate(make_plan(as_settled(config)), invented_system()).stages.front();
}

Rows const even{16, 16, 16, 16};
Rows const first_is_hot{32, 32, 0, 0};
Rows const second_is_hot{0, 0, 32, 32};

TEST_CASE("a rank that is the hottest in every layer waits for nobody", "[engine]") {
  StageResult const stage = stage_of(mixture(2, {.factor = 1.5}));
  RankBusy const& busy = stage.rank_busy.value();
  REQUIRE(busy.hottest == 0);
  REQUIRE(busy.coldest == 1);
  REQUIRE(busy.of_hottest == stage.busy);
  REQUIRE(busy.of_coldest < stage.busy);
}

TEST_CASE("ranks that are hot in different layers wait for each other", "[engine]") {
  Routing const routing = counted({first_is_hot, second_is_hot, first_is_hot, second_is_hot});
  StageResult const stage = stage_of(mixture(2, routing));
  RankBusy const& busy = stage.rank_busy.value();
  REQUIRE(busy.of_hottest == busy.of_coldest);  // as many rows in all
  REQUIRE(busy.of_hottest < stage.busy);
  // Layer by layer the stage is as busy as if one rank were hot in all of them.
  REQUIRE(stage_of(mixture(2, counted(std::vector(4, first_is_hot)))).busy == stage.busy);
}

TEST_CASE("balanced routing has no rank to wait for", "[engine]") {
  REQUIRE_FALSE(stage_of(mixture(2, {})).rank_busy);
}

TEST_CASE("replicas that exchange no rows wait only at the end", "[engine]") {
  // Replicas 0 and 1, and 2 and 3, exchange rows. In two layers a rank of the former is hot, in two
  // one of the latter: neither takes as long as one that is hot in all four.
  auto const busy = [](std::vector<std::vector<int>> const& hot) {
    CountsFile file{"counts.csv", {}};
    for (std::int64_t layer = 0; layer < 4; ++layer) {
      file.layers.push_back({layer, every_microbatch, even});
      for (int const replica : hot[static_cast<std::size_t>(layer)]) {
        file.layers.push_back({layer, BatchMicrobatchId{replica}, first_is_hot});
      }
    }
    return stage_of(mixture(4, {.counts = SharedCounts{std::move(file)}})).busy;
  };
  SimTime const apart = busy({{0, 1}, {2, 3}, {0, 1}, {2, 3}});
  REQUIRE(apart == busy({{0, 1}, {}, {0, 1}, {}}));
  REQUIRE(apart < busy({{0, 1}, {0, 1}, {0, 1}, {0, 1}}));
  REQUIRE(busy({{}, {}, {}, {2, 3}}) == busy({{}, {}, {}, {0, 1}}));
}

TEST_CASE("experts of a rank with all or no rows have the tiles of their own", "[engine]") {
  // As many rows for each rank; those of one expert fill fewer tiles than those of two, and one
  // weight is read.
  REQUIRE(stage_of(mixture(2, counted(std::vector(4, Rows{32, 0, 32, 0})))).busy <
          stage_of(mixture(2, counted(std::vector(4, even)))).busy);
}

TEST_CASE("a stage is busy for as long as each of its ranks, whether rows or weights take longest",
          "[engine]") {
  // Of 128 rows, 80 of one expert for the first rank, and 12 of each of four for the second, which
  // reads four times as many weights; and the other way round.
  for (Rows const& rows : {Rows{40, 0, 0, 0, 6, 6, 6, 6}, Rows{6, 6, 6, 6, 0, 40, 0, 0}}) {
    TrainingConfig config = mixture(2, counted(std::vector(4, rows)));
    config.model.experts->count = 8;
    config.model.experts->ffn_hidden = 4096;
    StageResult const stage = stage_of(config);
    int const wide = rows[0] == 40 ? 1 : 0;
    REQUIRE(stage.rank_busy->of_hottest > stage.rank_busy->of_coldest);
    REQUIRE(stage.busy >= stage.rank_busy->of_hottest);
    REQUIRE(stage.rank_busy->hottest == wide);
  }
}

TEST_CASE("tokens that are sent once wait for the rank that most of them reach", "[engine]") {
  auto const busy = [](Routing routing) {
    TrainingConfig config = mixture(2, std::move(routing));
    config.dispatch = Dispatch::deepep;
    System system = invented_system();
    system.node.all_gather.value.bandwidth = {1e6};  // exchanges take nearly all of the time
    Simulation const simulation = simulate(make_plan(as_settled(config)), system);
    return to_seconds(simulation.stages.front().busy);
  };
  // Each token chooses one expert: three quarters of them reach a rank with three quarters of the
  // rows.
  REQUIRE(busy({.factor = 1.5}) / busy(counted(std::vector(4, even))) == Approx(1.5).epsilon(0.01));
}

}  // namespace
}  // namespace stagecraft::rank_busy_test
