#include "libsim/host/fork_gate.hpp"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <stdexcept>

namespace stagecraft {
namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;                        ///< threads
  std::atomic<bool> is_forking = false;  ///< a fork waits, or takes place
};

/// Null until make_forks_wait(). Never destroyed: a fork may come at any time.
std::atomic<Gate*> the_gate = nullptr;
thread_local int depth = 0;  ///< calls that this thread is inside

void enter(Gate& gate) {
  std::unique_lock lock{gate.mutex};
  gate.changed.wait(lock, [&] { return !gate.is_forking; });
  ++gate.inside;
}

void leave(Gate& gate) {
  std::scoped_lock const lock{gate.mutex};
  --gate.inside;
  if (gate.is_forking) gate.changed.notify_all();
}

/// The thread that forks may be inside a call itself.
int own() { return depth > 0 ? 1 : 0; }

void before_fork() {
  Gate& gate = *the_gate.load();
  std::unique_lock lock{gate.mutex};
  gate.changed.wait(lock, [&] { return !gate.is_forking; });
  gate.is_forking = true;
  gate.changed.wait(lock, [&] { return gate.inside == own(); });
  lock.release();  // held over the fork
}

void after_fork_in_parent() {
  Gate& gate = *the_gate.load();
  gate.is_forking = false;
  gate.mutex.unlock();
  gate.changed.notify_all();
}

void after_fork_in_child() {
  Gate& gate = *the_gate.load();
  // Those who waited for it are not here.
  new (&gate.changed) std::condition_variable;
  gate.is_forking = false;
  gate.inside = own();
  gate.mutex.unlock();
}

}  // namespace

void make_forks_wait() {
  static bool const is_made = [] {
    the_gate = new Gate;  // NOLINT(cppcoreguidelines-owning-memory): lives as long as the process
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
      throw std::runtime_error{"could not register what to do at a fork"};
    }
    return true;
  }();
  static_cast<void>(is_made);
}

InsideCall::InsideCall() {
  Gate* const gate = the_gate;
  if (depth++ == 0 && gate != nullptr) enter(*gate);
}

InsideCall::~InsideCall() {
  Gate* const gate = the_gate;
  if (--depth == 0 && gate != nullptr) leave(*gate);
}

OutsideCall::OutsideCall() : depth_{depth} {
  Gate* const gate = the_gate;
  depth = 0;
  if (depth_ > 0 && gate != nullptr) leave(*gate);
}

OutsideCall::~OutsideCall() {
  Gate* const gate = the_gate;
  if (depth_ > 0 && gate != nullptr) enter(*gate);
  depth = depth_;
}

void let_forks_pass() {
  Gate* const gate = the_gate;
  if (gate == nullptr || depth == 0 || !gate->is_forking) return;
  OutsideCall const pass;
}

}  // namespace stagecraft
