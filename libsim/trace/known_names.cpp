#include "libsim/trace/known_names.hpp"

#include <string>

namespace stagecraft {

KnownNames::KnownNames(TraceNames const& names) {
  for (std::string const& name : names.phase) {
    phases_.push_back(value_named<TracePhase>(name));
  }
  for (std::string const& name : names.stream) {
    streams_.push_back(value_named<TraceStream>(name));
  }
  for (std::string const& name : names.op) {
    auto const phase = value_named<TracePhase>(name);
    whole_chunks_.push_back(phase && (phase == TracePhase::forward || is_backward(*phase)));
  }
}

}  // namespace stagecraft
