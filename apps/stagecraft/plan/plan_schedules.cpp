#include "apps/stagecraft/plan/plan_schedules.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
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

/// What a line says of kinds that have no time.
constexpr std::array<std::pair<NoTime, std::string_view>, 3> reasons{
    {{NoTime::is_slow, "not simulated, as lower bounds of their times are slower"},
     {NoTime::fits_nowhere, "of which no plan fits"},
     {NoTime::has_no_plan, "of which the search has no plan"}}};

/// How much slower the best of others is: of each list, those with a time, then those without.
template <typename Best>
std::string others_text(std::vector<Best> const& all, SimTime best, std::string const& what) {
  auto const append = [](std::string& list, std::string const& entry) {
    list += (list.empty() ? "" : ", ") + entry;
  };
  std::string text;
  for (Best const& one : all) {
    if (!one.iteration || *one.iteration <= best) continue;
    double const more = to_seconds(*one.iteration) / to_seconds(best) - 1;
    append(text, std::string{name_of(one.kind)} + " +" + decimals(100 * more, 1) + " %");
  }
  std::string const option = what == "schedules" ? "--fix schedule=KIND" : "--sharding KIND";
  std::string how = " (" + option + " alone finds its fastest)";
  if (!text.empty())
    text = "simulated of other " + what + std::exchange(how, "") + ": " + text + "\n";
  for (auto const& [reason, words] : reasons) {
    std::string kinds;
    for (Best const& one : all) {
      if (one.why_not == reason) append(kinds, std::string{name_of(one.kind)});
    }
    if (kinds.empty()) continue;
    // Alone, others than the slow ones have no plan either.
    bool const is_slow = reason == NoTime::is_slow;
    text += what + " " + std::string{words} + (is_slow ? how : "") + ": " + kinds + "\n";
  }
  return text;
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
