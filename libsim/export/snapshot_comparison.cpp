#include "libsim/export/snapshot_comparison.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "libsim/config/optional_json.hpp"
#include "libsim/export/memory_blocks.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

namespace {

using Json = nlohmann::ordered_json;

Json pair_json(SnapshotPair const& pair) { return {{"snapshot", pair[0]}, {"trace", pair[1]}}; }

std::string percent(SnapshotPair const& pair) {
  if (pair[0] == 0) return "";
  return signed_decimals(100 * (static_cast<double>(pair[1]) / static_cast<double>(pair[0]) - 1),
                         1);
}

std::string difference_text(SnapshotComparison const& comparison) {
  std::string text = "Of the trace's " + std::to_string(comparison.allocations[1]) +
                     " allocations the snapshot (" + std::to_string(comparison.allocations[0]) +
                     ") follows " + std::to_string(comparison.followed) + ", from its number " +
                     std::to_string(comparison.offset) + " on";
  if (!comparison.first_difference) return text + ": all of them.\n";
  AllocationDifference const& first = *comparison.first_difference;
  auto const size = [](std::int64_t bytes) {
    return bytes < 0 ? std::string{"nothing more"} : std::to_string(bytes) + " bytes";
  };
  return text + ".\nThey differ first at the trace's number " + std::to_string(first.allocation) +
         ": " + size(first.bytes[0]) + " recorded, " + size(first.bytes[1]) + " in the trace, at " +
         first.where + ".\n";
}

constexpr std::size_t of_snapshot = 0;
constexpr std::size_t of_trace = 1;
/// Allocations that are looked at for each place at which the snapshot may follow the trace.
constexpr std::int64_t most_steps = 50'000'000;

/// One allocation of a side, and when it goes.
struct Allocation {
  std::int64_t bytes = 0;
  std::int32_t part = 0;     ///< index into the names of parts
  bool is_older = false;     ///< than the first event
  std::int64_t origin = -1;  ///< row of the trace
};

/// Allocations in order, and the events: the index of what is allocated, or -1 - index if it goes.
struct Side {
  std::vector<Allocation> allocations;
  std::vector<std::int64_t> events;

  /// The allocations that the events make.
  std::vector<std::size_t> made() const {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < allocations.size(); ++i) {
      if (!allocations[i].is_older) result.push_back(i);
    }
    return result;
  }
};

/// Names of parts: categories, then "resident" and "transient".
constexpr std::int32_t resident_part = category_count;
constexpr std::int32_t transient_part = category_count + 1;

std::string part_name(std::int32_t part) {
  if (part == resident_part) return "resident";
  if (part == transient_part) return "transient";
  return std::string{name_of(static_cast<Category>(part))};
}

/// The category that a frame of an exported snapshot ends with; -1 if it names none.
std::int32_t category_in(std::string const& frame) {
  std::size_t const slash = frame.rfind('/');
  if (slash == std::string::npos) return -1;
  auto const category = value_named<Category>(std::string_view{frame}.substr(slash + 1));
  return category ? static_cast<std::int32_t>(*category) : -1;
}

bool names_categories(SnapshotSequence const& snapshot) {
  return std::ranges::any_of(snapshot.names,
                             [](std::string const& name) { return category_in(name) >= 0; });
}

/// A block that is never freed counts as resident, although it is younger than the first event:
/// whether it would have been freed later is not recorded. PyTorch's torch/utils/viz/MemoryViz.js
/// draws it to the end of the history likewise.
void mark_what_stays(Side& side) {
  std::vector<bool> goes(side.allocations.size(), false);
  for (std::int64_t const event : side.events) {
    if (event < 0) goes[static_cast<std::size_t>(-1 - event)] = true;
  }
  for (std::size_t i = 0; i < goes.size(); ++i) {
    std::int32_t& part = side.allocations[i].part;
    if (!goes[i] && part == transient_part) part = resident_part;
  }
}

Side side_of(SnapshotSequence const& snapshot, bool has_categories) {
  Side side;
  std::vector<std::int32_t> of_names;
  for (std::string const& name : snapshot.names) of_names.push_back(category_in(name));
  std::vector<std::int64_t> live(static_cast<std::size_t>(snapshot.sequence.slots), -1);
  for (AllocationEvent const& event : snapshot.sequence.events) {
    auto const slot = static_cast<std::size_t>(event.slot);
    if (event.kind == AllocationEvent::Kind::allocate) {
      auto const index = static_cast<std::int64_t>(side.allocations.size());
      bool const is_older = index < snapshot.live_before;
      std::int32_t part = is_older ? resident_part : transient_part;
      auto const name = snapshot.name_of_allocation[static_cast<std::size_t>(index)];
      if (has_categories && name >= 0 && of_names[static_cast<std::size_t>(name)] >= 0) {
        part = of_names[static_cast<std::size_t>(name)];
      }
      side.allocations.push_back({.bytes = event.value, .part = part, .is_older = is_older});
      side.events.push_back(index);
      live[slot] = index;
    } else if (event.kind == AllocationEvent::Kind::free) {
      side.events.push_back(-1 - live[slot]);
    }
  }
  // If memory ran out, what an iteration would have freed is still there.
  auto const& events = snapshot.sequence.events;
  bool const ran_out = !events.empty() && events.back().kind == AllocationEvent::Kind::refused;
  if (!ran_out) mark_what_stays(side);
  return side;
}

