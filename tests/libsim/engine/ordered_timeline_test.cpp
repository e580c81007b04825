#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <tuple>
#include <utility>

#include "libsim/engine/player/schedule_timeline.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/run_schedule.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/split_runs.hpp"
#include "tests/oracle/order_oracle.hpp"

namespace stagecraft::ordered_timeline_test {
namespace {

ScheduleShape shape_of(PipelineOrder order) {
  ScheduleShape shape{ScheduleKind::order,
                      order.placement.stages(),
                      order.microbatches,
                      order.placement.chunks(),
                      0,
                      P2p::overlapped};
  shape.order = SharedOrder{std::move(order)};
  return shape;
}

bool is_for_plans(PipelineOrder const& order) {
  bool const recomputes =
      std::any_of(order.stages.begin(), order.stages.end(), [](auto const& rank) {
        return std::any_of(rank.begin(), rank.end(),
                           [](OrderTask const& task) { return task.run.pass == Pass::recompute; });
      });
  return order.placement.copies() == 1 && !recomputes;
}

}  // namespace

TEST_CASE("a recorded order, laid out with messages and played, takes the oracle's time",
          "[ordered]") {
  int played_orders = 0;
  for (auto const& entry : order_oracle()) {
    PipelineOrder const order = recorded_order(entry);
    if (!is_for_plans(order)) continue;
    INFO(name_of_order(entry));
    ++played_orders;
    ChunkCosts costs = costs_of(entry);
    PipelineSchedule const schedule = make_pipeline_schedule(shape_of(order));
    PlayedOrder const played = play_schedule(schedule, costs);
    REQUIRE(played.in_units(played.makespan) == entry.at("makespan").get<double>());
    REQUIRE(played.in_units(span_of(played)) == entry.at("max_rank_span").get<double>());
    if (!entry.contains("mk_p2p025_async")) continue;
    costs.transfer = 0.25;
    PlayedOrder const with_transfers = play_schedule(schedule, costs);
    REQUIRE(with_transfers.in_units(with_transfers.makespan) ==
            entry.at("mk_p2p025_async").get<double>());
  }
  REQUIRE(played_orders > 40);
}

TEST_CASE("laid-out ZB-H2, ZB-1p and ZB-2p have the bubble rates of the zero-bubble paper",
          "[ordered]") {
  // Qi et al. 2023, arXiv:2401.10241: times of table 9 in ms, rates of table 5. The memory of a
  // layer: F 34h + 5as, I -(2h + 5as), W -32h, per token.
  struct Row {
    int n;
    ChunkCosts costs;
    double h;
    double a;
    double zb_h2;
    double zb_1p;
    double zb_2p;
  };
  auto const costs = [](double f, double i, double w, double c) {
    return ChunkCosts{f, i + w, c, i, w};
  };
  for (Row const& row : {
           Row{24, costs(18.522, 18.086, 9.337, 0.601), 2304, 24, 0.1083, 0.1585, 0.0433},
           Row{24, costs(29.718, 29.444, 19.927, 0.527), 4096, 32, 0.0698, 0.1323, 0.0029},
           Row{32, costs(29.802, 29.428, 19.53, 0.577), 4096, 32, 0.0559, 0.1045, 0.0022},
       }) {
    constexpr int p = 8;
    auto const rate = [&](ScheduleKind kind, double limit) {
      OrderRequest request;
      request.kind = kind;
      request.stages = p;
      request.microbatches = row.n;
      request.costs = row.costs;
      double const scores = 5 * row.a * 1024;
      request.memory = {34 * row.h + scores, -2 * row.h - scores, -32 * row.h};
      request.memory_limit = limit;
      PlayedOrder const played =
          play_schedule(make_pipeline_schedule(shape_of(make_order(request))), row.costs);
      double const cost = played.in_units(span_of(played));
      double const busy = row.n * (row.costs.forward + row.costs.backward);
      return std::round((cost - busy) / cost * 1e4) / 1e4;
    };
    CAPTURE(row.n, row.h);
    REQUIRE(rate(ScheduleKind::zb_h2, p) == row.zb_h2);
    REQUIRE(rate(ScheduleKind::zb_auto, p) == row.zb_1p);
    REQUIRE(rate(ScheduleKind::zb_auto, 2 * p) == row.zb_2p);
  }
}

TEST_CASE("a split plan's breakdown sums up, and its prediction is its simulation", "[ordered]") {
  System const system = lossy_system();
  for (OddRun const& run : split_runs()) {
    CAPTURE(run.name);
    TrainingPlan const plan = make_plan(as_settled(run.config));
    Simulation const simulation = simulate(plan, system);
    Prediction const prediction = predict(as_settled(run.config), system);
    REQUIRE(prediction.iteration == simulation.iteration);
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
      REQUIRE(prediction.stages[stage].at_peak == simulation.stages[stage].at_peak);
    }
    TimeShares const& shares = simulation.breakdown.shares;
    REQUIRE(shares.sum() + simulation.breakdown.transfer + simulation.breakdown.bubble ==
            simulation.iteration);
    // What is computed does not depend on when.
    TrainingConfig unsplit = run.config;
    unsplit.schedule = {};
    unsplit.parallel.interleave = 1;
    if (run.config.recompute.front().store_microbatches.count == 0) {
      REQUIRE(simulation.hardware_flops ==
              simulate(make_plan(as_settled(unsplit)), system).hardware_flops);
    }
  }
}

