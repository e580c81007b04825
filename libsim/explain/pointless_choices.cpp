#include "libsim/explain/pointless_choices.hpp"

#include <map>

#include "libsim/report/text_table.hpp"

namespace stagecraft {
namespace {

constexpr double least_memory_percent = 1;
constexpr double least_time_percent = 0.1;

double percent(double part, double whole) { return 100 * part / whole; }

/// How much longer the changed run takes, in percent of the run's time.
double percent_longer(RunFigures const& run, RunFigures const& changed) {
  return percent(to_seconds(changed.iteration - run.iteration), to_seconds(run.iteration));
}

std::string small_percent(double value) { return decimals(value, value < 0.095 ? 2 : 1) + " %"; }

/// What is wrong with a choice, given the run without it; empty if it pays off.
std::string verdict(RunFigures const& run, ChangeEffect const& effect) {
  RunFigures const& without = *effect.figures;
  std::int64_t const saved = without.peak - run.peak;
  double const saved_percent = percent(static_cast<double>(saved), static_cast<double>(run.peak));
  double const gained = percent_longer(run, without);  // the time that the choice gains
  if (saved == 0 && without.iteration == run.iteration) return "has no effect here";
  bool const pays_in_time = gained >= least_time_percent;
  bool const pays_in_memory = saved_percent >= least_memory_percent;
  if (pays_in_memory && gained <= -least_time_percent && run.fits() && without.fits()) {
    return "is not needed: with " + effect.change.what + " every stage fits too, with " +
           size_text(without.room) + " to spare, and an iteration takes " + small_percent(-gained) +
           " less";
  }
  if (pays_in_time || pays_in_memory) return "";
  if (saved > 0 && gained < 0) {
    return "saves only " + size_text(saved) + " (" + small_percent(saved_percent) +
           " of the peak) and costs " + small_percent(-gained) + " of the time";
  }
  if (saved <= 0 && gained < 0) {
    return "costs " + small_percent(-gained) + " of the time" +
           (saved < 0 ? " and " + size_text(-saved) : std::string{}) + " and saves nothing";
  }
  if (saved < 0) {
    return "costs " + size_text(-saved) + " and " +
           (gained > 0 ? "gains only " + small_percent(gained) + " of the time" : "gains nothing");
  }
  return "";
}

std::string capitalized(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() -= 'a' - 'A';
  return text;
}

}  // namespace

std::vector<std::string> pointless_choices(RunConfig const& run,
                                           RunFigures const& figures,
                                           std::vector<ChangeEffect> const& effects) {
  // If several changes revert a choice, the fastest that fits counts.
  std::map<std::string, ChangeEffect const*> best_way_back;
  for (ChangeEffect const& effect : effects) {
    if (effect.change.undoes.empty() || !effect.figures) continue;
    ChangeEffect const*& best = best_way_back[effect.change.undoes];
    bool const is_better = best == nullptr || (effect.figures->fits() && !best->figures->fits()) ||
                           (effect.figures->fits() == best->figures->fits() &&
                            effect.figures->iteration < best->figures->iteration);
    if (is_better) best = &effect;
  }
  std::vector<std::string> warnings;
  for (auto const& [choice, effect] : best_way_back) {
    std::string const text = verdict(figures, *effect);
    if (!text.empty()) warnings.push_back(capitalized(choice) + " " + text + ".");
  }
  std::int64_t const missing =
      (MemoryConfig{}.kept_in_reserve() - run.training.memory.kept_in_reserve()).count() -
      figures.room;
  if (figures.fits() && missing > 0) {
    warnings.push_back(
        "The run fits only because memory.reserve is " +
        size_text(run.training.memory.kept_in_reserve().count()) + ": with the default of " +
        size_text(MemoryConfig{}.kept_in_reserve().count()) +
        ", for the device context and NCCL, stage " + std::to_string(figures.fullest_stage) +
        " lacks " + size_text(missing) + ".");
  }
  return warnings;
}

}  // namespace stagecraft
