#include "libsim/sweep/system_rates.hpp"

#include <algorithm>

namespace stagecraft {
namespace {

constexpr char const* system_key = "system";

/// The names of a system: as it was written, empty if it is given in place, and of its content.
std::vector<std::string> names_of(std::string const& written, YamlNode const* content) {
  YamlNode const* const name = content == nullptr ? nullptr : content->find("name");
  std::vector<std::string> names = names_of_system(written, name == nullptr ? "" : name->text);
  std::erase(names, "");
  return names;
}

std::vector<std::string> names_of_base(Sweep const& sweep) {
  return names_of("", sweep.runs.base().find(system_key));
}

/// The names of the system that an entry of an axis sets; empty if it sets none.
std::vector<std::string> names_of_entry(SweepEntry const& entry) {
  for (std::size_t i = 0; i < entry.settings.size(); ++i) {
    if (entry.settings[i].key == system_key) {
      return names_of(entry.written[i], &entry.settings[i].value);
    }
  }
  return {};
}

}  // namespace

std::vector<std::vector<std::string>> systems_of(Sweep const& sweep) {
  std::vector<std::vector<std::string>> systems;
  bool is_replaced = false;  // in every point
  for (SweepAxis const& axis : sweep.axes) {
    bool sets_all = true;
    for (SweepEntry const& entry : axis.entries) {
      std::vector<std::string> names = names_of_entry(entry);
      sets_all = sets_all && !names.empty();
      if (!names.empty()) systems.push_back(std::move(names));
    }
    is_replaced = is_replaced || sets_all;
  }
  if (!is_replaced) systems.insert(systems.begin(), names_of_base(sweep));
  return systems;
}

OperatingRates rates_of_point(Sweep const& sweep, SystemRates const& rates, std::int64_t point) {
  std::vector<std::size_t> entries;
  choose_entries(sweep.axes, point, entries);
  std::vector<std::string> system;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::vector<std::string> names = names_of_entry(sweep.axes[i].entries[entries[i]]);
    if (!names.empty()) system = std::move(names);
  }
  return rates.of(system.empty() ? names_of_base(sweep) : system);
}

}  // namespace stagecraft
