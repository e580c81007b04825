#include "libsim/report/what_if.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/engine/fullest_stage.hpp"
#include "libsim/engine/verdict.hpp"
#include "libsim/report/key_changes.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {
namespace {

std::int64_t fullest_peak(Simulation const& simulation) {
  return largest_peak(simulation.stages).count();
}

std::int64_t free_bytes(SimulatedRun const& run) {
  Bytes const room = room_for(run.config->training.memory, run.config->system.accelerator);
  return (room - largest_peak(run.simulation->stages)).count();
}

double tokens_per_gpu(SimulatedRun const& run) {
  return run.simulation->tokens_per_second / world_size(run.config->training.parallel);
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
                     changes_text(changes_between(*base.config, *run.config)) + "\n" + table.text();
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
  return {{"file", base.name},
          {"config", to_json(*base.config)},
          {"changes", to_json(changes_between(*base.config, *run.config))},
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
