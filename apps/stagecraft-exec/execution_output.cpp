#include "apps/stagecraft-exec/execution_output.hpp"

#include "libsim/report/simulation_json.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

nlohmann::ordered_json to_json(Execution const& execution,
                               TrainingPlan const& plan,
                               std::string const& clock) {
  using Json = nlohmann::ordered_json;
  Json json{{"schema", "stagecraft.execution/1"},
            {"plan", fingerprint(plan)},
            {"backend", "cpu"},
            {"clock", clock},
            {"steps", Json::array()},
            {"ranks", Json::array()}};
  for (StepReport const& step : execution.steps) {
    json["steps"].push_back({{"step", step.step},
                             {"loss", step.loss},
                             {"gradient_norm", step.gradient_norm},
                             {"seconds", step.seconds},
                             {"skipped", step.was_skipped}});
  }
  for (RankReport const& rank : execution.ranks) {
    json["ranks"].push_back({{"rank", rank.rank},
                             {"stage", rank.stage},
                             {"peak_bytes", rank.at_peak.sum()},
                             {"at_peak", to_json(rank.at_peak)},
                             {"activation_peak_bytes", rank.activation_peak}});
  }
  return json;
}

std::string execution_tables(Execution const& execution) {
  TextTable table{{{"rank"},
                   {"stage"},
                   {"param"},
                   {"grad"},
                   {"optim"},
                   {"activ"},
                   {"recomp"},
                   {"comm"},
                   {"work"},
                   {"peak MiB"}}};
  auto const mebibytes = [](std::int64_t bytes) {
    return decimals(static_cast<double>(bytes) / (1 << 20), 2);
  };
  for (RankReport const& rank : execution.ranks) {
    std::vector<std::string> cells{std::to_string(rank.rank), std::to_string(rank.stage)};
    for (int i = 0; i < category_count; ++i) {
      cells.push_back(mebibytes(rank.at_peak[static_cast<Category>(i)]));
    }
    cells.push_back(mebibytes(rank.at_peak.sum()));
    table.add_row(std::move(cells));
  }
  return "counted memory at each rank's peak, MiB\n" + table.text();
}

}  // namespace stagecraft
