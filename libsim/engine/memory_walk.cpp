#include "libsim/engine/memory_walk.hpp"

#include <vector>

namespace stagecraft {

MemoryWalk::MemoryWalk(CategoryBytes const& resident)
    : now_{resident}, sum_{resident.sum()}, activation_sum_{resident.activation_sum()} {
  memory_.at_peak = resident;
  peak_ = sum_;
}

void MemoryWalk::repeat_since(MemoryWalk const& then, int times) {
  for (int i = 0; i < category_count; ++i) {
    auto const category = static_cast<Category>(i);
    now_[category] += times * (now_[category] - then.now_[category]);
  }
  sum_ += times * (sum_ - then.sum_);
  activation_sum_ += times * (activation_sum_ - then.activation_sum_);
  in_flight_ += times * (in_flight_ - then.in_flight_);
}

std::int16_t MessageMoves::make(Kind kind, Code const& code) {
  std::vector<Transfer> transfers(static_cast<std::size_t>(code.count()));
  std::size_t rest = code.value();
  for (std::size_t i = transfers.size(); i-- > 0; rest /= 4) {
    transfers[i].payload = static_cast<Transfer::Payload>(rest % 4 / 2);
    transfers[i].end = static_cast<Transfer::End>(rest % 2);
  }
  MemoryProfile memory;
  if (kind != Kind::wait) memory.append(message_memory(plan_, IssueEntry::Kind::post, transfers));
  if (kind != Kind::post) memory.append(message_memory(plan_, IssueEntry::Kind::wait, transfers));
  moves_.emplace_back(memory);
  return static_cast<std::int16_t>(moves_.size() - 1);
}

}  // namespace stagecraft
