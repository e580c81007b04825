#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "libsim/run/pipeline_shape.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

/// One end of a message between two stages.
struct MessageEnd {
  std::int32_t rank = 0;
  std::int64_t stream = 0;  ///< into TraceNames::stream
  std::int64_t start = 0;   ///< ps
  std::int64_t end = 0;     ///< ps
};

struct MessagePair {
  MessageEnd send;
  MessageEnd receive;
};

/// Finds the receive of each send of a trace, to which ranks are added one by one.
///
/// The shape says which virtual stage a chunk is. An activation goes from a virtual stage to
/// the next, a gradient back; ranks at equal places of their stages exchange messages. Ends whose
/// other end is not in the trace (only some ranks were recorded) remain unmatched.
class TransferPairs {
 public:
  TransferPairs(PipelineShape const& shape, KnownNames const& names)
      : shape_{shape}, names_{names} {}

  void add(RankTrace const& rank);

  /// The pairs whose ends were both added, by the time of the send (ties: in a fixed order).
  std::vector<MessagePair> pairs() const;
  /// The number of ends whose other end was not added.
  std::size_t unmatched() const;

 private:
  /// Whether it is a gradient; the virtual stage after the boundary it crosses; microbatch; place.
  using Key = std::tuple<bool, std::int64_t, std::int64_t, std::int32_t>;
  struct Ends {
    std::vector<MessageEnd> sends;
    std::vector<MessageEnd> receives;
  };

  PipelineShape shape_;
  KnownNames const& names_;
  std::map<Key, Ends> messages_;
};

}  // namespace stagecraft
