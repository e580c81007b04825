#include "apps/stagecraft/plan/plan_schedules.hpp"

#include <algorithm>
#include <vector>

#include "apps/stagecraft/plan/plan_words.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

std::string layout_words(TrainingConfig const& config) {
  ParallelLayout const& parallel = config.parallel;
  return "t " + std::to_string(parallel.tensor) + ", p " + std::to_string(parallel.pipeline) +
         ", m " + std::to_string(parallel.interleave) + ", d " + std::to_string(parallel.data) +
         ", b " + std::to_string(config.batch.micro) + ", " +
         (config.sharding.has_units() ? sharding_text(config.sharding) + ", " : "") +
         std::string{name_of(config.schedule.kind)} + ", recompute " + recompute_text(config);
}

namespace {

/// How much slower the best of others is: of each list, those with a time, then those without.
template <typename Best>
std::string others_text(std::vector<Best> const& all, SimTime best, std::string const& what) {
  std::string text;
  std::string slow;
  for (Best const& one : all) {
    std::string const name{name_of(one.kind)};
    if (!one.iteration) {
      slow += (slow.empty() ? "" : ", ") + name;
    } else if (*one.iteration > best) {
      double const more = to_seconds(*one.iteration) / to_seconds(best) - 1;
      text += (text.empty() ? "" : ", ") + name + " +" + decimals(100 * more, 1) + " %";
    }
  }
  std::string const option = what == "schedules" ? "--fix schedule=KIND" : "--sharding KIND";
  std::string const how = " (" + option + " alone finds its fastest): ";
  if (!text.empty()) text = "simulated of other " + what + how + text + "\n";
  if (slow.empty()) return text;
  return text + "not simulated, or none that fits" + (text.empty() ? how : ": ") + slow + "\n";
}

}  // namespace

std::string schedules_text(SearchResult const& result) {
  SimTime const best = result.best.front().simulation.iteration;
  std::string text = others_text(result.schedules, best, "schedules");
  bool const has_units = std::ranges::any_of(result.shardings, [](ShardingBest const& sharding) {
    return traits_of(sharding.kind).has_units();
  });
  if (!has_units || result.shardings.size() == 1) return text;
  return others_text(result.shardings, best, "kinds of sharding") + text;
}

}  // namespace stagecraft
