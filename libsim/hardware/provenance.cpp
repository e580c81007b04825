#include "libsim/hardware/provenance.hpp"

#include <fmt/format.h>

#include <utility>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/hardware/compared_runs.hpp"
#include "libsim/hardware/constant_visitor.hpp"
#include "libsim/hardware/software_keys.hpp"
#include "libsim/hardware/system_keys.hpp"
#include "libsim/hardware/system_reader.hpp"

namespace stagecraft {
namespace {

using Json = nlohmann::ordered_json;

/// Adds the rows of one constant's value: a quantity, a number, a table, or a map of these.
void add_rows(std::vector<ConstantRow>& rows, ConstantRow row, Json const& value) {
  if (value.is_object()) {
    for (auto const& [key, item] : value.items()) {
      ConstantRow below = row;
      below.key += "." + key;
      add_rows(rows, std::move(below), item);
    }
    return;
  }
  if (value.is_array()) {
    for (Json const& item : value) {
      row.value += row.value.empty() ? "" : ", ";
      if (item.is_array()) {
        row.value += item[0].get<std::string>() + " in " + item[1].get<std::string>();
      } else {
        row.value += item.is_string() ? item.get<std::string>() : item.dump();
      }
    }
  } else if (value.is_string()) {
    auto const quantity = value.get<std::string>();
    row.value = quantity.substr(0, quantity.find(' '));
    if (row.value.size() < quantity.size()) row.unit = quantity.substr(row.value.size() + 1);
  } else {
    row.value = value.dump();
  }
  rows.push_back(std::move(row));
}

void collect(std::vector<ConstantRow>& rows, std::string const& path, Json const& map) {
  for (auto const& [key, item] : map.items()) {
    if (!item.is_object()) continue;
    std::string item_path = path;
    if (!path.empty()) item_path += ".";
    item_path += key;
    if (item.contains("source")) {
      ConstantRow row;
      row.key = item_path;
      row.source = item["source"].get<std::string>();
      if (item["fitted"].is_string()) row.fitted = item["fitted"].get<std::string>();
      add_rows(rows, std::move(row), item["value"]);
    } else {
      collect(rows, item_path, item);
    }
  }
}

/// Shows the source of each constant of a system or stack, with its dotted key.
template <typename Constants, typename Act>
void for_each_source(Constants const& constants, Act const& act) {
  auto const show = [&](std::string const& name, Key const& /*key*/, auto const& constant) {
    act(name, constant.source);
  };
  ConstantVisitor visitor{show};
  visit_keys(visitor, constants);
}

template <typename Constants>
std::vector<std::string> given_of(Constants const& constants) {
  std::vector<std::string> given;
  for_each_source(constants, [&](std::string const& key, std::string const& source) {
    if (source.starts_with(given_source)) given.push_back(key + " (" + source + ")");
  });
  return given;
}

/// Says how well runs on the system that are like this one were predicted.
std::string comparison_text(TrainingConfig const& config, System const& system) {
  std::string const regime = regime_text(config, system.software);
  ComparedRuns const* const compared = compared_runs_of(config, system);
  if (compared == nullptr) return "no run of " + regime + " was measured on it";
  std::vector<std::string> const settings = outside(config, compared->range, system.name);
  if (!settings.empty()) {
    return "no run of " + regime + " was measured on it with " + joined(settings);
  }
  return "on " + std::to_string(compared->runs) + " measured runs of " + regime +
         " its predictions were off by " + fmt::format("{:.1f}", compared->median_percent) +
         " % in the median" + direction_text(*compared);
}

}  // namespace

std::vector<ConstantRow> list_constants(System const& system) {
  std::vector<ConstantRow> rows;
  collect(rows, "", to_json(system));
  return rows;
}

std::vector<ConstantRow> list_constants(Software const& software) {
  std::vector<ConstantRow> rows;
  collect(rows, "", to_json(software));
  return rows;
}

std::vector<std::string> given_constants(System const& system) { return given_of(system); }
std::vector<std::string> given_constants(Software const& software) { return given_of(software); }

std::optional<std::string> validation_warning(TrainingConfig const& config, System const& system) {
  std::vector<std::string> given = given_constants(system);
  for (std::string const& constant : given_constants(system.software)) {
    given.push_back("software." + constant);
  }
  if (!given.empty()) {
    return "system '" + system.name + "' with the stack '" + system.software.name +
           "' is not validated: no measurement was held against " + joined(given) +
           (system.validated || system.measured
                ? ""
                : "; `stagecraft system` says where its other constants come from");
  }
  if (system.validated || system.measured) return std::nullopt;
  std::string const guesses =
      "system '" + system.name + "' is not validated: its constants are public numbers and guesses";
  if (!is_compared(system.name)) return guesses + " that no measurement was held against";
  bool const has_host = !system.node.host_speed.fitted.empty();
  return guesses +
         (has_host ? ", none but the speed of its host fitted to runs; "
                   : ", none fitted to runs on it; ") +
         comparison_text(config, system);
}

std::vector<std::string> assumed_constants(System const& system) {
  std::vector<std::string> keys;
  for_each_source(system, [&](std::string const& key, std::string const& source) {
    if (source.starts_with(assumed_source)) keys.push_back(key);
  });
  return keys;
}

}  // namespace stagecraft