Side side_of(RankTrace const& trace, TraceNames const& names, bool has_categories) {
  auto const stream = std::ranges::find(names.stream, "compute") - names.stream.begin();
  MemoryBlocks const blocks = memory_blocks(trace, stream);
  Side side;
  std::map<std::int64_t, std::int64_t> live;  // by address
  for (BlockEvent const& event : blocks.events) {
    if (!event.is_allocation) {
      side.events.push_back(-1 - live.at(event.address));
      continue;
    }
    auto const category = static_cast<std::int32_t>(event.category);
    bool const is_state = row_of(event.category).kind == CategoryKind::state;
    auto const index = static_cast<std::int64_t>(side.allocations.size());
    bool const is_older = event.origin < 0;
    std::int32_t const part =
        has_categories ? category : (is_state || is_older ? resident_part : transient_part);
    side.allocations.push_back(
        {.bytes = event.size, .part = part, .is_older = is_older, .origin = event.origin});
    side.events.push_back(index);
    live[event.address] = index;
  }
  mark_what_stays(side);
  return side;
}

/// The blocks that are live when most bytes are.
std::vector<std::size_t> live_at_peak(Side const& side, std::int64_t& peak) {
  std::int64_t now = 0;
  std::size_t end = 0;
  for (std::size_t i = 0; i < side.events.size(); ++i) {
    std::int64_t const event = side.events[i];
    auto const index = static_cast<std::size_t>(event >= 0 ? event : -1 - event);
    now += event >= 0 ? side.allocations[index].bytes : -side.allocations[index].bytes;
    if (now <= peak) continue;
    peak = now;
    end = i + 1;
  }
  std::vector<bool> is_live(side.allocations.size(), false);
  for (std::size_t i = 0; i < end; ++i) {
    std::int64_t const event = side.events[i];
    is_live[static_cast<std::size_t>(event >= 0 ? event : -1 - event)] = event >= 0;
  }
  std::vector<std::size_t> live;
  for (std::size_t i = 0; i < is_live.size(); ++i) {
    if (is_live[i]) live.push_back(i);
  }
  return live;
}

std::int64_t class_of(std::int64_t bytes) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
}

/// Both sides by part and by size.
void count(SnapshotComparison& result, std::array<Side const*, 2> const& sides) {
  std::map<std::int32_t, SnapshotPair> parts;
  std::map<std::int64_t, SizeClass> sizes;
  for (std::size_t which : {of_snapshot, of_trace}) {
    Side const& side = *sides[which];
    for (Allocation const& allocation : side.allocations) {
      if (!allocation.is_older) ++sizes[class_of(allocation.bytes)].allocations[which];
    }
    for (std::size_t const index : live_at_peak(side, result.peak[which])) {
      Allocation const& allocation = side.allocations[index];
      SizeClass& size = sizes[class_of(allocation.bytes)];
      ++size.blocks_at_peak[which];
      size.bytes_at_peak[which] += allocation.bytes;
      parts[allocation.part][which] += allocation.bytes;
    }
  }
  for (auto const& [part, bytes] : parts) result.parts.push_back({part_name(part), bytes});
  for (auto& [least, size] : sizes) {
    size.least = least;
    result.sizes.push_back(size);
  }
}

std::string where_of(RankTrace const& trace, TraceNames const& names, std::int64_t origin) {
  if (origin < 0) return "before the iteration";
  auto const row = static_cast<std::size_t>(origin);
  OpColumns const& ops = trace.ops;
  std::string text = names.op[static_cast<std::size_t>(ops.op[row])] + " (" +
                     names.phase[static_cast<std::size_t>(ops.phase[row])] + ")";
  if (ops.layer[row] >= 0) text += ", layer " + std::to_string(ops.layer[row]);
  if (ops.microbatch[row] >= 0) text += ", microbatch " + std::to_string(ops.microbatch[row]);
  return text;
}

/// Finds where the snapshot follows the trace longest, and where it then leaves it.
void align(SnapshotComparison& result,
           Side const& snapshot,
           Side const& trace,
           RankTrace const& rank,
           TraceNames const& names) {
  std::vector<std::size_t> const recorded = snapshot.made();
  std::vector<std::size_t> const predicted = trace.made();
  result.allocations = {static_cast<std::int64_t>(recorded.size()),
                        static_cast<std::int64_t>(predicted.size())};
  auto const bytes_of = [](Side const& side, std::vector<std::size_t> const& list, std::size_t i) {
    return i < list.size() ? side.allocations[list[i]].bytes : std::int64_t{-1};
  };
  std::int64_t steps = 0;
  for (std::size_t offset = 0; offset < recorded.size() && steps < most_steps; ++offset) {
    std::size_t length = 0;
    while (length < predicted.size() &&
           bytes_of(snapshot, recorded, offset + length) == bytes_of(trace, predicted, length)) {
      ++length;
    }
    steps += static_cast<std::int64_t>(length) + 1;
    if (static_cast<std::int64_t>(length) <= result.followed) continue;
    result.followed = static_cast<std::int64_t>(length);
    result.offset = static_cast<std::int64_t>(offset);
  }
  auto const next = static_cast<std::size_t>(result.followed);
  if (next == predicted.size()) return;
  result.first_difference = {
      .allocation = result.followed,
      .bytes = {bytes_of(snapshot, recorded, static_cast<std::size_t>(result.offset) + next),
                bytes_of(trace, predicted, next)},
      .where = where_of(rank, names, trace.allocations[predicted[next]].origin)};
}

}  // namespace

