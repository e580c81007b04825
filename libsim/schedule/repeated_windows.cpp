#include "libsim/schedule/repeated_windows.hpp"

#include <cstddef>
#include <numeric>
#include <utility>

#include "libsim/schedule/store_window.hpp"

namespace stagecraft {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

/// Entries, and transfers among them, that a part of a program stands for.
struct ProgramPart {
  std::int32_t entries = 0;
  std::int32_t transfers = 0;
  std::int32_t forwards = 0;
};

ProgramPart part_of(PipelineSchedule const& schedule,
                    StageProgram const& program,
                    std::int32_t begin,
                    std::int32_t end) {
  ProgramPart part;
  auto const add = [&](IssueEntry const& entry, std::int32_t /*advance*/) {
    ++part.entries;
    if (entry.kind == IssueEntry::Kind::post) part.transfers += entry.count;
    bool const runs = entry.kind == IssueEntry::Kind::run;
    if (runs && schedule.run_of(entry).pass == Pass::forward) ++part.forwards;
  };
  visit_entries(program, begin, end, 0, add);
  return part;
}

}  // namespace

RepeatedWindows repeat_windows(PipelineSchedule const& schedule, StageId stage, int stored) {
  StageProgram const& whole = schedule.stages[stage];
  if (whole.steady_loop == StageProgram::none) return {.order = unroll(whole)};
  IssueEntry const loop = whole.entries[at(whole.steady_loop)];
  ProgramPart const before = part_of(schedule, whole, 0, whole.loop_begin());
  ProgramPart const body = part_of(schedule, whole, whole.loop_begin(), whole.steady_loop);
  int const window = store_window(schedule.shape, stage);
  bool const are_alike = stored == 0 || stored >= window;
  int const period = are_alike ? 1 : window / std::gcd(window, body.forwards);  // in loops
  int const in_period = period * body.forwards;
  int const loops = (window + in_period - 1) / in_period * period;  // of the body
  int const times = loop.times / loops;
  if (times < 2) return {.order = unroll(whole)};

  RepeatedWindows windows;
  windows.body_begin = before.entries;
  windows.body_end = before.entries + loops * body.entries;
  windows.body_transfers_end = before.transfers + loops * body.transfers;
  windows.times = times;
  windows.advance = loops * loop.advance;
  StageProgram shorter = whole;
  shorter.entries[at(shorter.steady_loop)].times -= (times - 1) * loops;
  // After the loop, numbers are those of the whole iteration.
  std::int32_t const skipped = (times - 1) * windows.advance;
  windows.order = unroll(shorter);
  std::int32_t const written = loop.times - (times - 1) * loops;
  std::int32_t const behind = before.entries + written * body.entries;
  for (std::size_t i = at(behind); i < windows.order.entries.size(); ++i) {
    IssueEntry& entry = windows.order.entries[i];
    if (entry.microbatch != no_microbatch) entry.microbatch = entry.microbatch + -skipped;
  }
  std::int32_t const posted = before.transfers + written * body.transfers;
  for (std::size_t i = at(posted); i < windows.order.transfers.size(); ++i) {
    Transfer& transfer = windows.order.transfers[i];
    transfer.microbatch = transfer.microbatch + -skipped;
    transfer.message -= skipped;
  }
  return windows;
}

void insert_repeat(StageProgram& program, RepeatedWindows const& windows, std::int32_t first) {
  if (windows.times == 1) return;
  std::int32_t const skipped = (windows.times - 1) * windows.advance;
  for (std::size_t i = at(first + windows.body_end); i < program.entries.size(); ++i) {
    IssueEntry& entry = program.entries[i];
    if (entry.microbatch != no_microbatch) entry.microbatch = entry.microbatch + skipped;
  }
  for (std::size_t i = at(windows.body_transfers_end); i < program.transfers.size(); ++i) {
    Transfer& transfer = program.transfers[i];
    transfer.microbatch = transfer.microbatch + skipped;
    transfer.message += skipped;
  }
  program.window_repeat = first + windows.body_end;
  program.entries.insert(program.entries.begin() + program.window_repeat,
                         {.kind = IssueEntry::Kind::repeat,
                          .microbatch = no_microbatch,
                          .count = windows.body_end - windows.body_begin,
                          .times = windows.times,
                          .advance = windows.advance});
}

}  // namespace stagecraft
