#include "libsim/sweep/sweep_check.hpp"

#include <algorithm>

#include "libsim/host/interruption.hpp"
#include "libsim/sweep/condition/same_place.hpp"
#include "libsim/sweep/spread_numbers.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t most_tried = 256;       ///< points per value whose runs are read
constexpr std::int64_t most_looked_at = 4096;  ///< points per value whose conditions are evaluated

bool is_within(YamlNode const& node, Place const& place) {
  return is_same(node.place, place) ||
         std::any_of(node.keys.begin(), node.keys.end(),
                     [&](YamlNode const& key) { return is_within(key, place); }) ||
         std::any_of(node.items.begin(), node.items.end(),
                     [&](YamlNode const& item) { return is_within(item, place); });
}

/// The reasons why points are impossible, each once.
class Reasons {
 public:
  void add(ConfigError const& error) {
    ++failures_;
    for (Problem const& problem : error.problems()) count(problem, 1);
  }
  void add(Reasons const& others) {
    for (Counted const& other : others.counted_) count(other.problem, other.failures);
    failures_ += others.failures_;
  }

  std::int64_t failures() const { return failures_; }
  /// The commonest reason (ties: the first found) among those that `is_candidate` accepts.
  template <typename Predicate>
  Problem const* commonest(Predicate is_candidate) const {
    Counted const* best = nullptr;
    for (Counted const& counted : counted_) {
      if (!is_candidate(counted.problem)) continue;
      if (best == nullptr || counted.failures > best->failures) best = &counted;
    }
    return best == nullptr ? nullptr : &best->problem;
  }
  /// The commonest reason. Pre: a point failed.
  Problem const& commonest() const {
    return *commonest([](Problem const& /*problem*/) { return true; });
  }

 private:
  struct Counted {
    Problem problem;
    std::int64_t failures = 0;
  };
  void count(Problem const& problem, std::int64_t failures) {
    auto const known = std::find_if(counted_.begin(), counted_.end(), [&](Counted const& one) {
      return one.problem.key == problem.key && one.problem.found == problem.found &&
             one.problem.accepted == problem.accepted;
    });
    if (known == counted_.end()) {
      counted_.push_back({problem, failures});
    } else {
      known->failures += failures;
    }
  }

  std::vector<Counted> counted_;
  std::int64_t failures_ = 0;
};

/// The commonest problem at one of an entry's own values; null if there is none.
Problem const* own_problem(SweepEntry const& entry, Reasons const& reasons) {
  return reasons.commonest([&](Problem const& problem) {
    return std::any_of(entry.settings.begin(), entry.settings.end(), [&](Setting const& setting) {
      return is_within(setting.value, problem.place);
    });
  });
}

/// The problem of an entry for which no run is possible: its own problem, else the commonest of
/// all.
Problem problem_with(SweepAxis const& axis, SweepEntry const& entry, Reasons const& reasons) {
  if (Problem const* const own = own_problem(entry, reasons)) return *own;
  Problem const& reason = reasons.commonest();
  // A way out that the reason offers as another value of this key is said once.
  std::string const accepted = reason.accepted.substr(0, reason.accepted.find(", or " + axis.name));
  return {entry.place, axis.name,
          "'" + printable(entry.label) + "' beside " + reason.key + " " +
              (reason.found.empty() ? "without a value" : reason.found),
          "another value, or beside it " + reason.key + " " + accepted};
}

/// The results of the points with one entry of one axis.
struct Trial {
  bool is_possible = false;
  bool was_exhaustive = true;
  Reasons reasons;
};

Trial try_entry(Sweep const& sweep, std::size_t axis, std::size_t entry) {
  auto const size = static_cast<std::int64_t>(sweep.axes[axis].entries.size());
  std::int64_t const others = sweep.points / size;
  std::int64_t after = 1;  // the number of points that the axes after this one span
  for (std::size_t i = axis + 1; i < sweep.axes.size(); ++i) {
    after *= static_cast<std::int64_t>(sweep.axes[i].entries.size());
  }
  Trial trial;
  SpreadNumbers numbers{others};
  std::vector<std::size_t> entries;
  for (std::int64_t looked_at = 0; looked_at < others; ++looked_at) {
    throw_if_interrupted();
    if (trial.reasons.failures() == most_tried || looked_at == most_looked_at) {
      trial.was_exhaustive = false;
      break;
    }
    std::int64_t const other = numbers.next();
    std::int64_t const point =
        (other / after * size + static_cast<std::int64_t>(entry)) * after + other % after;
    choose_entries(sweep.axes, point, entries);
    if (!takes_part(sweep, entries)) continue;
    try {
      static_cast<void>(run_of(sweep, entries));
      trial.is_possible = true;
      return trial;
    } catch (ConfigError const& error) {
      trial.reasons.add(error);
    }
  }
  return trial;
}

/// The results for the entries of an axis.
struct AxisTrials {
  std::vector<Trial> of_entries;

  bool has_possible() const {
    return std::any_of(of_entries.begin(), of_entries.end(),
                       [](Trial const& trial) { return trial.is_possible; });
  }
  /// Whether every point of the sweep was examined, and none is possible.
  bool rule_out_all() const {
    return std::none_of(of_entries.begin(), of_entries.end(), [](Trial const& trial) {
      return trial.is_possible || !trial.was_exhaustive;
    });
  }
};

/// Reports values that no point can have to `diagnostics`, and values that no examined point can
/// have to `warnings`. Pre: some value is possible; otherwise none of them is the cause.
void report_impossible(SweepAxis const& axis,
                       AxisTrials const& trials,
                       Diagnostics& diagnostics,
                       std::vector<std::string>& warnings) {
  for (std::size_t k = 0; k < trials.of_entries.size(); ++k) {
    Trial const& trial = trials.of_entries[k];
    if (trial.is_possible || trial.reasons.failures() == 0) continue;
    Problem problem = problem_with(axis, axis.entries[k], trial.reasons);
    if (trial.was_exhaustive) {
      problem.accepted += "; no point of the sweep can have it";
      diagnostics.add(std::move(problem));
    } else {
      warnings.push_back(to_string(problem) + "; none of " +
                         std::to_string(trial.reasons.failures()) + " examined points can have it");
    }
  }
}

}  // namespace

std::vector<std::string> check_sweep(Sweep const& sweep) {
  std::vector<std::string> warnings;
  Diagnostics diagnostics;
  Reasons reasons;  // those of the first axis, so that no point is counted twice
  bool is_any_possible = false;
  bool is_none_possible = false;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    AxisTrials trials;
    for (std::size_t k = 0; k < sweep.axes[i].entries.size(); ++k) {
      throw_if_interrupted();
      trials.of_entries.push_back(try_entry(sweep, i, k));
      if (i == 0) reasons.add(trials.of_entries.back().reasons);
    }
    if (trials.rule_out_all()) {
      is_none_possible = true;
      for (std::size_t k = 0; k < trials.of_entries.size(); ++k) {
        Problem const* const own =
            own_problem(sweep.axes[i].entries[k], trials.of_entries[k].reasons);
        if (own != nullptr) diagnostics.add(*own);
      }
    }
    if (!trials.has_possible()) continue;
    is_any_possible = true;
    report_impossible(sweep.axes[i], trials, diagnostics, warnings);
  }
  diagnostics.throw_if_any();
  if (is_any_possible || reasons.failures() == 0) return warnings;
  if (is_none_possible) throw ConfigError{{reasons.commonest()}};
  return {
      sweep.origin + ": none of " + std::to_string(reasons.failures()) +
      " examined points is possible; the most common reason: " + to_string(reasons.commonest())};
}

}  // namespace stagecraft
