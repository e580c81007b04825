#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/schedule/issue_entry.hpp"

namespace stagecraft {

/// The program of one stage for an iteration, in issue order; entries that repeat are stored once.
///
/// A blocking exchange is a post directly followed by the wait for the same transfers. Every
/// transfer is posted once and waited for once, and waits come in the order of the posts. A
/// A transfer of a post has the microbatch and message of the first time that the post runs. Of a
/// transfer of a wait, only channel and end count.
///
/// A repeat follows the entries that it repeats. One repeat may be the steady-state loop; all
/// stages of a schedule that have it run it equally often. Its body may contain repeats; their
/// bodies may not.
struct StageProgram {
  static constexpr std::int32_t none = -1;
  std::vector<IssueEntry> entries;
  std::vector<Transfer> transfers;
  std::int32_t steady_loop = none;    ///< the entry that repeats it
  std::int32_t window_repeat = none;  ///< the entry that repeats windows (RepeatedWindows)

  /// First entry of the steady-state loop. Pre: there is one.
  std::int32_t loop_begin() const {
    return steady_loop - entries[static_cast<std::size_t>(steady_loop)].count;
  }
};

/// A stage's issue order with every entry and transfer of the iteration.
struct IssueOrder {
  std::vector<IssueEntry> entries;  ///< none of kind repeat
  std::vector<Transfer> transfers;
};

/// The issue order that a program stands for.
IssueOrder unroll(StageProgram const& program);

/// Calls `visit(entry, advance)` for entries [begin, end) and their repetitions, in issue order.
/// `advance` has to be added to the entry's microbatch.
template <class Visit>
void visit_entries(StageProgram const& program,
                   std::int32_t begin,
                   std::int32_t end,
                   std::int32_t advance,
                   Visit& visit) {
  for (std::int32_t i = begin; i < end; ++i) {
    IssueEntry const& entry = program.entries[static_cast<std::size_t>(i)];
    if (entry.kind != IssueEntry::Kind::repeat) {
      visit(entry, advance);
      continue;
    }
    for (std::int32_t time = 1; time < entry.times; ++time) {
      visit_entries(program, i - entry.count, i, advance + time * entry.advance, visit);
    }
  }
}

/// The same for the whole program.
template <class Visit>
void visit_entries(StageProgram const& program, Visit visit) {
  visit_entries(program, 0, static_cast<std::int32_t>(program.entries.size()), 0, visit);
}

}  // namespace stagecraft
