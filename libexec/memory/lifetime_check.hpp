#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libexec/memory/counting_allocator.hpp"

namespace stagecraft {

/// A buffer that was released later than its last user.
struct LateRelease {
  BufferLabel label;
  std::int64_t bytes = 0;
  std::string op;        ///< the op after which it was released
  std::int64_t ops = 0;  ///< number of ops that ran after its last user
};

/// Checks when buffers are released against what ops really use: the addresses that kernels and
/// collectives were given, not the lifetimes of the plan. Releases that are too early are found by
/// poisoning released memory.
class LifetimeCheck {
 public:
  /// An op begins.
  void begin_op() { ++op_; }
  /// The current op uses what is at this address.
  void note_use(void const* address) { last_use_[static_cast<std::byte const*>(address)] = op_; }
  /// The buffer is about to be released, after the current op.
  void release(Buffer const& buffer, BufferLabel const& label, std::string const& op) {
    if (buffer.bytes() == 0) return;
    auto const first = last_use_.lower_bound(buffer.data());
    auto const end = last_use_.lower_bound(buffer.data() + buffer.bytes());
    std::int64_t last = 0;
    for (auto use = first; use != end; ++use) last = std::max(last, use->second);
    last_use_.erase(first, end);
    if (last == op_) return;
    late_.push_back({label, static_cast<std::int64_t>(buffer.bytes()), op, op_ - last});
  }

  std::vector<LateRelease> const& late() const { return late_; }

 private:
  std::int64_t op_ = 0;
  std::map<std::byte const*, std::int64_t> last_use_;  ///< by the address of an operand
  std::vector<LateRelease> late_;
};

}  // namespace stagecraft
