#include <algorithm>

#include "libsim/config/optional_json.hpp"
#include "libsim/export/snapshot_comparison.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/text_table.hpp"

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
  TextTable sizes{{{"requests from"},
                   {"allocations"},
                   {"trace"},
                   {"live at peak"},
                   {"trace"},
                   {name},
                   {"trace"}}};
  for (SizeClass const& size : comparison.sizes) {
    sizes.add_row({size_text(size.least), std::to_string(size.allocations[0]),
                   std::to_string(size.allocations[1]), std::to_string(size.blocks_at_peak[0]),
                   std::to_string(size.blocks_at_peak[1]), in_unit(unit, size.bytes_at_peak[0]),
                   in_unit(unit, size.bytes_at_peak[1])});
  }
  return "device " + std::to_string(comparison.device) + " of the snapshot, rank " +
         std::to_string(comparison.rank) + " of the trace\n\n" + parts.text() + "\n" +
         sizes.text() + "\n" + difference_text(comparison);
}

Json to_json(SnapshotComparison const& comparison) {
  Json parts = Json::object();
  for (MemoryPart const& part : comparison.parts) parts[part.name] = pair_json(part.bytes);
  Json sizes = Json::array();
  for (SizeClass const& size : comparison.sizes) {
    sizes.push_back({{"least_bytes", size.least},
                     {"allocations", pair_json(size.allocations)},
                     {"blocks_at_peak", pair_json(size.blocks_at_peak)},
                     {"bytes_at_peak", pair_json(size.bytes_at_peak)}});
  }
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
      {"sizes", sizes},
      {"offset", comparison.offset},
      {"followed", comparison.followed},
      {"first_difference", first}};
}

}  // namespace stagecraft
