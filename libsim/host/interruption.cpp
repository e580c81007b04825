#include "libsim/host/interruption.hpp"

#include "libsim/host/fork_gate.hpp"

namespace stagecraft {
namespace {

thread_local std::atomic<bool> const* interrupts_this_thread = nullptr;

}  // namespace

Interruptible::Interruptible(std::atomic<bool> const* is_unwanted)
    : before_{interrupts_this_thread} {
  interrupts_this_thread = is_unwanted;
}

Interruptible::~Interruptible() { interrupts_this_thread = before_; }

std::atomic<bool> const* interruption() { return interrupts_this_thread; }

void throw_if_interrupted() {
  let_forks_pass();
  if (interrupts_this_thread != nullptr && *interrupts_this_thread) throw Interrupted{};
}

}  // namespace stagecraft
