#include "libsim/schedule/ordered_schedule.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "libsim/memory/stage_memory.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/parameter_layout.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/run_schedule.hpp"
#include "tests/libsim/memory/summed_events.hpp"
#include "tests/libsim/split_runs.hpp"

namespace stagecraft::ordered_schedule_test {
namespace {

std::vector<int> in_flight(ScheduleKind kind, int p, int chunks) {
  TrainingConfig config = with_schedule(modest_run(1, p), kind, chunks);
  config.model.layers = std::int64_t{2} * p;
  config.batch.global = std::int64_t{2} * 4 * p;  // 4p microbatches
  std::vector<int> most;
  for (StageMemory const& stage : peak_memory(make_plan(as_settled(config)))) {
    most.push_back(stage.in_flight_chunks);
  }
  return most;
}

bool has_op(StagePlan const& stage, std::string const& name) {
  return std::any_of(stage.step_ops.begin(), stage.step_ops.end(),
                     [&](StepOp const& op) { return to_string(op.name) == name; });
}

}  // namespace

TEST_CASE("a split plan's memory is the sum of its buffer events", "[ordered]") {
  for (OddRun const& run : split_runs()) require_peaks_of_events(run);
}

TEST_CASE("stages hold as many chunks until their weight gradients as is published", "[ordered]") {
  // ZB-H1 and V-ZB: Qi et al. 2023, arXiv:2401.10241; V-Half, V-Min: Qi et al. 2024,
  // arXiv:2405.15362. Halves of a stage's layers in a V, so 2p of them are the p of 1F1B.
  int const p = GENERATE(4, 6);
  CAPTURE(p);
  auto const all = [&](int count) { return std::vector<int>(static_cast<std::size_t>(p), count); };
  REQUIRE(in_flight(ScheduleKind::zb_h1, p, 1) == all(p));
  REQUIRE(in_flight(ScheduleKind::zb_h2, p, 1) == all(2 * p - 1));
  REQUIRE(in_flight(ScheduleKind::zbv, p, 2) == all(2 * p));
  REQUIRE(in_flight(ScheduleKind::v_half, p, 2) == all(2 * ((p + 2) / 2)));
  REQUIRE(in_flight(ScheduleKind::v_min, p, 2) == all(2 * ((p + 4) / 3)));
}

TEST_CASE("a named schedule and its order written out are the same plan", "[ordered]") {
  for (ScheduleKind const kind : {ScheduleKind::zb_h1, ScheduleKind::zbv}) {
    TrainingConfig config =
        with_schedule(modest_run(2, 4), kind, kind == ScheduleKind::zbv ? 2 : 1);
    std::string const named = fingerprint(make_plan(as_settled(config)));
    config.schedule.order = checked_shape(schedule_shape(config)).order;
    config.schedule.kind = ScheduleKind::order;
    REQUIRE(fingerprint(make_plan(as_settled(config))) == named);
    // Another order of the same tasks is another plan.
    PipelineOrder other = *config.schedule.order;
    std::swap(other.stages.back()[other.stages.back().size() - 1],
              other.stages.back()[other.stages.back().size() - 2]);
    config.schedule.order = SharedOrder{other};
    REQUIRE(fingerprint(make_plan(as_settled(config))) != named);
  }
}

TEST_CASE("in a V the first stage has embedding and head, and tied weights need no reduction",
          "[ordered]") {
  TrainingConfig config = with_schedule(modest_run(1, 4), ScheduleKind::zbv, 2);
  config.model.tied_embeddings = true;
  TrainingPlan const plan = make_plan(as_settled(config));
  auto const chunk = [&](std::size_t stage, std::size_t number) -> ChunkProgram const& {
    return plan.programs.chunks[static_cast<std::size_t>(
        plan.stages[StageId::of_index(stage)].chunks[ChunkId::of_index(number)].program)];
  };
  REQUIRE(chunk(0, 0).has_embedding);
  REQUIRE(chunk(0, 1).has_head);
  REQUIRE(chunk(3, 0).keeps_output);
  REQUIRE(chunk(3, 0).first_layer + 1 == chunk(3, 1).first_layer);
  for (StagePlan const& stage : plan.stages) {
    REQUIRE_FALSE(has_op(stage, "step.all_reduce_embedding_gradient"));
  }
  // One table, not two: the stage has as many parameters more than untied ones have less.
  std::int64_t const tied = plan.stages[StageId{0}].parameters;
  config.model.tied_embeddings = false;
  REQUIRE(make_plan(as_settled(config)).stages[StageId{0}].parameters - tied ==
          plan.shape.vocabulary() * 128);
}

TEST_CASE("both copies of DualPipe hold the same parameters in one order, and sum their gradients",
          "[ordered]") {
  // DeepSeek-AI 2024, arXiv:2412.19437, table 2: parameters twice, PP + 1 activations.
  int const p = 4;
  REQUIRE(in_flight(ScheduleKind::dualpipe, p, 2) == std::vector<int>(p, p + 1));
  TrainingConfig config = with_schedule(modest_run(2, p, 2), ScheduleKind::dualpipe, 2);
  config.layout = {.kind = LayerSplit::Kind::list, .first = {}, .last = {}, .list = {1, 2, 3, 2}};
  TrainingPlan const plan = make_plan(as_settled(config));
  TrainingConfig single = config;
  single.schedule.kind = ScheduleKind::one_f_one_b;
  single.parallel.interleave = 1;
  single.model.tied_embeddings = false;
  TrainingPlan const of_one = make_plan(as_settled(single));
  auto const names = [&](StagePlan const& stage) {
    std::vector<std::string> all;
    for (PlacedParameter const& placed : parameter_layout(plan, stage)) {
      all.push_back(placed.name() + " at " + std::to_string(placed.offset));
    }
    return all;
  };
  auto const parameters = [&](int stage) { return of_one.stages[StageId{stage}].parameters; };
  std::int64_t const table = plan.shape.vocabulary() * 128;  // of a tensor rank
  for (int stage = 0; stage < p; ++stage) {
    CAPTURE(stage);
    int const other = p - 1 - stage;
    StagePlan const& own = plan.stages[StageId{stage}];
    bool const is_tied = stage == 0 || other == 0;  // embedding and head are one table there
    REQUIRE(own.parameters == parameters(stage) + parameters(other) - (is_tied ? table : 0));
    REQUIRE(names(own) == names(plan.stages[StageId{other}]));
    REQUIRE_FALSE(has_op(own, "step.all_reduce_embedding_gradient"));
    // Ranks of stage r are 4r to 4r + 3, and pairs of them hold the same tensor part.
    auto const holders = plan.groups.membership(plan.roles.gradients, RankId{4 * stage});
    int const low = 4 * std::min(stage, other);
    int const high = 4 * std::max(stage, other);
    REQUIRE(holders->members ==
            std::vector{RankId{low}, RankId{low + 2}, RankId{high}, RankId{high + 2}});
    auto const reduction = std::ranges::find_if(own.step_ops, [&](StepOp const& op) {
      return to_string(op.name) == "step.all_reduce_gradients";
    });
    REQUIRE(reduction != own.step_ops.end());
    REQUIRE(reduction->payload.count() == 4 * own.parameters);
  }
}

TEST_CASE("gradients are reduced after a chunk's last weight gradient", "[ordered]") {
  for (OddRun const& run : split_runs()) {
    if (!run.config.parallel.overlap_gradients) continue;
    TrainingPlan const plan = make_plan(as_settled(run.config));
    for (StagePlan const& stage : plan.stages) {
      CAPTURE(run.name, stage.stage.value());
      std::vector<std::int64_t> reduced(2);
      int left = 0;
      IssueOrder const order = unroll(stage.program);
      for (IssueEntry const& entry : order.entries) {
        if (entry.kind != IssueEntry::Kind::run) continue;
        Task const& task = stage.tasks[static_cast<std::size_t>(entry.task)];
        if (task.kind == Task::Kind::forward) ++left;
        if (ends_in_flight(task)) --left;
        if (task.kind != Task::Kind::step) continue;
        StepOp const& op = stage.step_ops[static_cast<std::size_t>(task.op)];
        if (to_string(op.name) != "step.scale_gradients") continue;
        for (ParameterRange const& range : op.ranges) reduced[left == 0 ? 1 : 0] += range.count;
      }
      REQUIRE(left == 0);
      REQUIRE(reduced[0] + reduced[1] == stage.parameters);
      REQUIRE(reduced[1] > 0);
    }
  }
}

TEST_CASE("orders that no plan has are refused with what is accepted", "[ordered]") {
  auto const refusal = [](ScheduleKind kind, int chunks, std::vector<std::string> const& stages) {
    ScheduleShape shape{kind, 2, 2, chunks, 0, P2p::overlapped};
    if (!stages.empty()) {
      PipelineOrder order{round_placement(2, 1), 2, {}};
      for (std::string const& stage : stages) order.stages.push_back(read_order_text(stage));
      shape.order = SharedOrder{order};
    }
    try {
      checked_shape(shape);
    } catch (ScheduleError const& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  REQUIRE(refusal(ScheduleKind::dualpipe, 2, {}).find("at least 2p (4)") != std::string::npos);
  REQUIRE(refusal(ScheduleKind::zb_auto, 1, {}).find("depends on costs") != std::string::npos);
  REQUIRE(refusal(ScheduleKind::zb_h2, 1, {}).find("at least 2p - 1 (3)") != std::string::npos);
  REQUIRE(refusal(ScheduleKind::zbv, 1, {}) == "chunks per stage: found '1'; accepted: 2 with zbv");
  REQUIRE(refusal(ScheduleKind::order, 1, {"F0.0 F1.0 B0.0 B1.0", "F1.0 B1.0 F0.0 B0.0"}) != "");
  REQUIRE(refusal(ScheduleKind::order, 1, {"F0.0 F1.0 B0.0 B1.0", "F0.0 B0.0 F1.0 B1.0"}) == "");
}

TEST_CASE("an order recomputes only where the policy is to do so early", "[ordered]") {
  TrainingConfig config = with_schedule(modest_run(1, 2), ScheduleKind::order, 1);
  config.batch.global = config.batch.micro * 2;
  PipelineOrder order{round_placement(2, 1), 2, {}};
  order.stages = {read_order_text("F0.0 F1.0 R0.0 B0.0 B1.0"),
                  read_order_text("F0.0 B0.0 F1.0 B1.0")};
  config.schedule.order = SharedOrder{order};
  config.recompute.front().granularity = RecomputeGranularity::full;
  REQUIRE_THROWS_WITH(make_plan(as_settled(config)),
                      "order: stage 0: found a task R; accepted: tasks F, B, I and W, as "
                      "recompute.early is not bubble there");
  config.recompute.front().early = EarlyRecompute::bubble;
  // One microbatch of stage 0 is recomputed by a task of its own, whose buffers the sums have.
  require_peaks_of_events({"early recompute", config});
  StagePlan const stage = make_plan(as_settled(config)).stages.front();
  auto const is_recompute = [](Task const& task) { return task.kind == Task::Kind::recompute; };
  REQUIRE(std::count_if(stage.tasks.begin(), stage.tasks.end(), is_recompute) == 1);
}

}  // namespace stagecraft::ordered_schedule_test
