#include "libsim/engine/player/pass_pair.hpp"

#include <algorithm>
#include <cstddef>

#include "libsim/engine/player/timeline.hpp"

namespace stagecraft {
namespace {

bool is_exchange(Op const& op) {
  return op.stream != Stream::compute && (op.module == "dispatch" || op.module == "combine");
}

}  // namespace

std::vector<PassNode> nodes_of(std::vector<Op> const& ops, PassTimes const& times) {
  if (!times.host_waits.empty()) return {{.compute = times.duration}};
  std::vector<PassNode> nodes;
  SimTime done{0};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!is_exchange(ops[i])) continue;
    // Tokens, their probabilities and counts travel one after the other.
    std::size_t const first = i;
    SimTime travelling{0};
    for (std::size_t j = i; j < ops.size() && ops[j].module == ops[first].module; ++j) {
      if (ops[j].asynchronous) return {{.compute = times.duration}};
      if (!is_exchange(ops[j])) continue;
      travelling += times.end[j] - times.start[j];
      i = j;
    }
    nodes.push_back({times.end[i] - done - travelling, travelling});
    done = times.end[i];
  }
  nodes.push_back({.compute = times.duration - done});
  return nodes;
}

SimTime exchange_time(std::span<PassNode const> nodes) {
  SimTime sum{0};
  for (PassNode const& node : nodes) sum += node.exchange;
  return sum;
}

void PairPlayer::together(std::span<PassNode const> forward, std::span<PassNode const> backward) {
  for (std::size_t k = 0; k < std::max(forward.size(), backward.size()); ++k) {
    if (k > 0 && k <= forward.size()) exchange(forward_, forward[k - 1].exchange);
    if (k < backward.size()) compute(backward_, backward[k].compute);
    if (k < backward.size()) exchange(backward_, backward[k].exchange);
    if (k < forward.size()) compute(forward_, forward[k].compute);
  }
}

SimTime PairPlayer::end() const { return std::max({forward_, backward_, computing_, exchanging_}); }

void PairPlayer::play(SimTime& ready, std::span<PassNode const> nodes) {
  for (PassNode const& node : nodes) {
    compute(ready, node.compute);
    exchange(ready, node.exchange);
  }
}

void PairPlayer::compute(SimTime& ready, SimTime duration) {
  SimTime const start = std::max(computing_, ready);
  SimTime const slowed_until = is_always_slowed_ ? SimTime::max() : exchanging_;
  computing_ = ready = slowed_end(start, duration, slowed_until, slowdown_millionths_);
}

void PairPlayer::exchange(SimTime& ready, SimTime duration) {
  if (duration == SimTime{0}) return;
  exchanging_ = ready = std::max(exchanging_, ready) + duration;
}

}  // namespace stagecraft
