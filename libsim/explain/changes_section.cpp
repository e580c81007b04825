#include <algorithm>
#include <cstdlib>
#include <utility>

#include "libsim/explain/explanation_text.hpp"
#include "libsim/explain/recompute_changes.hpp"
#include "libsim/model/recompute_regions.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {
namespace {

constexpr int narrow_table = 90;  ///< columns below which the table says less

/// A number with its sign, unless it rounds to zero.
std::string change_text(double value, int count) {
  std::string const nothing = decimals(0, count);
  std::string const text = signed_decimals(value, count);
  return text.substr(1) == nothing ? nothing : text;
}

std::string time_change(RunFigures const& run, RunFigures const& changed) {
  return change_text(percent_of(changed.iteration - run.iteration, run.iteration), 1);
}

std::string memory_change(RunFigures const& run, RunFigures const& changed, ByteUnit const& unit) {
  double const change = static_cast<double>(changed.peak - run.peak);
  return change_text(change / static_cast<double>(unit.bytes), 2);
}

bool has_effect(RunFigures const& run, ChangeEffect const& effect) {
  return effect.figures && !effect.is_same_run &&
         (effect.figures->peak != run.peak || effect.figures->iteration != run.iteration ||
          effect.figures->reserved != run.reserved);
}

/// The effect of a change, as a part of a sentence.
std::string effect_text(RunFigures const& run, ChangeEffect const& effect) {
  RunFigures const& changed = *effect.figures;
  ByteUnit const unit = unit_for(std::max(run.peak, changed.peak));
  return effect.change.what + ": " + time_change(run, changed) + " % time (" +
         time_text(changed.iteration) + "), " + memory_change(run, changed, unit) + " " +
         std::string{unit.name} + " (" +
         (changed.fits() ? size_text(changed.room) + " free"
                         : size_text(-changed.room) + " too much") +
         ")";
}

/// The changes that help most. `what` is a word for them: change or pair.
std::string best_text(RunFigures const& run,
                      BestChanges const& best,
                      std::vector<ChangeEffect> const& effects,
                      std::string const& what,
                      ExplanationStyle const& style) {
  auto const line = [&](std::string const& title, std::optional<std::size_t> index,
                        std::string const& otherwise) {
    return wrapped(title + (index ? effect_text(run, effects[*index]) : otherwise) + ".",
                   style.width, 2);
  };
  std::string const hint = what == "pair" ? "" : " (--pairs tries every two of them)";
  std::string const fits = best.fastest ? "Makes it fit and is fastest then: " : "Makes it fit: ";
  return line(run.fits() ? "Helps time most: " : fits, best.fastest,
              "no " + what + (run.fits() ? " is faster and fits" : hint)) +
         line("Helps memory most: ", best.smallest, "no " + what + " saves any") +
         line("Saves most memory for at most 1 % more time: ", best.cheapest,
              "no " + what + " saves 1 %");
}

std::string refusals_text(Explanation const& explanation, ExplanationStyle const& style) {
  std::string text;
  for (ChangeEffect const& effect : explanation.effects) {
    if (effect.figures) continue;
    text += wrapped("- " + effect.change.what + ": " + effect.refusal, style.width, 2);
  }
  return text.empty() ? "" : "not legal here:\n" + text;
}

/// The units of the table's columns.
struct Units {
  TimeUnit time;
  ByteUnit peak;
  ByteUnit room;
};

Units units_of(RunFigures const& run, std::vector<ChangeEffect const*> const& shown) {
  SimTime longest = run.iteration;
  std::int64_t peak = std::max(run.peak, run.reserved);
  std::int64_t room = std::abs(run.room);
  for (ChangeEffect const* effect : shown) {
    longest = std::max(longest, effect->figures->iteration);
    peak = std::max({peak, effect->figures->peak, effect->figures->reserved});
    room = std::max(room, std::abs(effect->figures->room));
  }
  return {.time = unit_for(longest), .peak = unit_for(peak), .room = unit_for(room)};
}

/// The run and its changes, those that fit first.
std::string effects_table(RunFigures const& run,
                          std::vector<ChangeEffect const*> const& shown,
                          ExplanationStyle const& style) {
  Units const units = units_of(run, shown);
  std::string const peak_unit{units.peak.name};
  bool const is_narrow = style.width < narrow_table;
  std::vector<TextTable::Column> columns{
      {"", Align::left}, {std::string{units.time.name}}, {"time %"}, {"peak " + peak_unit}};
  if (!is_narrow) columns.push_back({peak_unit});
  columns.push_back({"reserved"});
  columns.push_back(
      {units.room.name == peak_unit ? "free" : "free " + std::string{units.room.name}});
  if (!is_narrow) columns.push_back({"", Align::left});
  TextTable table{columns};
  auto const add = [&](std::string const& what, RunFigures const& figures, bool is_run) {
    std::vector<std::string> cells{what, in_unit(units.time, figures.iteration),
                                   is_run ? "" : time_change(run, figures),
                                   in_unit(units.peak, figures.peak)};
    if (!is_narrow) cells.push_back(is_run ? "" : memory_change(run, figures, units.peak));
    cells.push_back(in_unit(units.peak, figures.reserved));
    cells.push_back(in_unit(units.room, figures.room));
    if (!is_narrow) {
      cells.push_back(figures.verdict == Verdict::fits_with_retries ? "with retries" : "");
    }
    table.add_row(std::move(cells));
  };
  add("the run as it is", run, true);
  table.add_rule();
  bool is_beyond = false;
  for (ChangeEffect const* effect : shown) {
    if (!effect->figures->fits() && !is_beyond && effect != shown.front()) table.add_rule();
    is_beyond = !effect->figures->fits();
    add(effect->change.what, *effect->figures, false);
  }
  return table.text();
}

/// Leaves only the first change of each family that fits, and the first that does not. Returns how
/// many were left out. Pre: sorted.
std::int64_t fold_families(std::vector<ChangeEffect const*>& effects) {
  std::vector<ChangeEffect const*> kept;
  for (ChangeEffect const* effect : effects) {
    bool const is_shown = std::any_of(kept.begin(), kept.end(), [&](ChangeEffect const* other) {
      return !effect->change.family.empty() && other->change.family == effect->change.family &&
             other->figures->fits() == effect->figures->fits();
    });
    if (!is_shown) kept.push_back(effect);
  }
  auto const folded = static_cast<std::int64_t>(effects.size() - kept.size());
  effects = std::move(kept);
  return folded;
}

/// What fits first, fastest first.
void sort_effects(std::vector<ChangeEffect const*>& effects) {
  std::ranges::stable_sort(effects, [](auto const* a, auto const* b) {
    if (a->figures->fits() != b->figures->fits()) return a->figures->fits();
    return a->figures->iteration < b->figures->iteration;
  });
}

}  // namespace

