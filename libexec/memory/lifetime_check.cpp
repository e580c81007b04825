#include "libexec/memory/lifetime_check.hpp"

#include <algorithm>

namespace stagecraft {

void LifetimeCheck::release(Buffer const& buffer, BufferLabel const& label, std::string const& op) {
  if (buffer.bytes() == 0) return;
  auto const first = last_use_.lower_bound(buffer.data());
  auto const end = last_use_.lower_bound(buffer.data() + buffer.bytes());
  std::int64_t last = 0;
  for (auto use = first; use != end; ++use) last = std::max(last, use->second);
  last_use_.erase(first, end);
  if (last == op_) return;
  late_.push_back({label, static_cast<std::int64_t>(buffer.bytes()), op, op_ - last});
}

}  // namespace stagecraft
