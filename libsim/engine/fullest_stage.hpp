#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "libsim/units/units.hpp"

namespace stagecraft {

/// The stage that holds most; the first of several that hold the same. `Stage` is StageResult or
/// StagePrediction. Pre: there are stages.
template <typename Stage>
std::size_t fullest_stage(std::vector<Stage> const& stages) {
  auto const fullest =
      std::max_element(stages.begin(), stages.end(),
                       [](Stage const& a, Stage const& b) { return a.peak() < b.peak(); });
  return static_cast<std::size_t>(fullest - stages.begin());
}

/// The peak of that stage.
template <typename Stage>
Bytes largest_peak(std::vector<Stage> const& stages) {
  return Bytes{stages[fullest_stage(stages)].peak()};
}

}  // namespace stagecraft
