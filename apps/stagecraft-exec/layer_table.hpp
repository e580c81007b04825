#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libexec/calibration/layer_measurement.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/report/paper/paper_tables.hpp"

namespace stagecraft {

/// One case of table 4 as it was measured, predicted and, for the paper's own layer, published.
struct LayerRow {
  std::string case_name;
  std::string plan;                           ///< fingerprint of the run with this case's settings
  std::vector<MeasuredLayer::Times> samples;  ///< in the order of the repetitions
  Bytes saved;
  LayerResult predicted;
  std::optional<LayerSeconds> published{};
  std::string same_as{};  ///< the case that was measured instead of this one; empty: none
};

/// What was measured together: the cases took turns in each repetition.
struct LayerTable {
  std::string device;
  std::string system;          ///< gives predictions, and durations of collectives
  std::vector<LayerRow> rows;  ///< the first is the baseline
};

/// The overhead of a case over the baseline in percent: the median over the repetitions.
double overhead_percent(LayerRow const& row, LayerRow const& baseline);

/// Schema stagecraft.layer/1, without what only the caller knows. Times are medians in seconds.
nlohmann::ordered_json to_json(LayerTable const& table);
std::string to_text(LayerTable const& table);

}  // namespace stagecraft
