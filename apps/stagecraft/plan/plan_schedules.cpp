#include "apps/stagecraft/plan/plan_schedules.hpp"

#include "apps/stagecraft/plan/plan_words.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

std::string layout_words(TrainingConfig const& config) {
  ParallelLayout const& parallel = config.parallel;
  return "t " + std::to_string(parallel.tensor) + ", p " + std::to_string(parallel.pipeline) +
         ", m " + std::to_string(parallel.interleave) + ", d " + std::to_string(parallel.data) +
         ", b " + std::to_string(config.batch.micro) + ", " +
         std::string{name_of(config.schedule.kind)} + ", recompute " + recompute_text(config);
}

std::string schedules_text(SearchResult const& result) {
  SimTime const best = result.best.front().simulation.iteration;
  std::string text;
  std::string slow;
  for (ScheduleBest const& schedule : result.schedules) {
    std::string const name{name_of(schedule.kind)};
    if (!schedule.iteration) {
      slow += (slow.empty() ? "" : ", ") + name;
    } else if (*schedule.iteration > best) {
      double const more = to_seconds(*schedule.iteration) / to_seconds(best) - 1;
      text += (text.empty() ? "" : ", ") + name + " +" + decimals(100 * more, 1) + " %";
    }
  }
  if (!text.empty()) text = "best of other schedules, as far as simulated: " + text + "\n";
  return text + (slow.empty() ? "" : "no plan among the best, or none that fits: " + slow + "\n");
}

}  // namespace stagecraft
