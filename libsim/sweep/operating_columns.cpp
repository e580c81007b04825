#include "libsim/sweep/operating_columns.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/sweep/sweep_columns.hpp"

namespace stagecraft {
namespace {

struct OperatingColumn {
  std::string_view name;
  std::string_view unit;  ///< of money: the currency
  std::optional<double> (*value)(OperatingFigures const& figures);
};

constexpr std::array operating_columns{
    OperatingColumn{"gpu_hours_per_trillion_tokens", "h",
                    [](OperatingFigures const& figures) -> std::optional<double> {
                      return figures.gpu_hours_per_trillion_tokens;
                    }},
    OperatingColumn{"cost_per_iteration", "money",
                    [](OperatingFigures const& figures) { return figures.cost_per_iteration; }},
    OperatingColumn{"cost_per_day", "money",
                    [](OperatingFigures const& figures) { return figures.cost_per_day; }},
    OperatingColumn{
        "cost_per_trillion_tokens", "money",
        [](OperatingFigures const& figures) { return figures.cost_per_trillion_tokens; }},
    OperatingColumn{"joules_per_iteration", "J",
                    [](OperatingFigures const& figures) { return figures.joules_per_iteration; }},
    OperatingColumn{"joules_per_token", "J",
                    [](OperatingFigures const& figures) { return figures.joules_per_token; }},
    OperatingColumn{"goodput", "",
                    [](OperatingFigures const& figures) -> std::optional<double> {
                      if (!figures.goodput) return std::nullopt;
                      return figures.goodput->share;
                    }},
    OperatingColumn{"days", "day", [](OperatingFigures const& figures) { return figures.days; }},
    OperatingColumn{"cost", "money", [](OperatingFigures const& figures) { return figures.cost; }},
    OperatingColumn{"joules", "J", [](OperatingFigures const& figures) { return figures.joules; }},
};

template <class T>
std::vector<T> const& values_of(ColumnFile const& table, std::string_view name) {
  return std::get<std::vector<T>>(
      std::ranges::find(table.columns, name, &NamedColumn::name)->values);
}

}  // namespace

void add_operating_columns(ColumnFile& table,
                           std::function<OperatingRates(std::int64_t point)> const& rates_of,
                           std::string const& currency) {
  auto const& points = values_of<std::int64_t>(table, index_column);
  auto const& seconds = values_of<double>(table, "iteration_seconds");
  auto const& tokens = values_of<double>(table, "tokens_per_second");
  auto const& gpus = values_of<double>(table, "gpus");
  std::array<std::vector<double>, operating_columns.size()> columns;
  std::array<bool, operating_columns.size()> is_asked{};
  for (std::size_t row = 0; row < seconds.size(); ++row) {
    bool const is_simulated = !std::isnan(seconds[row]);
    OperatingFigures figures;
    if (is_simulated) {
      figures = operating_figures(seconds[row], tokens[row], static_cast<int>(gpus[row]),
                                  rates_of(points[row]));
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      std::optional<double> value;
      if (is_simulated) value = operating_columns[i].value(figures);
      columns[i].push_back(value.value_or(no_real()));
      is_asked[i] = is_asked[i] || value.has_value();
    }
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (!is_asked[i]) continue;
    OperatingColumn const& column = operating_columns[i];
    std::erase_if(table.columns,
                  [&](NamedColumn const& other) { return other.name == column.name; });
    std::string const unit{column.unit == "money" ? std::string_view{currency} : column.unit};
    table.columns.insert(table.columns.end() - 1,
                         {std::string{column.name}, unit, std::move(columns[i])});
  }
}

}  // namespace stagecraft
