#include "libsim/interval/time_interval.hpp"

#include <cmath>

#include "libsim/hardware/fitted_stack.hpp"

namespace stagecraft {
namespace {

/// The 90 % quantile of the standard normal distribution: 80 % of it lie within plus or minus this.
constexpr double normal_quantile_of_90 = 1.2815515655446004;

bool is_of(ResidualRegime const& regime, System const& system) {
  return (regime.system.empty() || regime.system == system.name) &&
         (regime.software.empty() || regime.software == described_stack(system.software)) &&
         (regime.accelerator.empty() ||
          system.accelerator.name.find(regime.accelerator) != std::string::npos);
}

std::string text_of(ResidualRegime const& regime) {
  std::string const units = std::to_string(regime.units);
  if (!regime.system.empty()) {
    return units + " groups of measured runs of " + regime.software + " on " + regime.system +
           ", kept out of the fit";
  }
  return units + " sources of measured runs" +
         (regime.accelerator.empty() ? " on other machines" : " on " + regime.accelerator);
}

}  // namespace

ResidualRegime const* regime_of(TrainingConfig const& config,
                                System const& system,
                                std::vector<ResidualRegime> const& regimes) {
  if (has_experts(config.model)) return nullptr;
  Precision const precision = config.model.precision;
  if (precision != Precision::fp16 && precision != Precision::bf16) return nullptr;
  bool const is_known = system.accelerator.name.find("A100") != std::string::npos ||
                        system.accelerator.name.find("H100") != std::string::npos;
  if (!is_known) return nullptr;
  for (ResidualRegime const& regime : regimes) {
    if (is_of(regime, system)) return &regime;
  }
  return nullptr;
}

TimeInterval time_interval(double seconds,
                           double relative_error,
                           TrainingConfig const& config,
                           System const& system) {
  TimeInterval interval;
  interval.regime = regime_of(config, system, residual_regimes());
  if (interval.regime == nullptr) {
    interval.reason = has_experts(config.model)
                          ? "no measured runs of mixtures of experts"
                          : "no measured runs in 16 bits on an accelerator such as '" +
                                system.accelerator.name + "'";
    return interval;
  }
  if (is_fitted_to_one_run(system.software)) {
    // The measured run's own residual replaces the bias; what remains is how differently two plans
    // of one machine err.
    double const half = normal_quantile_of_90 * interval.regime->difference;
    interval.seconds = {{seconds * std::exp(-half), seconds * std::exp(half)}};
    interval.reason =
        "the measured iteration that software.factor was fitted to, and plans that "
        "err apart as in " +
        text_of(*interval.regime);
    return interval;
  }
  double const middle = interval.regime->bias;
  double const half = interval.regime->scale * relative_error;
  interval.seconds = {{seconds * std::exp(middle - half), seconds * std::exp(middle + half)}};
  interval.reason = text_of(*interval.regime);
  return interval;
}

double probability_faster(double shorter, double longer, ResidualRegime const* regime) {
  if (regime == nullptr || regime->difference <= 0) return 0.5;
  double const deviations = std::log(longer / shorter) / regime->difference;
  return std::erfc(-deviations / std::sqrt(2.0)) / 2;
}

}  // namespace stagecraft
