#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "apps/program/command_line.hpp"
#include "apps/program/file_count.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "libsim/allocator/allocation_replay.hpp"
#include "libsim/allocator/make_allocator.hpp"
#include "libsim/allocator/sequence_file.hpp"
#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace {

std::string bytes(std::int64_t count) { return count == 0 ? "0" : size_text(count); }

/// The result of `stagecraft allocator --json`; fields as PyTorch counts them, in bytes or counts.
nlohmann::ordered_json to_json(AllocationReplay const& replay) {
  using Json = nlohmann::ordered_json;
  AllocatorCounters const& end = replay.end;
  auto const checkpoint = [](AllocationCheckpoint const& at) -> Json {
    return {{"n", at.n},
            {"allocated", at.allocated},
            {"reserved", at.reserved},
            {"inactive_split", at.inactive_split}};
  };
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
          {"checkpoints", list_of(replay.checkpoints, checkpoint)}};
}

/// The same for people: the counters at the end, then each checkpoint.
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
  using At = AllocationCheckpoint const&;
  std::vector<ColumnOf<AllocationCheckpoint>> const columns{
      {"checkpoint at", [](At at) { return std::to_string(at.n); }},
      {"allocated", [](At at) { return bytes(at.allocated); }},
      {"reserved", [](At at) { return bytes(at.reserved); }},
      {"inactive split", [](At at) { return bytes(at.inactive_split); }}};
  return text + "\n" + table_of(columns, replay.checkpoints).text();
}

AllocatorSettings read_settings(CommandLine const& line) {
  Diagnostics diagnostics;
  AllocatorSettings const settings = read_allocator_settings(
      line.find("settings").value_or(""),
      {.origin = std::make_shared<std::string const>("--settings"), .line = 0, .column = 0}, "",
      diagnostics);
  diagnostics.throw_if_any();
  return settings;
}

std::int64_t read_capacity(CommandLine const& line) {
  if (!line.has("capacity")) return unlimited_capacity;
  std::string const& text = line.value("capacity");
  auto const capacity = parse_quantity<Bytes>(text);
  if (!capacity || capacity->count() > largest_request) {
    throw CommandLineError{"--capacity", "'" + text + "'", std::string{accepted_quantity<Bytes>()}};
  }
  return capacity->count();
}

int run_allocator(CommandLine const& line) {
  if (line.arguments().size() != 1) {
    throw CommandLineError{"FILE", file_count(line.arguments().size()), "one"};
  }
  AllocatorSettings const settings = read_settings(line);
  std::int64_t const capacity = read_capacity(line);
  std::optional<std::int32_t> device;
  if (line.has("device")) device = line.whole_number("device", 0, 1 << 20);
  SequenceFile const file = read_sequence_file(line.arguments().front(), device);
  if (file.sequence.events.empty()) {
    throw CommandLineError{"FILE", "no event in '" + printable(line.arguments().front()) + "'",
                           "a memory snapshot with a history, or lines such as `a 1 4096`"};
  }
  for (std::string const& note : file.notes) std::cerr << "note: " << note << '\n';
  auto const allocator = make_allocator(AllocatorKind::pytorch, settings, capacity);
  AllocationReplay const result = replay(file.sequence, *allocator);
  if (line.has("json")) {
    std::cout << to_json(result).dump(1) << '\n';
  } else {
    std::cout << allocation_text(result);
  }
  return result.oom_at ? exit_does_not_fit : 0;
}

}  // namespace

Command allocator_command() {
  return {.name = "allocator",
          .summary = "a recorded sequence of allocations, as PyTorch's allocator would serve it",
          .introduction = R"(usage: stagecraft allocator FILE [options]

Replays a recorded sequence of allocations through a model of PyTorch's caching allocator: what it
reserves beside what is allocated, what is fragmented, and whether it runs out of memory, under any
settings and on a device of any size. The exit code is 3 if it does.

A replay ends at a request that fails, unless the snapshot says that it failed when recorded as well:
then what the program did without that memory follows. A program's share of the device is
per_process_memory_fraction of --settings; as in PyTorch, garbage is collected only below such a share.

FILE is a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot), of which nothing is
executed, or text, gzipped or not, an event per line (numbers are whole and not negative):
  a ID SIZE [STREAM]  allocate SIZE bytes for a stream (default: 0)
  f ID                free
  r ID STREAM         another stream uses the block too (record_stream)
  t DT                time passes
  d DELAY             what a stream takes to reach an event, from now on
  n BYTES             others take memory of the device
  F FRACTION          of the device that may be reserved, from 0 to 1
  e                   the cache is emptied
  q                   checkpoint: the counters are noted
)",
          .examples = R"(  stagecraft allocator sequence.txt.gz
  stagecraft allocator sequence.txt --capacity "80 GiB" --settings expandable_segments:True
  stagecraft allocator snapshot.pickle --capacity "141 GiB" --device 3
  stagecraft allocator sequence.txt --settings max_split_size_mb:128,roundup_power2_divisions:8 --json
)",
          .options = {{.name = "settings",
                       .value = Value::text("CONF"),
                       .description = "the text of PYTORCH_CUDA_ALLOC_CONF"},
                      {.name = "capacity",
                       .value = Value::text("Q"),
                       .description = "memory of the device, such as 80GiB (default: no limit)"},
                      {.name = "device",
                       .value = Value::text("N"),
                       .description = "of a snapshot (default: the first with events)"},
                      json_option()},
          .argument = Value::file("FILE"),
          .run = run_allocator};
}

}  // namespace stagecraft
