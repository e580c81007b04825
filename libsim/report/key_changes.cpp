#include "libsim/report/key_changes.hpp"

#include <algorithm>

#include "libsim/config/optional_json.hpp"
#include "libsim/config/problem.hpp"

namespace stagecraft {
namespace {

void collect_changes(std::string const& path,
                     nlohmann::ordered_json const& before,
                     nlohmann::ordered_json const& after,
                     std::vector<KeyChange>& changes) {
  if (before == after) return;
  if (path.ends_with(".source")) return;  // its value differs, or the same number is known twice
  if (!before.is_object() || !after.is_object()) {
    changes.push_back({path, before, after});
    return;
  }
  auto const below = [&](std::string const& key) { return path.empty() ? key : path + "." + key; };
  for (auto const& [key, value] : before.items()) {
    auto const other = after.find(key);
    collect_changes(below(key), value,
                    other == after.end() ? nlohmann::ordered_json(nullptr) : *other, changes);
  }
  for (auto const& [key, value] : after.items()) {
    if (!before.contains(key)) changes.push_back({below(key), nullptr, value});
  }
}

}  // namespace

std::vector<KeyChange> changes_between(RunConfig const& before, RunConfig const& after) {
  std::vector<KeyChange> changes;
  collect_changes("", to_json(before), to_json(after), changes);
  return changes;
}

std::string short_text(nlohmann::ordered_json const& value, std::size_t longest) {
  if (value.is_null()) return "missing";
  auto const replace = nlohmann::ordered_json::error_handler_t::replace;
  std::string const text =
      value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, replace);
  return text.size() > longest ? printable(text.substr(0, longest)) + "..." : printable(text);
}

std::string changes_text(std::vector<KeyChange> const& changes) {
  if (changes.empty()) return "no key differs\n";
  constexpr std::size_t most_shown = 12;
  constexpr std::size_t longest_after = 60;
  std::string text;
  for (std::size_t i = 0; i < std::min(changes.size(), most_shown); ++i) {
    text += "  " + printable(changes[i].key) + ": " + short_text(changes[i].before) + " -> " +
            short_text(changes[i].after, longest_after) + "\n";
  }
  if (changes.size() > most_shown) {
    text += "  and " + std::to_string(changes.size() - most_shown) + " more keys (--json)\n";
  }
  return text;
}

nlohmann::ordered_json to_json(std::vector<KeyChange> const& changes) {
  return list_of(changes, [](KeyChange const& change) -> nlohmann::ordered_json {
    return {{"key", change.key}, {"before", change.before}, {"after", change.after}};
  });
}

}  // namespace stagecraft
