#include "libsim/report/run_verdict.hpp"

#include <algorithm>
#include <array>

#include "libsim/engine/verdict.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

std::string memory_excess(Simulation const& simulation, RunConfig const& run) {
  std::string stages;
  StageResult const* fullest = nullptr;
  int count = 0;
  for (StageResult const& stage : simulation.stages) {
    if (stage.fits) continue;
    stages += (stages.empty() ? "" : ", ") + std::to_string(stage.stage);
    if (fullest == nullptr || stage.peak() > fullest->peak()) fullest = &stage;
    ++count;
  }
  if (fullest == nullptr) return {};
  Bytes const reserve = run.training.memory.kept_in_reserve();
  Bytes const capacity = run.system.accelerator.memory.value;
  Bytes const excess =
      Bytes{fullest->peak()} - room_for(run.training.memory, run.system.accelerator);
  bool const is_by_allocator = decides_by_allocator(run.system.software);
  if ((excess.count() <= 0 || is_by_allocator) && fullest->reservation) {
    Bytes const reserved{fullest->reservation->reserved};
    return (count == 1 ? "stage " + stages + " does not fit: its allocator reserves "
                       : "stages " + stages + " do not fit: the allocator of stage " +
                             std::to_string(fullest->stage) + " reserves ") +
           readable_text(reserved) + ", of " + readable_text(capacity) + " less " +
           readable_text(Bytes{fullest->device - reserved.count()}) +
           " that is on the device beside it";
  }
  return (count == 1 ? "stage " + stages + " does not fit" : "stages " + stages + " do not fit") +
         (count == 1 ? ": it holds " : ": stage " + std::to_string(fullest->stage) + " holds ") +
         readable_text(Bytes{fullest->peak()}) + ", " + readable_text(excess) + " more than the " +
         readable_text(capacity) + " less " + readable_text(reserve) + " of reserve";
}

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

FitProbability fit_probability_of(Simulation const& simulation,
                                  TrainingConfig const& config,
                                  System const& system) {
  FitProbability result;
  result.stages.resize(simulation.stages.size());
  std::optional<MemoryRegime> const regime = memory_regime_of(config, system);
  if (!regime) {
    result.reason = "too few measured runs of " + system.software.name +
                    " with reserved bytes and " +
                    (config.parallel.pipeline > 1 ? "several stages" : "one stage");
    return result;
  }
  result = fit_probability_of(simulation, *regime);
  if (!is_own_regime(*regime, config, system)) {
    result.reason += "; too few runs of " + system.software.name + " were measured";
  }
  return result;
}

FitProbability fit_probability_of(Simulation const& simulation, MemoryRegime const& regime) {
  FitProbability result;
  result.stages.resize(simulation.stages.size());
  bool const is_asked = std::ranges::all_of(
      simulation.stages, [](StageResult const& stage) { return stage.reservation.has_value(); });
  if (!is_asked) {
    result.reason = "no allocator was asked";
    return result;
  }
  result.run = 1;
  for (std::size_t i = 0; i < result.stages.size(); ++i) {
    StageResult const& stage = simulation.stages[i];
    std::int64_t const reserved = stage.reservation->reserved;
    double const lives = fit_probability(reserved, reserved + stage.margin, regime);
    result.stages[i] = lives;
    *result.run *= lives;
  }
  result.reason = std::to_string(regime.runs) + " measured runs of " + regime.software + " with " +
                  (regime.is_pipelined ? "several stages" : "one stage") +
                  "; normal distribution of ln(measured / predicted reserved bytes)";
  return result;
}

std::string_view text_of(Verdict verdict) {
  constexpr std::array<std::string_view, 3> texts{"fits", "fits with retries", "does not fit"};
  return texts[static_cast<std::size_t>(verdict)];
}

Verdict verdict_of(Simulation const& simulation) {
  auto worst = Verdict::fits;
  for (StageResult const& stage : simulation.stages) worst = std::max(worst, stage.verdict);
  return worst;
}

}  // namespace stagecraft
