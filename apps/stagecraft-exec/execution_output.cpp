#include "apps/stagecraft-exec/execution_output.hpp"

#include <algorithm>
#include <vector>

#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

namespace {

nlohmann::ordered_json to_json(std::optional<DeviceMemoryUse> const& use) {
  if (!use) return nullptr;
  return {{"before_bytes", use->before.count()},
          {"pool_peak_bytes", use->pool_peak.count()},
          {"after_bytes", use->after.count()}};
}

nlohmann::ordered_json late_json(std::vector<LateRelease> const& releases) {
  auto list = nlohmann::ordered_json::array();
  for (LateRelease const& late : releases) {
    list.push_back({{"buffer", to_string(late.label)},
                    {"bytes", late.bytes},
                    {"after", late.op},
                    {"ops_too_late", late.ops}});
  }
  return list;
}

/// The memory that devices report, beside the counted bytes; empty if none reports it.
std::string device_table(Execution const& execution) {
  std::int64_t largest = 0;
  for (RankReport const& rank : execution.ranks) {
    if (rank.device) largest = std::max(largest, rank.device->after.count());
  }
  ByteUnit const unit = unit_for(largest);
  TextTable table{{{"rank"},
                   {"before"},
                   {"counted"},
                   {"pool"},
                   {"workspace"},
                   {"after " + std::string{unit.name}}}};
  for (RankReport const& rank : execution.ranks) {
    if (!rank.device) return {};
    std::int64_t const workspace = rank.at_peak[Category::workspace];
    table.add_row({std::to_string(rank.rank.value()), in_unit(unit, rank.device->before.count()),
                   in_unit(unit, rank.at_peak.sum() - workspace),
                   in_unit(unit, rank.device->pool_peak.count()), in_unit(unit, workspace),
                   in_unit(unit, rank.device->after.count())});
  }
  return "\nthe device's memory, " + std::string{unit.name} +
         ": in use before the rank (contexts, others); its tensors at their peak, counted and as\n"
         "the pool took it; its workspace; in use after the last\n"
         "iteration (with libraries, NCCL, others)\n" +
         table.text();
}

}  // namespace

nlohmann::ordered_json to_json(Execution const& execution,
                               TrainingPlan const& plan,
                               std::string const& backend,
                               std::string const& clock) {
  using Json = nlohmann::ordered_json;
  Json json{{"schema", execution_schema}, {"plan", fingerprint(plan)},
            {"backend", backend},         {"clock", clock},
            {"steps", Json::array()},     {"ranks", Json::array()}};
  for (StepReport const& step : execution.steps) {
    bool const is_solo = clock == name_of(TraceClock::solo);
    json["steps"].push_back({{"step", step.step},
                             {"loss", is_solo ? Json(nullptr) : Json(step.loss)},
                             {"gradient_norm", is_solo ? Json(nullptr) : Json(step.gradient_norm)},
                             {"seconds", step.seconds},
                             {"skipped", step.was_skipped}});
    if (step.next_token_loss && !is_solo) {
      json["steps"].back()["next_token_loss"] = *step.next_token_loss;
    }
  }
  for (RankReport const& rank : execution.ranks) {
    json["ranks"].push_back({{"rank", rank.rank.value()},
                             {"stage", rank.stage.value()},
                             {"peak_bytes", rank.at_peak.sum()},
                             {"at_peak", to_json(rank.at_peak)},
                             {"activation_peak_bytes", rank.activation_peak},
                             {"reserved_bytes", rank.reserved},
                             {"late_releases", late_json(rank.late)},
                             {"device_memory", to_json(rank.device)}});
  }
  return json;
}

std::string execution_tables(Execution const& execution) {
  std::int64_t largest = 0;
  CategoryBytes sum;
  for (RankReport const& rank : execution.ranks) {
    largest = std::max(largest, rank.at_peak.sum());
    sum += rank.at_peak;
  }
  ByteUnit const unit = unit_for(largest);
  std::vector<CategoryRow> const shown = category_columns(sum);
  std::vector<TextTable::Column> columns{{"rank"}, {"stage"}};
  for (CategoryRow const& row : shown) columns.push_back({std::string{row.heading}});
  columns.push_back({"peak " + std::string{unit.name}});
  bool const has_reserved = !execution.ranks.empty() && execution.ranks.front().reserved;
  if (has_reserved) columns.push_back({"reserved"});
  TextTable table{std::move(columns)};
  for (RankReport const& rank : execution.ranks) {
    std::vector<std::string> cells{std::to_string(rank.rank.value()),
                                   std::to_string(rank.stage.value())};
    for (CategoryRow const& row : shown) {
      cells.push_back(in_unit(unit, rank.at_peak[row.category]));
    }
    cells.push_back(in_unit(unit, rank.at_peak.sum()));
    if (has_reserved) cells.push_back(in_unit(unit, rank.reserved.value_or(0)));
    table.add_row(std::move(cells));
  }
  return "counted memory at each rank's peak, " + std::string{unit.name} + "\n" + table.text() +
         device_table(execution);
}

std::string lifetime_text(Execution const& execution) {
  std::string text;
  std::size_t count = 0;
  constexpr std::size_t most = 20;
  for (RankReport const& rank : execution.ranks) {
    for (LateRelease const& late : rank.late) {
      if (++count > most) continue;
      text += "  rank " + std::to_string(rank.rank.value()) + ": " + to_string(late.label) + " (" +
              size_text(late.bytes) + "), after " + late.op + ", " + std::to_string(late.ops) +
              (late.ops == 1 ? " op" : " ops") + " after the last that used it\n";
    }
  }
  if (count == 0) return "no buffer was released later than the last op that used it\n";
  if (count > most) text += "  and " + std::to_string(count - most) + " more\n";
  return "released later than the last op that used them:\n" + text;
}

}  // namespace stagecraft
