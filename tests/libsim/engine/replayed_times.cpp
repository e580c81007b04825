#include "tests/libsim/engine/replayed_times.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace stagecraft {

namespace {

__extension__ using Wide = __int128;
constexpr std::int64_t million = 1'000'000;

/// What the host is behind at the end of a block, spread over its ops by what each costs it.
void wait_for_host(std::vector<Op> const& ops,
                   CostModel const& cost,
                   SimTime host,
                   ReplayedTimes& times) {
  Wide const behind = (host - times.duration).count();
  Wide issued = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    issued += cost.host_time(ops[i]).count();
    Wide const share = (2 * behind * issued + host.count()) / (2 * host.count());
    times.start[i] += SimTime{static_cast<std::int64_t>(share)};
    times.end[i] += SimTime{static_cast<std::int64_t>(share)};
  }
  times.duration = host;
}

}  // namespace

SimTime slowed(SimTime start, SimTime duration, SimTime busy_until, int slowdown) {
  std::int64_t const speed = million - slowdown;  // millionths
  Wide const task = static_cast<Wide>(duration.count()) * million;
  Wide const busy = static_cast<Wide>(std::max(busy_until - start, SimTime{0}).count());
  if (busy * speed >= task) {
    return start + SimTime{static_cast<std::int64_t>((task + speed / 2) / speed)};
  }
  Wide const rest = task - busy * speed + million / 2;
  return start + SimTime{static_cast<std::int64_t>(busy + rest / million)};
}

SimTime portion(SimTime amount, SimTime part, SimTime whole) {
  Wide const product = static_cast<Wide>(amount.count()) * part.count();
  return SimTime{static_cast<std::int64_t>((2 * product + whole.count()) / (2 * whole.count()))};
}

ReplayedTimes replayed_times(std::vector<Op> const& ops,
                             CostModel const& cost,
                             bool waits_for_host) {
  ReplayedTimes times;
  SimTime tensor_parallel_idle{0};
  SimTime host{0};
  for (Op const& op : ops) {
    SimTime start = times.duration;
    SimTime end = start;
    if (op.stream == Stream::tensor_parallel) {
      start = std::max(start, tensor_parallel_idle);
      end = tensor_parallel_idle = start + cost.duration(op);
    } else if (op.kind == OpKind::wait) {
      end = times.duration = std::max(start, times.end[static_cast<std::size_t>(op.waits_for)]);
    } else {
      end = times.duration =
          slowed(start, cost.duration(op), tensor_parallel_idle, cost.slowdown_millionths());
    }
    times.start.push_back(start);
    times.end.push_back(end);
    host += cost.host_time(op);
    if (cost.shares_links_with_reductions(op)) times.on_links += end - start;
  }
  times.on_links = std::min(times.on_links, times.duration);
  if (tensor_parallel_idle > times.duration) {
    throw std::logic_error{"a block leaves a collective behind"};
  }
  if (waits_for_host && host > times.duration) wait_for_host(ops, cost, host, times);
  return times;
}

}  // namespace stagecraft
