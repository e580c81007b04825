#include "tests/libexec/cuda_emulation/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__) && !defined(STAGECRAFT_UCONTEXT)
#define STAGECRAFT_SWITCH_BY_HAND
#else
#include <ucontext.h>
#endif

namespace stagecraft::emulation {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t stack_bytes = 256 << 10;
#else
constexpr std::size_t stack_bytes = 128 << 10;
#endif

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

// The fibers between which a switch is under way in this thread.
thread_local Fiber* arriving = nullptr;
#ifdef __SANITIZE_ADDRESS__
thread_local void const** left_bottom = nullptr;
thread_local std::size_t* left_size = nullptr;
#endif

}  // namespace

#ifdef STAGECRAFT_SWITCH_BY_HAND
// Saves what a function keeps (System V ABI, figure 3.4), swaps stacks, restores.
extern "C" void stagecraft_switch_stack(void** save, void* load);
asm(R"(
.text
.p2align 4
.type stagecraft_switch_stack, @function
stagecraft_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size stagecraft_switch_stack, .-stagecraft_switch_stack
)");
#endif

Fiber::Fiber(void (*entry)()) : entry_{entry} {
  std::size_t const guard = page_bytes();
  mapping_ = mmap(nullptr, guard + stack_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc{};
  mprotect(mapping_, guard, PROT_NONE);
  auto* const bottom = static_cast<std::byte*>(mapping_) + guard;
  bottom_ = bottom;
  size_ = stack_bytes;
#ifdef STAGECRAFT_SWITCH_BY_HAND
  // Six registers, the address to return to, and an empty return address of that function.
  auto* const top = reinterpret_cast<std::uintptr_t*>(bottom + stack_bytes) - 8;
  top[6] = reinterpret_cast<std::uintptr_t>(&Fiber::first_entry);
  context_ = top;
#else
  auto* const context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = bottom;
  context->uc_stack.ss_size = stack_bytes;
  makecontext(context, &Fiber::first_entry, 0);
  context_ = context;
#endif
#ifdef __SANITIZE_THREAD__
  thread_sanitizer_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifndef STAGECRAFT_SWITCH_BY_HAND
  delete static_cast<ucontext_t*>(context_);
#endif
  if (mapping_ == nullptr) return;
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(thread_sanitizer_);
#endif
#ifdef __SANITIZE_ADDRESS__
  // A thread that was given up leaves its frames' red zones.
  __asan_unpoison_memory_region(bottom_, size_);
#endif
  munmap(mapping_, page_bytes() + stack_bytes);
}

void Fiber::first_entry() {
  Fiber& self = *arriving;
  self.arrive();
  self.entry_();
  std::abort();
}

void Fiber::arrive() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack_, left_bottom, left_size);
#endif
}

void Fiber::resume_from(Fiber& from) {
  arriving = this;
#if defined(__SANITIZE_ADDRESS__)
  left_bottom = &from.bottom_;
  left_size = &from.size_;
  __sanitizer_start_switch_fiber(&from.fake_stack_, bottom_, size_);
#elif defined(__SANITIZE_THREAD__)
  if (from.mapping_ == nullptr) from.thread_sanitizer_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(thread_sanitizer_, 0);
#endif
#ifdef STAGECRAFT_SWITCH_BY_HAND
  stagecraft_switch_stack(&from.context_, context_);
#else
  if (from.context_ == nullptr) from.context_ = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(from.context_), static_cast<ucontext_t*>(context_));
#endif
  from.arrive();
}

}  // namespace stagecraft::emulation
