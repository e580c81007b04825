#include "libsim/page/trace_packer.hpp"

#include <string>

#include "libsim/page/column_packing.hpp"

namespace stagecraft {

namespace {

std::string packed(TraceColumn const& column) { return base64(pack_column(column)); }

/// One member of all rows of a table.
template <typename Row>
std::string packed(std::vector<Row> const& rows, std::size_t element) {
  TraceColumn column;
  column.reserve(rows.size());
  for (Row const& row : rows) column.push_back(row[element]);
  return packed(column);
}

/// Bytes and FLOPs in a file can have any value; their differences must not overflow.
std::int64_t difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

}  // namespace

void TracePacker::add(RankTrace const& rank) {
  add_ops(rank);
  add_memory(rank.memory);
}

std::size_t TracePacker::place_of(Kind const& kind) {
  auto const [found, is_new] = kind_places_.emplace(kind, kinds_.size());
  if (is_new) {
    kinds_.push_back(kind);
    last_.emplace_back();
  }
  return found->second;
}

void TracePacker::add_ops(RankTrace const& rank) {
  OpColumns const& ops = rank.ops;
  last_.assign(kinds_.size(), {});
  std::int64_t previous_end = 0;
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    bool const is_whole_chunk = names_.is_whole_chunk(ops.op[row]);
    std::int64_t const share =
        is_whole_chunk && may_recompute(names_.phase(ops.phase[row]))
            ? shares_.millionths(rank.stage, ops.microbatch[row], ops.chunk[row])
            : 0;
    std::size_t const place =
        place_of({ops.op[row], ops.phase[row], ops.stream[row], ops.layer[row], ops.chunk[row],
                  ops.bytes[row], ops.flops[row], share});
    std::int64_t const start = ops.start[row] / unit_;
    std::int64_t const end = (ops.start[row] + ops.duration[row]) / unit_;
    Last& last = last_[place];
    kind_.push_back(static_cast<std::int64_t>(place));
    gap_.push_back(start - previous_end);
    microbatch_.push_back(difference(ops.microbatch[row], last.microbatch));
    length_.push_back(end - start - last.length);
    last = {ops.microbatch[row], end - start};
    previous_end = end;
  }
}

void TracePacker::add_memory(MemoryColumns const& memory) {
  std::int64_t time = 0;
  Change state{};
  for (std::size_t row = 0; row < memory.rows(); ++row) {
    Change change{};
    for (std::size_t i = 0; i < change.size(); ++i) {
      change[i] = memory.bytes[i][row] - state[i];
      state[i] = memory.bytes[i][row];
    }
    auto const [found, is_new] = change_places_.emplace(change, changes_.size());
    if (is_new) changes_.push_back(change);
    change_.push_back(static_cast<std::int64_t>(found->second));
    time_.push_back(memory.time[row] / unit_ - time);
    time = memory.time[row] / unit_;
  }
}

nlohmann::ordered_json TracePacker::json() const {
  nlohmann::ordered_json kinds{{"count", kinds_.size()}};
  std::size_t element = 0;
  for (char const* const name :
       {"op", "phase", "stream", "layer", "chunk", "bytes", "flops", "recompute"}) {
    kinds[name] = packed(kinds_, element++);
  }
  nlohmann::ordered_json changes{{"count", changes_.size()}};
  for (std::size_t i = 0; i < categories.size(); ++i) {
    changes[std::string{categories[i].name}] = packed(changes_, i);
  }
  return {
      {"kinds", kinds},
      {"ops",
       {{"count", kind_.size()},
        {"kind", packed(kind_)},
        {"gap", packed(gap_)},
        {"microbatch", packed(microbatch_)},
        {"length", packed(length_)}}},
      {"changes", changes},
      {"memory", {{"count", time_.size()}, {"time", packed(time_)}, {"change", packed(change_)}}}};
}

}  // namespace stagecraft
