#include "libsim/report/what_if.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/engine/fullest_stage.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {
namespace {

std::int64_t fullest_peak(Simulation const& simulation) {
  return simulation.stages[fullest_stage(simulation.stages)].peak();
}

std::int64_t free_bytes(SimulatedRun const& run) {
  return run.config->system.accelerator.memory.value.count() -
         run.config->training.memory.kept_in_reserve().count() - fullest_peak(*run.simulation);
}

double tokens_per_gpu(SimulatedRun const& run) {
  return run.simulation->tokens_per_second / world_size(run.config->training.parallel);
}

/// A key that has other values, as `path: before -> after`.
struct KeyChange {
  std::string key;
  nlohmann::ordered_json before;
  nlohmann::ordered_json after;
};

void collect_changes(std::string const& path,
                     nlohmann::ordered_json const& before,
                     nlohmann::ordered_json const& after,
                     std::vector<KeyChange>& changes) {
  if (before == after) return;
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

std::vector<KeyChange> changes_between(SimulatedRun const& base, SimulatedRun const& run) {
  std::vector<KeyChange> changes;
  collect_changes("", to_json(*base.config), to_json(*run.config), changes);
  return changes;
}

/// A value on one line; a system or a model has too many keys for one.
std::string short_text(nlohmann::ordered_json const& value) {
  constexpr std::size_t longest = 40;
  if (value.is_null()) return "missing";
  auto const replace = nlohmann::ordered_json::error_handler_t::replace;
  std::string const text =
      value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, replace);
  return text.size() > longest ? printable(text.substr(0, longest)) + "..." : printable(text);
}

std::string changes_text(std::vector<KeyChange> const& changes) {
  if (changes.empty()) return "no key differs\n";
  constexpr std::size_t most_shown = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(changes.size(), most_shown); ++i) {
    text += "  " + printable(changes[i].key) + ": " + short_text(changes[i].before) + " -> " +
            short_text(changes[i].after) + "\n";
  }
  if (changes.size() > most_shown) {
    text += "  and " + std::to_string(changes.size() - most_shown) + " more keys (--json)\n";
  }
  return text;
}

}  // namespace

std::string what_if_table(SimulatedRun const& base, SimulatedRun const& run) {
  TextTable table{{{"", Align::left}, {"base line"}, {"this run"}, {"difference"}, {"%"}}};
  auto const add = [&](std::string_view name, double before, double after, int digits) {
    table.add_row({std::string{name}, decimals(before, digits), decimals(after, digits),
                   signed_decimals(after - before, digits),
                   before == 0 ? "" : signed_decimals(100 * (after / before - 1), 1)});
  };
  Simulation const& a = *base.simulation;
  Simulation const& b = *run.simulation;
  constexpr double gibibyte = 1024.0 * 1024.0 * 1024.0;
  add("iteration s", to_seconds(a.iteration), to_seconds(b.iteration), 3);
  add("tokens/s", a.tokens_per_second, b.tokens_per_second, 0);
  add("tokens/s per GPU", tokens_per_gpu(base), tokens_per_gpu(run), 1);
  add("MFU %", 100 * a.mfu, 100 * b.mfu, 1);
  add("peak GiB, fullest stage", static_cast<double>(fullest_peak(a)) / gibibyte,
      static_cast<double>(fullest_peak(b)) / gibibyte, 2);
  add("free GiB beside the reserve", static_cast<double>(free_bytes(base)) / gibibyte,
      static_cast<double>(free_bytes(run)) / gibibyte, 2);
  table.add_rule();
  auto const before = parts_of(a.breakdown);
  auto const after = parts_of(b.breakdown);
  for (std::size_t i = 0; i < before.size(); ++i) {
    add(std::string{before[i].name} + " s", to_seconds(before[i].time), to_seconds(after[i].time),
        3);
  }
  std::string text = "against " + printable(base.name) + "\n" +
                     changes_text(changes_between(base, run)) + "\n" + table.text();
  int const gpus = world_size(base.config->training.parallel);
  int const other = world_size(run.config->training.parallel);
  if (gpus != other) {
    text += "this run has " + std::to_string(other) + " GPUs, the base line " +
            std::to_string(gpus) + "\n";
  }
  return text;
}

nlohmann::ordered_json what_if_json(SimulatedRun const& base, SimulatedRun const& run) {
  Simulation const& a = *base.simulation;
  Simulation const& b = *run.simulation;
  nlohmann::ordered_json changes = nlohmann::ordered_json::array();
  for (KeyChange const& change : changes_between(base, run)) {
    changes.push_back({{"key", change.key}, {"before", change.before}, {"after", change.after}});
  }
  return {{"file", base.name},
          {"config", to_json(*base.config)},
          {"changes", changes},
          {"iteration_seconds", to_seconds(a.iteration)},
          {"tokens_per_second", a.tokens_per_second},
          {"mfu", a.mfu},
          {"peak_bytes", fullest_peak(a)},
          {"free_bytes", free_bytes(base)},
          {"breakdown_seconds", to_json(a.breakdown)},
          {"difference",
           {{"iteration_seconds", to_seconds(b.iteration) - to_seconds(a.iteration)},
            {"tokens_per_second", b.tokens_per_second - a.tokens_per_second},
            {"mfu", b.mfu - a.mfu},
            {"peak_bytes", fullest_peak(b) - fullest_peak(a)}}}};
}

}  // namespace stagecraft
