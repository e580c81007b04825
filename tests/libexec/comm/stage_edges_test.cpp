#include "libexec/comm/stage_edges.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "libsim/plan/make_plan.hpp"

namespace stagecraft::stage_edges_test {
namespace {

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
}  // namespace stagecraft::stage_edges_test
