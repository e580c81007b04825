#include "libsim/sweep/sweep_check.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "libsim/sweep/evaluate_point.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t most_tried = 256;       ///< points a value whose runs are read
constexpr std::int64_t most_looked_at = 4096;  ///< points a value whose conditions are

bool is_same(Place const& a, Place const& b) {
  return a.line == b.line && a.column == b.column && a.origin && b.origin && *a.origin == *b.origin;
}

bool is_within(YamlNode const& node, Place const& place) {
  return is_same(node.place, place) ||
         std::any_of(node.keys.begin(), node.keys.end(),
                     [&](YamlNode const& key) { return is_within(key, place); }) ||
         std::any_of(node.items.begin(), node.items.end(),
                     [&](YamlNode const& item) { return is_within(item, place); });
}

/// What an entry's points say of it: the problem that stands at one of its values if there is one.
Problem problem_with(SweepAxis const& axis, SweepEntry const& entry, ConfigError const& error) {
  for (Problem const& problem : error.problems()) {
    for (Setting const& setting : entry.settings) {
      if (is_within(setting.value, problem.place)) return problem;
    }
  }
  Problem reason = error.problems().front();
  reason.place = {};
  return {entry.place, axis.name, "'" + printable(entry.label) + "', and so " + to_string(reason),
          "another value"};
}

/// Numbers below `size`, each once, spread evenly from the start: multiples of a step near the
/// golden section of the size.
class SpreadNumbers {
 public:
  explicit SpreadNumbers(std::int64_t size) : size_{size} {
    step_ = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(0.6180339887 * static_cast<double>(size)));
    while (std::gcd(step_, size_) != 1) ++step_;
  }
  std::int64_t next() {
    std::int64_t const number = number_;
    number_ = number_ >= size_ - step_ ? number_ - (size_ - step_) : number_ + step_;
    return number;
  }

 private:
  std::int64_t size_;
  std::int64_t step_ = 1;
  std::int64_t number_ = 0;
};

/// What became of the points with one entry of one axis.
struct Trial {
  bool is_possible = false;
  bool was_exhaustive = true;  ///< every point with it was looked at
  std::int64_t tried = 0;      ///< points that meet the conditions
  std::optional<ConfigError> first;
};

Trial try_entry(Sweep const& sweep, std::size_t axis, std::size_t entry) {
  auto const size = static_cast<std::int64_t>(sweep.axes[axis].entries.size());
  std::int64_t const others = sweep.points / size;
  std::int64_t after = 1;  // points that the axes after this one span
  for (std::size_t i = axis + 1; i < sweep.axes.size(); ++i) {
    after *= static_cast<std::int64_t>(sweep.axes[i].entries.size());
  }
  Trial trial;
  SpreadNumbers numbers{others};
  std::vector<std::size_t> entries;
  for (std::int64_t looked_at = 0; looked_at < others; ++looked_at) {
    if (trial.tried == most_tried || looked_at == most_looked_at) {
      trial.was_exhaustive = false;
      break;
    }
    std::int64_t const other = numbers.next();
    std::int64_t const point =
        (other / after * size + static_cast<std::int64_t>(entry)) * after + other % after;
    choose_entries(sweep.axes, point, entries);
    if (!sweep.filter.passes(entries)) continue;
    ++trial.tried;
    try {
      static_cast<void>(run_of(sweep, entries));
      trial.is_possible = true;
      return trial;
    } catch (ConfigError const& error) {
      if (!trial.first) trial.first = error;
    }
  }
  return trial;
}

}  // namespace

std::vector<std::string> check_sweep(Sweep const& sweep) {
  std::vector<std::string> warnings;
  Diagnostics diagnostics;
  bool is_any_possible = false;
  bool was_exhaustive = true;
  std::optional<ConfigError> first;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    SweepAxis const& axis = sweep.axes[i];
    for (std::size_t k = 0; k < axis.entries.size(); ++k) {
      Trial const trial = try_entry(sweep, i, k);
      is_any_possible = is_any_possible || trial.is_possible;
      was_exhaustive = was_exhaustive && trial.was_exhaustive;
      if (trial.first && !first) first = trial.first;
      if (trial.is_possible || !trial.first) continue;
      Problem problem = problem_with(axis, axis.entries[k], *trial.first);
      if (trial.was_exhaustive) {
        problem.accepted += "; no point of the sweep can have it";
        diagnostics.add(std::move(problem));
      } else {
        warnings.push_back(to_string(problem) + "; none of " + std::to_string(trial.tried) +
                           " points looked at can have it");
      }
    }
  }
  // Where nothing is possible, no value is to blame more than another.
  if (!is_any_possible && was_exhaustive && first) throw ConfigError{first->problems()};
  diagnostics.throw_if_any();
  return warnings;
}

double seconds_per_point(Sweep const& sweep) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds longest{300};
  constexpr int most_points = 24;
  SpreadNumbers numbers{sweep.points};
  std::vector<std::size_t> entries;
  int evaluated = 0;
  std::int64_t looked_at = 0;
  Clock::time_point const begin = Clock::now();
  while (evaluated < most_points && looked_at++ < std::min(sweep.points, most_looked_at) &&
         (evaluated == 0 || Clock::now() - begin < longest)) {
    std::int64_t const point = numbers.next();
    choose_entries(sweep.axes, point, entries);
    if (!sweep.filter.passes(entries)) continue;
    static_cast<void>(evaluate_point(sweep, point));
    ++evaluated;
  }
  std::chrono::duration<double> const seconds = Clock::now() - begin;
  return evaluated == 0 ? 0 : seconds.count() / evaluated;
}

}  // namespace stagecraft
