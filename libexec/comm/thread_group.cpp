#include "libexec/comm/thread_group.hpp"

#include <cstring>
#include <exception>
#include <stdexcept>

#include "libexec/comm/collective_reduction.hpp"
#include "libexec/comm/patient_wait.hpp"

namespace stagecraft {
namespace {

/// A program that lets two ranks disagree about a collective must not sum their tensors.
void require_alike(std::vector<Collective> const& calls) {
  for (Collective const& call : calls) {
    if (!are_alike(call, calls.front())) {
      throw std::logic_error{"ranks of a group issue different collectives"};
    }
  }
}

/// Elements [begin, end) of the whole, reduced in rank order into `target`.
void reduce(std::vector<Collective> const& calls,
            std::int64_t begin,
            std::int64_t end,
            void* target) {
  ElementType const type = calls.front().type;
  std::vector<void const*> sources;
  sources.reserve(calls.size());
  for (Collective const& call : calls) sources.push_back(element_at(call.source, begin, type));
  reduce_members(calls.front(), sources, target, end - begin);
}

void copy(void* target, void const* source, std::int64_t elements, ElementType type) {
  if (target == source) return;
  std::memcpy(target, source, static_cast<std::size_t>(elements * element_size(type)));
}

}  // namespace

ThreadGroup::ThreadGroup(std::size_t members, JobClock const& clock, JobHealth const& health)
    : clock_{clock}, health_{health}, next_(members, 0) {}

Communicator::Ticket ThreadGroup::start(std::size_t member, Collective const& collective) {
  std::unique_lock lock{mutex_};
  Communicator::Ticket const ticket = next_[member]++;
  auto const place = static_cast<std::size_t>(ticket - first_);
  if (place == meetings_.size()) meetings_.emplace_back().calls.resize(next_.size());
  Meeting& meeting = meetings_[place];
  meeting.calls[member] = collective;
  if (++meeting.arrived < next_.size()) return ticket;
  // The tensors of a rank that has failed may be gone.
  if (health_.has_failed()) throw PeerFailure{"another rank has failed"};
  compute_unlocked(meeting, lock);
  if (iteration_ != clock_.iteration()) idle_ = SimTime{0};
  iteration_ = clock_.iteration();
  SimTime start = idle_;
  for (Collective const& call : meeting.calls) start = std::max(start, call.issued);
  bool const is_virtual = clock_.is_virtual();
  meeting.time = {start, is_virtual ? start + collective.price : std::max(start, clock_.now())};
  if (is_virtual) idle_ = meeting.time.end;
  meeting.is_done = true;
  changed_.notify_all();
  return ticket;
}

TimeSpan ThreadGroup::finish(std::size_t /*member*/, Communicator::Ticket ticket) {
  std::unique_lock lock{mutex_};
  Meeting& meeting = meetings_[static_cast<std::size_t>(ticket - first_)];
  wait_patiently(changed_, lock, health_, [&] { return meeting.is_done; });
  TimeSpan const time = meeting.time;
  ++meeting.left;
  while (!meetings_.empty() && meetings_.front().left == next_.size()) {
    meetings_.pop_front();
    ++first_;
  }
  return time;
}

void ThreadGroup::compute_unlocked(Meeting const& meeting, std::unique_lock<std::mutex>& lock) {
  is_computing_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    // Nobody else touches the meeting now: all have arrived, and none leaves before it is done.
    compute(meeting);
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

void ThreadGroup::compute(Meeting const& meeting) const {
  std::vector<Collective> const& calls = meeting.calls;
  require_alike(calls);
  Collective const& first = calls.front();
  auto const members = static_cast<std::int64_t>(calls.size());
  switch (first.kind) {
    case OpKind::all_reduce:
      reduce(calls, 0, first.elements, first.target);
      for (Collective const& call : calls) {
        copy(call.target, first.target, first.elements, first.type);
      }
      return;
    case OpKind::reduce_scatter:
      for (std::int64_t i = 0; i < members; ++i) {
        Collective const& call = calls[static_cast<std::size_t>(i)];
        reduce(calls, call.piece_begin(i), call.piece_begin(i + 1), call.target);
      }
      return;
    case OpKind::all_gather:
      for (std::int64_t i = 0; i < members; ++i) {
        std::int64_t const begin = first.piece_begin(i);
        std::int64_t const count = first.piece_begin(i + 1) - begin;
        void const* const piece = calls[static_cast<std::size_t>(i)].source;
        for (Collective const& call : calls) {
          copy(element_at(call.target, begin, first.type), piece, count, first.type);
        }
      }
      return;
    default:
      throw std::logic_error{"not a collective"};
  }
}

}  // namespace stagecraft
