#include "libsim/export/transfer_pairs.hpp"

#include <algorithm>

namespace stagecraft {

void TransferPairs::add(RankTrace const& rank) {
  OpColumns const& ops = rank.ops;
  std::int32_t const place = shape_.place_of(rank);
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    auto const stream = names_.stream(ops.stream[row]);
    if (!stream || kind_of(*stream) != StreamKind::messages || ops.microbatch[row] < 0 ||
        ops.chunk[row] < 0)
      continue;
    bool const is_gradient =
        *stream == Stream::send_gradient || *stream == Stream::receive_gradient;
    bool const is_send = *stream == Stream::send_activation || *stream == Stream::send_gradient;
    std::int64_t const here = shape_.virtual_stage(ops.chunk[row], rank.stage);
    bool const goes_up = is_gradient != is_send;
    Ends& ends = messages_[{is_gradient, goes_up ? here + 1 : here, ops.microbatch[row], place}];
    (is_send ? ends.sends : ends.receives)
        .push_back({.rank = rank.rank,
                    .stream = ops.stream[row],
                    .start = ops.start[row],
                    .end = ops.start[row] + ops.duration[row]});
  }
}

std::vector<MessagePair> TransferPairs::pairs() const {
  std::vector<MessagePair> pairs;
  for (auto const& [key, ends] : messages_) {
    for (std::size_t i = 0; i < std::min(ends.sends.size(), ends.receives.size()); ++i) {
      pairs.push_back({ends.sends[i], ends.receives[i]});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](MessagePair const& a, MessagePair const& b) {
    return a.send.start < b.send.start;
  });
  return pairs;
}

std::size_t TransferPairs::unmatched() const {
  std::size_t count = 0;
  for (auto const& [key, ends] : messages_) {
    std::size_t const pairs = std::min(ends.sends.size(), ends.receives.size());
    count += ends.sends.size() + ends.receives.size() - 2 * pairs;
  }
  return count;
}

}  // namespace stagecraft
