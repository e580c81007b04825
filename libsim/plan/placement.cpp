#include "libsim/plan/placement.hpp"

#include <utility>

namespace stagecraft {

Placement::Placement(int stages, std::vector<ChunkPlace> places, int copies)
    : stages_{stages},
      chunks_{static_cast<int>(places.size()) / stages},
      per_copy_{static_cast<int>(places.size()) / copies},
      places_{std::move(places)},
      virtual_stages_(places_.size()) {
  for (int v = 0; v < virtual_stages(); ++v) {
    virtual_stages_[index_of(place(v))] = v;
  }
}

Placement round_placement(int stages, int chunks) {
  std::vector<ChunkPlace> places;
  places.reserve(static_cast<std::size_t>(stages) * static_cast<std::size_t>(chunks));
  for (int chunk = 0; chunk < chunks; ++chunk) {
    for (int stage = 0; stage < stages; ++stage) places.push_back({stage, chunk});
  }
  return Placement{stages, std::move(places)};
}

}  // namespace stagecraft
