#include "libsim/schedule/repeated_windows.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libsim/memory/buffer_events.hpp"
#include "libsim/memory/configured_allocator.hpp"
#include "libsim/memory/repeat_search.hpp"
#include "libsim/memory/stage_memory.hpp"
#include "libsim/memory/stage_reservation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/schedule/program_reader.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/schedule/store_window.hpp"
#include "libsim/training/run_schedule.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::repeated_windows_test {
namespace {

/// 1F1B and interleaved shapes with up to 6 stages and, on some stage, windows that repeat.
std::vector<ScheduleShape> long_shapes(P2p p2p) {
  std::vector<ScheduleShape> shapes;
  for (int p = 2; p <= 6; ++p) {
    for (int const n : {4 * p, 5 * p + 1, 60}) {
      shapes.push_back({ScheduleKind::one_f_one_b, p, n, 1, 0, p2p});
    }
  }
  for (int p = 2; p <= 3; ++p) {
    for (int const chunks : {2, 3}) {
      shapes.push_back({ScheduleKind::interleaved, p, 60 * p, chunks, p, p2p});
    }
  }
  return shapes;
}

/// What a reader says is what the order has.
void require_reads(ProgramReader& reader, IssueOrder const& order) {
  while (reader.next()) {
    IssueEntry const& expected = order.entries.at(static_cast<std::size_t>(reader.number()));
    REQUIRE(reader.entry().kind == expected.kind);
    REQUIRE(reader.entry().task == expected.task);
    REQUIRE(reader.microbatch() == expected.microbatch);
    bool const has_transfers =
        expected.kind == IssueEntry::Kind::post || expected.kind == IssueEntry::Kind::wait;
    REQUIRE(reader.transfers().size() ==
            static_cast<std::size_t>(has_transfers ? expected.count : 0));
    for (std::size_t i = 0; i < reader.transfers().size(); ++i) {
      REQUIRE(reader.transfers()[i] ==
              order.transfers.at(static_cast<std::size_t>(expected.first) + i));
    }
  }
  REQUIRE(static_cast<std::size_t>(reader.number()) + 1 == order.entries.size());
}

TrainingConfig run_with_window(ScheduleKind kind, int microbatches, int stored) {
  TrainingConfig config;
  config.model = gpt(8, 256, 4, 128, 1000);
  config.parallel.pipeline = 4;
  config.batch = {.global = microbatches, .micro = 1};
  config.schedule.kind = kind;
  config.parallel.interleave = kind == ScheduleKind::interleaved ? 2 : 1;
  config.schedule.group = kind == ScheduleKind::interleaved ? 4 : 0;
  config.recompute.front() = {.granularity = RecomputeGranularity::full,
                              .store_microbatches = {.automatic = false, .count = stored}};
  return config;
}

/// The stage with every entry of its iteration written out.
StagePlan written_out(StagePlan stage) {
  IssueOrder order = unroll(stage.program);
  stage.program = {.entries = std::move(order.entries), .transfers = std::move(order.transfers)};
  return stage;
}

/// How many repeats a replay of the stage's activations leaves out.
std::int32_t skipped_repeats(TrainingPlan const& plan, StagePlan const& stage) {
  auto const allocator = configured_allocator(plan.config.memory, unlimited_capacity);
  BufferEvents events{{plan, stage}};
  RepeatSearch search;
  std::vector<BlockId> blocks;
  std::int32_t skipped = 0;
  events.next();  // what is resident
  while (events.next()) {
    blocks.resize(static_cast<std::size_t>(events.buffers()), no_block);
    for (BufferEvent const& event : events.now()) {
      BlockId& block = blocks[static_cast<std::size_t>(event.buffer)];
      if (event.change->kind == BufferChange::Kind::allocate && event.change->bytes > 0) {
        block = allocator->allocate(event.change->bytes, 0);
      } else if (event.change->kind == BufferChange::Kind::release && block != no_block) {
        allocator->free(block);
        block = no_block;
      }
    }
    if (events.repeats_left() == 0) continue;
    std::int32_t const more = search.skippable(*allocator, events, blocks);
    events.skip_repeats(more);
    skipped += more;
  }
  return skipped;
}

}  // namespace

TEST_CASE("an order with repeated windows is the order, and repeats whole windows", "[plan]") {
  P2p const p2p = GENERATE(P2p::blocking, P2p::overlapped);
  int const stored = GENERATE(0, 1);
  int repeated = 0;
  for (ScheduleShape const& asked : long_shapes(p2p)) {
    ScheduleShape const shape = checked_shape(asked);
    PipelineSchedule const schedule = make_pipeline_schedule(shape);
    for (StageId const stage : schedule.stages.ids()) {
      CAPTURE(shape.stages, shape.microbatches, shape.chunks, stage.value());
      RepeatedWindows const windows = repeat_windows(schedule, stage, stored);
      StageProgram program{.entries = windows.order.entries, .transfers = windows.order.transfers};
      insert_repeat(program, windows, 0);
      IssueOrder const expected = unroll(schedule.stages[stage]);
      IssueOrder const found = unroll(program);
      REQUIRE(found.entries == expected.entries);
      REQUIRE(found.transfers == expected.transfers);
      ProgramReader reader{program};
      require_reads(reader, expected);
      reader.restart();
      require_reads(reader, expected);
      ProgramReader of_loop{schedule.stages[stage]};
      require_reads(of_loop, expected);
      if (windows.times == 1) continue;
      ++repeated;
      int forwards = 0;
      for (auto i = windows.body_begin; i < windows.body_end; ++i) {
        IssueEntry const& entry = windows.order.entries[static_cast<std::size_t>(i)];
        bool const runs = entry.kind == IssueEntry::Kind::run;
        if (runs && schedule.run_of(entry).pass == Pass::forward) ++forwards;
      }
      int const window = store_window(shape, stage);
      REQUIRE(forwards >= window);
      REQUIRE(forwards % (stored == 0 ? shape.chunks : window) == 0);
    }
  }
  REQUIRE(repeated > 50);
}

