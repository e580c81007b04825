#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsim/search/search_request.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/search/stage_moments.hpp"

namespace stagecraft {

/// Times of a stage, in picoseconds, that no schedule can shorten.
struct StageTimes {
  double first_forward = 0;  ///< shortest forward of its first chunk
  double last_backward = 0;  ///< shortest backward of its first chunk
  double busy = 0;           ///< all forwards and backwards of the iteration
  double hidable = 0;        ///< of it, at most what passes that run in pairs hide of each other
  double begin = 0;          ///< before the first microbatch
  double end = 0;            ///< after the last
};

/// The least time from the post of a message to its arrival, for each boundary between stages,
/// picoseconds.
class MessageTimes {
 public:
  MessageTimes(SearchRequest const& request, Arrangement const& arrangement);

  /// From stage r to stage r + 1 (from the last to the first).
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
/// For each stage: the first microbatch passes through all stages before it; then the stage runs
/// all its forwards and backwards, and takes part in its exchanges, each of which lasts at least as
/// long as one of its messages (a blocking message starts when both ends have posted it); after its
/// last backward, which is of its first chunk, that microbatch's gradient goes back through all
/// stages before it; then the optimizer step of the stage, or of the first stage, follows. Each of
/// these is a chain of tasks and messages that wait for one another, so that waiting, and slowing
/// down during a gradient reduction, can only lengthen it. If the schedule follows an order, its
/// last task may be a weight gradient, which nothing waits for but the step: then no more follows
/// than the step of the stage. With two copies of the model a stage need not wait for the first
/// microbatch either. So what is left is the time in which a stage computes, and what comes before
/// and after it. Passes that run in pairs may hide all their exchanges of tokens. The bound is
/// reduced by one part in 10^12 for the rounding of the sum.
double iteration_bound(std::span<StageTimes const> stages,
                       std::span<StageMoments const> moments,
                       MessageTimes const& messages,
                       ScheduleKind kind);

}  // namespace stagecraft
