#include "libexec/comm/thread_world.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "libexec/comm/stage_edges.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/odd_runs.hpp"
#include "tests/libsim/other_axis.hpp"

namespace stagecraft::thread_world_test {
namespace {

class StillClock : public JobClock {
 public:
  bool is_virtual() const override { return false; }
  std::int64_t iteration() const override { return 0; }
  SimTime now() const override { return SimTime{7}; }
};

/// What each rank has after it has added its number to those of its group; -1 if it takes no part.
std::vector<std::int64_t> sums_of_ranks(TrainingPlan const& plan, GroupId group) {
  HostTransport transport;
  StillClock const clock;
  JobHealth health;
  ThreadWorld world{plan, transport, clock, health};
  std::vector<std::int64_t> sums(static_cast<std::size_t>(plan.groups.ranks()), -1);
  {
    std::vector<std::jthread> threads;
    for (RankId const rank : plan.groups.rank_ids()) {
      if (!plan.groups.membership(group, rank)) continue;
      threads.emplace_back([&, rank] {
        auto const communicator = world.communicator(rank);
        std::int64_t& sum = sums[rank.index()] = rank.value();
        communicator->finish(group, communicator->start({.group = group,
                                                         .type = ElementType::i64,
                                                         .source = &sum,
                                                         .target = &sum,
                                                         .elements = 1}));
      });
    }
  }
  return sums;
}

using Text = std::array<char, 6>;

Message end_of(Transfer::End end, Text& text) {
  return {.end = end, .number = 1, .data = text.data(), .bytes = text.size()};
}
Message sent(Text& text) { return end_of(Transfer::End::send, text); }
Message received(Text& text) { return end_of(Transfer::End::receive, text); }

TEST_CASE("a message arrives whichever end comes first", "[comm]") {
  StillClock const clock;
  JobHealth const health;
  HostTransport transport;
  ThreadMailboxes boxes{2, GENERATE(false, true), transport, clock, health};
  Text from{"hello"};
  Text to{};
  if (GENERATE(false, true)) {
    boxes.post(sent(from));
    boxes.post(received(to));
  } else {
    boxes.post(received(to));
    boxes.post(sent(from));
  }
  boxes.wait(sent(from));
  REQUIRE(boxes.wait(received(to)).end == SimTime{7});
  REQUIRE(to == from);
}

TEST_CASE("a buffered send may be overwritten before its receiver has posted", "[comm]") {
  StillClock const clock;
  JobHealth const health;
  HostTransport transport;
  ThreadMailboxes boxes{2, true, transport, clock, health};
  Text from{"hello"};
  Text to{};
  boxes.post(sent(from));
  boxes.wait(sent(from));
  from = {"other"};
  boxes.post(received(to));
  boxes.wait(received(to));
  REQUIRE(to == Text{"hello"});
}

TEST_CASE("a box serves one iteration after the other", "[comm]") {
  StillClock const clock;
  JobHealth const health;
  HostTransport transport;
  ThreadMailboxes boxes{2, false, transport, clock, health};
  Text to{};
  for (Text from : {Text{"first"}, Text{"again"}}) {
    boxes.post(sent(from));
    boxes.post(received(to));
    boxes.wait(received(to));
    boxes.wait(sent(from));
    REQUIRE(to == from);
  }
}

TEST_CASE("ends that disagree about the size of a message are refused", "[comm]") {
  StillClock const clock;
  JobHealth const health;
  HostTransport transport;
  ThreadMailboxes boxes{2, false, transport, clock, health};
  Text from{};
  Text to{};
  boxes.post(sent(from));
  Message shorter = received(to);
  shorter.bytes = 2;
  REQUIRE_THROWS_AS(boxes.post(shorter), std::logic_error);
}

TEST_CASE("who waits for a message of a rank that has failed stops waiting", "[comm]") {
  StillClock const clock;
  JobHealth health;
  HostTransport transport;
  ThreadMailboxes boxes{2, false, transport, clock, health};
  Text to{};
  boxes.post(received(to));
  std::jthread const other{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    health.fail(RankId{3}, "gone");
  }};
  REQUIRE_THROWS_AS(boxes.wait(received(to)), PeerFailure);
}

TrainingPlan plan_of(int stages, ScheduleKind kind, P2p p2p) {
  TrainingConfig config;
  config.model.heads = config.model.kv_heads = 2;
  config.model.head_dim = 4;
  config.model.hidden = 8;
  config.model.ffn_hidden = 32;
  config.model.sequence = 8;
  config.model.vocabulary = 32;
  config.parallel.pipeline = stages;
  config.parallel.interleave = kind == ScheduleKind::interleaved ? 2 : 1;
  config.model.layers = stages * config.parallel.interleave;
  config.batch.global = 2 * stages;
  config.schedule = {.kind = kind, .p2p = p2p};
  return make_plan(as_settled(config));
}

TEST_CASE("each neighbour has an edge for what it sends, and no round has a stage twice",
          "[comm]") {
  int const stages = GENERATE(1, 2, 3, 4, 7);
  auto const kind =
      GENERATE(ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved);
  auto const p2p = GENERATE(P2p::blocking, P2p::overlapped);
  if (kind == ScheduleKind::interleaved && stages == 1) return;
  TrainingPlan const plan = plan_of(stages, kind, p2p);
  std::set<StageEdge> all;
  std::size_t count = 0;
  for (auto const& round : edge_rounds(plan)) {
    std::set<StageId> busy;
    for (StageEdge const& edge : round) {
      REQUIRE(busy.insert(edge.from).second);
      REQUIRE(busy.insert(edge.to).second);
      all.insert(edge);
      ++count;
    }
  }
  // Activations go forward and gradients back; around the ring where stages have several chunks.
  auto const ring =
      static_cast<std::size_t>(kind == ScheduleKind::interleaved ? stages : stages - 1);
  REQUIRE(count == 2 * ring);
  REQUIRE(all.size() == count);
  for (StageEdge const& edge : all) {
    int const step = edge.payload == Transfer::Payload::activation ? 1 : stages - 1;
    REQUIRE(edge.to.value() == (edge.from.value() + step) % stages);
  }
  // What has no tags relies on this.
  REQUIRE_NOTHROW(require_message_order(plan));
  REQUIRE(message_edges(plan).size() == static_cast<std::size_t>(plan.messages));
}

TEST_CASE("a plan that receives in another order than it sends is refused", "[comm]") {
  TrainingPlan plan = plan_of(2, ScheduleKind::one_f_one_b, P2p::blocking);
  std::vector<Transfer*> received;
  for (Transfer& transfer : plan.stages[StageId{1}].program.transfers) {
    if (transfer.end == Transfer::End::receive) received.push_back(&transfer);
  }
  REQUIRE(received.size() >= 2);
  std::swap(received[0]->message, received[1]->message);
  REQUIRE_THROWS_AS(require_message_order(plan), std::logic_error);
}

}  // namespace

TEST_CASE("threads meet in every group of a plan, and in one of an axis that nobody knows",
          "[comm]") {
  TrainingConfig config = modest_run(2, 2);
  config.model.kv_heads = 1;
  OtherPlan const made = with_other_axis(make_plan(as_settled(config)));
  RankGroups const& groups = made.plan.groups;
  // Tensor 2, context 2, pipeline 2: 0 and 2 share a stage and a tensor position.
  REQUIRE(sums_of_ranks(made.plan, made.other) ==
          std::vector<std::int64_t>{2, 4, 2, 4, 10, 12, 10, 12});
  for (GroupId const id : groups.ids()) {
    std::vector<std::int64_t> const sums = sums_of_ranks(made.plan, id);
    for (RankId const rank : groups.rank_ids()) {
      auto const own = groups.membership(id, rank);
      std::int64_t expected = own ? 0 : -1;
      if (own) {
        for (RankId const member : own->members) expected += member.value();
      }
      REQUIRE(sums[rank.index()] == expected);
    }
  }
}

}  // namespace stagecraft::thread_world_test