TEST_CASE("a reader goes on behind repeats that it skips", "[plan]") {
  P2p const p2p = GENERATE(P2p::blocking, P2p::overlapped);
  PipelineSchedule const schedule =
      make_pipeline_schedule({ScheduleKind::one_f_one_b, 4, 60, 1, 0, p2p});
  for (StageId const stage : schedule.stages.ids()) {
    RepeatedWindows const windows = repeat_windows(schedule, stage, 1);
    StageProgram program{.entries = windows.order.entries, .transfers = windows.order.transfers};
    insert_repeat(program, windows, 0);
    IssueOrder const order = unroll(program);
    for (int const run : {1, 2}) {
      for (int const skipped : {1, windows.times - run}) {
        CAPTURE(stage.value(), run, skipped);
        ProgramReader reader{program};
        for (int times = 0; times < run;) {
          REQUIRE(reader.next());
          if (reader.repeats_left() > 0) ++times;
        }
        REQUIRE(reader.repeats_left() == windows.times - run);
        reader.skip_repeats(skipped);
        require_reads(reader, order);
      }
    }
  }
}

TEST_CASE("the first microbatches of each window are stored, however often windows repeat",
          "[plan]") {
  auto const kind = GENERATE(ScheduleKind::one_f_one_b, ScheduleKind::interleaved);
  for (int const stored : {1, 2, 3}) {
    TrainingConfig const config = run_with_window(kind, 120, stored);
    TrainingPlan const plan = make_plan(as_settled(config));
    ScheduleShape const shape = checked_shape(schedule_shape(config));
    for (StagePlan const& stage : plan.stages) {
      CAPTURE(stored, stage.stage.value());
      IssueOrder const order = unroll(stage.program);
      int const window = store_window(shape, stage.stage);
      std::map<std::pair<ChunkId, MicrobatchId>, bool> is_stored;
      int forwards = 0;
      for (IssueEntry const& entry : order.entries) {
        if (entry.kind != IssueEntry::Kind::run) continue;
        Task const& task = stage.tasks[static_cast<std::size_t>(entry.task)];
        if (task.kind == Task::Kind::step) continue;
        bool& of_pass = is_stored[{task.chunk, entry.microbatch}];
        if (task.kind == Task::Kind::forward) of_pass = forwards++ % window < stored;
        REQUIRE(task.is_stored == of_pass);
      }
      REQUIRE(forwards == 120 * config.parallel.interleave);
      if (kind == ScheduleKind::one_f_one_b) REQUIRE(stage.program.entries.size() < 100);
    }
  }
}

TEST_CASE("a stage with repeated windows holds and reserves what it does written out", "[plan]") {
  auto const kind = GENERATE(ScheduleKind::one_f_one_b, ScheduleKind::interleaved);
  std::string const settings =
      GENERATE("", "expandable_segments:True", "garbage_collection_threshold:0.8");
  auto const allocator = GENERATE(AllocatorKind::pytorch, AllocatorKind::arena);
  for (int const stored : {1, 3}) {
    TrainingConfig config = run_with_window(kind, 96, stored);
    config.memory.allocator = allocator;
    config.memory.allocator_settings = settings;
    TrainingPlan const plan = make_plan(as_settled(config));
    std::int32_t skipped = 0;
    for (StagePlan const& stage : plan.stages) {
      CAPTURE(stored, settings, stage.stage.value());
      StagePlan const whole = written_out(stage);
      StageMemory const memory = peak_memory({plan, stage});
      StageMemory const expected = peak_memory({plan, whole});
      REQUIRE(memory.at_peak == expected.at_peak);
      REQUIRE(memory.activation_peak == expected.activation_peak);
      REQUIRE(memory.peak_entry == expected.peak_entry);
      REQUIRE(memory.in_flight_chunks == expected.in_flight_chunks);
      auto const reserved = [&](StagePlan const& of, ReplayExtent extent) {
        return reserve_stage({plan, of}, unlimited_capacity, {}, extent);
      };
      StageReservation const all = reserved(whole, ReplayExtent::whole);
      REQUIRE(reserved(stage, ReplayExtent::whole) == all);
      REQUIRE(reserved(stage, ReplayExtent::until_steady) == all);
      skipped += skipped_repeats(plan, stage);
    }
    // Without repeats to skip, the comparison would say nothing.
    CAPTURE(stored, settings);
    if (kind == ScheduleKind::one_f_one_b && !settings.starts_with("garbage")) REQUIRE(skipped > 0);
  }
}

}  // namespace stagecraft::repeated_windows_test
