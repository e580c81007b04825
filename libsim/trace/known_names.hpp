#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

/// The meaning of the names of a file, looked up once: a trace has a million rows but eight names.
class KnownNames {
 public:
  explicit KnownNames(TraceNames const& names);

  /// nullopt for a name that this version does not know. Pre: an index into TraceNames::phase.
  std::optional<TracePhase> phase(std::int64_t index) const { return at(phases_, index); }
  /// Pre: an index into TraceNames::stream.
  std::optional<TraceStream> stream(std::int64_t index) const { return at(streams_, index); }
  /// Whether a row with this op is the whole forward of a chunk, or its backward or a part of it.
  bool is_whole_chunk(std::int64_t op) const { return whole_chunks_[static_cast<std::size_t>(op)]; }

 private:
  template <typename Kind>
  static Kind at(std::vector<Kind> const& kinds, std::int64_t index) {
    return kinds[static_cast<std::size_t>(index)];
  }

  std::vector<std::optional<TracePhase>> phases_;
  std::vector<std::optional<TraceStream>> streams_;
  std::vector<bool> whole_chunks_;
};

constexpr bool is_backward(TracePhase phase) {
  return phase == TracePhase::recompute || phase == TracePhase::input_gradient ||
         phase == TracePhase::weight_gradient || phase == TracePhase::backward;
}

/// Whether the row of a whole chunk may contain recompute.
constexpr bool may_recompute(std::optional<TracePhase> phase) {
  return phase == TracePhase::backward || phase == TracePhase::input_gradient;
}

constexpr bool is_message(TraceStream stream) { return stream >= TraceStream::send_activation; }

}  // namespace stagecraft
