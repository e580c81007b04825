#include "libexec/comm/collectives.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libexec/comm/thread_world.hpp"

namespace stagecraft::collectives_test {
namespace {

class StillClock : public JobClock {
 public:
  bool is_virtual() const override { return false; }
  std::int64_t iteration() const override { return 0; }
  SimTime now() const override { return SimTime{7}; }
};

using Tensor = std::vector<float>;

/// Runs `body` as each member of a group; what a member throws fails the job.
std::optional<JobHealth::Failure> run_members(
    std::size_t members, std::function<void(ThreadGroup&, std::size_t)> const& body) {
  StillClock const clock;
  JobHealth health;
  HostTransport transport;
  ThreadGroup group{members, transport, clock, health};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < members; ++i) {
      threads.emplace_back([&, i] {
        try {
          body(group, i);
        } catch (PeerFailure const&) {
        } catch (std::exception const& error) {
          health.fail(RankId::of_index(i), error.what());
        }
      });
    }
  }
  return health.failure();
}

void meet(ThreadGroup& group, std::size_t member, Collective const& collective) {
  group.finish(member, group.start(member, collective));
}

/// What member `i` has: numbers whose sum in another order has other bits.
Tensor numbers_of(std::size_t member, std::size_t count) {
  Tensor numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = std::pow(10.0F, static_cast<float>((member * 5 + i) % 7)) / 3.0F;
  }
  return numbers;
}

Tensor sum_in_order(std::size_t members, std::size_t count) {
  Tensor sum = numbers_of(0, count);
  for (std::size_t member = 1; member < members; ++member) {
    Tensor const next = numbers_of(member, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += next[i];
  }
  return sum;
}

TEST_CASE("an all-reduce adds in rank order, in place or not, for a group of one too", "[comm]") {
  std::size_t const members = GENERATE(1U, 2U, 5U);
  bool const is_in_place = GENERATE(false, true);
  std::size_t const count = 23;
  std::vector<Tensor> results(members);
  auto const failure = run_members(members, [&](ThreadGroup& group, std::size_t i) {
    Tensor const source = numbers_of(i, count);
    results[i] = is_in_place ? source : Tensor(count);
    meet(group, i,
         {.source = is_in_place ? results[i].data() : source.data(),
          .target = results[i].data(),
          .elements = count});
  });
  REQUIRE_FALSE(failure);
  for (Tensor const& result : results) REQUIRE(result == sum_in_order(members, count));
}

TEST_CASE("a maximum is a maximum, and integers are summed as integers", "[comm]") {
  std::vector<double> largest{1, 5, 3};
  std::vector<std::int64_t> sums{std::int64_t{1} << 60, 1, 2};
  auto const failure = run_members(3, [&](ThreadGroup& group, std::size_t i) {
    meet(group, i,
         {.reduction = Reduction::maximum,
          .type = ElementType::f64,
          .source = &largest[i],
          .target = &largest[i],
          .elements = 1});
    meet(group, i,
         {.type = ElementType::i64, .source = &sums[i], .target = &sums[i], .elements = 1});
  });
  REQUIRE_FALSE(failure);
  for (double const one : largest) REQUIRE(one == 5);
  for (std::int64_t const one : sums) REQUIRE(one == (std::int64_t{1} << 60) + 3);
}

TEST_CASE("a prefix reduction is over the members of a stage and of those before", "[comm]") {
  // Three stages of two members; each waits for no later one.
  std::vector<std::int64_t> sums(6);
  std::vector<float> largest(6);
  auto const failure = run_members(6, [&](ThreadGroup& group, std::size_t i) {
    for (int again = 0; again < 3; ++again) {
      std::int64_t const own = std::int64_t{1} << (4 * i);
      meet(group, i,
           {.kind = OpKind::prefix_reduce,
            .type = ElementType::i64,
            .source = &own,
            .target = &sums[i],
            .elements = 1,
            .members_together = 2});
      auto const mine = static_cast<float>(i == 2 ? 9 : i);
      meet(group, i,
           {.kind = OpKind::prefix_reduce,
            .reduction = Reduction::maximum,
            .source = &mine,
            .target = &largest[i],
            .elements = 1,
            .members_together = 2});
    }
  });
  REQUIRE_FALSE(failure);
  REQUIRE(sums == std::vector<std::int64_t>{0x11, 0x11, 0x1111, 0x1111, 0x111111, 0x111111});
  REQUIRE(largest == std::vector<float>{1, 1, 9, 9, 9, 9});
}

TEST_CASE("a prefix reduction ends before later stages have come", "[comm]") {
  StillClock const clock;
  JobHealth health;
  HostTransport transport;
  ThreadGroup group{3, transport, clock, health};
  std::int64_t sum = 0;
  std::vector<std::int64_t> const own{1, 10, 100};
  for (std::size_t i = 0; i < 3; ++i) {  // one after the other, on one thread
    meet(group, i,
         {.kind = OpKind::prefix_reduce,
          .type = ElementType::i64,
          .source = &own[i],
          .target = &sum,
          .elements = 1});
    REQUIRE(sum == std::vector<std::int64_t>{1, 11, 111}[i]);
  }
}

TEST_CASE("pieces are cut with their origin, and the last ones may be short or empty", "[comm]") {
  Collective const cut{.elements = 23, .piece = 10, .origin = 4};
  REQUIRE(cut.piece_begin(0) == 0);
  REQUIRE(cut.piece_begin(1) == 6);
  REQUIRE(cut.piece_begin(2) == 16);
  REQUIRE(cut.piece_begin(3) == 23);
  REQUIRE(cut.piece_begin(4) == 23);
}

TEST_CASE("a reduce-scatter gives each member the sums of its piece, an all-gather undoes the cut",
          "[comm]") {
  std::size_t const members = 4;  // the last one's piece is empty
  std::size_t const count = 23;
  bool const is_in_place = GENERATE(false, true);
  std::vector<Tensor> results(members);
  auto const failure = run_members(members, [&](ThreadGroup& group, std::size_t i) {
    Tensor whole = numbers_of(i, count);
    Tensor piece(count);
    Collective collective{.kind = OpKind::reduce_scatter,
                          .source = whole.data(),
                          .elements = count,
                          .piece = 10,
                          .origin = 4};
    std::int64_t const own = collective.piece_begin(static_cast<std::int64_t>(i));
    collective.target = is_in_place ? whole.data() + own : piece.data();
    meet(group, i, collective);
    results[i] = is_in_place ? whole : Tensor(count);
    collective.kind = OpKind::all_gather;
    collective.source = is_in_place ? results[i].data() + own : piece.data();
    collective.target = results[i].data();
    meet(group, i, collective);
  });
  REQUIRE_FALSE(failure);
  for (Tensor const& result : results) REQUIRE(result == sum_in_order(members, count));
}

TEST_CASE("members that disagree about a collective are refused", "[comm]") {
  std::vector<Tensor> tensors(2, Tensor(8));
  auto const failure = run_members(2, [&](ThreadGroup& group, std::size_t i) {
    meet(group, i,
         {.source = tensors[i].data(), .target = tensors[i].data(), .elements = i == 0 ? 8 : 7});
  });
  REQUIRE(failure);
  for (std::string const part : {"different collectives", "all_reduce of 8", "all_reduce of 7"}) {
    REQUIRE(failure->reason.find(part) != std::string::npos);
  }
}

TEST_CASE("who waits for a member that has failed stops waiting", "[comm]") {
  float number = 0;
  auto const begin = std::chrono::steady_clock::now();
  auto const failure = run_members(3, [&](ThreadGroup& group, std::size_t i) {
    if (i == 1) throw std::runtime_error{"out of paper"};
    meet(group, i, {.source = &number, .target = &number, .elements = 1});
  });
  REQUIRE(failure);
  REQUIRE(failure->rank == RankId{1});
  REQUIRE(failure->reason == "out of paper");
  REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds{5});
}

