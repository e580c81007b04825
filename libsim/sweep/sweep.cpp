#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

void choose_entries(std::vector<SweepAxis> const& axes,
                    std::int64_t point,
                    std::vector<std::size_t>& entries) {
  entries.resize(axes.size());
  auto rest = static_cast<std::size_t>(point);
  for (std::size_t i = axes.size(); i-- > 0;) {
    entries[i] = rest % axes[i].entries.size();
    rest /= axes[i].entries.size();
  }
}

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

std::string settings_text(std::vector<SweepAxis> const& axes,
                          std::vector<std::size_t> const& entries) {
  std::string text;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    text += (i == 0 ? "" : ", ") + axes[i].name + "=" + axes[i].entries[entries[i]].label;
  }
  return text;
}

}  // namespace stagecraft
