// Collectives and messages between four processes, on tensors that take several rounds, against
// what one process computes alone. Says nothing and returns 0, or ends with what is wrong.
//
// usage: mpirun -n 4 mpi_collectives [disagree]

#include <chrono>
#include <cstring>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "libexec/comm/collectives.hpp"
#include "libexec/comm/mpi/mpi_world.hpp"
#include "libexec/executor/clocks.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/comm/process_runs.hpp"

namespace stagecraft {
namespace {

using Floats = std::vector<float>;

/// What member `i` has: numbers whose sum in another order has other bits.
template <typename Number>
std::vector<Number> numbers_of(int member, std::int64_t count) {
  std::vector<Number> numbers(static_cast<std::size_t>(count));
  std::uint32_t state = 12345U + static_cast<std::uint32_t>(member);
  for (Number& number : numbers) {
    state = state * 1664525U + 1013904223U;
    if constexpr (sizeof(Number) == 2) {
      number = static_cast<Number>(0x3000U + (state >> 20U));  // bf16, 1e-10 to 1e2
    } else if constexpr (std::is_integral_v<Number>) {
      number = state;
    } else {
      number = static_cast<Number>(state >> 8U) * 1e-3F;
    }
  }
  return numbers;
}

/// The sum over all members in rank order, as one process computes it alone.
template <typename Number>
std::vector<Number> sums(int members, std::int64_t count, ElementType type) {
  std::vector<std::vector<Number>> all;
  std::vector<void const*> sources;
  for (int i = 0; i < members; ++i) all.push_back(numbers_of<Number>(i, count));
  for (auto const& one : all) sources.push_back(one.data());
  std::vector<Number> result(static_cast<std::size_t>(count));
  reduce_members({.type = type}, sources, result.data(), count);
  return result;
}

TimeSpan meet(Communicator& communicator, Collective const& collective) {
  return communicator.finish(collective.group, communicator.start(collective));
}

template <typename Number>
void check_collectives(Communicator& communicator, int rank, std::int64_t count, ElementType type) {
  constexpr int members = 4;
  auto const expected = sums<Number>(members, count, type);
  auto const source = numbers_of<Number>(rank, count);
  std::vector<Number> target(source.size());
  Collective collective{
      .type = type, .source = source.data(), .target = target.data(), .elements = count};
  meet(communicator, collective);
  require(target == expected, "all-reduce");
  target = source;
  collective.source = target.data();
  meet(communicator, collective);
  require(target == expected, "all-reduce in place");
  // The first piece is short, the last one shorter still or empty.
  collective.kind = OpKind::reduce_scatter;
  collective.piece = count / 3 + 1;
  collective.origin = collective.piece / 3;
  target = source;
  std::int64_t const own = collective.piece_begin(rank);
  std::int64_t const end = collective.piece_begin(rank + 1);
  collective.target = target.data() + own;
  meet(communicator, collective);
  require(std::equal(expected.begin() + own, expected.begin() + end, target.begin() + own),
          "reduce-scatter");
  collective.kind = OpKind::all_gather;
  collective.source = target.data() + own;
  collective.target = target.data();
  meet(communicator, collective);
  require(target == expected, "all-gather in place");
  std::vector<Number> elsewhere(target.size());
  collective.target = elsewhere.data();
  meet(communicator, collective);
  require(elsewhere == expected, "all-gather");
}

/// Pieces of `count` elements, of which more than one round may be needed.
template <typename Number>
void check_all_to_all(Communicator& communicator, int rank, std::int64_t count, ElementType type) {
  constexpr int members = 4;
  auto const source = numbers_of<Number>(rank, members * count);
  std::vector<Number> target(source.size());
  meet(communicator, {.kind = OpKind::all_to_all,
                      .type = type,
                      .source = source.data(),
                      .target = target.data(),
                      .elements = members * count,
                      .piece = count});
  for (int from = 0; from < members; ++from) {
    auto const sent = numbers_of<Number>(from, members * count);
    require(std::equal(sent.begin() + rank * count, sent.begin() + (rank + 1) * count,
                       target.begin() + from * count),
            "all-to-all");
  }
}

/// Member i sends member j `count` times i + 2 j elements, none to itself if i is 1.
template <typename Number>
void check_uneven_all_to_all(Communicator& communicator,
                             int rank,
                             std::int64_t count,
                             ElementType type) {
  constexpr int members = 4;
  auto const size = [&](int from, int to) {
    return from == to && from == 1 ? std::int64_t{0} : count * (from + 2 * to);
  };
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;
  for (int i = 0; i < members; ++i) {
    sent.push_back(size(rank, i));
    received.push_back(size(i, rank));
  }
  auto const sum = [](std::vector<std::int64_t> const& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  };
  auto const source = numbers_of<Number>(rank, sum(sent));
  std::vector<Number> target(static_cast<std::size_t>(sum(received)));
  meet(communicator, {.kind = OpKind::all_to_all,
                      .type = type,
                      .source = source.data(),
                      .target = target.data(),
                      .sent = sent.data(),
                      .received = received.data()});
  std::int64_t at = 0;
  for (int from = 0; from < members; ++from) {
    std::int64_t all = 0;
    std::int64_t before = 0;
    for (int to = 0; to < members; ++to) {
      if (to < rank) before += size(from, to);
      all += size(from, to);
    }
    auto const of_member = numbers_of<Number>(from, all);
    require(std::equal(of_member.begin() + before, of_member.begin() + before + size(from, rank),
                       target.begin() + at),
            "all-to-all of pieces of different sizes");
    at += size(from, rank);
  }
}

template <typename Number>
void check_ring_shift(Communicator& communicator, int rank, std::int64_t count, ElementType type) {
  constexpr int members = 4;
  auto const source = numbers_of<Number>(rank, count);
  for (int const by : {1, -1, 3}) {
    std::vector<Number> target(source.size());
    meet(communicator, {.kind = OpKind::ring_shift,
                        .type = type,
                        .source = source.data(),
                        .target = target.data(),
                        .elements = count,
                        .shift = by});
    int const from = (rank - by + members) % members;
    require(target == numbers_of<Number>(from, count), "ring shift");
  }
}

template <typename Number>
void check_prefix_reduce(Communicator& communicator,
                         int rank,
                         std::int64_t count,
                         ElementType type) {
  for (int const together : {1, 2, 4}) {
    auto const source = numbers_of<Number>(rank, count);
    std::vector<Number> target(source.size());
    meet(communicator, {.kind = OpKind::prefix_reduce,
                        .type = type,
                        .source = source.data(),
                        .target = target.data(),
                        .elements = count,
                        .members_together = together});
    int const members = rank - rank % together + together;
    require(target == sums<Number>(members, count, type), "prefix reduction");
  }
}

/// Nobody waits for later members: each begins only when the one before it is done.
void check_prefix_order(Communicator& communicator, int rank) {
  std::int64_t const own = rank + 1;
  std::int64_t sum = 0;
  if (rank == 3) std::this_thread::sleep_for(std::chrono::milliseconds{300});
  auto const begin = std::chrono::steady_clock::now();
  meet(communicator, {.kind = OpKind::prefix_reduce,
                      .type = ElementType::i64,
                      .source = &own,
                      .target = &sum,
                      .elements = 1});
  auto const took = std::chrono::steady_clock::now() - begin;
  require(sum == (rank + 1) * (rank + 2) / 2, "prefix sum");
  require(rank == 3 || took < std::chrono::milliseconds{200}, "a prefix sum waited for the last");
}

/// What is started goes on while the rank's thread does something else.
void check_overlap(Communicator& communicator, JobClock const& clock) {
  Floats tensor(std::size_t{2} << 20U, 1);
  SimTime const issued = clock.now();
  auto const ticket = communicator.start({.source = tensor.data(),
                                          .target = tensor.data(),
                                          .elements = std::int64_t{2} << 20,
                                          .issued = issued});
  std::this_thread::sleep_for(std::chrono::seconds{3});
  SimTime const looked = clock.now();
  TimeSpan const time = communicator.finish(GroupId{}, ticket);
  require(time.end < looked, "a collective waited for its rank");
  require(tensor.front() == 4 && tensor.back() == 4, "all-reduce that was left alone");
}

void check_all(MpiSession& session, bool must_disagree) {
  TrainingConfig config;
  config.model.layers = 4;
  config.model.heads = config.model.kv_heads = 4;
  config.model.head_dim = 4;
  config.model.hidden = 16;
  config.model.ffn_hidden = 64;
  config.model.sequence = 8;
  config.model.vocabulary = 32;
  config.parallel.tensor = 4;
  TrainingPlan const plan = make_plan(as_settled(config));
  WallClock const clock;
  MpiWorld world{plan, session, clock};
  Communicator& communicator = world.communicator();
  int const rank = session.rank().value();
  if (must_disagree) {
    Floats tensor(8);
    try {
      meet(communicator,
           {.source = tensor.data(), .target = tensor.data(), .elements = rank == 1 ? 7 : 8});
    } catch (...) {
      // While tensor and world are there: MPI may still write into both.
      communicator.fail(std::current_exception());
    }
  }
  for (std::int64_t const count : {1, 3, 4, 1000, 3'000'001}) {
    check_collectives<float>(communicator, rank, count, ElementType::f32);
    check_collectives<std::uint16_t>(communicator, rank, count, ElementType::bf16);
    check_collectives<std::int64_t>(communicator, rank, count, ElementType::i64);
    check_all_to_all<float>(communicator, rank, count, ElementType::f32);
    check_all_to_all<std::uint16_t>(communicator, rank, count, ElementType::bf16);
    check_uneven_all_to_all<float>(communicator, rank, count / 8, ElementType::f32);
    check_uneven_all_to_all<std::uint16_t>(communicator, rank, count / 8, ElementType::bf16);
    check_ring_shift<float>(communicator, rank, count, ElementType::f32);
    check_ring_shift<std::uint16_t>(communicator, rank, count, ElementType::bf16);
  }
  for (std::int64_t const count : {1, 69, 1000, 300'001}) {
    check_prefix_reduce<float>(communicator, rank, count, ElementType::f32);
    check_prefix_reduce<std::int64_t>(communicator, rank, count, ElementType::i64);
  }
  communicator.barrier();
  check_prefix_order(communicator, rank);
  double largest = rank;
  meet(communicator, {.reduction = Reduction::maximum,
                      .type = ElementType::f64,
                      .source = &largest,
                      .target = &largest,
                      .elements = 1});
  require(largest == 3, "maximum");
  float alone = 5;
  meet(communicator,
       {.group = plan.roles.gradients, .source = &alone, .target = &alone, .elements = 1});
  require(alone == 5, "a group of one");
  check_overlap(communicator, clock);
  communicator.barrier();
}

}  // namespace
}  // namespace stagecraft

int main(int argc, char** /*argv*/) {
  using namespace stagecraft;
  MpiSession session{report_of};
  try {
    check_all(session, argc > 1);
    return 0;
  } catch (...) {
    session.fail(std::current_exception());
  }
}
