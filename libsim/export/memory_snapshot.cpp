#include "libsim/export/memory_snapshot.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "libsim/export/json_text.hpp"
#include "libsim/export/memory_blocks.hpp"
#include "libsim/export/pickle_writer.hpp"
#include "libsim/run/pipeline_shape.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

namespace {

/// The addresses of a device begin at a multiple of this number.
constexpr std::int64_t device_addresses = std::int64_t{1} << 44;

/// Writes a pickle as torch.cuda.memory._snapshot() has it. Traces of ranks are written as they are
/// added; what PyTorch lists after them, segments, is kept until the end. Each rank is a device
/// whose addresses begin at a multiple of `device_addresses`, in the order of the calls.
class SnapshotWriter {
 public:
  SnapshotWriter(TraceReader const& trace, OutputFile& output)
      : names_{trace.names()}, pickle_{output} {
    auto const& streams = names_.stream;
    compute_ =
        std::find(streams.begin(), streams.end(), name_of(Stream::compute)) - streams.begin();
    pickle_.begin_dictionary();
    pickle_.text("device_traces");
    pickle_.begin_list();
  }

  void add_rank(RankTrace const& rank) {
    MemoryBlocks blocks = memory_blocks(rank, compute_);
    frames_.clear();
    base_ = (static_cast<std::int64_t>(segments_.size()) + 1) * device_addresses;
    pickle_.begin_list();
    if (blocks.arena > 0) add_entry("segment_alloc", 0, {.size = blocks.arena}, rank);
    for (BlockEvent const& event : blocks.events) {
      if (event.is_allocation) {
        add_entry("alloc", event.time, event, rank);
      } else {
        add_entry("free_requested", event.time, event, rank);
        add_entry("free_completed", event.time, event, rank);
      }
    }
    pickle_.end_list();
    pickle_.end_element();
    Segment& segment = segments_.emplace_back();
    segment.base = base_;
    segment.size = blocks.arena;
    for (LiveBlock const& block : blocks.live) {
      segment.blocks.push_back({block, frames_of(block.category, block.origin, rank)});
    }
  }

  void finish() {
    pickle_.end_list();
    pickle_.text("segments");
    pickle_.begin_list();
    for (std::size_t device = 0; device < segments_.size(); ++device) {
      if (segments_[device].size == 0) continue;
      add_segment(segments_[device], static_cast<std::int64_t>(device));
      pickle_.end_element();
    }
    pickle_.end_list();
    pickle_.end_dictionary();
    pickle_.finish();
  }

 private:
  /// The category, the op and its place in the model: two texts, made when a block needs them.
  struct Frame {
    std::string name;
    std::string where;
  };
  struct Segment {
    std::int64_t base = 0;
    std::int64_t size = 0;
    std::vector<std::pair<LiveBlock, Frame>> blocks;
  };

  void field(std::string_view name, std::int64_t value) {
    pickle_.text(name);
    pickle_.number(value);
  }
  void field(std::string_view name, std::string_view value) {
    pickle_.text(name);
    pickle_.text(value);
  }

  Frame frames_of(Category category, std::int64_t origin, RankTrace const& rank) const {
    std::string const name{name_of(category)};
    if (origin < 0) return {title_of(rank) + "/" + name, "before the iteration"};
    auto const row = static_cast<std::size_t>(origin);
    std::string const where = sound_utf8(names_.op[static_cast<std::size_t>(rank.ops.op[row])]);
    OpColumns const& ops = rank.ops;
    std::string path = title_of(rank);
    if (ops.microbatch[row] >= 0) path += "/microbatch " + std::to_string(ops.microbatch[row]);
    if (ops.chunk[row] >= 0) path += "/chunk " + std::to_string(ops.chunk[row]);
    if (ops.layer[row] >= 0) path += "/layer " + std::to_string(ops.layer[row]);
    return {path + "/" + name, where};
  }

  void add_frames(Frame const& frame) {
    pickle_.begin_list();
    pickle_.begin_dictionary();
    field("filename", frame.where);
    field("line", 0);
    field("name", frame.name);
    pickle_.end_dictionary();
    pickle_.end_list();
  }

  /// Writes the frames of an op once and recalls them later: else most of a snapshot would be frames.
  void add_frames(Category category, std::int64_t origin, RankTrace const& rank) {
    auto const key = std::make_tuple(category, origin);
    auto const found = frames_.find(key);
    if (found != frames_.end()) {
      pickle_.recall(found->second);
      return;
    }
    add_frames(frames_of(category, origin, rank));
    frames_.emplace(key, pickle_.remember());
  }

  void add_entry(std::string_view action,
                 std::int64_t time,
                 BlockEvent const& event,
                 RankTrace const& rank) {
    pickle_.begin_dictionary();
    field("action", action);
    field("addr", base_ + event.address);
    field("size", event.size);
    field("stream", 0);
    field("time_us", time / 1'000'000);
    pickle_.text("frames");
    add_frames(event.category, event.origin, rank);
    pickle_.end_dictionary();
    pickle_.end_element();
  }

  void add_segment(Segment const& segment, std::int64_t device) {
    std::int64_t live = 0;
    for (auto const& [block, frame] : segment.blocks) live += block.size;
    pickle_.begin_dictionary();
    field("device", device);
    field("address", segment.base);
    field("total_size", segment.size);
    field("allocated_size", live);
    field("active_size", live);
    field("requested_size", live);
    field("stream", 0);
    field("segment_type", "large");
    pickle_.text("segment_pool_id");
    pickle_.pair(0, 0);
    pickle_.text("is_expandable");
    pickle_.boolean(false);
    pickle_.text("frames");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.text("blocks");
    pickle_.begin_list();
    std::int64_t end = 0;
    // Blocks and the gaps between them fill the segment.
    for (auto const& [block, frame] : segment.blocks) {
      if (block.address > end) add_hole(segment.base + end, block.address - end);
      add_block(segment.base + block.address, block.size, "active_allocated", &frame);
      end = block.address + block.size;
    }
    if (segment.size > end) add_hole(segment.base + end, segment.size - end);
    pickle_.end_list();
    pickle_.end_dictionary();
  }

  void add_hole(std::int64_t address, std::int64_t size) {
    add_block(address, size, "inactive", nullptr);
  }

  void add_block(std::int64_t address,
                 std::int64_t size,
                 std::string_view state,
                 Frame const* frame) {
    pickle_.begin_dictionary();
    field("address", address);
    field("size", size);
    field("requested_size", frame != nullptr ? size : 0);
    field("state", state);
    pickle_.text("frames");
    if (frame != nullptr) {
      add_frames(*frame);
    } else {
      pickle_.begin_list();
      pickle_.end_list();
    }
    pickle_.end_dictionary();
    pickle_.end_element();
  }

  TraceNames const& names_;
  PickleWriter pickle_;
  std::int64_t compute_ = 0;
  std::int64_t base_ = 0;
  std::map<std::tuple<Category, std::int64_t>, std::uint32_t> frames_;
  std::vector<Segment> segments_;
};

}  // namespace

void write_memory_snapshot(TraceReader const& trace,
                           std::vector<std::int32_t> const& ranks,
                           OutputFile& output) {
  SnapshotWriter writer{trace, output};
  for (std::int32_t const rank : ranks) writer.add_rank(trace.read(rank));
  writer.finish();
}

}  // namespace stagecraft
