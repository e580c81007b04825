#include "libsim/explain/critical_path.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "libsim/engine/player/recorded_times.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/engine/small_plans.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::critical_path_test {
namespace {

/// A run whose stages differ in embedding and head only, on a machine with free messages.
struct EvenPipeline {
  TrainingConfig config;
  System system = invented_system();

  EvenPipeline(ScheduleKind kind, P2p p2p, int stages, std::int64_t microbatches) {
    config.model = gpt(std::int64_t{2} * stages, 256, 4, 128, 8000);
    config.model.causal_mask = CausalMask::none;  // making it is forward too
    config.parallel.pipeline = stages;
    config.batch.global = microbatches;
    config.schedule.kind = kind;
    config.schedule.p2p = p2p;
    system.node.p2p.value.bandwidth = {1e30};
    system.node.accelerators.value = stages;
  }
};

/// Whether a collective of a pass uses the links over which gradients are reduced.
bool uses_links(CostedPlan const& costed) {
  std::vector<PlayedStage> const stages = costed.played();
  return std::ranges::any_of(stages, [](PlayedStage const& stage) {
    return std::ranges::any_of(stage.on_links, [](SimTime time) { return time > SimTime{0}; });
  });
}

/// Plays an iteration and keeps every time.
RecordedTimes record_times(CostedPlan const& costed) {
  TimeRecorder recorder{costed};
  Timeline const timeline = play(costed.timeline(), recorder);
  return std::move(recorder).finish(timeline.period);
}

/// The iteration if every run of a rank's task took so much longer.
SimTime slower_iteration(CostedPlan const& costed, std::size_t rank, std::size_t task, SimTime by) {
  std::vector<PlayedStage> stages = costed.played();
  std::vector<SimTime> durations(stages[rank].durations.begin(), stages[rank].durations.end());
  durations[task] += by;
  stages[rank].durations = durations;
  TimelineInput input = costed.timeline();
  input.stages = stages;
  return play(input).makespan;
}

}  // namespace

TEST_CASE("a critical path has no gap and its kinds sum to the iteration") {
  for (std::string const& run : small_runs()) {
    SmallPlan const small = make_small_plan(run);
    INFO(run);
    CostedPlan const costed{small.plan, small.system};
    RecordedTimes const times = record_times(costed);
    CriticalPath const path = find_critical_path(costed, times);
    Simulation const simulation = simulate(small.plan, small.system);
    SimTime now{0};
    SimTime on_stages{0};
    int messages = 0;
    for (PathPiece const& piece : path.pieces) {
      REQUIRE(piece.start == now);
      REQUIRE(piece.end > piece.start);
      now = piece.end;
      messages += piece.what == PathPiece::What::message ? 1 : 0;
    }
    REQUIRE(now == simulation.iteration);
    REQUIRE(path.messages == messages);
    REQUIRE(path.kinds.sum() == simulation.iteration);
    REQUIRE(path.kinds[TimeKind::bubble] == SimTime{0});
    for (SimTime const time : path.by_stage) on_stages += time;
    REQUIRE(on_stages + path.kinds[TimeKind::pipeline_transfer] +
                costed.cost().iteration_overhead() ==
            simulation.iteration);
  }
}

TEST_CASE("the path of a run that validates its steps later ends in the next iteration") {
  EvenPipeline run{ScheduleKind::zb_h1, P2p::overlapped, 4, 8};
  run.config.schedule.step = StepSync::post_validated;
  run.system = lossy_system();
  TrainingPlan const plan = make_plan(settled(run.config, run.system));
  CostedPlan const costed{plan, run.system};
  RecordedTimes const times = record_times(costed);
  CriticalPath const path = find_critical_path(costed, times);
  Simulation const simulation = simulate(plan, run.system);
  SimTime const end = times.makespan + costed.cost().iteration_overhead();
  REQUIRE(path.pieces.back().end == end);
  REQUIRE(path.kinds.sum() == end);
  REQUIRE(path.in_next > SimTime{0});
  REQUIRE(path.kinds.sum() - path.in_next == simulation.iteration);
  REQUIRE(PlayedIteration{plan, run.system}.times.period == times.period);
}

TEST_CASE("what is on a critical path makes the iteration longer each time it is there") {
  // A chain of dependencies is a lower bound: played again with one work of one rank slower, the
  // iteration takes at least as much longer as the chain does. (Unless reductions of gradients slow
  // works down, or share links with them: one that starts later is slowed down for a shorter time.)
  SimTime const by{1000};
  int tried = 0;
  std::vector<std::string> const runs = small_runs();
  for (std::size_t i = 0; i < runs.size(); i += 7) {
    SmallPlan small = make_small_plan(runs[i]);
    INFO(small.text);
    small.system.calibration.network_slowdown.value = 0;
    small.system.calibration.overlap_slowdown.value = 0;
    CostedPlan const costed{small.plan, small.system};
    if (small.plan.config.parallel.overlap_gradients && uses_links(costed)) continue;
    ++tried;
    RecordedTimes const times = record_times(costed);
    CriticalPath const path = find_critical_path(costed, times);
    std::map<std::pair<std::int32_t, std::int32_t>, int> runs_on_path;  // by stage and task
    for (PathPiece const& piece : path.pieces) {
      if (piece.what != PathPiece::What::task) continue;
      StagePlan const& stage = small.plan.stages[StageId{piece.stage}];
      std::int32_t const work =
          unroll(stage.program).entries[static_cast<std::size_t>(piece.entry)].task;
      // A group lasts as long as its slowest member, which may be another.
      if (!stage.tasks[static_cast<std::size_t>(work)].group) ++runs_on_path[{piece.stage, work}];
    }
    REQUIRE_FALSE(runs_on_path.empty());
    for (auto const& [work, count] : runs_on_path) {
      SimTime const slower = slower_iteration(costed, static_cast<std::size_t>(work.first),
                                              static_cast<std::size_t>(work.second), by);
      REQUIRE(slower >= times.makespan + count * by);
    }
  }
  REQUIRE(tried > 10);
}

