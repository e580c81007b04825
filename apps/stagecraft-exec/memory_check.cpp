#include "apps/stagecraft-exec/memory_check.hpp"

#include <string>

#include "libexec/backends/cuda_backend.hpp"
#include "libexec/memory/available_memory.hpp"
#include "libexec/memory/counting_allocator.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

Bytes peak_of(StageResult const& stage) {
  return Bytes{stage.peak() - stage.at_peak[Category::workspace]};
}

Bytes peak_of_all(std::vector<StageResult> const& stages, int ranks_per_stage) {
  Bytes sum;
  for (StageResult const& stage : stages) {
    sum = sum + std::int64_t{ranks_per_stage} * peak_of(stage);
  }
  return sum;
}

}  // namespace

void require_memory(TrainingPlan const& plan,
                    System const& system,
                    DeviceChoice const& device,
                    std::optional<int> rank) {
  bool const is_on_gpu = device.kind == DeviceKind::cuda;
  std::optional<Bytes> const there =
      is_on_gpu ? free_cuda_memory(device.ordinal) : available_memory();
  if (!there) return;
  std::vector<StageResult> const stages = simulate(plan, system).stages;
  Bytes const needed = rank ? peak_of(stages[static_cast<std::size_t>(plan.groups.stage_of(*rank))])
                            : peak_of_all(stages, plan.groups.ranks_per_stage());
  if (needed <= *there) return;
  std::string const who = rank ? "rank " + std::to_string(*rank) + " needs "
                               : "the " + std::to_string(plan.groups.ranks()) + " ranks need ";
  std::string const alone = rank ? "" : "one rank alone (--ranks solo), or ";
  throw MemoryLimitError{who + readable_text(needed) + " at their peaks, and " +
                         (is_on_gpu ? "the GPU has " : "this machine has ") +
                         readable_text(*there) + (is_on_gpu ? " free" : " available") + "; run " +
                         alone +
                         "a smaller model of the same layout, as configs/paper/*-twin.yaml\n"};
}

}  // namespace stagecraft
