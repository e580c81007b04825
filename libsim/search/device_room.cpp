#include "libsim/search/device_room.hpp"

#include <algorithm>

#include "libsim/hardware/software.hpp"
#include "libsim/report/run_verdict.hpp"

namespace stagecraft {
namespace {

/// What holds memory of every device outside the allocator, communicators apart.
Bytes least_outside(SearchRequest const& request) {
  MemoryConfig const& memory = request.base.memory;
  if (memory.reserve || !request.system.device) return memory.kept_in_reserve();
  return request.system.device->driver.value + request.system.device->context.value;
}

/// What an allocator may hold less than is counted: padding, and gathered activations for which the
/// software stack has one buffer that is never freed.
Bytes least_saving(SearchRequest const& request) {
  FrameworkMemory const framework = framework_memory(request.system.software);
  bool const reuses = framework.keeps_gathered || !framework.global_buffer.empty();
  return Bytes{request.system.accelerator.memory.value.count() / (reuses ? 50 : 1000)};
}

bool leaves(Verdict verdict, std::int64_t left, std::int64_t margin) {
  if (verdict == Verdict::does_not_fit) return false;
  return margin == 0 || (verdict == Verdict::fits && left >= margin);
}

}  // namespace

Bytes most_counted(SearchRequest const& request) {
  Accelerator const& accelerator = request.system.accelerator;
  Bytes const room = accelerator.memory.value - least_outside(request) - Bytes{request.margin};
  Bytes const by_allocator =
      room_without_factor(room, request.system.software.memory.factor.value) +
      least_saving(request);
  if (decides_by_allocator(request.system.software)) return by_allocator;
  return std::min(by_allocator, room_for(request.base.memory, accelerator) -
                                    request.system.calibration.workspace.value);
}

bool accepts(SearchRequest const& request,
             TrainingConfig const& config,
             ReservedStage const& stage,
             std::int64_t peak) {
  bool const is_counted = decides_by_allocator(request.system.software) ||
                          Bytes{peak} <= room_for(config.memory, request.system.accelerator);
  return is_counted && leaves(stage.verdict, stage.margin, request.margin);
}

Bytes least_margin(Simulation const& simulation) {
  return Bytes{std::ranges::min_element(simulation.stages, {}, &StageResult::margin)->margin};
}

std::vector<StageId> refused_stages(SearchRequest const& request,
                                    TrainingConfig const& config,
                                    Simulation const& simulation) {
  std::vector<StageId> refused;
  for (StageResult const& stage : simulation.stages) {
    if (!leaves(stage.verdict, stage.margin, request.margin)) refused.emplace_back(stage.stage);
  }
  if (!refused.empty() || request.safety <= 0) return refused;
  FitProbability const lives = fit_probability_of(simulation, config, request.system);
  if (lives.run.value_or(0) >= request.safety) return refused;
  auto const least = std::ranges::min_element(
      lives.stages, {}, [](std::optional<double> const& p) { return p.value_or(0); });
  refused.push_back(StageId::of_index(static_cast<std::size_t>(least - lives.stages.begin())));
  return refused;
}

}  // namespace stagecraft
