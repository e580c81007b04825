#include "libsim/engine/player/player.hpp"

namespace stagecraft {

Timeline play(TimelineInput const& input) {
  SilentObserver observer;
  return play(input, observer);
}

IterationEnd play_to_end(TimelineInput const& input) {
  NoObserver observer;
  if (input.p2p == P2p::blocking) {
    return Player<BlockingChannels, NoObserver>{input, observer}.finish_quickly();
  }
  return Player<OverlappedChannels, NoObserver>{input, observer}.finish_quickly();
}

}  // namespace stagecraft
