#include "libsim/trace/chunk_slices.hpp"

#include <catch2/catch.hpp>

#include "tests/libsim/export/rows.hpp"

namespace stagecraft::chunk_slices_test {

TEST_CASE(
    "ops of one microbatch, chunk and direction make one slice, transfers between do not part it") {
  RankTrace const rank =
      rank_of_rows(0, 0,
                   {{.start = 0,
                     .duration = 2,
                     .op = op_matmul,
                     .phase = in_forward,
                     .microbatch = 0,
                     .chunk = 0,
                     .layer = 4,
                     .bytes = 10,
                     .flops = 100},
                    {.start = 2,
                     .duration = 1,
                     .op = op_send,
                     .phase = in_transfer,
                     .stream = on_send_activation,
                     .microbatch = 0,
                     .chunk = 0},
                    {.start = 2,
                     .duration = 5,
                     .op = op_gelu,
                     .phase = in_forward,
                     .stream = on_tensor,
                     .microbatch = 0,
                     .chunk = 0,
                     .bytes = 7,
                     .flops = 1},
                    {.start = 3,
                     .duration = 2,
                     .op = op_gelu,
                     .phase = in_forward,
                     .microbatch = 0,
                     .chunk = 0,
                     .layer = 5,
                     .bytes = 30},
                    {.start = 9,
                     .duration = 1,
                     .op = op_matmul,
                     .phase = in_recompute,
                     .microbatch = 0,
                     .chunk = 0},
                    {.start = 10,
                     .duration = 2,
                     .op = op_matmul,
                     .phase = in_input_gradient,
                     .microbatch = 0,
                     .chunk = 0},
                    {.start = 12,
                     .duration = 1,
                     .op = op_matmul,
                     .phase = in_input_gradient,
                     .microbatch = 1,
                     .chunk = 0},
                    {.start = 13,
                     .duration = 1,
                     .op = op_matmul,
                     .phase = in_input_gradient,
                     .microbatch = 1,
                     .chunk = 1},
                    {.start = 14, .duration = 1, .op = op_adam, .phase = in_optimizer}});
  auto const slices = chunk_slices(rank.ops, KnownNames{names_of_rows()});
  REQUIRE(slices.size() == 4);
  REQUIRE(slices[0].start == 0);
  REQUIRE(slices[0].end == 5000);
  REQUIRE_FALSE(slices[0].is_backward);
  REQUIRE(slices[0].first_layer == 4);
  REQUIRE(slices[0].last_layer == 5);
  REQUIRE(slices[0].bytes == 40);   // kernels only
  REQUIRE(slices[0].flops == 101);  // of all rows
  REQUIRE(slices[1].is_backward);
  REQUIRE(slices[1].start == 9000);
  REQUIRE(slices[1].end == 12000);
  REQUIRE(slices[2].microbatch == 1);
  REQUIRE(slices[3].chunk == 1);
}

TEST_CASE(
    "rows of whole chunks are slices of their own, also where two of a kind follow each other") {
  RankTrace const rank = rank_of_rows(0, 0,
                                      {{.start = 0,
                                        .duration = 2,
                                        .op = op_forward,
                                        .phase = in_forward,
                                        .microbatch = 3,
                                        .chunk = 0},
                                       {.start = 2,
                                        .duration = 2,
                                        .op = op_forward,
                                        .phase = in_forward,
                                        .microbatch = 3,
                                        .chunk = 0},
                                       {.start = 4,
                                        .duration = 2,
                                        .op = op_matmul,
                                        .phase = in_invented,
                                        .microbatch = 3,
                                        .chunk = 0}});
  auto const slices = chunk_slices(rank.ops, KnownNames{names_of_rows()});
  REQUIRE(slices.size() == 2);
  REQUIRE(slices[1].start == 2000);
}

TEST_CASE("FLOPs that no sum can hold do not overflow") {
  std::int64_t const most = INT64_MAX;
  RankTrace const rank = rank_of_rows(0, 0,
                                      {{.op = op_matmul,
                                        .phase = in_forward,
                                        .microbatch = 0,
                                        .chunk = 0,
                                        .bytes = most,
                                        .flops = most},
                                       {.op = op_matmul,
                                        .phase = in_forward,
                                        .microbatch = 0,
                                        .chunk = 0,
                                        .bytes = most,
                                        .flops = most}});
  REQUIRE(chunk_slices(rank.ops, KnownNames{names_of_rows()}).front().flops == most);
}

}  // namespace stagecraft::chunk_slices_test
