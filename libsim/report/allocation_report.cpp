#include "libsim/report/allocation_report.hpp"

#include <nlohmann/json.hpp>

#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/units/counted.hpp"

namespace stagecraft {
namespace {

std::string bytes(std::int64_t count) { return count == 0 ? "0" : size_text(count); }

}  // namespace

nlohmann::ordered_json to_json(AllocationReplay const& replay) {
  using Json = nlohmann::ordered_json;
  AllocatorCounters const& end = replay.end;
  Json checkpoints = Json::array();
  for (AllocationCheckpoint const& at : replay.checkpoints) {
    checkpoints.push_back({{"n", at.n},
                           {"allocated", at.allocated},
                           {"reserved", at.reserved},
                           {"inactive_split", at.inactive_split}});
  }
  return {{"schema", allocation_schema},
          {"oom_at", replay.oom_at},
          {"end",
           {{"n", replay.n},
            {"allocated", end.allocated},
            {"peak_allocated", end.peak_allocated},
            {"reserved", end.reserved},
            {"peak_reserved", end.peak_reserved},
            {"requested", end.requested},
            {"active", end.active},
            {"inactive_split", end.inactive_split},
            {"segments", end.segments},
            {"retries", end.retries},
            {"ooms", end.ooms},
            {"device_alloc", end.device_alloc},
            {"device_free", end.device_free},
            {"device_used", end.device_used}}},
          {"checkpoints", checkpoints}};
}

std::string allocation_text(AllocationReplay const& replay) {
  AllocatorCounters const& end = replay.end;
  std::string text;
  if (replay.oom_at) {
    text += "out of memory at allocation " + std::to_string(*replay.oom_at) + ", which asks for " +
            size_text(replay.oom_bytes) + "\n\n";
  }
  TextTable table{{{"", Align::left}, {"at the end"}, {"largest"}}};
  table.add_row({"allocated", bytes(end.allocated), bytes(end.peak_allocated)});
  table.add_row({"reserved", bytes(end.reserved), bytes(end.peak_reserved)});
  table.add_row({"requested", bytes(end.requested), ""});
  table.add_row({"active", bytes(end.active), ""});
  table.add_row({"inactive split (when reserved is largest)", bytes(end.inactive_split),
                 bytes(replay.inactive_split_at_peak)});
  table.add_row({"used on the device", bytes(end.device_used), ""});
  text += table.text();
  text += "\n" + counted(replay.n, "allocation") + "; " + counted(end.segments, "segment") +
          "; device memory taken " + counted(end.device_alloc, "time") + " and given back " +
          counted(end.device_free, "time") + "; " + counted(end.retries, "retry", "retries") + "\n";
  if (replay.checkpoints.empty()) return text;
  TextTable checkpoints{{{"checkpoint at"}, {"allocated"}, {"reserved"}, {"inactive split"}}};
  for (AllocationCheckpoint const& at : replay.checkpoints) {
    checkpoints.add_row(
        {std::to_string(at.n), bytes(at.allocated), bytes(at.reserved), bytes(at.inactive_split)});
  }
  return text + "\n" + checkpoints.text();
}

}  // namespace stagecraft