TEST_CASE("a schedule that depends on costs is settled as an order within its limit", "[ordered]") {
  System const system = invented_system();
  for (auto const& [kind, chunks, limit] :
       {std::tuple{ScheduleKind::zb_auto, 1, 4.0}, std::tuple{ScheduleKind::zb_auto, 1, 7.0},
        std::tuple{ScheduleKind::v_auto, 2, 6.0}, std::tuple{ScheduleKind::searched, 1, 5.0}}) {
    TrainingConfig config = with_schedule(modest_run(2, 4), kind, chunks);
    config.schedule.memory_limit = limit;
    config.schedule.iterations = 200;
    CAPTURE(name_of(kind), limit);
    REQUIRE_THROWS_AS(make_plan(as_settled(config)), ScheduleError);
    TrainingConfig const order = settled(config, system).get();
    REQUIRE(order.schedule.kind == ScheduleKind::order);
    REQUIRE(settled(order, system).get() == order);
    TrainingPlan const plan = make_plan(as_settled(order));
    REQUIRE(plan.placement == placement_of_order(schedule_shape(order)));
    REQUIRE(simulate(plan, system).iteration > SimTime{0});
  }
}

TEST_CASE("a searched schedule is never slower than a named one within its limit", "[ordered]") {
  // Stages that differ: the head, and collectives that only a whole backward hides.
  System const system = lossy_system();
  constexpr int p = 4;
  for (int const chunks : {1, 2}) {
    TrainingConfig config = with_schedule(modest_run(2, p), ScheduleKind::searched, chunks);
    config.parallel.sequence = true;
    config.schedule.memory_limit = 3 * p;  // interleaved 1F1B has 3p - 1 chunks in flight
    config.schedule.iterations = 100;
    SimTime const searched = predict(settled(config, system), system).iteration;
    int compared = 0;
    for (ScheduleKind const kind :
         {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::zb_h2,
          ScheduleKind::zb_auto, ScheduleKind::interleaved, ScheduleKind::interleaved_zb,
          ScheduleKind::zbv, ScheduleKind::v_half, ScheduleKind::v_min, ScheduleKind::one_f_one_b_v,
          ScheduleKind::dualpipev}) {
      bool const has_one = kind == ScheduleKind::one_f_one_b || kind == ScheduleKind::zb_h1 ||
                           kind == ScheduleKind::zb_h2 || kind == ScheduleKind::zb_auto;
      if (has_one != (chunks == 1)) continue;
      TrainingConfig named = with_schedule(config, kind, chunks);
      if (kind == ScheduleKind::interleaved) named.schedule.group = p;
      CAPTURE(chunks, name_of(kind));
      REQUIRE(searched <= predict(settled(named, system), system).iteration);
      ++compared;
    }
    REQUIRE(compared == (chunks == 1 ? 4 : 7));
  }
}

TEST_CASE("early recompute hides what each stage but one would wait for", "[ordered]") {
  System const system = invented_system();
  TrainingConfig config = with_schedule(modest_run(1, 4), ScheduleKind::one_f_one_b, 1);
  config.recompute.front().granularity = RecomputeGranularity::full;
  TrainingPlan const whole_plan = make_plan(as_settled(config));
  Simulation const whole = simulate(whole_plan, system);
  config.recompute.front().early = EarlyRecompute::bubble;
  REQUIRE_THROWS_AS(make_plan(as_settled(config)), ScheduleError);
  TrainingConfig const order = settled(config, system).get();
  REQUIRE(settled(order, system).get() == order);
  Simulation const early = simulate(make_plan(as_settled(order)), system);
  REQUIRE(early.hardware_flops == whole.hardware_flops);
  REQUIRE(early.layer->recompute == whole.layer->recompute);
  // (n + p - 1)(F + R + B) becomes n(F + R + B) + (p - 1)(F + B).
  double const hidden =
      3 * to_seconds(whole.layer->recompute) * static_cast<double>(whole.stages.front().layers);
  REQUIRE(to_seconds(whole.iteration) - to_seconds(early.iteration) ==
          Approx(hidden).epsilon(0.05));
}

TEST_CASE(
    "where input gradients add to what a stage holds, the usual limit leaves room for p of them",
    "[ordered]") {
  // (28/t + 4)sbh wait for the weight gradient, of 34sbh/t that the forward has left.
  for (ScheduleKind const kind : {ScheduleKind::zb_auto, ScheduleKind::searched}) {
    TrainingConfig config = with_schedule(modest_run(4, 4), kind, 1);
    config.parallel.sequence = true;
    config.recompute.front().granularity = RecomputeGranularity::selective;
    config.schedule.iterations = 200;
    CAPTURE(name_of(kind));
    TrainingConfig const order = settled(config, invented_system()).get();
    REQUIRE(most_in_flight(*order.schedule.order, 0, InFlight::until_input_gradient) >= 4);
  }
}

}  // namespace stagecraft::ordered_timeline_test
