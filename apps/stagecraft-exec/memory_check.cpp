#include "apps/stagecraft-exec/memory_check.hpp"

#include <string>

#include "libexec/backends/cuda_backend.hpp"
#include "libexec/memory/available_memory.hpp"
#include "libexec/memory/counting_allocator.hpp"
#include "libsim/memory/rank_memory.hpp"
#include "libsim/plan/rank_programs.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

Bytes peak_of_all(TrainingPlan const& plan) {
  Bytes sum;
  for (RankMemory const& alike : memory_by_rank(plan, 1)) {
    for (StageMemory const& stage : alike.stages) {
      sum = sum + std::int64_t{alike.ranks} * Bytes{stage.at_peak.sum()};
    }
  }
  return sum;
}

Bytes peak_of_rank(TrainingPlan const& plan, RankId rank) {
  RankPrograms const own{plan, plan.groups.at_stage(rank, StageId{0}).value()};
  StagePlan const& stage = plan.stages[plan.groups.stage_of(rank)];
  return Bytes{peak_memory({plan, stage, *own}).at_peak.sum()};
}

}  // namespace

void require_memory(TrainingPlan const& plan,
                    DeviceChoice const& device,
                    std::optional<RankId> rank) {
  bool const is_on_gpu = device.kind == DeviceKind::cuda;
  std::optional<Bytes> const there =
      is_on_gpu ? free_cuda_memory(device.ordinal) : available_memory();
  if (!there) return;
  Bytes const needed = rank ? peak_of_rank(plan, *rank) : peak_of_all(plan);
  if (needed <= *there) return;
  std::string const who = rank ? "rank " + std::to_string(rank->value()) + " needs "
                               : "the " + std::to_string(plan.groups.ranks()) + " ranks need ";
  std::string const alone = rank ? "" : "one rank alone (--ranks solo), or ";
  throw MemoryLimitError{
      who + readable_text(needed) + (rank ? " at its peak, and " : " at their peaks, and ") +
      (is_on_gpu ? "the GPU has " : "this machine has ") + readable_text(*there) +
      (is_on_gpu ? " free" : " available") + "; run " + alone +
      "a smaller model of the same layout, as configs/paper/*-twin.yaml\n"};
}

}  // namespace stagecraft
