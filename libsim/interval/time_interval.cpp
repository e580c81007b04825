#include "libsim/interval/time_interval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/config/section_reader.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/interval/residuals_text.hpp"
#include "libsim/model/model_names.hpp"

namespace stagecraft {

namespace {

ResidualRegime read_regime(ConfigNode const& node) {
  constexpr NumberRange factor{.lower = 0, .upper = 1000, .includes_upper = true};
  constexpr NumberRange fraction{.lower = 0, .upper = 1, .includes_upper = true};
  constexpr NumberRange logarithm{.lower = -10, .upper = 10, .includes_upper = true};
  ResidualRegime regime;
  SectionReader reader{node};
  reader.value("system", regime.system);
  reader.value("software", regime.software);
  reader.value("accelerator", regime.accelerator);
  reader.value("units", regime.units, IntegerRange{fewest_units, 1'000'000}, Need::required);
  reader.value("bias", regime.bias, logarithm, Need::required);
  reader.value("scale", regime.scale, factor, Need::required);
  reader.value("difference", regime.difference, factor, Need::required);
  reader.value("coverage", regime.coverage, fraction, Need::required);
  reader.finish();
  return regime;
}

bool is_of(ResidualRegime const& regime, System const& system) {
  return (regime.system.empty() || regime.system == system.name) &&
         (regime.software.empty() || regime.software == described_stack(system.software)) &&
         (regime.accelerator.empty() || is_on(system.accelerator.name, regime.accelerator));
}

std::string text_of(ResidualRegime const& regime) {
  std::string const units = std::to_string(regime.units);
  if (!regime.system.empty()) {
    return units + " groups of measured runs of " + regime.software + " on " + regime.system +
           ", kept out of the fit";
  }
  return units + " sources of measured runs on " +
         (regime.accelerator.empty() ? "A100 and H100" : regime.accelerator);
}

/// Which way predictions of a regime's runs erred: "took 6.2 % longer than predicted in the mean".
/// Empty if they did not.
std::string bias_text(ResidualRegime const& regime) {
  double const percent = 100 * (std::exp(regime.bias) - 1);
  constexpr double least_shown = 0.05;  // rounds to 0.1
  if (std::abs(percent) < least_shown) return {};
  return fmt::format("took {:.1f} % {} than predicted in the mean", std::abs(percent),
                     percent > 0 ? "longer" : "less");
}

/// The family of a system's accelerator; nullopt if it is none of those whose runs have residuals.
std::optional<std::string_view> measured_family(System const& system) {
  for (std::string_view const family : {"A100", "H100"}) {
    if (is_on(system.accelerator.name, family)) return family;
  }
  return std::nullopt;
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::ranges::any_of(starts, [&](auto start) { return text.starts_with(start); });
}

/// The constants that override those of the machine and stack of a regime's runs.
/// Runs elsewhere tell of networks, nodes and stacks of any description, but not of another
/// accelerator. Constants of memory do not count: no time depends on them.
std::vector<std::string> changed_constants(ResidualRegime const& regime, System const& system) {
  std::vector<std::string> changed;
  for (std::string const& constant : given_constants(system)) {
    if (starts_with_any(constant, {"accelerator.memory", "device.", "calibration.workspace"}))
      continue;
    bool const is_of_accelerator =
        starts_with_any(constant, {"accelerator.", "calibration.", "measured."});
    if (is_of_accelerator || !regime.system.empty()) changed.push_back("system." + constant);
  }
  if (regime.software.empty()) return changed;
  for (std::string const& constant : given_constants(system.software)) {
    if (starts_with_any(constant, {"memory.", "communicators.", "factor"})) continue;
    changed.push_back("software." + constant);
  }
  return changed;
}

/// What settings of a run lie outside of the runs of a regime.
std::vector<std::string> settings_outside_of(ResidualRegime const& regime,
                                             TrainingConfig const& config,
                                             System const& system) {
  if (!regime.system.empty()) {
    return outside_of_measured(config, regime.system, [&](ComparedRuns const& runs) {
      return runs.system == regime.system;
    });
  }
  // Runs on other machines show how far off a stranger's run may be, not what its accelerator does
  // where no run on it was measured.
  std::string const family{*measured_family(system)};
  return outside_of_measured(
      config, family, [&](ComparedRuns const& runs) { return is_on(runs.accelerator, family); });
}

bool is_in_16_bits(TrainingConfig const& config) {
  Precision const precision = config.model.precision;
  return precision == Precision::fp16 || precision == Precision::bf16;
}

std::array<double, 2> interval_by(ResidualRegime const& regime,
                                  double seconds,
                                  double relative_error) {
  double const half = regime.scale * relative_error;
  return {seconds * std::exp(regime.bias - half), seconds * std::exp(regime.bias + half)};
}

/// Whether some regime has runs like these, wherever they lie.
bool has_regime(TrainingConfig const& config, System const& system) {
  return is_in_16_bits(config) && config.low_precision.recipe == Recipe::none &&
         !has_experts(config.model) && measured_family(system).has_value();
}

}  // namespace

std::vector<ResidualRegime> read_regimes(std::string_view text, std::string const& origin) {
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, origin, diagnostics);
  diagnostics.throw_if_any();
  SectionReader reader{ConfigNode{*root, "", diagnostics}};
  std::vector<ResidualRegime> regimes;
  for (ConfigNode const& item : reader.take("regimes").items()) {
    regimes.push_back(read_regime(item));
  }
  reader.take("reserved");  // of memory: see read_memory_regimes()
  reader.finish();
  diagnostics.throw_if_any();
  return regimes;
}

