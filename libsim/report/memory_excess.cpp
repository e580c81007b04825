#include "libsim/report/memory_excess.hpp"

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
  Bytes const reserve = run.training.memory.reserve;
  Bytes const capacity = run.system.accelerator.memory.value;
  Bytes const excess{fullest->peak() + reserve.count() - capacity.count()};
  return (count == 1 ? "stage " + stages + " does not fit" : "stages " + stages + " do not fit") +
         (count == 1 ? ": it holds " : ": stage " + std::to_string(fullest->stage) + " holds ") +
         readable_text(Bytes{fullest->peak()}) + ", " + readable_text(excess) + " more than the " +
         readable_text(capacity) + " less " + readable_text(reserve) + " of reserve";
}

}  // namespace stagecraft
