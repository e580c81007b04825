#include "libsim/plan/reserved_states.hpp"

#include <cstddef>

#include "libsim/plan/buffer_events.hpp"
#include "libsim/plan/configured_allocator.hpp"
#include "libsim/plan/stage_memory.hpp"
#include "libsim/plan/state_types.hpp"

namespace stagecraft {
namespace {

/// The blocks that exist before an iteration, in bytes and in the order of their allocation.
std::vector<std::int64_t> resident_blocks(TrainingPlan const& plan, StagePlan const& stage) {
  std::int64_t const master = master_bytes_per_parameter(plan.config).count();
  std::int64_t const moment = element_size(moments_type(plan.config));
  std::int64_t const elements = stage.optimizer_bytes.count() / (master + 2 * moment);
  Bytes const counters = counter_bytes(stage.counters, plan.config);
  std::vector<std::int64_t> blocks{stage.parameter_bytes.count(),
                                   (stage.gradient_bytes - counters).count(), counters.count()};
  if (master > 0) blocks.push_back(elements * master);
  blocks.insert(blocks.end(), 2, elements * moment);
  return blocks;
}

}  // namespace

std::vector<ReservedState> reserved_states(TrainingPlan const& plan, StagePlan const& stage) {
  auto const allocator = configured_allocator(plan.config.memory, unlimited_capacity);
  for (std::int64_t const bytes : resident_blocks(plan, stage)) {
    if (bytes > 0) allocator->allocate(bytes, 0);
  }
  std::vector<ReservedState> states{{resident_memory(stage), allocator->counters().reserved}};
  CategoryBytes now = states.front().held;
  std::vector<BlockId> blocks;
  BufferEvents events{plan, stage};
  events.next();  // what is resident
  while (events.next()) {
    for (BufferEvent const& event : events.now()) {
      BufferChange const& change = *event.change;
      bool const allocates = change.kind == BufferChange::Kind::allocate;
      if (!allocates && change.kind != BufferChange::Kind::release) continue;
      auto const buffer = static_cast<std::size_t>(event.buffer);
      if (blocks.size() <= buffer) blocks.resize(buffer + 1, no_block);
      if (allocates) {
        if (change.bytes > 0) blocks[buffer] = allocator->allocate(change.bytes, 0);
      } else if (blocks[buffer] != no_block) {
        allocator->free(blocks[buffer]);
        blocks[buffer] = no_block;
      }
      now[change.category] += allocates ? change.bytes : -change.bytes;
      states.push_back({now, allocator->counters().reserved});
    }
  }
  return states;
}

}  // namespace stagecraft
