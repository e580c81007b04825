#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "libsim/memory/buffer_events.hpp"
#include "libsim/memory/stage_memory.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft {

/// Sums a stage's buffer events one by one, without summaries.
inline StageMemory summed_events(TrainingPlan const& plan, StagePlan const& stage) {
  StageMemory memory;
  CategoryBytes now;
  BufferEvents events{{plan, stage}};
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

/// Holds the peaks of a run's stages against the sums of their buffer events.
inline void require_peaks_of_events(OddRun const& run) {
  TrainingPlan const plan = make_plan(as_settled(run.config));
  std::vector<StageMemory> const memory = peak_memory(plan);
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    CAPTURE(run.name, stage);
    StageMemory const events = summed_events(plan, plan.stages[StageId::of_index(stage)]);
    REQUIRE(memory[stage].at_peak == events.at_peak);
    REQUIRE(memory[stage].activation_peak == events.activation_peak);
    REQUIRE(memory[stage].peak_entry == events.peak_entry);
  }
}

}  // namespace stagecraft
