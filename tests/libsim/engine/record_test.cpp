#include "libsim/engine/record.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/trace/trace_names.hpp"
#include "tests/libsim/engine/op_by_op_replay.hpp"
#include "tests/libsim/engine/small_plans.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/recorded.hpp"
#include "tests/libsim/uneven_runs.hpp"
#include "tests/long_tests.hpp"

namespace stagecraft::record_test {

namespace {

std::int64_t end_of(Trace const& trace) {
  std::int64_t end = 0;
  for (RankTrace const& rank : trace.ranks) {
    for (std::size_t i = 0; i < rank.ops.rows(); ++i) {
      end = std::max(end, rank.ops.start[i] + rank.ops.duration[i]);
    }
  }
  return end;
}

CategoryBytes memory_at(MemoryColumns const& memory, std::size_t row) {
  CategoryBytes bytes;
  for (int i = 0; i < category_count; ++i) {
    bytes[static_cast<Category>(i)] = memory.bytes[static_cast<std::size_t>(i)][row];
  }
  return bytes;
}

struct Peak {
  std::size_t row = 0;
  std::int64_t activations = 0;
};

Peak peak_of(MemoryColumns const& memory) {
  Peak peak;
  std::int64_t most = -1;
  for (std::size_t i = 0; i < memory.rows(); ++i) {
    CategoryBytes const bytes = memory_at(memory, i);
    peak.activations = std::max(peak.activations, bytes.activation_sum());
    if (bytes.sum() <= most) continue;
    most = bytes.sum();
    peak.row = i;
  }
  return peak;
}

void require_same_as(Simulation const& simulation, Trace const& trace) {
  REQUIRE(end_of(trace) == simulation.iteration.count());
  REQUIRE(trace.ranks.size() == simulation.stages.size());
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    CAPTURE(r);
    MemoryColumns const& memory = trace.ranks[r].memory;
    Peak const peak = peak_of(memory);
    StageResult const& stage = simulation.stages[r];
    for (int i = 0; i < category_count; ++i) {
      CAPTURE(name_of(static_cast<Category>(i)));
      REQUIRE(memory.bytes[static_cast<std::size_t>(i)][peak.row] ==
              stage.at_peak[static_cast<Category>(i)]);
    }
    REQUIRE(memory.time[peak.row] == stage.peak_at.count());
    REQUIRE(peak.activations == stage.activation_peak);
    REQUIRE(std::is_sorted(memory.time.begin(), memory.time.end()));
  }
}

bool is_transfer(RankTrace const& rank, std::size_t row) {
  return rank.ops.phase[row] == static_cast<std::int64_t>(TracePhase::transfer);
}

/// Rows of the trace that are ops of the plan are those of the replay, in its order.
void require_same_ops(ReplayedRank const& replayed,
                      RankTrace const& rank,
                      TraceNames const& names) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank.ops.rows(); ++i) {
    if (is_transfer(rank, i) || rank.ops.op[i] == TraceVocabulary::iteration_overhead) continue;
    if (rank.ops.op[i] == TraceVocabulary::host_wait) continue;
    if (next == replayed.ops.size()) FAIL("more ops than in the plan");
    ReplayedOp const& op = replayed.ops[next++];
    bool const is_same =
        names.op[static_cast<std::size_t>(rank.ops.op[i])] == to_string(op.op->name) &&
        rank.ops.phase[i] == static_cast<std::int64_t>(phase_of(*op.op)) &&
        rank.ops.stream[i] == static_cast<std::int64_t>(op.op->stream) &&
        rank.ops.start[i] == op.start.count() &&
        rank.ops.start[i] + rank.ops.duration[i] == op.end.count() &&
        rank.ops.layer[i] == op.layer && rank.ops.microbatch[i] == op.microbatch &&
        rank.ops.chunk[i] == op.chunk && rank.ops.flops[i] == op.op->flops;
    if (!is_same) FAIL("row " << i << ": not " << to_string(op.op->name) << ", or another time");
  }
  REQUIRE(next == replayed.ops.size());
}

/// No stream does two things at once.
void require_streams_do_one_thing_at_a_time(RankTrace const& rank) {
  std::map<std::int64_t, std::int64_t> idle;
  for (std::size_t i = 0; i < rank.ops.rows(); ++i) {
    std::int64_t& since = idle[rank.ops.stream[i]];
    if (rank.ops.start[i] < since) {
      FAIL("row " << i << ", stream " << rank.ops.stream[i] << ": starts at " << rank.ops.start[i]
                  << ", before " << since);
    }
    since = rank.ops.start[i] + rank.ops.duration[i];
  }
}

