#pragma once

#include <cstdint>
#include <vector>

#include "libsim/engine/rank_track.hpp"
#include "libsim/engine/schedule_loop.hpp"
#include "libsim/engine/timeline.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What a walk along the tracks needs beside them.
struct TrackWalkInput {
  Tracks const* tracks = nullptr;
  ScheduleLoop const* loop = nullptr;
  std::vector<MessagePrice> activation;  ///< of a message that a rank sends, by rank
  std::vector<MessagePrice> gradient;
  int slowdown_millionths = 0;
};

/// Where the ranks are at the end of their tracks.
struct TrackEnds {
  std::vector<RankStart> ranks;  ///< what follows starts here
  std::vector<SimTime> busy;     ///< compute streams, so far
  int laps_left_out = 0;         ///< of ScheduleLoop::laps, by the jump
};

/// Plays all ranks to the ends of their tracks, laps included, as play() plays the steps that the
/// tracks stand for; once the laps are found to repeat, it leaves out all that are left.
TrackEnds walk_tracks(TrackWalkInput const& input);

}  // namespace stagecraft
