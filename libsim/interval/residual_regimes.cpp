#include "libsim/interval/residual_regimes.hpp"

#include "libsim/config/section_reader.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/interval/residuals_text.hpp"

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

}  // namespace stagecraft
