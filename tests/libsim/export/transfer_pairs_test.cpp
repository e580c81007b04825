#include "libsim/export/transfer_pairs.hpp"

#include <catch2/catch.hpp>

#include "tests/libsim/export/rows.hpp"

namespace stagecraft::transfer_pairs_test {

namespace {

Row message(std::int64_t start, std::int64_t stream, std::int64_t microbatch, std::int64_t chunk) {
  return {.start = start,
          .duration = 1,
          .phase = in_transfer,
          .stream = stream,
          .microbatch = microbatch,
          .chunk = chunk};
}

}  // namespace

TEST_CASE("activations go up and wrap round to the next chunk, gradients come back") {
  KnownNames const names{names_of_rows()};
  TransferPairs pairs{{.stages = 2}, names};
  // Two stages of two chunks: virtual stages 0 (stage 0), 1 (stage 1), 2 (stage 0), 3 (stage 1).
  pairs.add(
      rank_of_rows(0, 0,
                   {message(10, on_send_activation, 0, 0), message(12, on_receive_activation, 0, 1),
                    message(20, on_send_gradient, 0, 1), message(22, on_receive_gradient, 0, 0)}));
  pairs.add(
      rank_of_rows(1, 1,
                   {message(10, on_receive_activation, 0, 0), message(12, on_send_activation, 0, 0),
                    message(20, on_receive_gradient, 0, 0), message(22, on_send_gradient, 0, 0)}));
  auto const found = pairs.pairs();
  REQUIRE(found.size() == 4);
  REQUIRE(pairs.unmatched() == 0);
  for (MessagePair const& pair : found) REQUIRE(pair.send.start == pair.receive.start);
  REQUIRE(found[0].send.rank == 0);
  REQUIRE(found[1].send.rank == 1);
  REQUIRE(found[1].receive.rank == 0);
}

TEST_CASE("messages of a V, and of two copies, go where their chunks lie") {
  KnownNames const names{names_of_rows()};
  TransferPairs in_a_v{{.stages = 2, .placement = v_placement(2)}, names};
  // Stage 1 has virtual stages 1 and 2 and hands one to the other; 0 and 3 are on stage 0.
  in_a_v.add(rank_of_rows(
      0, 0, {message(10, on_send_activation, 0, 0), message(12, on_receive_activation, 0, 1)}));
  in_a_v.add(rank_of_rows(
      1, 1, {message(10, on_receive_activation, 0, 0), message(12, on_send_activation, 0, 1)}));
  REQUIRE(in_a_v.pairs().size() == 2);
  REQUIRE(in_a_v.unmatched() == 0);
  // The second copy begins on stage 1: its chunks 1 send to stage 0.
  PipelineShape const both{.stages = 2, .placement = bidirectional_placement(2)};
  REQUIRE(both.virtual_stage(1, 1) == 2);
  REQUIRE(both.stage_of(3) == 0);
  TransferPairs of_both{both, names};
  of_both.add(rank_of_rows(
      0, 0, {message(10, on_send_activation, 0, 0), message(12, on_receive_activation, 1, 1)}));
  of_both.add(rank_of_rows(
      1, 1, {message(10, on_receive_activation, 0, 0), message(12, on_send_activation, 1, 1)}));
  REQUIRE(of_both.pairs().size() == 2);
  REQUIRE(of_both.unmatched() == 0);
}

TEST_CASE("of a whole job, ranks at one place of their stages talk to each other") {
  KnownNames const names{names_of_rows()};
  TransferPairs pairs{{.stages = 2, .ranks_per_stage = 2}, names};
  for (std::int32_t const rank : {0, 1})
    pairs.add(rank_of_rows(rank, 0, {message(rank, on_send_activation, 5, 0)}));
  for (std::int32_t const rank : {2, 3})
    pairs.add(rank_of_rows(rank, 1, {message(rank, on_receive_activation, 5, 0)}));
  auto const found = pairs.pairs();
  REQUIRE(found.size() == 2);
  for (MessagePair const& pair : found) REQUIRE(pair.receive.rank == pair.send.rank + 2);
}

TEST_CASE("a message whose other end was not recorded stays alone") {
  KnownNames const names{names_of_rows()};
  TransferPairs pairs{{.stages = 4}, names};
  pairs.add(rank_of_rows(0, 0, {message(0, on_send_activation, 0, 0)}));
  pairs.add(rank_of_rows(2, 2,
                         {message(0, on_receive_activation, 0, 0),
                          message(1, on_send_gradient, INT64_MAX, INT64_MAX)}));
  REQUIRE(pairs.pairs().empty());
  REQUIRE(pairs.unmatched() == 3);
}

}  // namespace stagecraft::transfer_pairs_test
