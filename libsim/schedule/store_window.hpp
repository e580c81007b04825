#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/schedule/pipeline_schedule.hpp"
#include "libsim/schedule/stage_order.hpp"

namespace stagecraft {

/// The length of the window of the paper's appendix C: the largest number of forwards in flight on
/// a stage, up to their gradients. Without an order it is the number of warm-up forwards plus one.
/// Pre: `shape` is legal, its group or order filled in.
inline int store_window(ScheduleShape const& shape, StageId stage) {
  if (shape.order) {
    return most_in_flight(*shape.order, stage.index(), InFlight::until_input_gradient);
  }
  return std::min(warmup_forwards(shape, stage) + 1, shape.microbatches * shape.chunks);
}

/// Gives the position in its window of each microbatch that a stage runs. Forwards are counted in
/// issue order, and the first `store_microbatches` of each window keep all their activations.
class WindowPlaces {
 public:
  /// Pre: `shape` is legal, its group filled in.
  WindowPlaces(ScheduleShape const& shape, StageId stage)
      : window_{store_window(shape, stage)},
        microbatches_{static_cast<std::size_t>(shape.microbatches)},
        places_(static_cast<std::size_t>(shape.chunks) * microbatches_) {}

  /// The place of the run's forward in its window, from 0. Pre: runs are asked for in issue order.
  int of(ChunkRun const& run) {
    auto const number = run.chunk.index() * microbatches_ + run.microbatch.index();
    if (run.pass == Pass::forward) places_[number] = forwards_++ % window_;
    return places_[number];
  }

 private:
  int window_;
  std::size_t microbatches_;
  int forwards_ = 0;                  ///< forwards counted so far
  std::vector<std::int32_t> places_;  ///< by chunk and microbatch
};

}  // namespace stagecraft
