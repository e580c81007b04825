#include "libsim/plan/order_digest.hpp"

#include <catch2/catch.hpp>

#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::order_digest_test {
namespace {

TrainingPlan pipelined(int microbatches) {
  TrainingConfig config;
  config.model = gpt(8, 64, 8, 32, 1000);
  config.parallel = {.pipeline = 4, .interleave = 2};
  config.batch = {.global = microbatches, .micro = 1};
  config.schedule = {.kind = ScheduleKind::interleaved, .group = 4};
  return make_plan(as_settled(config));
}

}  // namespace

TEST_CASE("an order's digest is of the order, not of how its program repeats", "[plan]") {
  TrainingPlan const plan = pipelined(32);
  for (StagePlan const& stage : plan.stages) {
    IssueOrder const order = unroll(stage.program);
    REQUIRE(order.entries.size() > stage.program.entries.size());  // there is something to unroll
    StageProgram const flat{.entries = order.entries, .transfers = order.transfers};
    REQUIRE(order_digest(flat) == order_digest(stage.program));
  }
}

TEST_CASE("orders that differ in anything differ in their digests", "[plan]") {
  StageProgram const program = pipelined(8).stages[StageId{1}].program;
  std::string const digest = order_digest(program);
  REQUIRE(digest.size() == 64);
  REQUIRE(order_digest(program) == digest);
  REQUIRE(order_digest(pipelined(12).stages[StageId{1}].program) != digest);
  auto const changed = [&](auto change) {
    StageProgram other = program;
    change(other);
    return order_digest(other);
  };
  REQUIRE(changed([](StageProgram& p) { ++p.entries.front().task; }) != digest);
  REQUIRE(changed([](StageProgram& p) { p.entries.front().microbatch = MicrobatchId{7}; }) !=
          digest);
  REQUIRE(changed([](StageProgram& p) { ++p.entries.front().first; }) != digest);
  REQUIRE(changed([](StageProgram& p) { ++p.entries.front().count; }) != digest);
  REQUIRE(changed([](StageProgram& p) {
            p.transfers.front().peer = next(p.transfers.front().peer);
          }) != digest);
  REQUIRE(changed([](StageProgram& p) { p.transfers.front().microbatch = MicrobatchId{7}; }) !=
          digest);
  REQUIRE(changed([](StageProgram& p) { p.transfers.front().chunk = ChunkId{1}; }) != digest);
  REQUIRE(changed([](StageProgram& p) { ++p.transfers.front().message; }) != digest);
  REQUIRE(changed([](StageProgram& p) {
            p.transfers.front().end = Transfer::End::send == p.transfers.front().end
                                          ? Transfer::End::receive
                                          : Transfer::End::send;
          }) != digest);
}

}  // namespace stagecraft::order_digest_test
