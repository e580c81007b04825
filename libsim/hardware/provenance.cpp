#include "libsim/hardware/provenance.hpp"

#include <utility>

#include "libsim/hardware/system_fields.hpp"
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
    row.unit = quantity.substr(quantity.find(' ') + 1);
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

/// Visits the keys of a system file.
class AssumptionFinder {
 public:
  explicit AssumptionFinder(std::string prefix, std::vector<std::string>& keys)
      : prefix_{std::move(prefix)}, keys_{keys} {}

  template <typename... Rest>
  void text(char const* /*key*/, Rest const&... /*rest*/) {}
  template <typename... Rest>
  void boolean(char const* /*key*/, Rest const&... /*rest*/) {}
  template <typename Value, typename... Rest>
  void constant(char const* key, Sourced<Value> const& constant, Rest const&... /*rest*/) {
    if (constant.source.starts_with(assumed_source)) keys_.push_back(prefix_ + key);
  }
  template <typename Value, typename... Rest>
  void optional_constant(char const* key, Sourced<Value> const& field, Rest const&... rest) {
    constant(key, field, rest...);
  }
  template <typename Body>
  void section(char const* key, Body const& body) {
    AssumptionFinder below{prefix_ + key + ".", keys_};
    body(below);
  }
  /// Measured kernels are not assumptions.
  template <typename Value, typename Body>
  void optional_section(char const* /*key*/, Value const& /*value*/, Body const& /*body*/) {}

 private:
  std::string prefix_;
  std::vector<std::string>& keys_;
};

}  // namespace

std::vector<ConstantRow> list_constants(System const& system) {
  std::vector<ConstantRow> rows;
  collect(rows, "", to_json(system));
  return rows;
}

std::optional<std::string> validation_warning(System const& system) {
  if (system.validated || system.measured) return std::nullopt;
  return "system '" + system.name +
         "' is not validated: its constants are public numbers and guesses that no measurement was "
         "held against";
}

std::vector<std::string> assumed_constants(System const& system) {
  std::vector<std::string> keys;
  AssumptionFinder finder{"", keys};
  visit_system(finder, system);
  return keys;
}

}  // namespace stagecraft
