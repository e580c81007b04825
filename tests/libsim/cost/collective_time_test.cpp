#include "libsim/cost/collective_time.hpp"

#include <catch2/catch.hpp>

#include "tests/libsim/invented_system.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t MiB = 1 << 20;

Node with_table() {
  Node node = invented_system().node;
  node.all_reduce.value = {
      .latency = {0},
      .bandwidth = {0},
      .table = {{Bytes{1 * MiB}, {90e-6}}, {Bytes{4 * MiB}, {96e-6}}, {Bytes{12 * MiB}, {160e-6}}},
      .ranks = 8};
  return node;
}

double all_reduce(Bytes whole, int ranks, Node const& node) {
  return node_collective_time(OpKind::all_reduce, whole, ranks, node).value;
}

TEST_CASE("a ring moves (n-1)/n of the tensor, an all-reduce twice that", "[cost]") {
  REQUIRE(ring_bytes(OpKind::all_gather, Bytes{800}, 8) == 700);
  REQUIRE(ring_bytes(OpKind::reduce_scatter, Bytes{800}, 8) == 700);
  REQUIRE(ring_bytes(OpKind::all_reduce, Bytes{800}, 8) == 1400);
  REQUIRE(ring_bytes(OpKind::all_reduce, Bytes{800}, 2) == 800);
  REQUIRE(ring_bytes(OpKind::all_reduce, Bytes{800}, 1) == 0);
}

TEST_CASE("without a table a collective takes its latency and a ring's bytes", "[cost]") {
  Node node = invented_system().node;
  node.all_gather.value.latency = {40e-6};
  REQUIRE(node_collective_time(OpKind::all_gather, Bytes{800'000'000}, 8, node).value ==
          Approx(40e-6 + 700e6 / 100e9));
}

TEST_CASE("a table gives its own points back", "[cost]") {
  Node const node = with_table();
  REQUIRE(all_reduce(Bytes{1 * MiB}, 8, node) == Approx(90e-6));
  REQUIRE(all_reduce(Bytes{4 * MiB}, 8, node) == Approx(96e-6));
  REQUIRE(all_reduce(Bytes{12 * MiB}, 8, node) == Approx(160e-6));
}

TEST_CASE("between points a table is straight, below the first constant, beyond the last straight",
          "[cost]") {
  Node const node = with_table();
  REQUIRE(all_reduce(Bytes{6 * MiB}, 8, node) == Approx(96e-6 + 16e-6));  // 8 us a MiB
  REQUIRE(all_reduce(Bytes{1}, 8, node) == Approx(90e-6));
  REQUIRE(all_reduce(Bytes{22 * MiB}, 8, node) == Approx(160e-6 + 80e-6));
}

TEST_CASE("other numbers of ranks read the table where the ring moves as many bytes", "[cost]") {
  // 2 ranks: 2 x 1/2 of the tensor against 2 x 7/8: 7 MiB over 2 is 4 MiB over 8.
  REQUIRE(all_reduce(Bytes{7 * MiB}, 2, with_table()) == Approx(96e-6));
}

TEST_CASE("one rank waits for nobody", "[cost]") {
  System const system = lossy_system();
  for (OpKind const kind : {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter}) {
    REQUIRE(node_collective_time(kind, Bytes{MiB}, 1, system.node).value == 0);
    REQUIRE(network_collective_time(kind, Bytes{MiB}, 1, system.network).value == 0);
  }
}

TEST_CASE("more bytes or more ranks never take less time", "[cost]") {
  System const system = lossy_system();
  for (Node const& node : {with_table(), system.node}) {
    double before = 0;
    for (std::int64_t bytes = 1; bytes < 1000 * MiB; bytes *= 3) {
      double const now = all_reduce(Bytes{bytes}, 8, node);
      REQUIRE(now >= before);
      before = now;
    }
    for (int ranks = 2; ranks < 8; ++ranks) {
      REQUIRE(all_reduce(Bytes{50 * MiB}, ranks + 1, node) >=
              all_reduce(Bytes{50 * MiB}, ranks, node));
    }
  }
}

TEST_CASE("over the network every step of the ring pays the latency", "[cost]") {
  // 8 ranks: 7 steps, twice that for an all-reduce; 0.9 of 10 GB/s.
  System const system = lossy_system();
  REQUIRE(network_collective_time(OpKind::all_gather, Bytes{8'000'000}, 8, system.network).value ==
          Approx(7 * 7e-6 + 7e6 / 9e9));
  REQUIRE(network_collective_time(OpKind::all_reduce, Bytes{8'000'000}, 8, system.network).value ==
          Approx(14 * 7e-6 + 14e6 / 9e9));
}

}  // namespace
}  // namespace stagecraft
