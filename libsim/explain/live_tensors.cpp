#include "libsim/explain/live_tensors.hpp"

#include <stdexcept>
#include <string>

namespace stagecraft {
namespace {

void follow(BufferEvent const& event, std::map<std::int64_t, LiveBuffer>& live) {
  BufferChange const& change = *event.change;
  if (change.is_resident()) return;
  if (change.kind == BufferChange::Kind::release) {
    live.erase(event.buffer);
    return;
  }
  LiveBuffer& buffer = live[event.buffer];
  if (change.kind == BufferChange::Kind::allocate) {
    buffer.maker = change.op;
    buffer.microbatch = event.microbatch;
  }
  // A sent message keeps the layer of the tensor that it was made from.
  if (!change.is_message()) buffer.layer = change.layer_of_tensor();
  buffer.role = change;
}

}  // namespace

LiveTensors live_tensors_at(StageRank const& rank, std::int64_t held) {
  LiveTensors live;
  std::int64_t now = 0;
  BufferEvents events{rank};
  while (events.next()) {
    for (BufferEvent const& event : events.now()) {
      BufferChange const& change = *event.change;
      follow(event, live.buffers);
      if (change.kind == BufferChange::Kind::release) now -= change.bytes;
      if (change.kind != BufferChange::Kind::allocate) continue;
      now += change.bytes;
      if (now != held) continue;
      live.last = change;
      live.microbatch = event.microbatch;
      return live;
    }
  }
  throw std::logic_error{"stage " + std::to_string(rank.stage.stage.value()) + " never holds " +
                         std::to_string(held) + " bytes"};
}

}  // namespace stagecraft
