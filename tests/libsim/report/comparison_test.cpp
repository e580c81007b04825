#include "libsim/report/comparison.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "libsim/report/comparison_text.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_writer.hpp"

namespace stagecraft::comparison_test {

namespace {

using Catch::Contains;

constexpr std::int64_t second = 1'000'000'000'000;

/// A trace of one stage on which everything takes a whole number of seconds.
struct Row {
  std::int64_t start, duration, op, phase, stream;
};

RankTrace rank_of(std::int32_t number, std::int32_t stage, std::vector<Row> const& rows) {
  RankTrace rank;
  rank.rank = number;
  rank.stage = stage;
  for (Row const& row : rows) {
    rank.ops.start.push_back(row.start * second);
    rank.ops.duration.push_back(row.duration * second);
    rank.ops.op.push_back(row.op);
    rank.ops.phase.push_back(row.phase);
    rank.ops.stream.push_back(row.stream);
    for (TraceColumn* column : {&rank.ops.layer, &rank.ops.microbatch, &rank.ops.chunk,
                                &rank.ops.bytes, &rank.ops.flops}) {
      column->push_back(0);
    }
  }
  return rank;
}

void add_memory(RankTrace& rank,
                std::int64_t parameters,
                std::int64_t activations,
                std::int64_t workspace) {
  rank.memory.time.push_back(0);
  for (TraceColumn& column : rank.memory.bytes) column.push_back(0);
  rank.memory.of(Category::parameters).back() = parameters;
  rank.memory.of(Category::activations).back() = activations;
  rank.memory.of(Category::workspace).back() = workspace;
}

Trace trace_of(std::vector<RankTrace> const& ranks) {
  Trace trace;
  trace.meta.plan = std::string(64, '1');
  trace.names = {.op = {"matmul", "gelu", "send", "forward", "backward"},
                 .phase = {"forward", "input_gradient", "transfer", "backward"},
                 .stream = {"compute", "send_activation"}};
  trace.ranks = ranks;
  return trace;
}

/// Writes both, reads both, compares.
Comparison compare_traces(Trace const& a, Trace const& b, PlanCheck check = PlanCheck::same_plan) {
  auto const folder = std::filesystem::temp_directory_path() /
                      ("stagecraft-comparison-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  write_trace(folder / "a.h5", a);
  write_trace(folder / "b.h5", b);
  auto const read = [&](char const* name) { return TraceReader{folder / name}; };
  try {
    Comparison comparison = compare(read("a.h5"), read("b.h5"), check);
    std::filesystem::remove_all(folder);
    return comparison;
  } catch (...) {
    std::filesystem::remove_all(folder);
    throw;
  }
}

Trace one_stage(std::int64_t gelu_seconds) {
  RankTrace rank = rank_of(0, 0, {{0, 3, 0, 0, 0}, {4, gelu_seconds, 1, 1, 0}, {3, 1, 2, 2, 1}});
  add_memory(rank, 100, 0, 5);
  add_memory(rank, 100, 50, 7);
  add_memory(rank, 100, 50, 9);
  return trace_of({rank});
}

}  // namespace

TEST_CASE("compare finds iterations, op times, and where the difference comes from") {
  // A: matmul 0-3, waits 3-4, gelu 4-6. B: gelu 4-9.
  Comparison const comparison = compare_traces(one_stage(2), one_stage(5));
  REQUIRE(comparison.same_plan());
  REQUIRE(comparison.iteration_seconds == Pair<double>{6, 9});
  REQUIRE(*comparison.iteration_percent() == Approx(50));
  REQUIRE(comparison.ops.size() == 3);
  REQUIRE(comparison.ops[0].op == "gelu");
  REQUIRE(comparison.ops[0].phase == "input_gradient");
  REQUIRE(comparison.ops[0].seconds == Pair<double>{2, 5});
  REQUIRE(comparison.ops[1].seconds == Pair<double>{3, 3});
  REQUIRE(comparison.ops[2].stream == "send_activation");
  REQUIRE(comparison.contributions[0].phase == "input_gradient");
  REQUIRE(comparison.contributions[0].difference() == Approx(3));
  double sum = 0;
  for (Contribution const& part : comparison.contributions) sum += part.difference();
  REQUIRE(sum == Approx(3));
  REQUIRE_THAT(explain_difference(comparison),
               Contains("B's iteration is 3.00 s (50.00 %) longer than A's") &&
                   Contains("input gradient +3.00 s") && Contains("gelu differs most") &&
                   Contains("Memory peaks are equal to the byte."));
}

TEST_CASE(
    "the peak is where the sum without workspace first is largest, with the largest workspace") {
  Trace other = one_stage(2);
  other.ranks[0].memory.of(Category::activations)[0] = 60;
  Comparison const comparison = compare_traces(one_stage(2), other);
  REQUIRE(comparison.ranks.size() == 1);
  REQUIRE(comparison.ranks[0].at_peak[0].sum() == 100 + 50 + 9);
  REQUIRE(comparison.ranks[0].at_peak[1].sum() == 100 + 60 + 9);
  REQUIRE_THAT(explain_difference(comparison),
               Contains("Both iterations take the same time.") &&
                   Contains("on stage 0: B holds 0.01 KiB more, most of it activations."));
}

TEST_CASE("the bubble is what an iteration has beyond computing and communication") {
  Trace later = one_stage(2);
  later.ranks[0].ops.start[1] += 2 * second;
  Comparison const comparison = compare_traces(one_stage(2), later);
  // From 3 to 4 a message is in flight, in both.
  REQUIRE(comparison.contributions[0].phase == "bubble");
  REQUIRE(comparison.contributions[0].seconds == Pair<double>{0, 2});
}

TEST_CASE("exposed communication of each kind is a part of its own, not of the bubble") {
  // Of 10 s the stage computes 4; then gradients travel for 3, in B for 5; then a message for 1.
  auto const with_reduction = [](std::int64_t length) {
    Trace trace = trace_of(
        {rank_of(0, 0, {{0, 4, 0, 0, 0}, {4, length, 0, 0, 0}, {4 + length, 1, 0, 0, 0}})});
    auto const index = [](std::vector<std::string>& names, std::string const& name) {
      names.push_back(name);
      return static_cast<std::int64_t>(names.size()) - 1;
    };
    OpColumns& ops = trace.ranks[0].ops;
    ops.stream[1] = index(trace.names.stream, "data_parallel");
    ops.phase[1] = index(trace.names.phase, "data_parallel");
    ops.stream[2] = index(trace.names.stream, "receive_gradient");
    ops.phase[2] = index(trace.names.phase, "transfer");
    return trace;
  };
  Comparison const comparison = compare_traces(with_reduction(3), with_reduction(5));
  REQUIRE(comparison.contributions[0].phase == "data_parallel");
  REQUIRE(comparison.contributions[0].seconds == Pair<double>{3, 5});
  REQUIRE_THAT(explain_difference(comparison), Contains("data parallel +2.00 s"));
}

TEST_CASE("an iteration without a bubble has none at all, and no percentage of it") {
  // Tenths of a second have no binary fraction: 0.1 and twice 0.7 subtracted from their sum as
  // doubles leave 1e-16 s, of which B's second of bubble was 1e18 %.
  constexpr std::int64_t tenth = second / 10;
  auto const three_phases = [&](std::int64_t waited) {
    Trace trace = trace_of({rank_of(0, 0, {{0, 1, 0, 0, 0}, {1, 7, 1, 1, 0}, {8, 7, 4, 3, 0}})});
    OpColumns& ops = trace.ranks[0].ops;
    for (TraceColumn* const column : {&ops.start, &ops.duration}) {
      for (std::int64_t& time : *column) time = time / second * tenth;
    }
    ops.start[2] += waited;
    return trace;
  };
  Comparison const comparison = compare_traces(three_phases(0), three_phases(second));
  REQUIRE(comparison.contributions[0].phase == "bubble");
  REQUIRE(comparison.contributions[0].seconds == Pair<double>{0, 1});
  std::string const tables = comparison_tables(comparison, 100);
  REQUIRE_THAT(tables, Contains("bubble          0.000000  1.000000  +1.000000\n"));
}

TEST_CASE("the difference is told in units that fit, and in lines of the width asked for") {
  Trace a = one_stage(2);
  Trace b = one_stage(2);
  b.ranks[0].ops.duration[1] += 6'477'000'000;  // ps
  b.ranks[0].memory.of(Category::activations)[1] += std::int64_t{3} << 29;
  Comparison const comparison = compare_traces(a, b);
  REQUIRE(explain_difference(comparison) ==
          "B's iteration is 6.48 ms (0.11 %) longer than A's. On stage 0, the busiest of A: input "
          "gradient +6.48 ms; there gelu differs most, +6.48 ms over all stages. Memory peaks "
          "differ most on stage 0: B holds 1.50 GiB more, most of it activations.");
  REQUIRE_THAT(
      comparison_tables(comparison, 60),
      Contains("\nB's iteration is 6.48 ms (0.11 %) longer than A's. On stage\n0, the busiest"));
}

TEST_CASE("a simulated stage is held against every executed rank of it, and its time counts once") {
  Trace const simulated =
      trace_of({rank_of(0, 0, {{0, 4, 0, 0, 0}}), rank_of(1, 1, {{0, 5, 0, 0, 0}})});
  Trace executed = trace_of({rank_of(0, 0, {{0, 4, 0, 0, 0}}), rank_of(1, 0, {{0, 6, 0, 0, 0}}),
                             rank_of(2, 1, {{0, 5, 0, 0, 0}}), rank_of(3, 1, {{0, 5, 0, 0, 0}})});
  add_memory(executed.ranks[1], 70, 0, 0);
  Comparison const comparison = compare_traces(simulated, executed);
  REQUIRE(comparison.ranks.size() == 4);
  std::vector<std::int32_t> stages;
  for (RankComparison const& rank : comparison.ranks) stages.push_back(rank.stage);
  REQUIRE(stages == std::vector<std::int32_t>{0, 0, 1, 1});
  REQUIRE(comparison.ranks[1].at_peak[1].sum() == 70);
  REQUIRE(comparison.ops[0].seconds == Pair<double>{4 + 5, (4 + 6) / 2.0 + 5});
}

TEST_CASE("only stages that both traces have are compared, and there must be one") {
  Trace const both = trace_of({rank_of(0, 0, {{0, 4, 0, 0, 0}}), rank_of(1, 1, {{0, 5, 0, 0, 0}})});
  Trace const second_only = trace_of({rank_of(1, 1, {{0, 7, 0, 0, 0}})});
  Comparison const comparison = compare_traces(both, second_only);
  REQUIRE(comparison.ranks.size() == 1);
  REQUIRE(comparison.ops[0].seconds == Pair<double>{5, 7});
  Trace const third_only = trace_of({rank_of(2, 2, {{0, 7, 0, 0, 0}})});
  REQUIRE_THROWS_AS(compare_traces(both, third_only), TraceFileError);
}

TEST_CASE(
    "traces of two plans are refused with the beginning of both fingerprints, unless told "
    "otherwise") {
  Trace other = one_stage(2);
  other.meta.plan = std::string(64, '2');
  REQUIRE_THROWS_AS(compare_traces(one_stage(2), other), TraceFileError);
  REQUIRE_THROWS_WITH(compare_traces(one_stage(2), other),
                      Contains("of plan " + std::string(12, '1') + ";") &&
                          Contains("of plan " + std::string(12, '2') + ",") && Contains("--force"));
  Comparison const comparison = compare_traces(one_stage(2), other, PlanCheck::any_plan);
  REQUIRE_FALSE(comparison.same_plan());
  REQUIRE(to_json(comparison)["same_plan"] == false);
}

TEST_CASE("of two plans the keys that differ are named") {
  auto const traced = [](char plan, std::vector<std::string> const& overrides) {
    Trace trace = one_stage(2);
    trace.meta.plan = std::string(64, plan);
    trace.meta.config = to_yaml(
        load_run_config(STAGECRAFT_SOURCE_DIR "/configs/paper/22b-present.yaml", overrides));
    return trace;
  };
  Trace const a = traced('1', {});
  Trace const b = traced('2', {"parallel.sequence=false", "batch.micro=2"});
  REQUIRE_THROWS_WITH(compare_traces(a, b),
                      Contains("(they differ in parallel.sequence, batch.micro); --force"));
  Comparison const comparison = compare_traces(a, b, PlanCheck::any_plan);
  REQUIRE(to_json(comparison)["changes"] ==
          nlohmann::ordered_json::parse(
              R"([{"key": "parallel.sequence", "before": true, "after": false},
                  {"key": "batch.micro", "before": 4, "after": 2}])"));
  REQUIRE_THAT(comparison_tables(comparison, 100),
               Contains("keys that differ, A -> B:\n  parallel.sequence: true -> false\n"));
  REQUIRE(to_json(compare_traces(a, a))["changes"].empty());
  REQUIRE(to_json(compare_traces(one_stage(2), a, PlanCheck::any_plan))["changes"].is_null());
}

TEST_CASE("of whole chunks and single ops, the parts of a backward are compared together") {
  Trace const ops = trace_of({rank_of(0, 0, {{0, 2, 0, 0, 0}, {2, 3, 0, 1, 0}})});
  Trace const chunks = trace_of({rank_of(0, 0, {{0, 2, 3, 0, 0}, {2, 4, 4, 3, 0}})});
  Comparison const comparison = compare_traces(ops, chunks);
  REQUIRE_FALSE(comparison.same_detail);
  REQUIRE(comparison.contributions[0].phase == "backward");
  REQUIRE(comparison.contributions[0].seconds == Pair<double>{3, 4});
  REQUIRE_THAT(explain_difference(comparison), Contains("record both at the same detail"));
}

TEST_CASE("times that no sum can hold are compared all the same") {
  std::int64_t const longest = std::int64_t{1} << 61;
  Trace huge = trace_of({rank_of(
      0, 0,
      {{0, 1, 0, 0, 0}, {0, 1, 0, 0, 0}, {0, 1, 0, 0, 0}, {0, 1, 0, 0, 0}, {0, 1, 0, 0, 0}})});
  for (std::int64_t& duration : huge.ranks[0].ops.duration) duration = longest;
  Comparison const comparison = compare_traces(huge, huge);
  REQUIRE(comparison.ops[0].seconds[0] == Approx(9.223372036854775807e6));
}

TEST_CASE("an iteration that takes no time has no percentage") {
  Trace const empty = trace_of({rank_of(0, 0, {})});
  Comparison const comparison = compare_traces(empty, one_stage(1));
  REQUIRE_FALSE(comparison.iteration_percent());
  REQUIRE(to_json(comparison)["iteration_percent"].is_null());
  REQUIRE_THAT(comparison_tables(comparison, 100), Contains("5.000000"));
}

}  // namespace stagecraft::comparison_test
