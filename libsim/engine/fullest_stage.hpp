#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace stagecraft {

/// The stage that holds most; the lowest of those that hold equally much. `Stage` is StageResult or
/// StagePrediction. Pre: there are stages.
template <typename Stage>
std::size_t fullest_stage(std::vector<Stage> const& stages) {
  auto const fullest =
      std::max_element(stages.begin(), stages.end(),
                       [](Stage const& a, Stage const& b) { return a.peak() < b.peak(); });
  return static_cast<std::size_t>(fullest - stages.begin());
}

}  // namespace stagecraft
