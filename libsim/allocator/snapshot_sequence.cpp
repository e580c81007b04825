#include "libsim/allocator/snapshot_sequence.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <unordered_map>

#include "libsim/allocator/allocation_sequence.hpp"
#include "libsim/allocator/allocator.hpp"
#include "libsim/allocator/pickle_reader.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/host/file_error.hpp"

namespace stagecraft {

namespace {

/// What an entry of a memory snapshot's trace says, as far as a replay needs it.
/// Source: PyTorch, torch/csrc/cuda/memory_snapshot.cpp.
struct SnapshotEntry {
  enum class Action : std::uint8_t {
    allocate,
    free_requested,
    free_completed,
    refused,    ///< a request that failed
    take,       ///< a segment of the device
    map,        ///< memory for a growing segment
    give_back,  ///< a segment, to the device
    unmap,
    other
  };
  Action action = Action::other;
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t stream = 0;
  std::int32_t name = -1;  ///< the number of its innermost frame

  bool takes_memory() const { return action == Action::take || action == Action::map; }
  bool gives_back_memory() const { return action == Action::give_back || action == Action::unmap; }

  static Action action_named(std::string_view name) {
    if (name == "alloc") return Action::allocate;
    if (name == "free_requested" || name == "free") return Action::free_requested;
    if (name == "free_completed") return Action::free_completed;
    if (name == "oom") return Action::refused;
    if (name == "segment_alloc") return Action::take;
    if (name == "segment_map") return Action::map;
    if (name == "segment_free") return Action::give_back;
    if (name == "segment_unmap") return Action::unmap;
    return Action::other;
  }
};

using Entry = SnapshotEntry;
using Action = SnapshotEntry::Action;

/// A multiple of what a device's addresses reach, so that no sum overflows.
constexpr std::int64_t largest_address = std::int64_t{1} << 61;
constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

/// Reads one snapshot into a sequence of requests; used once.
///
/// Owns the pickle, which views the bytes of its caller. The entries of the device are read first;
/// then blocks that are older than the recording are allocated, so that every entry that is
/// replayed finds its block.
class SnapshotReader {
 public:
  /// Both must outlive the object.
  SnapshotReader(std::string_view bytes, std::string const& origin)
      : origin_{origin}, pickle_{bytes, origin} {}

  SnapshotSequence read(std::optional<std::int32_t> device) {
    auto const traces = pickle_.find(pickle_.root(), "device_traces");
    if (!traces) refuse("no list device_traces");
    auto const devices = pickle_.items(*traces);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (pickle_.items(devices[i]).empty()) continue;
      result_.recorded.push_back(static_cast<std::int32_t>(i));
    }
    if (result_.recorded.empty()) {
      refuse("no events; record them with torch.cuda.memory._record_memory_history()");
    }
    result_.device = device.value_or(result_.recorded.front());
    if (std::find(result_.recorded.begin(), result_.recorded.end(), result_.device) ==
        result_.recorded.end()) {
      std::string accepted;
      for (std::int32_t const known : result_.recorded) {
        accepted += (accepted.empty() ? "" : ", ") + std::to_string(known);
      }
      throw InputError{origin_ + ": device " + std::to_string(result_.device) +
                       " has no events; accepted: " + accepted};
    }
    read_entries(devices[static_cast<std::size_t>(result_.device)]);
    allocate_what_is_older();
    replay_entries();
    result_.sequence = builder_.take();
    result_.sequence.places = places();
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(std::string const& found) const {
    throw InputError{origin_ + ": found " + found + "; accepted: a memory snapshot of PyTorch"};
  }
  [[noreturn]] void refuse_entry(std::size_t index, std::string const& found) const {
    refuse(found + " in device_traces[" + std::to_string(result_.device) + "][" +
           std::to_string(index) + "]");
  }

  std::optional<std::int64_t> integer(PickleValue dictionary, std::string_view key) const {
    auto const value = pickle_.find(dictionary, key);
    return value ? pickle_.integer(*value) : std::nullopt;
  }
  std::string_view text(PickleValue dictionary, std::string_view key) const {
    auto const value = pickle_.find(dictionary, key);
    return value ? pickle_.text(*value).value_or("") : "";
  }

  /// The number of the name of a dictionary's innermost frame; -1 if it has none.
  std::int32_t frame_name(PickleValue dictionary) {
    auto const frames = pickle_.find(dictionary, "frames");
    if (!frames || pickle_.items(*frames).empty()) return -1;
    auto const [known, is_new] = names_.try_emplace(*frames, -1);
    if (!is_new) return known->second;
    auto const [place, is_new_text] =
        texts_.try_emplace(std::string{text(pickle_.items(*frames).front(), "name")},
                           static_cast<std::int32_t>(result_.names.size()));
    if (is_new_text) result_.names.push_back(place->first);
    return known->second = place->second;
  }