/// Every send has its receive, of the same payload, bytes and microbatch, and ends no later.
void require_sends_match_receives(Trace const& trace, TrainingPlan const& plan) {
  // (payload, microbatch, virtual stage that receives) -> (bytes, end)
  std::map<std::tuple<bool, std::int64_t, std::int64_t>, std::pair<std::int64_t, std::int64_t>>
      sent;
  std::map<std::tuple<bool, std::int64_t, std::int64_t>, std::pair<std::int64_t, std::int64_t>>
      received;
  std::int64_t const p = plan.config.parallel.pipeline;
  for (RankTrace const& rank : trace.ranks) {
    for (std::size_t i = 0; i < rank.ops.rows(); ++i) {
      if (!is_transfer(rank, i)) continue;
      auto const stream = static_cast<Stream>(rank.ops.stream[i]);
      bool const sends = stream == Stream::send_activation || stream == Stream::send_gradient;
      bool const is_activation =
          stream == Stream::send_activation || stream == Stream::receive_activation;
      std::int64_t const here = rank.ops.chunk[i] * p + rank.stage;
      std::int64_t const there = !sends ? here : is_activation ? here + 1 : here - 1;
      auto& ends = sends ? sent : received;
      bool const is_new =
          ends.emplace(std::tuple{is_activation, rank.ops.microbatch[i], there},
                       std::pair{rank.ops.bytes[i], rank.ops.start[i] + rank.ops.duration[i]})
              .second;
      REQUIRE(is_new);
    }
  }
  std::int64_t const boundaries = p * plan.config.parallel.interleave - 1;
  REQUIRE(static_cast<std::int64_t>(sent.size()) == 2 * boundaries * microbatches(plan.config));
  REQUIRE(sent.size() == received.size());
  for (auto const& [key, end] : sent) {
    REQUIRE(received.count(key) == 1);
    REQUIRE(received.at(key).first == end.first);
    REQUIRE(received.at(key).second >= end.second);
  }
}

Trace record_all(SmallPlan const& small, TraceDetail detail) {
  RecordOptions options;
  options.detail = detail;
  return recorded(small.plan, small.system, options);
}

/// The small runs, or in a build with smaller long tests every fifth of them, which has no period
/// in common with how they are listed.
std::vector<std::string> tested_runs() {
  std::vector<std::string> const all = small_runs();
  std::vector<std::string> tested;
  for (std::size_t i = 0; i < all.size(); i += case_step(5)) tested.push_back(all[i]);
  return tested;
}

}  // namespace

TEST_CASE("the plans below have backwards in pieces, slowed chunks and stored microbatches") {
  bool has_pieces = false;
  bool is_slowed = false;
  bool has_window = false;
  for (std::string const& run : small_runs()) {
    SmallPlan const small = make_small_plan(run);
    ParallelLayout const& parallel = small.plan.config.parallel;
    auto const chunks = static_cast<std::size_t>(parallel.pipeline * parallel.interleave);
    has_window = has_window || small.plan.programs.chunks.size() > chunks;
    for (StagePlan const& rank : small.plan.stages) {
      for (Task const& task : rank.tasks) has_pieces = has_pieces || task.first_block > 0;
    }
    System faster = small.system;
    faster.network.bandwidth.value.value *= 1e6;
    SimTime const busy = simulate(small.plan, small.system).stages[0].busy;
    is_slowed = is_slowed || busy > simulate(small.plan, faster).stages[0].busy;
  }
  REQUIRE(has_pieces);
  REQUIRE(is_slowed);
  REQUIRE(has_window);
}

TEST_CASE(
    "replaying every op and every buffer gives what chunk summaries give, to the byte and the "
    "picosecond") {
  for (std::string const& run : tested_runs()) {
    INFO(run);
    SmallPlan const small = make_small_plan(run);
    Simulation const simulation = simulate(small.plan, small.system);
    ReplayedIteration const replayed = replay_op_by_op(small.plan, small.system);
    Calibration const& constants = small.system.calibration;
    REQUIRE(replayed.makespan + to_sim_time(constants.iteration_overhead.value.value) ==
            simulation.iteration);
    for (std::size_t r = 0; r < replayed.ranks.size(); ++r) {
      CAPTURE(r);
      StageResult const& stage = simulation.stages[r];
      CategoryBytes at_peak = replayed.ranks[r].at_peak;
      at_peak[Category::workspace] += constants.workspace.value.count();
      REQUIRE(at_peak == stage.at_peak);
      REQUIRE(replayed.ranks[r].peak_at == stage.peak_at);
      REQUIRE(replayed.ranks[r].activation_peak == stage.activation_peak);
    }
  }
}

