#include "libsim/report/fit_verdict.hpp"

#include <algorithm>
#include <array>

#include "libsim/interval/fit_probability.hpp"

namespace stagecraft {

FitProbability fit_probability_of(Simulation const& simulation,
                                  TrainingConfig const& config,
                                  System const& system) {
  FitProbability result;
  result.stages.resize(simulation.stages.size());
  MemoryRegime const* const regime = memory_regime_of(config, system);
  if (regime == nullptr) {
    result.reason = "too few measured runs of " + system.software.name +
                    " with reserved bytes and " +
                    (config.parallel.pipeline > 1 ? "several stages" : "one stage");
    return result;
  }
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
    double const lives = fit_probability(reserved, reserved + stage.margin, *regime);
    result.stages[i] = lives;
    *result.run *= lives;
  }
  result.reason = std::to_string(regime->runs) + " measured runs of " + regime->software +
                  " with " + (regime->is_pipelined ? "several stages" : "one stage") +
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