  void read_entries(PickleValue trace) {
    auto const items = pickle_.items(trace);
    entries_.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      Entry entry;
      std::string_view const action = text(items[i], "action");
      if (action.empty()) refuse_entry(i, "no action");
      entry.action = Entry::action_named(action);
      auto const address = integer(items[i], "addr");
      entry.address = address.value_or(0);
      entry.size = integer(items[i], "size").value_or(-1);
      entry.stream = integer(items[i], "stream").value_or(0);
      entry.name = frame_name(items[i]);
      bool const needs_size = entry.action != Action::other;
      bool const needs_block = needs_size && entry.action != Action::refused;
      if (needs_block && (!address || *address < 0 || *address > largest_address)) {
        refuse_entry(i, address ? "addr " + std::to_string(*address) : "no addr");
      }
      std::int64_t const smallest = entry.action == Action::refused ? 1 : 0;
      if (needs_size && (entry.size < smallest || entry.size > largest_request)) {
        refuse_entry(i, "size " + std::to_string(entry.size));
      }
      if (entry.takes_memory()) take(entry.size, i);
      if (entry.gives_back_memory()) take(-entry.size, i);
      entries_.push_back(entry);
    }
  }
  void take(std::int64_t bytes, std::size_t i) {
    taken_ += bytes;
    if (taken_ > largest_request || taken_ < -largest_request) refuse_entry(i, "too many segments");
    most_taken_ = std::max(most_taken_, taken_);
  }

  SegmentPlaces places() const {
    SegmentPlaces result;
    std::vector<RecordedSegment>& recorded = result.recorded;
    std::int64_t given_back = 0;
    std::int64_t falls = 0;
    for (Entry const& entry : entries_) {
      if (entry.gives_back_memory()) ++given_back;
      if (entry.action != Action::take) continue;
      if (!recorded.empty()) falls += entry.address < recorded.back().address ? 1 : -1;
      recorded.push_back({entry.address, entry.size, given_back});
    }
    bool const rises = !recorded.empty() && falls <= 0;
    result.order = rises ? SegmentPlaces::Order::rising : SegmentPlaces::Order::falling;
    if (result_.live_before > 0) recorded.clear();  // the places of the first ones are not known
    return result;
  }

  /// What lives at the first event: what is freed without being allocated, and what the snapshot's
  /// segments hold at the end without an allocation among the events.
  void allocate_what_is_older() {
    struct Older {
      std::int64_t size = 0;
      std::int64_t stream = 0;
      std::int32_t name = -1;
    };
    std::map<std::int64_t, Older> older;
    std::unordered_map<std::int64_t, bool> seen;  // by address: whether an event names it
    for (Entry const& entry : entries_) {
      if (entry.action == Action::allocate) seen.emplace(entry.address, true);
      if (entry.action == Action::free_requested && seen.emplace(entry.address, true).second) {
        older[entry.address] = {entry.size, entry.stream, entry.name};
      }
    }
    std::int64_t reserved_at_end = 0;
    auto const segments = pickle_.find(pickle_.root(), "segments");
    for (PickleValue const segment :
         segments ? pickle_.items(*segments) : std::span<PickleValue const>{}) {
      if (integer(segment, "device").value_or(0) != result_.device) continue;
      std::int64_t address = integer(segment, "address").value_or(0);
      std::int64_t const total = integer(segment, "total_size").value_or(0);
      if (total < 0 || total > largest_request - reserved_at_end) {
        refuse("a segment of " + std::to_string(total) + " bytes");
      }
      reserved_at_end += total;
      std::int64_t const stream = integer(segment, "stream").value_or(0);
      auto const blocks = pickle_.find(segment, "blocks");
      for (PickleValue const block :
           blocks ? pickle_.items(*blocks) : std::span<PickleValue const>{}) {
        address = integer(block, "address").value_or(address);
        std::int64_t const size = integer(block, "size").value_or(-1);
        if (size < 0 || size > largest_request ||
            address > std::numeric_limits<std::int64_t>::max() - size) {
          refuse("a block of " + std::to_string(size) + " bytes");
        }
        std::int64_t const requested = integer(block, "requested_size").value_or(size);
        bool const is_live = text(block, "state") == "active_allocated";
        if (is_live && requested >= 0 && requested <= size && !seen.contains(address)) {
          older[address] = {requested, stream, frame_name(block)};
        }
        address += size;
      }
    }
    result_.peak_reserved = reserved_at_end - taken_ + most_taken_;
    for (auto const& [address, block] : older) {
      builder_.allocate(address, block.size, stream_of(block.stream));
      result_.name_of_allocation.push_back(block.name);
    }
    result_.live_before = static_cast<std::int64_t>(older.size());
  }

