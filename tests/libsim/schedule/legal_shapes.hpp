#pragma once

#include <vector>

#include "libsim/schedule/pipeline_schedule.hpp"

namespace stagecraft {

/// Every legal interleaved shape with 2 to 6 stages, 1 to 4 chunks and up to three groups' worth of
/// microbatches.
inline std::vector<ScheduleShape> interleaved_shapes(P2p p2p) {
  std::vector<ScheduleShape> shapes;
  for (int p = 2; p <= 6; ++p) {
    for (int m = 1; m <= 4; ++m) {
      for (int n = p; n <= 3 * p + 1; ++n) {
        for (int group = p; group <= n; ++group) {
          if (n % group != 0 && n % group < p) continue;
          shapes.push_back({ScheduleKind::interleaved, p, n, m, group, p2p});
        }
      }
    }
  }
  return shapes;
}

/// GPipe or 1F1B with 1 to 8 stages and 1 to 20 microbatches.
inline std::vector<ScheduleShape> plain_shapes(ScheduleKind kind, P2p p2p) {
  std::vector<ScheduleShape> shapes;
  for (int p = 1; p <= 8; ++p) {
    for (int n = 1; n <= 20; ++n) shapes.push_back({kind, p, n, 1, 0, p2p});
  }
  return shapes;
}

/// All of the above.
inline std::vector<ScheduleShape> all_shapes(P2p p2p) {
  std::vector<ScheduleShape> shapes = interleaved_shapes(p2p);
  for (ScheduleKind const kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    std::vector<ScheduleShape> const plain = plain_shapes(kind, p2p);
    shapes.insert(shapes.end(), plain.begin(), plain.end());
  }
  return shapes;
}

}  // namespace stagecraft
