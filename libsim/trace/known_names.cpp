#include "libsim/trace/known_names.hpp"

#include <string>

namespace stagecraft {

namespace {

/// The kind, up to `last`, with this name.
template <typename Kind>
std::optional<Kind> kind_named(std::string const& name, Kind last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<Kind>(i)) == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

}  // namespace

KnownNames::KnownNames(TraceNames const& names) {
  for (std::string const& name : names.phase) {
    phases_.push_back(kind_named(name, TracePhase::optimizer));
  }
  for (std::string const& name : names.stream) {
    streams_.push_back(kind_named(name, TraceStream::receive_gradient));
  }
  for (std::string const& name : names.op) {
    whole_chunks_.push_back(name == name_of(TracePhase::forward) ||
                            name == name_of(TracePhase::backward));
  }
}

}  // namespace stagecraft
