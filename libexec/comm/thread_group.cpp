#include "libexec/comm/thread_group.hpp"

#include <algorithm>
#include <exception>

#include "libexec/comm/healthy_wait.hpp"

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
  if (place == in_flight_.size()) in_flight_.emplace_back().calls.resize(next_.size());
  InFlight& joined = in_flight_[place];
  joined.calls[member] = collective;
  if (++joined.arrived < next_.size()) return ticket;
  // The tensors of a rank that has failed may have been released.
  if (health_.has_failed()) throw PeerFailure{"another rank has failed"};
  compute_unlocked(joined, lock);
  if (iteration_ != clock_.iteration()) idle_ = SimTime{0};
  iteration_ = clock_.iteration();
  SimTime start = idle_;
  for (Collective const& call : joined.calls) start = std::max(start, call.issued);
  bool const is_virtual = clock_.is_virtual();
  joined.time = {start, is_virtual ? start + collective.price : std::max(start, clock_.now())};
  if (is_virtual) idle_ = joined.time.end;
  joined.is_done = true;
  changed_.notify_all();
  return ticket;
}

TimeSpan ThreadGroup::finish(std::size_t /*member*/, Communicator::Ticket ticket) {
  std::unique_lock lock{mutex_};
  InFlight& joined = in_flight_[static_cast<std::size_t>(ticket - first_)];
  wait_while_healthy(changed_, lock, health_, [&] { return joined.is_done; });
  TimeSpan const time = joined.time;
  ++joined.left;
  while (!in_flight_.empty() && in_flight_.front().left == next_.size()) {
    in_flight_.pop_front();
    ++first_;
  }
  return time;
}

void ThreadGroup::compute_unlocked(InFlight const& joined, std::unique_lock<std::mutex>& lock) {
  is_computing_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    // No other member uses the collective: all have arrived, and none leaves before it is done.
    transport_.run(joined.calls);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  is_computing_ = false;
  changed_.notify_all();
  if (error) std::rethrow_exception(error);
}

void ThreadGroup::wait_until_quiet() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return !is_computing_; });
}

}  // namespace stagecraft
