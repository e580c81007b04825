#include "libsim/interval/fit_probability.hpp"

#include <algorithm>
#include <cmath>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/interval/residuals_text.hpp"

namespace stagecraft {
namespace {

MemoryRegime read_memory_regime(ConfigNode const& node) {
  constexpr NumberRange logarithm{.lower = -10, .upper = 10, .includes_upper = true};
  constexpr NumberRange spread{.lower = 1e-4, .upper = 10, .includes_upper = true};
  MemoryRegime regime;
  std::int64_t runs = 0;
  SectionReader reader{node};
  reader.value("software", regime.software, Need::required);
  reader.value("pipelined", regime.is_pipelined, Need::required);
  reader.value("runs", runs, IntegerRange{1, 1'000'000}, Need::required);
  reader.value("bias", regime.bias, logarithm, Need::required);
  reader.value("spread", regime.spread, spread, Need::required);
  reader.finish();
  regime.runs = static_cast<int>(runs);
  return regime;
}

}  // namespace

std::vector<MemoryRegime> read_memory_regimes(std::string_view text, std::string const& origin) {
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, origin, diagnostics);
  diagnostics.throw_if_any();
  std::vector<MemoryRegime> regimes;
  ConfigNode const reserved = ConfigNode{*root, "", diagnostics}.child("reserved");
  if (reserved.exists()) {
    for (ConfigNode const& item : reserved.items()) regimes.push_back(read_memory_regime(item));
  }
  diagnostics.throw_if_any();
  return regimes;
}

std::vector<MemoryRegime> const& memory_regimes() {
  static std::vector<MemoryRegime> const regimes =
      read_memory_regimes(residuals_text, "residuals.yaml");
  return regimes;
}

MemoryRegime widest_memory_regime(std::vector<MemoryRegime> const& regimes) {
  MemoryRegime widest = *std::ranges::max_element(regimes, {}, &MemoryRegime::spread);
  widest.bias = 0;
  return widest;
}

bool is_own_regime(MemoryRegime const& regime, TrainingConfig const& config, System const& system) {
  return regime.software == described_stack(system.software) &&
         regime.is_pipelined == (config.parallel.pipeline > 1);
}

std::optional<MemoryRegime> memory_regime_of(TrainingConfig const& config,
                                             System const& system,
                                             std::vector<MemoryRegime> const& regimes) {
  auto const found = std::ranges::find_if(
      regimes, [&](MemoryRegime const& regime) { return is_own_regime(regime, config, system); });
  bool const is_fitted = is_fitted_to_one_run(system.software.memory.factor);
  if (found == regimes.end()) {
    bool const is_predicted = is_fitted && decides_by_allocator(system.software);
    return is_predicted ? std::optional{widest_memory_regime(regimes)} : std::nullopt;
  }
  MemoryRegime regime = *found;
  if (is_fitted) regime.bias = 0;
  return regime;
}

double fit_probability(std::int64_t reserved, std::int64_t room, MemoryRegime const& regime) {
  if (room <= 0) return 0;
  double const distance = std::log(static_cast<double>(room) / static_cast<double>(reserved));
  return std::erfc(-(distance - regime.bias) / regime.spread / std::sqrt(2.0)) / 2;
}

}  // namespace stagecraft