TEST_CASE("collectives under way are told apart by their tickets", "[comm]") {
  std::vector<Tensor> tensors(2, Tensor{1, 10, 100});
  auto const failure = run_members(2, [&](ThreadGroup& group, std::size_t i) {
    std::vector<Communicator::Ticket> tickets;
    for (float& number : tensors[i]) {
      tickets.push_back(group.start(i, {.source = &number, .target = &number, .elements = 1}));
    }
    for (std::size_t k = tickets.size(); k-- > 0;) group.finish(i, tickets[k]);
  });
  REQUIRE_FALSE(failure);
  for (Tensor const& tensor : tensors) REQUIRE(tensor == Tensor{2, 20, 200});
}

TEST_CASE("a ring shift gives each member the tensor of the one before it, around", "[comm]") {
  std::size_t const members = GENERATE(1U, 2U, 5U);
  int const by = GENERATE(1, -1);
  std::vector<Tensor> results(members, Tensor(7));
  auto const failure = run_members(members, [&](ThreadGroup& group, std::size_t i) {
    Tensor const source = numbers_of(i, 7);
    meet(group, i,
         {.kind = OpKind::ring_shift,
          .source = source.data(),
          .target = results[i].data(),
          .elements = 7,
          .shift = by});
  });
  REQUIRE_FALSE(failure);
  for (std::size_t i = 0; i < members; ++i) {
    std::size_t const from = (i + members - static_cast<std::size_t>(by + 1) / 2 +
                              static_cast<std::size_t>(1 - by) / 2) %
                             members;
    REQUIRE(results[i] == numbers_of(from, 7));
  }
}

TEST_CASE("an all-to-all gives member i the i-th piece of every member, in their order", "[comm]") {
  std::size_t const members = GENERATE(1U, 2U, 5U);
  std::size_t const piece = 3;
  std::vector<Tensor> results(members, Tensor(members * piece));
  auto const failure = run_members(members, [&](ThreadGroup& group, std::size_t i) {
    Tensor const source = numbers_of(i, members * piece);
    meet(group, i,
         {.kind = OpKind::all_to_all,
          .source = source.data(),
          .target = results[i].data(),
          .elements = static_cast<std::int64_t>(members * piece),
          .piece = static_cast<std::int64_t>(piece)});
  });
  REQUIRE_FALSE(failure);
  for (std::size_t to = 0; to < members; ++to) {
    for (std::size_t from = 0; from < members; ++from) {
      Tensor const sent = numbers_of(from, members * piece);
      for (std::size_t e = 0; e < piece; ++e) {
        REQUIRE(results[to][from * piece + e] == sent[to * piece + e]);
      }
    }
  }
}

}  // namespace
}  // namespace stagecraft::collectives_test