TEST_CASE(
    "recorded op by op, an iteration has the ops and times of the replay and the peaks of the "
    "simulation") {
  for (std::string const& run : tested_runs()) {
    INFO(run);
    SmallPlan const small = make_small_plan(run);
    ReplayedIteration const replayed = replay_op_by_op(small.plan, small.system);
    Trace const trace = record_all(small, TraceDetail::op);
    require_same_as(simulate(small.plan, small.system), trace);
    for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
      CAPTURE(r);
      require_same_ops(replayed.ranks[r], trace.ranks[r], trace.names);
    }
  }
}

TEST_CASE("recorded in whole chunks, an iteration has the peaks and the end of the simulation") {
  for (std::string const& run : tested_runs()) {
    INFO(run);
    SmallPlan const small = make_small_plan(run);
    require_same_as(simulate(small.plan, small.system), record_all(small, TraceDetail::chunk));
  }
}

TEST_CASE("an iteration releases everything that it allocates") {
  for (std::string const& run : tested_runs()) {
    INFO(run);
    SmallPlan const small = make_small_plan(run);
    ReplayedIteration const replayed = replay_op_by_op(small.plan, small.system);
    for (TraceDetail const detail : {TraceDetail::chunk, TraceDetail::op}) {
      Trace const trace = record_all(small, detail);
      for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
        CAPTURE(r);
        MemoryColumns const& memory = trace.ranks[r].memory;
        REQUIRE(memory_at(memory, memory.rows() - 1) == memory_at(memory, 0));
        CategoryBytes left = replayed.ranks[r].left;
        left[Category::workspace] = memory.of(Category::workspace).front();
        REQUIRE(left == memory_at(memory, 0));
      }
    }
  }
}

TEST_CASE("no stream of a rank does two things at once, and every send meets its receive") {
  for (std::string const& run : tested_runs()) {
    INFO(run);
    SmallPlan const small = make_small_plan(run);
    for (TraceDetail const detail : {TraceDetail::chunk, TraceDetail::op}) {
      Trace const trace = record_all(small, detail);
      for (RankTrace const& rank : trace.ranks) require_streams_do_one_thing_at_a_time(rank);
      require_sends_match_receives(trace, small.plan);
    }
  }
}

TEST_CASE("both details of a trace tell of the same matrix products") {
  for (std::string const& run : tested_runs()) {
    INFO(run);
    SmallPlan const small = make_small_plan(run);
    Trace const chunks = record_all(small, TraceDetail::chunk);
    Trace const ops = record_all(small, TraceDetail::op);
    REQUIRE(chunks.names == ops.names);
    for (std::size_t r = 0; r < chunks.ranks.size(); ++r) {
      auto const sum = [](TraceColumn const& column) {
        std::int64_t total = 0;
        for (std::int64_t const value : column) total += value;
        return total;
      };
      REQUIRE(sum(chunks.ranks[r].ops.flops) == sum(ops.ranks[r].ops.flops));
    }
  }
}

TEST_CASE("chosen stages are those of the whole recording, and others are refused") {
  SmallPlan const small = make_small_plan(small_runs()[100]);
  REQUIRE(small.plan.stages.size() == 4);
  Trace const whole = record_all(small, TraceDetail::op);
  RecordOptions options;
  options.detail = TraceDetail::op;
  options.stages = {StageId{3}, StageId{0}, StageId{3}};
  Trace const some = recorded(small.plan, small.system, options);
  REQUIRE(some.ranks.size() == 2);
  REQUIRE(some.ranks[0] == whole.ranks[0]);
  REQUIRE(some.ranks[1] == whole.ranks[3]);
  for (int const stage : {-1, 4}) {
    options.stages = {StageId{0}, StageId{stage}};
    REQUIRE_THROWS_WITH(recorded(small.plan, small.system, options),
                        Catch::Contains("found '" + std::to_string(stage) + "'; accepted: 0 to 3"));
  }
}

TEST_CASE("a recorded stage holds what its fullest rank does, to the byte and the picosecond",
          "[record]") {
  System const system = lossy_system();
  for (OddRun const& run : uneven_runs()) {
    CAPTURE(run.name);
    TrainingPlan const plan = make_plan(as_settled(run.config));
    Simulation const simulation = simulate(plan, system);
    for (TraceDetail const detail : {TraceDetail::chunk, TraceDetail::op}) {
      RecordOptions options;
      options.detail = detail;
      require_same_as(simulation, recorded(plan, system, options));
    }
  }
}

}  // namespace stagecraft::record_test
