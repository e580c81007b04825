#include "libexec/calibration/collective_measurement.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "libexec/comm/thread_world.hpp"
#include "libexec/executor/clocks.hpp"

namespace stagecraft {
namespace {

constexpr int calls = 21;
constexpr std::int64_t small_elements = std::int64_t{1} << 12;
constexpr std::int64_t large_elements = std::int64_t{1} << 21;

/// The seconds of calls of an fp32 collective of `elements`, which all members start together.
std::vector<double> seconds_of(OpKind kind, int ranks, std::int64_t elements) {
  WallClock const clock;
  JobHealth const health;
  auto const members = static_cast<std::size_t>(ranks);
  HostTransport transport;
  ThreadGroup group{members, transport, clock, health};
  std::vector<double> times;
  auto const member = [&](std::size_t number) {
    std::vector<float> whole(static_cast<std::size_t>(elements), 1.0F);
    std::int64_t const piece = elements / ranks;
    float* const own = whole.data() + static_cast<std::int64_t>(number) * piece;
    for (int i = 0; i < calls; ++i) {
      group.finish(number, group.start(number, {}));  // a barrier
      auto const begin = std::chrono::steady_clock::now();
      group.finish(
          number,
          group.start(number, {.kind = kind,
                               .source = kind == OpKind::all_gather ? own : whole.data(),
                               .target = kind == OpKind::reduce_scatter ? own : whole.data(),
                               .elements = elements,
                               .piece = piece}));
      std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
      if (number == 0) times.push_back(took.count());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < members; ++i) threads.emplace_back(member, i);
  }
  return times;
}

}  // namespace

CollectiveCost line_through(double small_bytes, double small, double large_bytes, double large) {
  double const slope = std::max(1e-15, (large - small) / (large_bytes - small_bytes));
  CollectiveCost cost;
  cost.latency = {std::max(0.0, small - slope * small_bytes)};
  cost.bandwidth = {1 / slope};
  return cost;
}

CollectiveCost measure_thread_collective(OpKind kind, int ranks, SteadyMedians& medians) {
  double const factor = (kind == OpKind::all_reduce ? 2.0 : 1.0) * (ranks - 1) / ranks;
  auto const bytes = [&](std::int64_t elements) {
    return factor * static_cast<double>(elements) * sizeof(float);
  };
  auto const seconds = [&](std::int64_t elements) {
    return medians.of([&] { return seconds_of(kind, ranks, elements); });
  };
  return line_through(bytes(small_elements), seconds(small_elements), bytes(large_elements),
                      seconds(large_elements));
}

CollectiveCost measure_thread_message(SteadyMedians& medians) {
  // A message is one copy, made by the end that arrives second; a gather of two pieces is two
  // copies.
  return measure_thread_collective(OpKind::all_gather, 2, medians);
}

}  // namespace stagecraft
