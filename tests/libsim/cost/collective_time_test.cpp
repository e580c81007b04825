#include "libsim/cost/collective_time.hpp"

#include <catch2/catch.hpp>

#include "tests/libsim/invented_system.hpp"

namespace stagecraft::collective_time_test {
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

double in_node(OpKind kind, Bytes whole, int ranks, Node const& node) {
  System system = invented_system();
  system.node = node;
  return collective_time(kind, whole, {.ranks = ranks, .per_node = ranks}, system).value;
}

double all_reduce(Bytes whole, int ranks, Node const& node) {
  return in_node(OpKind::all_reduce, whole, ranks, node);
}

double over_network(
    OpKind kind, std::int64_t whole, int ranks, int per_node, System const& system) {
  return collective_time(kind, Bytes{whole}, {.ranks = ranks, .per_node = per_node}, system).value;
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
  REQUIRE(in_node(OpKind::all_gather, Bytes{800'000'000}, 8, node) ==
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
    REQUIRE(collective_time(kind, Bytes{MiB}, {.ranks = 1}, system).value == 0);
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
  // 8 ranks: 7 steps, twice that for an all-reduce; 0.9 of 10 GB/s. What starts one is below.
  System system = lossy_system();
  system.node.all_gather.value.latency = {0};
  system.node.all_reduce.value.latency = {0};
  REQUIRE(over_network(OpKind::all_gather, 8'000'000, 8, 1, system) ==
          Approx(7 * 7e-6 + 7e6 / 9e9));
  REQUIRE(over_network(OpKind::all_reduce, 8'000'000, 8, 1, system) ==
          Approx(14 * 7e-6 + 14e6 / 9e9));
}

TEST_CASE("what starts a collective in a node starts one over nodes too", "[cost]") {
  // 16 ranks on two nodes: 15 steps of a ring for a gather, 2 x 1 of a tree for a small all-reduce.
  System system = lossy_system();
  double const gather = over_network(OpKind::all_gather, 16'000'000, 16, 8, system);
  double const reduce = over_network(OpKind::all_reduce, 1'000, 16, 8, system);
  system.node.all_gather.value.latency.value += 40e-6;
  system.node.all_reduce.value.latency.value += 80e-6;
  REQUIRE(over_network(OpKind::all_gather, 16'000'000, 16, 8, system) == Approx(gather + 40e-6));
  REQUIRE(over_network(OpKind::all_reduce, 1'000, 16, 8, system) == Approx(reduce + 80e-6));
}

TEST_CASE("a small all-reduce is a tree: its latency grows with the logarithm of the nodes",
          "[cost]") {
  // 64 nodes: a ring has 126 steps of 7 us, a tree 2 x 6, at 0.92 of a ring's bandwidth.
  System system = lossy_system();
  system.node.all_reduce.value.latency = {0};
  REQUIRE(over_network(OpKind::all_reduce, 64'000, 64, 1, system) ==
          Approx(12 * 7e-6 + 126e3 / 9e9 / 0.92));
}

TEST_CASE("the groups of a node share its adapters", "[cost]") {
  // Nodes of 8 with 4 adapters of 10 GB/s: a group of one rank per node has half an adapter, one of
  // two ranks per node a whole one, one of whole nodes all four.
  System system = invented_system();
  system.network.adapters.value = 4;
  REQUIRE(network_share(system).value == 5e9);
  constexpr std::int64_t whole = 16'000'000;
  REQUIRE(over_network(OpKind::all_gather, whole, 4, 1, system) == Approx(12e6 / 5e9));
  REQUIRE(over_network(OpKind::all_gather, whole, 4, 2, system) == Approx(12e6 / 10e9));
  REQUIRE(over_network(OpKind::all_gather, whole, 16, 8, system) == Approx(15e6 / 40e9));
}

/// Points that a straight line of `step` a MiB on top of `start` passes through.
std::vector<CollectivePoint> line(double start, double step) {
  return {{Bytes{1 * MiB}, Seconds{start + step}}, {Bytes{64 * MiB}, Seconds{start + 64 * step}}};
}

System with_tables(CollectiveTables tables) {
  System system = lossy_system();
  auto const shared = std::make_shared<CollectiveTables const>(std::move(tables));
  system.node.collectives.value = {"t.csv", shared};
  system.network.collectives.value = {"t.csv", shared};
  return system;
}

TEST_CASE("measured tables give their own points back, in a node and over nodes", "[cost]") {
  System const system = with_tables({{{OpKind::all_reduce, 1, 8}, line(1, 0.5)},
                                     {{OpKind::all_reduce, 2, 8}, line(2, 0.25)},
                                     {{OpKind::all_gather, 2, 4}, line(3, 0.125)}});
  REQUIRE(over_network(OpKind::all_reduce, 4 * MiB, 8, 8, system) == Approx(3));
  REQUIRE(over_network(OpKind::all_reduce, 4 * MiB, 16, 8, system) == Approx(3));
  REQUIRE(over_network(OpKind::all_gather, 8 * MiB, 8, 4, system) == Approx(4));
}

TEST_CASE("a bus bandwidth in the node takes precedence, but not below the least measured time",
          "[cost]") {
  System system = with_tables({{{OpKind::all_reduce, 1, 8}, line(1, 0.5)}});
  system.node.bus_bandwidth.value = {1e6};
  // 14/8 of the bytes at 1 MB/s; the smallest measured one takes 1.5 s.
  REQUIRE(over_network(OpKind::all_reduce, 8'000'000, 8, 8, system) == Approx(14));
  REQUIRE(over_network(OpKind::all_reduce, 8'000, 8, 8, system) == Approx(1.5));
  REQUIRE(over_network(OpKind::all_gather, 8 * MiB, 8, 8, system) == Approx(3));
}

TEST_CASE("in a node, what was not measured is read where a ring moves as many bytes", "[cost]") {
  System const system = with_tables(
      {{{OpKind::all_reduce, 1, 2}, line(1, 0.5)}, {{OpKind::all_reduce, 1, 8}, line(2, 0.25)}});
  // An all-gather among 8 moves 7/8 of the tensor, an all-reduce 14/8: as of half the size.
  REQUIRE(over_network(OpKind::all_gather, 8 * MiB, 8, 8, system) == Approx(3));
  // 3 ranks are nearer to 2: 4/3 of the tensor against 1.
  REQUIRE(over_network(OpKind::all_reduce, 6 * MiB, 3, 3, system) == Approx(1 + 0.5 * 8));
}

TEST_CASE("for other numbers of nodes the nearest measurement is scaled as the rates say",
          "[cost]") {
  CollectiveTables const tables{{{OpKind::all_gather, 2, 8}, line(2, 0.25)},
                                {{OpKind::all_gather, 8, 8}, line(7, 0.25)}};
  System const measured = with_tables(tables);
  System const plain = lossy_system();
  auto const modelled = [&](int ranks) {
    return over_network(OpKind::all_gather, 4 * MiB, ranks, 8, plain);
  };
  // 4 nodes lie between 2 and 8: those of 2 hold.
  REQUIRE(over_network(OpKind::all_gather, 4 * MiB, 32, 8, measured) ==
          Approx(3 * modelled(32) / modelled(16)));
  REQUIRE(over_network(OpKind::all_gather, 4 * MiB, 128, 8, measured) ==
          Approx(8 * modelled(128) / modelled(64)));
  // Another number of ranks per node, and another kind, were not measured.
  REQUIRE(over_network(OpKind::all_gather, 4 * MiB, 32, 4, measured) ==
          over_network(OpKind::all_gather, 4 * MiB, 32, 4, plain));
  REQUIRE(over_network(OpKind::all_reduce, 4 * MiB, 32, 8, measured) ==
          over_network(OpKind::all_reduce, 4 * MiB, 32, 8, plain));
}

TEST_CASE("what nccl-tests measured among whole nodes takes precedence", "[cost]") {
  System system = invented_system();
  system.network.bus_bandwidth.value = {{2, {40e9}}, {8, {20e9}}};
  system.network.gather_bandwidth.value = {{2, {160e9}}};
  constexpr std::int64_t whole = 16'000'000;
  REQUIRE(over_network(OpKind::all_reduce, whole, 16, 8, system) == Approx(30e6 / 40e9));
  // 4 nodes are between 2 and 8: the rate of 2 holds; 16 nodes are beyond 8.
  REQUIRE(over_network(OpKind::all_reduce, whole, 32, 8, system) == Approx(31e6 / 40e9));
  REQUIRE(over_network(OpKind::all_reduce, whole, 128, 8, system) == Approx(2 * 127e6 / 8 / 20e9));
  // The second of two nodes has one rank, whose adapter all wait for.
  REQUIRE(over_network(OpKind::all_reduce, whole, 9, 8, system) == Approx(16.0 / 9 * 16e6 / 10e9));
  // A group of one rank per node has an adapter of its own, whatever whole nodes reach.
  REQUIRE(over_network(OpKind::all_reduce, whole, 4, 1, system) == Approx(24e6 / 10e9));
  // Gathers are given for all eight ranks of a node, of which the group has two.
  REQUIRE(over_network(OpKind::all_gather, whole, 4, 2, system) == Approx(12e6 / 40e9));
  system.node.bus_bandwidth.value = {50e9};
  REQUIRE(all_reduce(Bytes{8'000'000}, 8, system.node) == Approx(14e6 / 50e9));
}

TEST_CASE("an all-to-all in a node whose all-reduces alone were measured has their rate",
          "[cost]") {
  // Two ranks: 1 GB in 5 ms are 200 GB/s, and nothing takes less than the 50 us of 1 kB. A table of
  // eight ranks is further off.
  System system =
      with_tables({{{OpKind::all_reduce, 1, 2},
                    {{Bytes{1000}, Seconds{50e-6}}, {Bytes{1'000'000'000}, Seconds{5e-3}}}},
                   {{OpKind::all_reduce, 1, 8},
                    {{Bytes{1000}, Seconds{90e-6}}, {Bytes{1'000'000'000}, Seconds{9e-3}}}}});
  system.node.all_gather.value = {};
  REQUIRE(over_network(OpKind::all_to_all, 1'000'000, 2, 8, system) ==
          Approx(50e-6 + 0.5e6 / (200e9 * 0.886)));
}

TEST_CASE("a bus bandwidth in the node is not below the least time of a table of its own",
          "[cost]") {
  Node node = with_table();
  node.bus_bandwidth.value = {1e15};
  REQUIRE(all_reduce(Bytes{1}, 8, node) == Approx(90e-6));
}

TEST_CASE("an all-to-all has the rate of the node's all-gather, table or bus bandwidth", "[cost]") {
  // Of two ranks each sends half of 1 MB.
  System system = invented_system();
  system.node.all_gather.value = {};
  system.node.bus_bandwidth.value = {200e9};
  REQUIRE(over_network(OpKind::all_to_all, 1'000'000, 2, 8, system) ==
          Approx(0.5e6 / (200e9 * 0.886)));
  // Eight ranks gather 800 MB, 700 of them from others, in 7 ms: 100 GB/s.
  system.node.bus_bandwidth.value = {0};
  system.node.all_gather.value.table = {{Bytes{1'000'000}, {20e-6}}, {Bytes{800'000'000}, {7e-3}}};
  system.node.all_gather.value.ranks = 8;
  REQUIRE(over_network(OpKind::all_to_all, 1'000'000, 2, 8, system) ==
          Approx(0.5e6 / (100e9 * 0.886)));
}

TEST_CASE("an all-to-all over nodes pays the latency of both", "[cost]") {
  System system = invented_system();
  system.node.all_gather.value.latency = {2e-3};
  system.network.latency.value = {5e-3};
  REQUIRE(over_network(OpKind::all_to_all, 16, 16, 8, system) == Approx(7e-3));
}

TEST_CASE("a token that goes everywhere is sent once to each rank and node", "[cost]") {
  // Eight ranks of one node, an expert on each, all of them chosen: 7/8 of a token's copies leave.
  System system = invented_system();
  UniqueTokens const everywhere{.experts = 8, .per_token = 8};
  auto const seconds = [&](std::int64_t sent, UniqueTokens const& tokens, int ranks) {
    return unique_all_to_all_time(Bytes{sent}, {true, tokens}, {.ranks = ranks, .per_node = 8},
                                  system)
        .value;
  };
  REQUIRE(seconds(100'000'000, everywhere, 8) == Approx(700e6 / (100e9 * 0.886)));
  // Two nodes: half of what goes to either leaves, once, over adapters of 10 GB/s.
  system.node.all_gather.value.bandwidth = {100e12};
  REQUIRE(seconds(100'000'000, {.experts = 16, .per_token = 16}, 16) ==
          Approx(100e6 / (10e9 * 0.86)));
}

TEST_CASE("a ring shift takes as long as its slowest hop", "[cost]") {
  System system = invented_system();
  system.node.accelerators.value = 8;
  system.node.p2p.value = {.latency = {3e-6}, .bandwidth = {200e9}, .table = {}};
  system.network.bandwidth.value = {50e9};
  system.network.efficiency.value = 0.8;
  system.network.adapters.value = 8;
  system.network.latency.value = {10e-6};
  auto const seconds = [&](int ranks, int per_node) {
    return over_network(OpKind::ring_shift, 1'000'000, ranks, per_node, system);
  };
  REQUIRE(seconds(8, 8) == Approx(3e-6 + 1e6 / 200e9));
  // One adapter carries a flow, whether all of the node's ranks send over the network or one.
  REQUIRE(seconds(8, 1) == Approx(10e-6 + 1e6 / 40e9));
  REQUIRE(seconds(16, 8) == Approx(10e-6 + 1e6 / 40e9));
  // Two adapters for eight ranks: a quarter of one each, or all of one for a ring of the node.
  system.network.adapters.value = 2;
  REQUIRE(seconds(8, 1) == Approx(10e-6 + 1e6 / 10e9));
  REQUIRE(seconds(16, 8) == Approx(10e-6 + 1e6 / 40e9));
}

TEST_CASE("an all-to-all on H100 takes what NCCL was measured to take", "[cost]") {
  // arXiv:2603.07685, table 7: dispatch of 4096 tokens of 7168 elements to 8 experts each, in
  // 16 bits, over nodes of 8 with an adapter of 50 GB/s per rank.
  System system = invented_system();
  system.node.accelerators.value = 8;
  system.node.all_gather.value = {.latency = {40e-6}, .bandwidth = {370e9}, .table = {}};
  system.node.collectives.value = {};
  system.network.bandwidth.value = {50e9};
  system.network.adapters.value = 8;
  system.network.latency.value = {9.6e-6};
  std::int64_t const sent = std::int64_t{2} * 4096 * 8 * 7168;
  auto const seconds = [&](int ranks) {
    return over_network(OpKind::all_to_all, sent, ranks, 8, system);
  };
  REQUIRE(seconds(8) == Approx(1265e-6).epsilon(0.05));
  REQUIRE(seconds(16) == Approx(5774e-6).epsilon(0.06));
  REQUIRE(seconds(32) == Approx(8059e-6).epsilon(0.06));
  REQUIRE(seconds(64) == Approx(9164e-6).epsilon(0.06));
  // Of two ranks in a node each sends half of its tensor.
  double const links = 370e9 * 0.886;
  REQUIRE(over_network(OpKind::all_to_all, 1000000, 2, 2, system) == Approx(40e-6 + 0.5e6 / links));
}

TEST_CASE("a token goes once to each node, as measured with HybridEP on H100", "[cost]") {
  // arXiv:2603.07685, table 7: 4096 tokens of DeepSeek-V3, h 7168, 8 of 256 experts in 4 of 8
  // groups; dispatch and combine.
  System system = invented_system();
  system.node.accelerators.value = 8;
  system.node.all_gather.value = {.latency = {40e-6}, .bandwidth = {370e9}, .table = {}};
  system.node.collectives.value = {};
  system.network.bandwidth.value = {50e9};
  system.network.adapters.value = 8;
  system.network.latency.value = {9.6e-6};
  UniqueTokens const tokens{.experts = 256, .per_token = 8, .groups = 8, .groups_per_token = 4};
  auto const seconds = [&](int ranks) {
    return unique_all_to_all_time(Bytes{std::int64_t{2} * 4096 * 7168}, {true, tokens},
                                  {.ranks = ranks, .per_node = 8}, system)
        .value;
  };
  REQUIRE(seconds(16) == Approx((1485e-6 + 1688e-6) / 2).epsilon(0.15));
  REQUIRE(seconds(32) == Approx((3064e-6 + 3088e-6) / 2).epsilon(0.15));
  REQUIRE(seconds(64) == Approx((4626e-6 + 4398e-6) / 2).epsilon(0.15));
}

TEST_CASE("distinct destinations of a token's choices", "[cost]") {
  // 1 - C(E - E/EP, k) / C(E, k) for each of EP ranks: 256 experts, 8 per token; DeepEP's sizes.
  UniqueTokens const uniform{.experts = 256, .per_token = 8};
  REQUIRE(distinct_parts(uniform, 8) == Approx(5.3).margin(0.05));
  REQUIRE(distinct_parts(uniform, 16) == Approx(6.5).margin(0.05));
  // C(252, 8) / C(256, 8).
  double const none = 248. * 247 * 246 * 245 / (256. * 255 * 254 * 253);
  REQUIRE(distinct_parts(uniform, 64) == Approx(64 * (1 - none)));
  REQUIRE(distinct_parts(uniform, 1) == Approx(1));
  // By hand: 4 experts in 2 groups of which a token uses one, and both experts of it. Each of the
  // 4 parts of one expert has half the tokens, each of the 2 parts too.
  UniqueTokens const grouped{.experts = 4, .per_token = 2, .groups = 2, .groups_per_token = 1};
  REQUIRE(distinct_parts(grouped, 4) == Approx(2));
  REQUIRE(distinct_parts(grouped, 2) == Approx(1));
}

}  // namespace
}  // namespace stagecraft::collective_time_test
