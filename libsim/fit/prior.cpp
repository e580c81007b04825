#include "libsim/fit/prior.hpp"

#include <array>
#include <utility>

namespace stagecraft {

double default_spread(std::string_view key) {
  constexpr double host = 0.20;
  // The first part of a key's name that is found decides.
  constexpr std::array<std::pair<std::string_view, double>, 11> spreads{{
      {"software.factor", 0.10},
      {"_slowdown", 0.29},
      {"calibration.gemm_tile_prologue", host},
      {"calibration.gemm_", 0.032},
      {"calibration.flash_", 0.032},
      {"calibration.stream_", 0.04},
      {"calibration.dropout_", 0.04},
      {"accelerator.", 0.04},
      {"software.kernels.", 0.04},
      {"system.node.", 0.05},
      {"system.network.", 0.15},
  }};
  for (auto const& [part, spread] : spreads) {
    if (key.find(part) != std::string_view::npos) return spread;
  }
  return host;
}

}  // namespace stagecraft
