#include "libexec/comm/thread_group.hpp"

#include <algorithm>
#include <exception>

#include "libexec/comm/job_health.hpp"

namespace stagecraft {

ThreadGroup::ThreadGroup(std::size_t members,
                         LocalTransport& transport,
                         JobClock const& clock,
                         JobHealth const& health)
    : transport_{transport}, clock_{clock}, health_{health}, next_(members, 0) {}

Communicator::Ticket ThreadGroup::start(std::size_t member, Collective const& collective) {
  std::unique_lock lock{mutex_};
  Communicator::Ticket const ticket = next_[member]++;
  auto const place = static_cast<std::size_t>(ticket - first_);
  if (place == in_flight_.size()) {
    InFlight& begun = in_flight_.emplace_back();
    begun.calls.resize(next_.size());
    begun.has_arrived.resize(next_.size());
    begun.times.resize(next_.size());
  }
  InFlight& joined = in_flight_[place];
  joined.calls[member] = collective;
  joined.has_arrived[member] = true;
  ++joined.arrived;
  if (collective.kind == OpKind::prefix_reduce) {
    run_prefixes(joined, lock);
  } else if (joined.arrived == next_.size()) {
    run_all(joined, lock);
  }
  return ticket;
}

void ThreadGroup::run_all(InFlight& joined, std::unique_lock<std::mutex>& lock) {
  // The tensors of a rank that has failed may have been released.
  if (health_.has_failed()) throw PeerFailure{"another rank has failed"};
  compute_unlocked(joined.calls, lock);
  if (iteration_ != clock_.iteration()) idle_ = SimTime{0};
  iteration_ = clock_.iteration();
  SimTime start = idle_;
  SimTime duration{0};
  for (Collective const& call : joined.calls) {
    start = std::max(start, call.issued);
    duration = std::max(duration, call.duration);
  }
  bool const is_virtual = clock_.is_virtual();
  SimTime const end = is_virtual ? start + duration : std::max(start, clock_.now());
  if (is_virtual) idle_ = end;
  std::fill(joined.times.begin(), joined.times.end(), TimeSpan{start, end});
  joined.done = next_.size();
  changed_.notify_all();
}

void ThreadGroup::run_prefixes(InFlight& joined, std::unique_lock<std::mutex>& lock) {
  while (joined.done < next_.size() && !joined.is_computing) {
    auto const begin = static_cast<std::ptrdiff_t>(joined.done);
    Collective const first = joined.calls[joined.done];
    std::ptrdiff_t const end = begin + first.members_together;
    auto const arrived = joined.has_arrived.begin();
    if (!std::all_of(arrived + begin, arrived + end, [](bool has) { return has; })) return;
    if (health_.has_failed()) throw PeerFailure{"another rank has failed"};
    std::vector<Collective> calls(joined.calls.begin() + begin, joined.calls.begin() + end);
    SimTime start = begin == 0 ? SimTime{0} : joined.times[joined.done - 1].end;
    for (Collective const& call : calls) start = std::max(start, call.issued);
    if (begin > 0) {
      // What the stages before have takes part as one member.
      calls.insert(calls.begin(), first);
      calls.front().source = calls.front().target = joined.so_far.data();
    }
    for (Collective& call : calls) call.kind = OpKind::all_reduce;
    joined.is_computing = true;
    compute_unlocked(calls, lock);
    joined.is_computing = false;
    auto const* const result = static_cast<std::byte const*>(first.target);
    joined.so_far.assign(result, result + first.elements * element_size(first.type));
    SimTime const over =
        clock_.is_virtual() ? start + first.duration : std::max(start, clock_.now());
    std::fill(joined.times.begin() + begin, joined.times.begin() + end, TimeSpan{start, over});
    joined.done = static_cast<std::size_t>(end);
    changed_.notify_all();
  }
}

TimeSpan ThreadGroup::finish(std::size_t member, Communicator::Ticket ticket) {
  std::unique_lock lock{mutex_};
  InFlight& joined = in_flight_[static_cast<std::size_t>(ticket - first_)];
  wait_while_healthy(changed_, lock, health_, [&] { return joined.done > member; });
  TimeSpan const time = joined.times[member];
  ++joined.left;
  while (!in_flight_.empty() && in_flight_.front().left == next_.size()) {
    in_flight_.pop_front();
    ++first_;
  }
  return time;
}

void ThreadGroup::compute_unlocked(std::vector<Collective> const& calls,
                                   std::unique_lock<std::mutex>& lock) {
  ++computing_;
  lock.unlock();
  std::exception_ptr error;
  try {
    // No other member uses these tensors: theirs have arrived, and none leaves before it is done.
    transport_.run(calls);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  --computing_;
  changed_.notify_all();
  if (error) std::rethrow_exception(error);
}

void ThreadGroup::wait_until_quiet() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return computing_ == 0; });
}

}  // namespace stagecraft
