#include "libexec/comm/thread_world.hpp"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

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
