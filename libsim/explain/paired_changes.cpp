#include "libsim/explain/paired_changes.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace stagecraft {
namespace {

struct Pair {
  ChangeEffect const* one = nullptr;
  ChangeEffect const* other = nullptr;
};

std::string_view key_of(std::string const& setting) {
  return std::string_view{setting}.substr(0, setting.find('='));
}

/// Whether one of two keys is the other, or a section around it.
bool overlap(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return b.starts_with(a) && (a.size() == b.size() || b[a.size()] == '.');
}

bool set_one_key(Change const& a, Change const& b) {
  return std::ranges::any_of(a.set, [&](std::string const& of_a) {
    return std::ranges::any_of(
        b.set, [&](std::string const& of_b) { return overlap(key_of(of_a), key_of(of_b)); });
  });
}

Change both(Change const& a, Change const& b) {
  Change change{.what = a.what + " + " + b.what, .set = a.set};
  change.set.insert(change.set.end(), b.set.begin(), b.set.end());
  return change;
}

bool does_as(RunFigures const& a, RunFigures const& b) {
  return a.iteration == b.iteration && a.peak == b.peak && a.reserved == b.reserved;
}

}  // namespace

std::vector<ChangeEffect> simulate_pairs(RunConfig const& run,
                                         std::vector<ChangeEffect> const& singles,
                                         int jobs,
                                         TrialProgress const& progress) {
  std::vector<Pair> pairs;
  std::vector<Change> changes;
  for (auto one = singles.begin(); one != singles.end(); ++one) {
    if (!one->figures) continue;
    for (auto other = std::next(one); other != singles.end(); ++other) {
      if (!other->figures || set_one_key(one->change, other->change)) continue;
      pairs.push_back({&*one, &*other});
      changes.push_back(both(one->change, other->change));
    }
  }
  std::vector<ChangeEffect> effects;
  std::vector<ChangeEffect> tried = simulate_changes(run, changes, jobs, progress);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    ChangeEffect& effect = tried[i];
    if (!effect.figures || effect.is_same_run || effect.is_repetition) continue;
    if (does_as(*effect.figures, *pairs[i].one->figures)) continue;
    if (does_as(*effect.figures, *pairs[i].other->figures)) continue;
    effects.push_back(std::move(effect));
  }
  return effects;
}

}  // namespace stagecraft
