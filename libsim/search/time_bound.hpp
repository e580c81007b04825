#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsim/search/search_request.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/search/stage_moments.hpp"

namespace stagecraft {

/// Times of a stage that no schedule can shorten, in picoseconds.
struct StageTimes {
  double first_forward = 0;  ///< shortest forward of its first chunk
  double last_backward = 0;  ///< shortest backward of its first chunk
  double busy = 0;           ///< all forwards and backwards of the iteration
  double begin = 0;          ///< time before the first microbatch
  double end = 0;            ///< time after the last microbatch
};

/// The least time from the post of a message to its arrival, for each boundary between stages, in
/// picoseconds.
class MessageTimes {
 public:
  MessageTimes(SearchRequest const& request, Arrangement const& arrangement);

  /// The time from stage r to stage r + 1 (from the last stage to the first).
  double activation(StageId stage) const { return activation_[stage]; }
  double gradient(StageId stage) const { return gradient_[stage]; }
  bool are_blocking() const { return are_blocking_; }
  double overhead() const { return overhead_; }

 private:
  IdVector<StageId, double> activation_;
  IdVector<StageId, double> gradient_;
  bool are_blocking_;
  double overhead_;  ///< per iteration
};

/// A lower bound of the iteration with these stages, picoseconds.
///
/// The bound of a stage is a sum. First the first microbatch passes through all stages before it.
/// Then the stage runs all its forwards and backwards, and takes part in its exchanges; each
/// exchange lasts at least as long as one of its messages, because a blocking message starts when
/// both ends have posted it. Its last backward is of its first chunk; after it, that microbatch's
/// gradient goes back through all stages before it. Last comes the optimizer step of the stage, or
/// of the first stage.
/// Each of these parts is a chain of tasks and messages that wait for one another, so waiting, and
/// slowing down during a gradient reduction, can only lengthen it.
/// The bound is reduced by one part in 10^12 for the rounding of the sum.
double iteration_bound(std::span<StageTimes const> stages,
                       std::span<StageMoments const> moments,
                       MessageTimes const& messages);

}  // namespace stagecraft