TEST_CASE("the critical path of 1F1B and GPipe is p - 1 + n forwards and as many backwards") {
  // Fill: one forward on each stage but the last; n forwards and backwards on the last, which has
  // the head; drain: one backward on each of the others. Two layers per stage.
  auto const kind = GENERATE(ScheduleKind::one_f_one_b, ScheduleKind::gpipe);
  auto const p2p = GENERATE(P2p::blocking, P2p::overlapped);
  int const p = GENERATE(2, 4);
  std::int64_t const n = 6;
  EvenPipeline const run{kind, p2p, p, n};
  TrainingPlan const plan = make_plan(as_settled(run.config));
  Simulation const simulation = simulate(plan, run.system);
  CostedPlan const costed{plan, run.system};
  RecordedTimes const times = record_times(costed);
  CriticalPath const path = find_critical_path(costed, times);
  REQUIRE(busiest_stage(simulation) == static_cast<std::size_t>(p - 1));
  SimTime const forward = 2 * simulation.layer->forward;
  SimTime const backward = 2 * simulation.layer->backward;
  REQUIRE(path.kinds[TimeKind::forward] == (p - 1 + n) * forward);
  REQUIRE(path.kinds[TimeKind::backward] == (p - 1 + n) * backward);
  REQUIRE(path.kinds[TimeKind::recompute] == SimTime{0});
  REQUIRE(path.kinds[TimeKind::pipeline_transfer] == SimTime{0});
  // The busiest stage has n of each, and waits while the path is elsewhere.
  KindTimes const busiest = kinds_of_busiest_stage(costed, times, simulation);
  REQUIRE(busiest[TimeKind::forward] == n * forward);
  REQUIRE(busiest[TimeKind::backward] == n * backward);
  REQUIRE(busiest[TimeKind::bubble] >= (p - 1) * (forward + backward));
}

TEST_CASE("messages of a pipeline that only fills and drains are on its critical path, each once") {
  // One microbatch: p - 1 activations up, p - 1 gradients down, nothing beside them.
  EvenPipeline run{ScheduleKind::one_f_one_b, P2p::blocking, 4, 1};
  run.system.node.p2p.value = {.latency = {5e-6}, .bandwidth = {1e9}, .table = {}, .ranks = 0};
  TrainingPlan const plan = make_plan(as_settled(run.config));
  CostedPlan const costed{plan, run.system};
  CriticalPath const path = find_critical_path(costed, record_times(costed));
  REQUIRE(path.messages == 6);
  // 5 us and 128 x 256 elements of 2 bytes at 1 GB/s.
  REQUIRE(path.kinds[TimeKind::pipeline_transfer] == 6 * SimTime{5'000'000 + 65'536'000});
}

TEST_CASE("the busiest stage's kinds are simulate's breakdown, with communication taken out") {
  for (std::string const& run : small_runs()) {
    SmallPlan const small = make_small_plan(run);
    INFO(run);
    CostedPlan const costed{small.plan, small.system};
    Simulation const simulation = simulate(small.plan, small.system);
    KindTimes const kinds = kinds_of_busiest_stage(costed, record_times(costed), simulation);
    Breakdown const& breakdown = simulation.breakdown;
    REQUIRE(kinds.sum() == simulation.iteration);
    REQUIRE(kinds[TimeKind::bubble] == breakdown.bubble);
    REQUIRE(kinds[TimeKind::head_and_embedding] == breakdown.shares.head_and_embedding);
    REQUIRE(kinds[TimeKind::optimizer] == breakdown.shares.optimizer);
    REQUIRE(kinds[TimeKind::forward] + kinds[TimeKind::backward] + kinds[TimeKind::recompute] +
                kinds[TimeKind::tensor_parallel] + kinds[TimeKind::data_parallel] ==
            breakdown.shares.forward + breakdown.shares.backward + breakdown.shares.recompute +
                breakdown.shares.data_parallel);
    if (small.plan.config.parallel.tensor == 1) {
      REQUIRE(kinds[TimeKind::tensor_parallel] == SimTime{0});
    } else {
      REQUIRE(kinds[TimeKind::tensor_parallel] > SimTime{0});
    }
  }
}

TEST_CASE("without overlap the collectives of a layer are waited for in full") {
  // Tensor parallelism without sequence parallelism: two all-reduces of sbh forward. On a machine
  // without latencies each takes 2 (t-1)/t bytes / bandwidth (Thakur et al. 2005).
  std::int64_t const s = 128, h = 256, layers = 2;
  int const t = 2;
  TrainingConfig config;
  config.model = gpt(layers, h, 4, s, 8000);
  config.parallel.tensor = t;
  config.batch.global = 1;
  TrainingPlan const plan = make_plan(as_settled(config));
  System const system = invented_system();
  CostedPlan const costed{plan, system};
  std::vector<Task> const& works = plan.stages[StageId{0}].tasks;
  auto const first = static_cast<std::size_t>(
      std::find_if(works.begin(), works.end(),
                   [](Task const& task) { return task.kind == Task::Kind::forward; }) -
      works.begin());
  KindTimes const forward =
      kinds_of_task(costed, StageId{0}, first, costed.tasks(0)[first].duration);
  std::int64_t const all_reduce = s * h * 2 * 2 * (t - 1) / t * 10;  // ps at 100 GB/s
  REQUIRE(forward[TimeKind::tensor_parallel] == SimTime{layers * 2 * all_reduce});
}

}  // namespace stagecraft::critical_path_test
