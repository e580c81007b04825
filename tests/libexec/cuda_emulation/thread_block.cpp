#include "tests/libexec/cuda_emulation/thread_block.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

uint3 threadIdx{};
uint3 blockIdx{};
dim3 blockDim{};
dim3 gridDim{};

// Where shared_memory.ld put the __shared__ arrays; null where it was not linked with.
extern "C" {
extern char emulated_shared_begin[] __attribute__((weak));
extern char emulated_shared_end[] __attribute__((weak));
}

namespace stagecraft::emulation {
namespace {

BlockRunner* running_block = nullptr;

// AddressSanitizer forbids the red zones between the arrays, and would replace a loop by memset().
__attribute__((no_sanitize("address", "undefined", "thread"))) void poison_shared_memory() {
  for (char volatile* byte = emulated_shared_begin; byte != emulated_shared_end; ++byte) {
    *byte = static_cast<char>(0xFF);
  }
}

std::string text(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

std::string text(std::source_location const& where) {
  std::string const file = where.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line()) + ", in " +
         where.function_name();
}

bool same_place(std::source_location const& a, std::source_location const& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

/// The lane whose number `lane` gets; its own where there is none (CUDA C++ Programming
/// Guide, 7.22).
int source_lane(ShuffleKind kind, int lane, int operand, int width) {
  int const first = lane & ~(width - 1);
  int const last = first + width - 1;
  int source = lane;
  if (kind == ShuffleKind::exclusive_or) source = lane ^ operand;
  if (kind == ShuffleKind::down) source = lane + operand;
  if (kind == ShuffleKind::up) source = lane - operand < first ? lane : lane - operand;
  if (kind == ShuffleKind::index) source = first + (operand & (width - 1));
  return source > last ? lane : source;
}

}  // namespace

BlockRunner* BlockRunner::running() { return running_block; }

void* dynamic_shared_memory() { return running_block->shared_memory(); }

void BlockRunner::run(Launch const& launch, RandomOrder& order) {
  launch_ = &launch;
  order_ = &order;
  blockDim = launch.block;
  gridDim = launch.grid;
  // Of exactly this size: the address sanitizer sees what is beyond it.
  shared_ = std::vector<std::byte>(launch.shared_bytes);
  threads_.clear();
  for (unsigned z = 0; z < launch.block.z; ++z) {
    for (unsigned y = 0; y < launch.block.y; ++y) {
      for (unsigned x = 0; x < launch.block.x; ++x) threads_.push_back({{x, y, z}, {}, {}, {}});
    }
  }
  warps_.resize((threads_.size() + 31) / 32);

  Fiber host;
  host_ = &host;
  running_block = this;
  // A permutation that needs no memory: i -> (first + i * step) mod blocks.
  std::uint64_t const blocks = std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  std::uint64_t step = 1 + order.next() % (std::uint64_t{1} << 20U);
  while (std::gcd(step, blocks) != 1) ++step;
  std::uint64_t at = order.next() % blocks;
  for (std::uint64_t i = 0; i < blocks && mistake_.thread == nullptr; ++i) {
    blockIdx = {static_cast<unsigned>(at % launch.grid.x),
                static_cast<unsigned>(at / launch.grid.x % launch.grid.y),
                static_cast<unsigned>(at / launch.grid.x / launch.grid.y)};
    run_block();
    at = (at + step) % blocks;
  }
  running_block = nullptr;
  if (mistake_.thread == nullptr) return;
  std::string const message =
      launch.kernel + ", block " + text(blockIdx) + ": " + describe(mistake_);
  mistake_ = {};
  // Threads that were given up are still on their stacks.
  idle_.clear();
  fibers_.clear();
  throw KernelFailure{message};
}

void BlockRunner::run_block() {
  poison_shared_memory();
  std::fill(shared_.begin(), shared_.end(), std::byte{0xFF});
  for (Thread& thread : threads_) {
    thread.state = State::not_waiting;
    thread.fiber = nullptr;
  }
  for (Warp& warp : warps_) warp.waiting = 0;
  at_barrier_ = 0;
  ended_ = 0;
  ready_.resize(threads_.size());
  std::iota(ready_.begin(), ready_.end(), std::size_t{0});
  order_->shuffle_in(ready_, 0);
  running_ = host_;
  switch_to(idle_fiber());
  if (mistake_.thread == nullptr && ended_ != threads_.size()) mistake_ = why_nobody_runs();
}

void BlockRunner::enter() { running_block->run_ready_threads(); }

void BlockRunner::run_ready_threads() {
  for (;;) {
    while (!ready_.empty() && threads_[ready_.back()].fiber == nullptr) {
      set_current(ready_.back());
      ready_.pop_back();
      launch_->thread();
      threads_[current_].state = State::ended;
      ++ended_;
    }
    idle_.push_back(running_);
    if (ready_.empty()) {
      switch_to(*host_);
    } else {
      set_current(ready_.back());
      ready_.pop_back();
      switch_to(*std::exchange(threads_[current_].fiber, nullptr));
    }
  }
}

void BlockRunner::wait() {
  threads_[current_].fiber = running_;
  if (ready_.empty()) {
    switch_to(*host_);
  } else if (threads_[ready_.back()].fiber == nullptr) {
    switch_to(idle_fiber());
  } else {
    set_current(ready_.back());
    ready_.pop_back();
    switch_to(*std::exchange(threads_[current_].fiber, nullptr));
  }
}

void BlockRunner::release(std::size_t first, std::size_t last, State from) {
  std::size_t const before = ready_.size();
  for (std::size_t i = first; i < last; ++i) {
    if (threads_[i].state != from) continue;
    threads_[i].state = State::not_waiting;
    if (i != current_) ready_.push_back(i);
  }
  order_->shuffle_in(ready_, before);
}

void BlockRunner::begin_wait(State state, std::source_location const& where) {
  threads_[current_].state = state;
  threads_[current_].where = where;
}

void BlockRunner::wait_for_block(std::source_location const& where) {
  Thread const& self = threads_[current_];
  begin_wait(State::at_barrier, where);
  if (at_barrier_ == 0) first_at_barrier_ = current_;
  Thread const& other = threads_[first_at_barrier_];
  if (!same_place(other.where, where)) fail({&other, &self});
  if (++at_barrier_ < threads_.size()) {
    wait();
  } else {
    at_barrier_ = 0;
    release(0, threads_.size(), State::at_barrier);
  }
}

unsigned long long BlockRunner::exchange(ShuffleKind kind,
                                         unsigned mask,
                                         unsigned long long bits,
                                         int operand,
                                         int width,
                                         std::source_location const& where) {
  Thread const& self = threads_[current_];
  Warp& warp = warps_[current_ / 32];
  std::size_t const lane = current_ % 32;
  std::size_t const first = current_ - lane;
  begin_wait(State::at_shuffle, where);
  if (mask != 0xffffffffU) fail({&self, nullptr, "its mask is not 0xffffffff"});
  if (first + 32 > threads_.size()) fail({&self, nullptr, "its warp has less than 32 threads"});
  if (width < 1 || width > 32 || (width & (width - 1)) != 0) {
    fail({&self, nullptr, "its width is no power of two up to 32"});
  }
  if (warp.waiting == 0) {
    warp.kind = kind;
    warp.width = width;
    warp.first = current_;
  }
  Thread const& other = threads_[warp.first];
  if (!same_place(other.where, where) || warp.kind != kind || warp.width != width) {
    fail({&other, &self});
  }
  warp.given[lane] = bits;
  warp.source[lane] = source_lane(kind, static_cast<int>(lane), operand, width);
  if (++warp.waiting < 32) {
    wait();
  } else {
    warp.waiting = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      warp.received[i] = warp.given[static_cast<std::size_t>(warp.source[i])];
    }
    release(first, first + 32, State::at_shuffle);
  }
  return warp.received[lane];
}

void BlockRunner::set_current(std::size_t thread) {
  current_ = thread;
  threadIdx = threads_[thread].index;
}

void BlockRunner::switch_to(Fiber& fiber) {
  Fiber& from = *std::exchange(running_, &fiber);
  fiber.resume_from(from);
}

Fiber& BlockRunner::idle_fiber() {
  if (idle_.empty()) return *fibers_.emplace_back(std::make_unique<Fiber>(&BlockRunner::enter));
  Fiber* const fiber = idle_.back();
  idle_.pop_back();
  return *fiber;
}

void BlockRunner::fail(Mistake const& mistake) {
  mistake_ = mistake;
  switch_to(*host_);
  std::abort();  // nobody comes back
}

std::string BlockRunner::describe(Thread const& thread) const {
  std::string const name = "thread " + text(thread.index);
  if (thread.state == State::ended) return name + " has ended";
  std::string const call = thread.state == State::at_barrier ? "__syncthreads()" : "a shuffle";
  return name + " waits in " + call + " (" + text(thread.where) + ")";
}

std::string BlockRunner::describe(Mistake const& mistake) const {
  std::string const first = describe(*mistake.thread);
  return mistake.other == nullptr ? first + ": " + mistake.why
                                  : first + ", but " + describe(*mistake.other);
}

BlockRunner::Mistake BlockRunner::why_nobody_runs() const {
  // Whom a thread waits for in vain: of its warp, or else of its block.
  for (State const state : {State::at_shuffle, State::at_barrier}) {
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      if (threads_[i].state != state) continue;
      std::size_t const first = state == State::at_shuffle ? i / 32 * 32 : 0;
      std::size_t const last = state == State::at_shuffle ? first + 32 : threads_.size();
      for (std::size_t k = first; k < last; ++k) {
        if (threads_[k].state != state) return {&threads_[i], &threads_[k]};
      }
    }
  }
  return {threads_.data(), nullptr, "no thread can go on"};
}

}  // namespace stagecraft::emulation

void __syncthreads(std::source_location const& where) {
  stagecraft::emulation::BlockRunner::running()->wait_for_block(where);
}

unsigned long long stagecraft::emulation::exchange(ShuffleKind kind,
                                                   unsigned mask,
                                                   unsigned long long bits,
                                                   int operand,
                                                   int width,
                                                   std::source_location const& where) {
  return BlockRunner::running()->exchange(kind, mask, bits, operand, width, where);
}
