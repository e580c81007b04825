#include "apps/stagecraft-exec/layer_table.hpp"

#include "libexec/calibration/sample_statistics.hpp"
#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {
namespace {

using Json = nlohmann::ordered_json;

template <typename Part>
double median_of(LayerRow const& row, Part part) {
  std::vector<double> seconds;
  for (MeasuredLayer::Times const& times : row.samples) seconds.push_back(to_seconds(part(times)));
  return median(seconds);
}

LayerSeconds measured(LayerRow const& row) {
  return {.forward = median_of(row, [](auto const& times) { return times.forward; }),
          .backward = median_of(row, [](auto const& times) { return times.backward; })};
}

double spread_of(LayerRow const& row) {
  std::vector<double> sums;
  for (MeasuredLayer::Times const& times : row.samples) sums.push_back(to_seconds(times.sum()));
  return spread_percent(sums);
}

double overhead(LayerSeconds const& layer, LayerSeconds const& baseline) {
  return 100 * (layer.sum() / baseline.sum() - 1);
}

Json to_json(LayerRow const& row, LayerRow const& baseline) {
  LayerSeconds const executed = measured(row);
  LayerSeconds const predicted = seconds_of(row.predicted);
  auto const published = [&](auto number) {
    return part_or_null(row.published, [&](LayerSeconds const& layer) {
      return number(layer, *baseline.published);
    });
  };
  return {{"case", row.case_name},
          {"plan", row.plan},
          {"same_as", text_or_null(row.same_as)},
          {"forward_seconds", executed.forward},
          {"backward_seconds", executed.backward},
          {"forward_communication_seconds",
           median_of(row, [](auto const& times) { return times.forward_communication; })},
          {"backward_communication_seconds",
           median_of(row, [](auto const& times) { return times.backward_communication; })},
          {"overhead_percent", overhead_percent(row, baseline)},
          {"saved_bytes", row.saved.count()},
          {"spread_percent", spread_of(row)},
          {"predicted_forward_seconds", predicted.forward},
          {"predicted_backward_seconds", predicted.backward},
          {"predicted_overhead_percent", overhead(predicted, seconds_of(baseline.predicted))},
          {"predicted_saved_bytes", row.predicted.saved.count()},
          {"published_forward_seconds", published([](auto own, auto) { return own.forward; })},
          {"published_backward_seconds", published([](auto own, auto) { return own.backward; })},
          {"published_overhead_percent", published(overhead)}};
}

std::string twins_text(LayerTable const& table) {
  std::string twins;
  for (LayerRow const& row : table.rows) {
    if (row.same_as.empty()) continue;
    twins += (twins.empty() ? "" : ", ") + row.case_name + " is " + row.same_as;
  }
  return twins.empty() ? ""
                       : "note: sequence parallelism has no effect with tensor 1: " + twins +
                             ", measured once\n";
}

}  // namespace

double overhead_percent(LayerRow const& row, LayerRow const& baseline) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < row.samples.size(); ++i) {
    ratios.push_back(to_seconds(row.samples[i].sum()) / to_seconds(baseline.samples[i].sum()));
  }
  return 100 * (median(ratios) - 1);
}

Json to_json(LayerTable const& table) {
  Json rows = Json::array();
  for (LayerRow const& row : table.rows) rows.push_back(to_json(row, table.rows.front()));
  return {{"schema", layer_schema},
          {"device", table.device},
          {"system", table.system},
          {"repeats", table.rows.front().samples.size()},
          {"rows", rows}};
}

std::string to_text(LayerTable const& table) {
  LayerRow const& baseline = table.rows.front();
  bool const has_paper = baseline.published.has_value();
  ByteUnit const unit = unit_for(baseline.saved.count());
  std::vector<TextTable::Column> columns{{"case", Align::left}};
  for (char const* const quantity : {"forward ms", "backward ms", "overhead %"}) {
    columns.insert(columns.end(), {{quantity}, {"predicted"}});
    if (has_paper) columns.push_back({"A100"});
  }
  columns.insert(columns.end(), {{"kept " + std::string{unit.name}}, {"predicted"}, {"spread %"}});
  TextTable text{columns};
  for (LayerRow const& row : table.rows) {
    LayerSeconds const executed = measured(row);
    LayerSeconds const predicted = seconds_of(row.predicted);
    std::vector<std::string> cells{row.case_name};
    auto const add = [&](double own, double model, auto published, double factor, int digits) {
      cells.push_back(decimals(own * factor, digits));
      cells.push_back(decimals(model * factor, digits));
      if (!has_paper) return;
      cells.push_back(decimals(published(*row.published, *baseline.published) * factor, digits));
    };
    add(
        executed.forward, predicted.forward, [](auto own, auto) { return own.forward; }, 1e3, 2);
    add(
        executed.backward, predicted.backward, [](auto own, auto) { return own.backward; }, 1e3, 2);
    add(overhead_percent(row, baseline), overhead(predicted, seconds_of(baseline.predicted)),
        overhead, 1, 1);
    cells.push_back(in_unit(unit, row.saved.count()));
    cells.push_back(in_unit(unit, row.predicted.saved.count()));
    cells.push_back(decimals(spread_of(row), 1));
    text.add_row(std::move(cells));
  }
  return "one layer for one microbatch, measured on " + table.device + ", predicted for " +
         table.system + "; backward includes recompute\n" + text.text() + twins_text(table);
}

}  // namespace stagecraft
