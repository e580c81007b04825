#include "libsim/report/interval_report.hpp"

#include "libsim/report/text_table.hpp"

namespace stagecraft {

TimeInterval interval_of(Simulation const& simulation,
                         TrainingConfig const& config,
                         System const& system) {
  return time_interval(to_seconds(simulation.iteration), simulation.relative_error, config, system);
}

void put_interval(nlohmann::ordered_json& json, TimeInterval const& interval) {
  json["iteration_interval_seconds"] = nullptr;
  if (interval.seconds) json["iteration_interval_seconds"] = *interval.seconds;
  json["iteration_interval_reason"] = interval.reason;
}

std::string interval_text(TimeInterval const& interval) {
  if (!interval.seconds) return "no 80 % interval: " + interval.reason;
  auto const [low, high] = *interval.seconds;
  int const digits = high < 1 ? 4 : high < 100 ? 2 : 1;
  return "80 % interval " + decimals(low, digits) + " to " + decimals(high, digits) + " s (from " +
         interval.reason + ")";
}

std::string unmeasured_text(std::vector<std::string> const& settings) {
  if (settings.empty()) return {};
  std::string text = "not validated for ";
  for (std::size_t i = 0; i < settings.size(); ++i) text += (i > 0 ? ", " : "") + settings[i];
  return text + "\n";
}

}  // namespace stagecraft
