#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "libsim/engine/player/timeline.hpp"
#include "libsim/schedule/stage_program.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A task as the player runs it.
struct PlayedTask {
  enum class How : std::uint8_t { compute, data_parallel, group, prefix, offload };
  SimTime duration{0};
  SimTime on_links{0};  ///< see PlayedStage
  How how = How::compute;
  /// offload: number of its stream among those of StreamKind::offload.
  std::uint8_t leg = 0;

  PlayedTask(Task const& task, SimTime alone, SimTime using_links)
      : duration{alone},
        on_links{using_links},
        how{task.is_prefix                         ? How::prefix
            : task.group                           ? How::group
            : task.stream == Stream::data_parallel ? How::data_parallel
            : is_offload(task)                     ? How::offload
                                                   : How::compute},
        leg{is_offload(task) ? static_cast<std::uint8_t>(static_cast<int>(task.stream) -
                                                         static_cast<int>(Stream::to_host))
                             : std::uint8_t{0}} {}

 private:
  static bool is_offload(Task const& task) { return kind_of(task.stream) == StreamKind::offload; }
};

/// The progress of a stage in its program.
struct StageProgress {
  static constexpr SimTime never{std::numeric_limits<std::int64_t>::max()};

  IssueEntry const* next = nullptr;
  IssueEntry const* stop = nullptr;  ///< begin or end of the steady-state loop, or of the program
  IssueEntry const* loop_begin = nullptr;
  IssueEntry const* loop_end = nullptr;  ///< the loop's repeat
  IssueEntry const* end = nullptr;
  Transfer const* transfers = nullptr;
  PlayedTask const* tasks = nullptr;
  SimTime clock{0};  ///< end of what its compute stream has run
  SimTime busy{0};
  SimTime data_parallel_idle{0};  ///< end of what its data-parallel stream has run
  /// Ends of what its streams of StreamKind::offload have run: to the host, there, and back.
  std::array<SimTime, 3> offload_idle{};
  SimTime busy_in_loop{0};
  std::int32_t times_left = 0;  ///< runs left of the repeat that it is in; 0 if it is in none
  int border = -1;              ///< last border of the steady-state loop that it has passed
  bool has_joined = false;      ///< whether it waits in a group
  // If the step is taken ahead:
  IssueEntry const* first_pass = nullptr;
  SimTime idle_at_start{0};       ///< time of waiting before the first pass
  SimTime validates_from{never};  ///< time from which it could validate the step
  SimTime busy_until_then{0};
  /// Start of the group task in which it waits, once all stages have joined.
  SimTime group_start{never};
  SimTime group_end{never};
  // For observers that hear:
  std::int32_t entry = 0;     ///< position in the issue order
  std::int32_t transfer = 0;  ///< number of transfers that have been posted
  std::int32_t advance = 0;   ///< added to the microbatches
  StageTimeline total;

  /// Both must outlive the object.
  StageProgress(StageProgram const& program, PlayedTask const* of_stage)
      : next{program.entries.data()},
        stop{next + program.entries.size()},
        end{stop},
        transfers{program.transfers.data()},
        tasks{of_stage} {
    if (program.steady_loop == StageProgram::none) return;
    stop = loop_begin = next + program.loop_begin();
    loop_end = next + program.steady_loop;
  }

  /// The time at which everything that it has issued so far is over.
  SimTime idle_from() const { return std::max(clock, data_parallel_idle); }

  /// The iteration's time if this stage decides: its end, unless the step is taken ahead. Pre: it
  /// is done.
  SimTime period() const {
    if (validates_from == never) return idle_from();
    return validates_from - idle_at_start + (busy - busy_until_then);
  }

  /// The stage is at a repeat, and goes back or on.
  template <bool hears>
  void repeat(IssueEntry const& entry_of_repeat) {
    if (times_left == 0) times_left = entry_of_repeat.times;
    bool const is_over = --times_left == 0;
    if constexpr (hears) advance_past(entry_of_repeat, is_over);
    next = is_over ? next + 1 : next - entry_of_repeat.count;
  }

  /// The stage is at a border of the steady-state loop, which is played `loops` times.
  template <bool hears>
  void leave_border(int loops) {
    if (border == 0) return;
    bool const is_over = border >= loops;
    if constexpr (hears) advance_past(*loop_end, is_over);
    next = is_over ? loop_end + 1 : loop_begin;
    if (is_over) stop = end;
  }

 private:
  void advance_past(IssueEntry const& repeat, bool is_over) {
    advance += is_over ? -(repeat.times - 1) * repeat.advance : repeat.advance;
  }
};

}  // namespace stagecraft