std::string changes_section(Explanation const& explanation, ExplanationStyle const& style) {
  RunFigures const& run = explanation.figures;
  std::vector<ChangeEffect const*> shown;
  std::vector<std::string> without_effect;
  std::int64_t refused = 0;
  for (ChangeEffect const& effect : explanation.effects) {
    if (has_effect(run, effect)) {
      shown.push_back(&effect);
    } else if (!effect.figures) {
      ++refused;
    } else if (!effect.is_same_run) {
      without_effect.push_back(effect.change.what);
    }
  }
  sort_effects(shown);
  std::int64_t const folded = style.shows_all ? 0 : fold_families(shown);
  std::string text =
      "WHAT EACH SINGLE CHANGE WOULD DO\n" +
      wrapped(
          "Each is simulated; the number of accelerators stays. What fits comes first, fastest "
          "first; 'free' is what the capacity leaves beside " +
              std::string{run.is_by_allocator
                              ? "what the allocator reserves and what else is on the device."
                              : "the reserve. 'reserved' is what the allocator's replay of the "
                                "fullest stage alone reserves; `simulate` replays all stages."},
          style.width) +
      effects_table(run, shown, style);
  bool const has_window = std::any_of(shown.begin(), shown.end(), [](auto const* effect) {
    return effect->change.what.find("stored window") != std::string::npos;
  });
  if (has_window) {
    text += wrapped(
        "A stored window keeps everything of as many microbatches as fit, and recomputes "
        "for the others.",
        style.width);
  }
  bool const has_modules = std::any_of(shown.begin(), shown.end(), [](auto const* effect) {
    return effect->change.what.starts_with(module_change);
  });
  if (has_modules) {
    std::vector<std::string> renamed;
    for (RecomputeRegion const& region : recompute_regions()) {
      if (region.short_name != region.name) renamed.emplace_back(region.name);
    }
    text += wrapped("Modules: " + short_names_text(std::move(renamed)) + ".", style.width);
  }
  if (folded > 0) {
    text += counted(folded, "change that does", "changes that do") +
            " the same on other stages, more slowly, left out (--all)\n";
  }
  if (!without_effect.empty()) {
    text += wrapped("without effect here: " + joined(without_effect, "; "), style.width, 2);
  }
  if (style.shows_all) {
    text += refusals_text(explanation, style);
  } else if (refused > 0) {
    text += counted(refused, "change is", "changes are") + " not legal here (--all says why)\n";
  }
  return text + '\n' +
         best_text(run, explanation.best, explanation.effects, "single change", style);
}

std::string pairs_section(Explanation const& explanation, ExplanationStyle const& style) {
  constexpr std::size_t most_shown = 12;
  RunFigures const& run = explanation.figures;
  std::vector<ChangeEffect> const& pairs = *explanation.pairs;
  std::vector<ChangeEffect const*> shown;
  shown.reserve(pairs.size());
  for (ChangeEffect const& pair : pairs) shown.push_back(&pair);
  sort_effects(shown);
  if (!style.shows_all) shown.resize(std::min(shown.size(), most_shown));
  std::string text = "WHAT TWO CHANGES TOGETHER WOULD DO\n";
  if (pairs.empty()) return text + "no two changes do what neither does alone\n";
  text += effects_table(run, shown, style);
  if (shown.size() < pairs.size()) {
    text +=
        counted(static_cast<std::int64_t>(pairs.size() - shown.size()), "pair is", "pairs are") +
        " slower or do not fit (--all shows them)\n";
  }
  return text + '\n' + best_text(run, explanation.best_pairs, pairs, "pair", style);
}

}  // namespace stagecraft
