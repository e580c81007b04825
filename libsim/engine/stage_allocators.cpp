#include "libsim/engine/stage_allocators.hpp"

#include "libsim/engine/outside_memory.hpp"
#include "libsim/engine/stack_memory.hpp"
#include "libsim/memory/rank_memory.hpp"

namespace stagecraft {
namespace {

Verdict verdict_of(StageReservation const& reservation) {
  if (reservation.runs_out) return Verdict::does_not_fit;
  return reservation.retries > 0 ? Verdict::fits_with_retries : Verdict::fits;
}

}  // namespace

StageAllocators::StageAllocators(TrainingPlan const& plan, System const& system)
    : plan_{plan}, system_{system}, framework_{stack_memory(plan, system)} {}

std::int64_t StageAllocators::room(StageId stage) const {
  return system_.accelerator.memory.value.count() -
         bytes_outside(plan_, system_, plan_.stages[stage]);
}

ReservedStage StageAllocators::reserve(StageId stage, int rank, ReservedPeak* peak) const {
  RankPrograms const own{plan_, rank};
  std::int64_t const left = room(stage);
  ReservedStage result;
  result.reservation = reserve_stage({plan_, plan_.stages[stage], *own}, left, framework_,
                                     ReplayExtent::until_steady, peak);
  result.margin = left - result.reservation.reserved;
  result.device = system_.accelerator.memory.value.count() - result.margin;
  result.verdict = verdict_of(result.reservation);
  return result;
}

bool StageAllocators::fits(StageId stage, int rank) const {
  RankPrograms const own{plan_, rank};
  return fits_in({plan_, plan_.stages[stage], *own}, room(stage), framework_);
}

}  // namespace stagecraft