  std::int32_t stream_of(std::int64_t name) {
    std::int32_t const number = builder_.stream(name);
    if (number < 0) refuse("more than 1024 streams");
    return number;
  }

  /// For each requested free, the entry that completes it; `never` if there is none.
  std::vector<std::size_t> completions() const {
    std::vector<std::size_t> completed(entries_.size(), never);
    std::unordered_map<std::int64_t, std::size_t> requested;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].action == Action::free_requested) requested[entries_[i].address] = i;
      if (entries_[i].action != Action::free_completed) continue;
      auto const found = requested.find(entries_[i].address);
      if (found == requested.end()) continue;
      completed[found->second] = i;
      requested.erase(found);
    }
    return completed;
  }

  void replay_entries() {
    std::vector<std::size_t> const completed = completions();
    bool const completes_any =
        std::any_of(completed.begin(), completed.end(), [](std::size_t at) { return at != never; });
    bool gives_back = false;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry const& entry = entries_[i];
      if (entry.gives_back_memory()) {
        gives_back = true;
        continue;
      }
      // Segments go back before a request that found no memory, or because the cache is emptied.
      bool const found_none = entry.takes_memory() || entry.action == Action::refused;
      if (gives_back && !found_none) builder_.add({.kind = AllocationEvent::Kind::empty_cache});
      gives_back = false;
      if (entry.action == Action::allocate) {
        if (!busy_until_.empty()) pass_time(i);
        if (!builder_.allocate(entry.address, entry.size, stream_of(entry.stream))) {
          refuse_entry(i, "an allocation at an address that is in use");
        }
        result_.name_of_allocation.push_back(entry.name);
      } else if (entry.action == Action::refused) {
        if (!busy_until_.empty()) pass_time(i);
        builder_.add({.kind = AllocationEvent::Kind::refused,
                      .stream = stream_of(entry.stream),
                      .value = entry.size});
      } else if (entry.action == Action::free_requested) {
        // A block that no other stream used is completed by the very next entry.
        if (completes_any && completed[i] != i + 1) defer(entry, i, completed[i]);
        if (!builder_.free(entry.address)) refuse_entry(i, "a second free");
      }
    }
    if (gives_back) builder_.add({.kind = AllocationEvent::Kind::empty_cache});
  }

  /// The time of the sequence is the index of the entry.
  void pass_time(std::size_t now) {
    if (now == time_) return;
    builder_.add(
        {.kind = AllocationEvent::Kind::advance, .value = static_cast<std::int64_t>(now - time_)});
    time_ = now;
  }

  /// Keeps the block that is about to be freed until entry `until`, by an event on a stream of its
  /// own.
  void defer(Entry const& entry, std::size_t now, std::size_t until) {
    pass_time(now);
    std::size_t helper = 0;
    while (helper < busy_until_.size() && busy_until_[helper] > now) ++helper;
    if (helper == busy_until_.size()) busy_until_.push_back(0);
    busy_until_[helper] = until;
    std::int64_t const delay = until == never ? std::numeric_limits<std::int64_t>::max()
                                              : static_cast<std::int64_t>(until - now);
    builder_.add({.kind = AllocationEvent::Kind::event_delay, .value = delay});
    constexpr std::int64_t helpers = std::numeric_limits<std::int64_t>::min();
    builder_.record_stream(entry.address, stream_of(helpers + static_cast<std::int64_t>(helper)));
  }

  std::string const& origin_;
  PickleReader pickle_;
  SnapshotSequence result_;
  SequenceBuilder builder_;
  std::vector<Entry> entries_;
  std::int64_t taken_ = 0;       ///< bytes by segments since the first event
  std::int64_t most_taken_ = 0;  ///< at most
  std::unordered_map<PickleValue, std::int32_t> names_;  ///< the numbers by list of frames
  std::unordered_map<std::string, std::int32_t> texts_;
  std::vector<std::size_t> busy_until_;  ///< for each stream of its own, the entry that frees it
  std::size_t time_ = 0;
};

}  // namespace

SnapshotSequence read_snapshot(std::string_view bytes,
                               std::string const& origin,
                               std::optional<std::int32_t> device) {
  return SnapshotReader{bytes, origin}.read(device);
}

}  // namespace stagecraft
