#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/program/command_line.hpp"
#include "apps/program/file_count.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "libsim/allocator/allocation_replay.hpp"
#include "libsim/allocator/make_allocator.hpp"
#include "libsim/allocator/sequence_file.hpp"
#include "libsim/report/allocation_report.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace {

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
