#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

bool takes_part(Sweep const& sweep, std::vector<std::size_t> const& entries) {
  try {
    return sweep.filter.passes(entries);
  } catch (DivisionByZero const& error) {
    throw ConfigError{{{error.place(), "where",
                        "a division by zero in '" + printable(error.what()) + "' where " +
                            settings_text(sweep.axes, entries),
                        "a condition that excludes such points before it divides, as in 'x != 0 "
                        "and 8 / x > 1'"}}};
  }
}

RunConfig run_of(Sweep const& sweep, std::vector<std::size_t> const& entries) {
  std::vector<Setting const*> settings;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    for (Setting const& setting : sweep.axes[i].entries[entries[i]].settings) {
      settings.push_back(&setting);
    }
  }
  return sweep.runs.with(settings);
}

}  // namespace stagecraft
