#include "libsim/sweep/sweep_axis.hpp"

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

std::string settings_text(std::vector<SweepAxis> const& axes,
                          std::vector<std::size_t> const& entries) {
  std::string text;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    text += (i == 0 ? "" : ", ") + axes[i].name + "=" + axes[i].entries[entries[i]].label;
  }
  return text;
}

}  // namespace stagecraft
