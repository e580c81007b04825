#include "libsim/report/memory_excess.hpp"

#include "libsim/engine/verdict.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

std::string memory_excess(Simulation const& simulation, RunConfig const& run) {
  std::string stages;
  StageResult const* fullest = nullptr;
  int count = 0;
  for (StageResult const& stage : simulation.stages) {
    if (stage.fits) continue;
    stages += (stages.empty() ? "" : ", ") + std::to_string(stage.stage);
    if (fullest == nullptr || stage.peak() > fullest->peak()) fullest = &stage;
    ++count;
  }
  if (fullest == nullptr) return {};
  Bytes const reserve = run.training.memory.kept_in_reserve();
  Bytes const capacity = run.system.accelerator.memory.value;
  Bytes const excess =
      Bytes{fullest->peak()} - room_for(run.training.memory, run.system.accelerator);
  if (excess.count() <= 0 && fullest->reservation) {
    Bytes const reserved{fullest->reservation->reserved};
    return (count == 1 ? "stage " + stages + " does not fit: its allocator reserves "
                       : "stages " + stages + " do not fit: the allocator of stage " +
                             std::to_string(fullest->stage) + " reserves ") +
           readable_text(reserved) + ", of " + readable_text(capacity) + " less " +
           readable_text(Bytes{fullest->device - reserved.count()}) +
           " that is on the device beside it";
  }
  return (count == 1 ? "stage " + stages + " does not fit" : "stages " + stages + " do not fit") +
         (count == 1 ? ": it holds " : ": stage " + std::to_string(fullest->stage) + " holds ") +
         readable_text(Bytes{fullest->peak()}) + ", " + readable_text(excess) + " more than the " +
         readable_text(capacity) + " less " + readable_text(reserve) + " of reserve";
}

}  // namespace stagecraft
