#pragma once

#include <algorithm>

#include "libsim/plan/buffer_events.hpp"
#include "libsim/plan/stage_memory.hpp"

namespace stagecraft {

/// Sums a stage's buffer events one by one, without summaries.
inline StageMemory summed_events(TrainingPlan const& plan, StagePlan const& stage) {
  StageMemory memory;
  CategoryBytes now;
  BufferEvents events{plan, stage};
  while (events.next()) {
    for (BufferEvent const& event : events.now()) {
      BufferChange const& change = *event.change;
      if (change.kind == BufferChange::Kind::release) now[change.category] -= change.bytes;
      if (change.kind != BufferChange::Kind::allocate) continue;
      now[change.category] += change.bytes;
      memory.activation_peak = std::max(memory.activation_peak, now.activation_sum());
      if (now.sum() <= memory.at_peak.sum()) continue;
      memory.at_peak = now;
      memory.peak_entry = std::max(events.entry(), 0);
    }
  }
  return memory;
}

}  // namespace stagecraft
