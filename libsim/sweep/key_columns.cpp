#include "libsim/sweep/key_columns.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "libsim/sweep/node_text.hpp"
#include "libsim/units/parse_number.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

/// A value as the sweep file writes it.
struct WrittenValue {
  std::string text;
  bool quoted = false;
};

/// A column whose value depends on the entry of one axis.
struct EntryColumn {
  std::string name;
  std::size_t axis = 0;
  std::vector<std::optional<WrittenValue>> values;  ///< by entry
};

std::optional<WrittenValue> value_in(YamlNode const& base, std::string_view key) {
  YamlNode const* node = &base;
  while (node != nullptr && !key.empty()) {
    std::size_t const dot = key.find('.');
    node = node->find(key.substr(0, dot));
    key = dot == std::string_view::npos ? std::string_view{} : key.substr(dot + 1);
  }
  if (node == nullptr || node->kind != YamlNode::Kind::scalar) return std::nullopt;
  return WrittenValue{line_text(*node), node->quoted};
}

std::vector<EntryColumn> columns_of(Sweep const& sweep, std::size_t axis_number) {
  SweepAxis const& axis = sweep.axes[axis_number];
  std::vector<EntryColumn> columns;
  auto const column_named = [&](std::string const& name) -> EntryColumn& {
    auto const found = std::find_if(columns.begin(), columns.end(),
                                    [&](EntryColumn const& column) { return column.name == name; });
    if (found != columns.end()) return *found;
    std::optional<WrittenValue> const base = value_in(sweep.runs.base(), name);
    return columns.emplace_back(EntryColumn{
        name, axis_number, std::vector<std::optional<WrittenValue>>(axis.entries.size(), base)});
  };
  for (std::size_t i = 0; i < axis.entries.size(); ++i) {
    SweepEntry const& entry = axis.entries[i];
    if (axis.is_group) column_named(axis.name).values[i] = WrittenValue{entry.label, true};
    for (std::size_t k = 0; k < entry.settings.size(); ++k) {
      YamlNode const& value = entry.settings[k].value;
      bool const is_text = value.quoted || value.kind != YamlNode::Kind::scalar;
      column_named(entry.settings[k].key).values[i] = WrittenValue{entry.written[k], is_text};
    }
  }
  return columns;
}

/// A number in digits, or a count such as `4k`.
template <typename Number>
std::optional<Number> parsed(WrittenValue const& value) {
  if (value.quoted) return std::nullopt;
  if (auto const count = parse_integer(value.text)) return static_cast<Number>(*count);
  return parse_number<Number>(value.text);
}

std::optional<std::int64_t> truth(WrittenValue const& value) {
  if (value.quoted) return std::nullopt;
  if (value.text == "true" || value.text == "yes") return 1;
  if (value.text == "false" || value.text == "no") return 0;
  return std::nullopt;
}

/// All values of a column, parsed by `parse`; nullopt if one cannot be parsed, or if one is unknown
/// and there is no `gap` to replace it.
template <typename Value, typename Parse>
std::optional<std::vector<Value>> all_parsed(EntryColumn const& column,
                                             Parse parse,
                                             std::optional<Value> const& gap) {
  std::vector<Value> values;
  for (auto const& written : column.values) {
    std::optional<Value> const value = written ? parse(*written) : gap;
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

ColumnValues typed(EntryColumn const& column) {
  std::optional<std::int64_t> const none;
  if (auto values = all_parsed(column, parsed<std::int64_t>, none)) return *values;
  if (auto values = all_parsed(column, truth, none)) return *values;
  std::optional<double> const unknown = std::numeric_limits<double>::quiet_NaN();
  if (auto values = all_parsed(column, parsed<double>, unknown)) return *values;
  std::vector<std::string> texts;
  for (auto const& written : column.values) texts.push_back(written ? written->text : "");
  return texts;
}

}  // namespace

std::vector<NamedColumn> key_columns(Sweep const& sweep, std::vector<std::int64_t> const& points) {
  std::vector<NamedColumn> columns;
  std::vector<std::size_t> entries;
  for (std::size_t axis = 0; axis < sweep.axes.size(); ++axis) {
    for (EntryColumn const& column : columns_of(sweep, axis)) {
      auto const by_point = [&](auto const& values) -> ColumnValues {
        std::remove_cvref_t<decltype(values)> rows;
        rows.reserve(points.size());
        for (std::int64_t const point : points) {
          choose_entries(sweep.axes, point, entries);
          rows.push_back(values[entries[axis]]);
        }
        return rows;
      };
      columns.push_back({column.name, "", std::visit(by_point, typed(column))});
    }
  }
  return columns;
}

}  // namespace stagecraft
