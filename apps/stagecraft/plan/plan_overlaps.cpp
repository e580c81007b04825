#include "apps/stagecraft/plan/plan_overlaps.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libsim/config/optional_json.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

namespace {

/// "zb_auto, v_auto": the schedules that no search has.
std::string unsearched_schedules() {
  std::string names;
  for (OrderKindTraits const& traits : order_kinds) {
    if (is_searched(traits.kind) || traits.kind == ScheduleKind::order) continue;
    names += (names.empty() ? "" : ", ") + std::string{traits.name};
  }
  return names;
}

/// The kinds of sharding that the search has not.
std::vector<std::string> other_shardings(SearchRequest const& request) {
  std::vector<std::string> names;
  for (auto const& [kind, name] : EnumNames<ShardingKind>::all) {
    bool const is_there =
        std::ranges::find(sharding_kinds(request), kind) != sharding_kinds(request).end();
    if (!is_there) names.emplace_back(name);
  }
  return names;
}

std::string words_of(bool value) { return value ? "true" : "false"; }

/// Whether a changed run needs something that the framework of --launchable lacks and `config` does
/// not need.
bool has_new_gap(TrainingConfig const& config,
                 TrainingConfig const& changed,
                 PlanOptions const& options) {
  LaunchFramework const* const launchable = options.launchable;
  int const node = options.node_size();
  return launchable &&
         launchable->gaps(changed, node).size() > launchable->gaps(config, node).size();
}

/// Whether all plans were searched with one mode of transfers.
bool holds_p2p(PlanOptions const& options) { return options.request.filter.p2p.size() == 1; }

std::vector<Change> changes_of(TrainingConfig const& config, PlanOptions const& options) {
  bool const is_blocking = config.schedule.p2p == P2p::blocking;
  TrainingConfig with_transfers = config;
  with_transfers.schedule.p2p = is_blocking ? P2p::overlapped : P2p::blocking;
  TrainingConfig with_gradients = config;
  with_gradients.parallel.overlap_gradients = !overlaps_gradients(config);
  std::string const p2p = "schedule.p2p=" + std::string{name_of(with_transfers.schedule.p2p)};
  std::string const gradients =
      "parallel.overlap_gradients=" + words_of(!overlaps_gradients(config));
  std::vector<Change> changes;
  bool const is_rule = !has_order(config.schedule.kind);  // others have overlapped transfers
  if (holds_p2p(options) && is_rule && config.parallel.pipeline > 1 &&
      !has_new_gap(config, with_transfers, options)) {
    changes.push_back({.what = p2p, .set = {p2p}, .undoes = ""});
  }
  bool const has_overlap = config.parallel.data > 1 && !config.sharding.has_units();
  if (has_overlap && !has_new_gap(config, with_gradients, options)) {
    changes.push_back({.what = gradients, .set = {gradients}, .undoes = ""});
  }
  if (changes.size() == 2) {
    changes.push_back({.what = "both", .set = {p2p, gradients}, .undoes = ""});
  }
  return changes;
}

/// "-2.4 % on #1", of a change of the best plan.
std::string effect_text(UnsearchedOverlaps const& overlaps, RunFigures const& changed) {
  double const more = to_seconds(changed.iteration) / to_seconds(overlaps.figures.iteration) - 1;
  return signed_decimals(100 * more, 1) + " % on #1" + (changed.fits() ? "" : ", does not fit");
}

/// "KEY, false in all plans (true: -2.4 % on #1)", without the effect if it is not known.
std::string held_text(UnsearchedOverlaps const& overlaps,
                      std::string const& key,
                      std::string const& value) {
  std::string text = key + ", " + value + " in all plans";
  for (ChangeEffect const& effect : overlaps.effects) {
    std::string const& what = effect.change.what;
    if (!what.starts_with(key + "=")) continue;
    return text + " (" + what.substr(key.size() + 1) + ": " +
           effect_text(overlaps, *effect.figures) + ")";
  }
  return text;
}

}  // namespace

UnsearchedOverlaps unsearched_overlaps(FoundPlan const& best, PlanOptions const& options) {
  RunConfig const run{best.config, options.request.system, {}};
  UnsearchedOverlaps overlaps{.config = settled_with_stack(best.config),
                              .holds_p2p = holds_p2p(options),
                              .has_whole = searches_whole(options.request),
                              .other_shardings = other_shardings(options.request),
                              .effects = {},
                              .figures = figures_of(run)};
  std::vector<ChangeEffect> effects =
      simulate_changes(run, changes_of(best.config, options), options.request.jobs);
  for (ChangeEffect& effect : effects) {
    if (effect.figures && !effect.is_same_run) overlaps.effects.push_back(std::move(effect));
  }
  return overlaps;
}

std::string to_text(UnsearchedOverlaps const& overlaps) {
  TrainingConfig const& config = overlaps.config;
  std::string const kinds =
      overlaps.other_shardings.empty()
          ? ""
          : "nor sharding " + joined(overlaps.other_shardings, ", ") + ": --sharding any";
  if (!overlaps.has_whole) {
    bool const splits_experts = config.sharding.traits().splits_experts;
    return std::string{"not searched: pipelines"} +
           (splits_experts ? "" : " and ranks that split experts") +
           ", which are not modelled with " + std::string{name_of(config.sharding.kind)} + "\n" +
           kinds + (kinds.empty() ? "" : "\n");
  }
  std::string text = "not searched: ";
  if (overlaps.holds_p2p) {
    text += held_text(overlaps, "schedule.p2p", std::string{name_of(config.schedule.p2p)}) + "; ";
  }
  text += held_text(overlaps, "parallel.overlap_gradients", words_of(overlaps_gradients(config))) +
          "; orders fitted to costs\n";
  if (!overlaps.effects.empty() && overlaps.effects.back().change.set.size() > 1) {
    text += "both: " + effect_text(overlaps, *overlaps.effects.back().figures) + "; ";
  }
  if (!overlaps.effects.empty()) text += "--set KEY=VALUE searches with another value; ";
  return text + "`stagecraft explain` tries the orders: " + unsearched_schedules() +
         (kinds.empty() ? "" : "; " + kinds) + "\n";
}

nlohmann::ordered_json to_json(UnsearchedOverlaps const& overlaps) {
  auto const trial = [](ChangeEffect const& effect) -> nlohmann::ordered_json {
    return {{"set", effect.change.set},
            {"iteration_seconds", to_seconds(effect.figures->iteration)},
            {"fits", effect.figures->fits()}};
  };
  nlohmann::ordered_json p2p;  // null if both modes were searched
  if (overlaps.holds_p2p) p2p = name_of(overlaps.config.schedule.p2p);
  return {{"schedule.p2p", std::move(p2p)},
          {"schedules", unsearched_schedules()},
          {"sharding", overlaps.other_shardings},
          {"parallel.overlap_gradients", overlaps_gradients(overlaps.config)},
          {"best_with", list_of(overlaps.effects, trial)}};
}

}  // namespace stagecraft