std::string snapshot_comparison_text(SnapshotComparison const& comparison) {
  ByteUnit const unit = unit_for(std::max(comparison.peak[0], comparison.peak[1]));
  std::string const name{unit.name};
  TextTable parts{{{"at the peak, " + name, Align::left}, {"snapshot"}, {"trace"}, {"%"}}};
  auto const add = [&](std::string const& what, SnapshotPair const& bytes) {
    parts.add_row({what, in_unit(unit, bytes[0]), in_unit(unit, bytes[1]), percent(bytes)});
  };
  for (MemoryPart const& part : comparison.parts) add(part.name, part.bytes);
  parts.add_rule();
  add("asked for", comparison.peak);
  if (comparison.trace_reserved) {
    add("reserved", {comparison.reserved, *comparison.trace_reserved});
  } else {
    parts.add_row({"reserved", in_unit(unit, comparison.reserved), "", ""});
  }
  std::vector<ColumnOf<SizeClass>> columns{
      {"requests from", [](SizeClass const& size) { return size_text(size.least); }}};
  auto const add_pair = [&](std::string heading, SnapshotPair SizeClass::*pair, auto const& text) {
    columns.push_back(
        {std::move(heading), [=](SizeClass const& size) { return text((size.*pair)[0]); }});
    columns.push_back({"trace", [=](SizeClass const& size) { return text((size.*pair)[1]); }});
  };
  auto const number = [](std::int64_t count) { return std::to_string(count); };
  add_pair("allocations", &SizeClass::allocations, number);
  add_pair("live at peak", &SizeClass::blocks_at_peak, number);
  add_pair(name, &SizeClass::bytes_at_peak,
           [unit](std::int64_t bytes) { return in_unit(unit, bytes); });
  return "device " + std::to_string(comparison.device) + " of the snapshot, rank " +
         std::to_string(comparison.rank) + " of the trace\n\n" + parts.text() + "\n" +
         table_of(columns, comparison.sizes).text() + "\n" + difference_text(comparison);
}

Json to_json(SnapshotComparison const& comparison) {
  Json parts = Json::object();
  for (MemoryPart const& part : comparison.parts) parts[part.name] = pair_json(part.bytes);
  auto const size_json = [](SizeClass const& size) -> Json {
    return {{"least_bytes", size.least},
            {"allocations", pair_json(size.allocations)},
            {"blocks_at_peak", pair_json(size.blocks_at_peak)},
            {"bytes_at_peak", pair_json(size.bytes_at_peak)}};
  };
  Json first = nullptr;
  if (auto const& difference = comparison.first_difference) {
    auto const bytes = [](std::int64_t value) { return value < 0 ? Json(nullptr) : Json(value); };
    first = {{"allocation", difference->allocation},
             {"bytes",
              {{"snapshot", bytes(difference->bytes[0])}, {"trace", bytes(difference->bytes[1])}}},
             {"where", difference->where}};
  }
  return {
      {"schema", snapshot_comparison_schema},
      {"device", comparison.device},
      {"rank", comparison.rank},
      {"peak_bytes", pair_json(comparison.peak)},
      {"reserved_bytes", {{"snapshot", comparison.reserved}, {"trace", comparison.trace_reserved}}},
      {"at_peak", parts},
      {"allocations", pair_json(comparison.allocations)},
      {"sizes", list_of(comparison.sizes, size_json)},
      {"offset", comparison.offset},
      {"followed", comparison.followed},
      {"first_difference", first}};
}

bool SnapshotComparison::peaks_agree_within(double percent) const {
  auto const recorded = static_cast<double>(peak[of_snapshot]);
  return std::abs(static_cast<double>(peak[of_trace]) - recorded) <= percent / 100 * recorded;
}

SnapshotComparison compare_snapshot(SnapshotSequence const& snapshot,
                                    RankTrace const& trace,
                                    TraceNames const& names) {
  bool const has_categories = names_categories(snapshot);
  Side const recorded = side_of(snapshot, has_categories);
  Side const predicted = side_of(trace, names, has_categories);
  SnapshotComparison result;
  result.device = snapshot.device;
  result.rank = trace.rank;
  result.reserved = snapshot.peak_reserved;
  if (!trace.memory.reserved.empty()) {
    result.trace_reserved = std::ranges::max(trace.memory.reserved);
  }
  count(result, {&recorded, &predicted});
  align(result, recorded, predicted, trace, names);
  return result;
}

}  // namespace stagecraft
