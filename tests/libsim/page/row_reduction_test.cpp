#include "libsim/page/row_reduction.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "libsim/page/rank_figures.hpp"
#include "tests/libsim/export/rows.hpp"

namespace stagecraft::row_reduction_test {

namespace {

/// A forward of two ops, a message, a backward with recompute.
RankTrace four_parts() {
  return rank_of_rows(0, 0,
                      {{.start = 0,
                        .duration = 2,
                        .op = op_matmul,
                        .phase = in_forward,
                        .microbatch = 0,
                        .chunk = 0,
                        .bytes = 1,
                        .flops = 2},
                       {.start = 2,
                        .duration = 2,
                        .op = op_gelu,
                        .phase = in_forward,
                        .stream = on_tensor,
                        .microbatch = 0,
                        .chunk = 0},
                       {.start = 4,
                        .duration = 2,
                        .op = op_gelu,
                        .phase = in_forward,
                        .microbatch = 0,
                        .chunk = 0,
                        .bytes = 3,
                        .flops = 4},
                       {.start = 6,
                        .duration = 3,
                        .op = op_send,
                        .phase = in_transfer,
                        .stream = on_send_activation,
                        .microbatch = 0,
                        .chunk = 0},
                       {.start = 8,
                        .duration = 4,
                        .op = op_receive,
                        .phase = in_transfer,
                        .stream = on_receive_gradient,
                        .microbatch = 0,
                        .chunk = 0},
                       {.start = 15,
                        .duration = 5,
                        .op = op_matmul,
                        .phase = in_recompute,
                        .microbatch = 0,
                        .chunk = 0},
                       {.start = 20,
                        .duration = 7,
                        .op = op_matmul,
                        .phase = in_input_gradient,
                        .microbatch = 0,
                        .chunk = 0}});
}

}  // namespace

TEST_CASE(
    "figures tell computing, recompute and moving data apart, and idle time under a message counts "
    "once") {
  RankTrace rank = four_parts();
  add_state(rank, 0, 100, 0, 7);
  add_state(rank, 5, 100, 60, 2);
  add_state(rank, 9, 100, 60, 1);
  RankFigures const figures = figures_of(rank, KnownNames{names_of_rows()}, {});
  REQUIRE(figures.times.end == 27'000);
  // The compute stream stands still for the collective from 2 to 4.
  REQUIRE(figures.times.computing == (2 + 2 + 2 + 5 + 7) * 1000);
  REQUIRE(figures.recompute == 5'000);
  REQUIRE(figures.times.transfer == 6'000);  // 6 to 12
  REQUIRE(figures.at_peak.sum() == 100 + 60 + 7);
  REQUIRE(figures.peak_time == 5'000);
}

TEST_CASE("at chunk detail the ops of a chunk are one row, and figures stay what they are") {
  RankTrace const rank = four_parts();
  KnownNames const names{names_of_rows()};
  RankTrace const reduced = at_chunk_detail(rank, names, op_forward, op_backward, in_backward);
  REQUIRE(reduced.ops.start == TraceColumn{0, 6000, 8000, 15000});
  REQUIRE(reduced.ops.duration == TraceColumn{6000, 3000, 4000, 12000});
  REQUIRE(reduced.ops.op == TraceColumn{op_forward, op_send, op_receive, op_backward});
  REQUIRE(reduced.ops.phase == TraceColumn{in_forward, in_transfer, in_transfer, in_backward});
  REQUIRE(reduced.ops.bytes == TraceColumn{4, 0, 0, 0});
  REQUIRE(reduced.ops.flops == TraceColumn{6, 0, 0, 0});
  REQUIRE(figures_of(reduced, names, {}).times.computing ==
          figures_of(rank, names, {}).times.computing);
}

TEST_CASE("thinned memory keeps its peak, its end and its order") {
  RankTrace rank;
  for (std::int64_t i = 0; i < 1000; ++i) add_state(rank, i, 10, i == 617 ? 5000 : i % 50);
  MemoryColumns const thin = thinned(rank.memory, 100);
  REQUIRE(thin.rows() <= 102);
  REQUIRE(thin.time.back() == 999'000);
  REQUIRE(std::is_sorted(thin.time.begin(), thin.time.end()));
  auto const peak = std::max_element(thin.of(Category::activations).begin(),
                                     thin.of(Category::activations).end());
  REQUIRE(*peak == 5000);
  REQUIRE(thin.time[static_cast<std::size_t>(peak - thin.of(Category::activations).begin())] ==
          617'000);
  REQUIRE(thinned(rank.memory, 1000) == rank.memory);
}

}  // namespace stagecraft::row_reduction_test
