#include "libsim/report/paper/row_comparison.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/odd_runs.hpp"
#include "tests/libsim/recorded.hpp"

namespace stagecraft::row_comparison_test {
namespace {

/// A trace of a small run, and a copy of it to change.
class Traces {
 public:
  Traces()
      : trace_{recorded(
            make_plan(as_settled(modest_run(2, 2))),
            lossy_system(),
            {.detail = TraceDetail::op, .stages = {}, .command_line = {}, .config = {}})},
        changed_{trace_} {}

  RankTrace& rank() { return changed_.ranks.back(); }
  TraceNames& names() { return changed_.names; }
  RowComparison compare() const {
    return compare_rows(trace_.ranks.back(), trace_.names, changed_.ranks.back(), changed_.names);
  }

 private:
  Trace trace_;
  Trace changed_;
};

void reverse(TraceColumn& column) { std::reverse(column.begin(), column.end()); }

}  // namespace

TEST_CASE("a rank is the same work as itself, whatever numbers its names have", "[report]") {
  Traces traces;
  std::vector<std::string>& ops = traces.names().op;
  auto const last = static_cast<std::int64_t>(ops.size()) - 1;
  std::reverse(ops.begin(), ops.end());
  for (std::int64_t& op : traces.rank().ops.op) op = last - op;
  RowComparison const same = traces.compare();
  REQUIRE(same.is_same_work());
  REQUIRE(same.start_apart == 0);
  REQUIRE(same.duration_apart == 0);
}

TEST_CASE("what an iteration costs besides, which only a prediction has, is no work", "[report]") {
  Traces traces;
  OpColumns& rows = traces.rank().ops;
  REQUIRE(traces.names().op[static_cast<std::size_t>(rows.op.back())] == "iteration_overhead");
  rows.resize(rows.rows() - 1);
  REQUIRE(traces.compare().is_same_work());
  rows.resize(rows.rows() - 1);
  REQUIRE(traces.compare().order);
}

TEST_CASE("what breaks a trace without changing its peaks or sums is found", "[report]") {
  // The five ways in which an audit broke traces that were then called equal.
  Traces traces;
  OpColumns& rows = traces.rank().ops;
  SECTION("activations halved but at the peak") {
    TraceColumn& bytes = traces.rank().memory.of(Category::activations);
    std::int64_t const most = *std::max_element(bytes.begin(), bytes.end());
    for (std::int64_t& count : bytes) count = count == most ? count : count / 2;
    REQUIRE(traces.compare().memory);
    REQUIRE_FALSE(traces.compare().order);
  }
  SECTION("layers reversed") {
    reverse(rows.layer);
    REQUIRE(traces.compare().order);
  }
  SECTION("microbatches reversed") {
    reverse(rows.microbatch);
    REQUIRE(traces.compare().order);
  }
  SECTION("bytes reversed") {
    reverse(rows.bytes);
    REQUIRE(traces.compare().size);
  }
  SECTION("FLOPs reversed") {
    reverse(rows.flops);
    REQUIRE(traces.compare().size);
  }
  SECTION("all starts 0") {
    // The row behind it is what the iteration costs besides.
    std::int64_t const last = *std::max_element(rows.start.begin(), rows.start.end() - 1);
    std::fill(rows.start.begin(), rows.start.end(), 0);
    REQUIRE(traces.compare().start_apart == last);
  }
  SECTION("one row left out") {
    std::size_t const all = rows.rows() - 1;  // but for what the iteration costs besides
    rows.resize(all - 1);
    REQUIRE(traces.compare().order);
    REQUIRE(traces.compare().order->row == all - 1);
    REQUIRE(traces.compare().order->what ==
            "rows " + std::to_string(all) + " and " + std::to_string(all - 1));
  }
}

TEST_CASE("the first row that is another one is named with both values", "[report]") {
  Traces traces;
  traces.rank().ops.microbatch[7] = 41;
  traces.rank().ops.microbatch[9] = 42;
  RowComparison const other = traces.compare();
  REQUIRE(other.order);
  REQUIRE(other.order->row == 7);
  REQUIRE(other.order->what.starts_with("microbatch "));
  REQUIRE(other.order->what.ends_with(" and 41"));
}

TEST_CASE("workspace and times of memory are no difference of work", "[report]") {
  Traces traces;
  for (std::int64_t& bytes : traces.rank().memory.of(Category::workspace)) bytes += 1;
  for (std::int64_t& time : traces.rank().memory.time) time *= 2;
  REQUIRE(traces.compare().is_same_work());
}

}  // namespace stagecraft::row_comparison_test