std::vector<ResidualRegime> const& residual_regimes() {
  static std::vector<ResidualRegime> const regimes = read_regimes(residuals_text, "residuals.yaml");
  return regimes;
}

RegimeChoice regime_of(TrainingConfig const& config,
                       System const& system,
                       std::vector<ResidualRegime> const& regimes) {
  RegimeChoice choice;
  if (!has_regime(config, system)) return choice;
  std::vector<std::string> outside_of_widest;
  for (ResidualRegime const& regime : regimes) {
    if (!is_of(regime, system)) continue;
    choice.regime = &regime;
    if (choice.closest == nullptr) choice.closest = &regime;
    std::vector<std::string> settings = changed_constants(regime, system);
    std::ranges::copy(settings_outside_of(regime, config, system), std::back_inserter(settings));
    choice.holds_run = settings.empty();
    if (choice.holds_run) break;
    if (choice.outside.empty()) choice.outside = settings;
    outside_of_widest = std::move(settings);
  }
  if (!choice.holds_run) choice.outside = std::move(outside_of_widest);
  return choice;
}

TimeInterval time_interval(double seconds,
                           double relative_error,
                           TrainingConfig const& config,
                           System const& system) {
  TimeInterval interval;
  RegimeChoice const choice = regime_of(config, system, residual_regimes());
  interval.regime = choice.regime;
  if (interval.regime == nullptr) {
    interval.reason = "fewer than " + std::to_string(fewest_units) + " sources of measured runs ";
    if (has_experts(config.model)) {
      interval.reason += "of mixtures of experts; " + expert_errors_text(system);
    } else if (config.low_precision.recipe != Recipe::none) {
      interval.reason += "in 8 or 4 bits";
    } else if (!is_in_16_bits(config)) {
      interval.reason += "in " + std::string{name_of(config.model.precision)};
    } else {
      interval.reason += "on an accelerator such as '" + system.accelerator.name + "'";
    }
    return interval;
  }
  std::string const outside =
      choice.outside.empty() ? "" : "outside of what was measured: " + joined(choice.outside);
  if (is_fitted_to_one_run(system.software.factor)) {
    // The measured run's own residual replaces the bias; what remains is how differently two plans
    // of one machine err.
    double const half = normal_quantile_of_90 * interval.regime->difference;
    interval.seconds = {{seconds * std::exp(-half), seconds * std::exp(half)}};
    interval.reason =
        "the measured iteration that software.factor was fitted to, and plans that "
        "err apart as in " +
        text_of(*interval.regime);
  } else if (choice.holds_run) {
    interval.seconds = interval_by(*interval.regime, seconds, relative_error);
    interval.reason = text_of(*interval.regime);
    std::string const bias = bias_text(*interval.regime);
    if (!bias.empty()) interval.reason += ", which " + bias;
  } else {
    interval.reason = outside;
    std::string const bias = bias_text(*choice.closest);
    if (!bias.empty()) interval.reason += "; " + text_of(*choice.closest) + " " + bias;
    return interval;
  }
  if (!outside.empty()) interval.reason += "; " + outside;
  return interval;
}

std::array<double, 2> widest_interval(double seconds, double relative_error) {
  return interval_by(residual_regimes().back(), seconds, relative_error);
}

double probability_faster(double shorter, double longer, ResidualRegime const* regime) {
  if (regime == nullptr || regime->difference <= 0) return 0.5;
  double const deviations = std::log(longer / shorter) / regime->difference;
  return std::erfc(-deviations / std::sqrt(2.0)) / 2;
}

}  // namespace stagecraft
