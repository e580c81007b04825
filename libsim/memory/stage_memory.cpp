#include "libsim/memory/stage_memory.hpp"

#include <algorithm>
#include <cstddef>

namespace stagecraft {
namespace {

/// The memory of a stage at an instant of its issue order, and its peak up to then.
struct Progress {
  StageMemory memory;
  CategoryBytes now;
  std::int64_t sum;
  std::int64_t activation_sum;
  std::int64_t peak;
  std::int32_t in_flight = 0;
  std::int32_t entry = 0;  ///< position in the issue order

  explicit Progress(CategoryBytes const& resident)
      : now{resident}, sum{resident.sum()}, activation_sum{resident.activation_sum()}, peak{sum} {
    memory.at_peak = resident;
  }

  void take(MemoryMove const& move) {
    MemoryProfile const& profile = move.profile;
    if (sum + profile.peak > peak) {
      peak = sum + profile.peak;
      memory.at_peak = now + profile.at_peak;
      memory.peak_entry = entry;
      memory.peak_block = profile.peak_block;
      memory.peak_op = profile.peak_op;
    }
    memory.activation_peak =
        std::max(memory.activation_peak, activation_sum + profile.activation_peak);
    ++entry;
    if (move.is_level) return;
    now += profile.net;
    sum += move.net_sum;
    activation_sum += move.net_activation_sum;
    in_flight += move.in_flight;
    memory.in_flight_chunks = std::max(memory.in_flight_chunks, in_flight);
  }

  /// Repeats the change since `then` another `times` times. Peaks are not updated.
  void repeat_since(Progress const& then, std::int32_t times) {
    for (auto const& [category, name] : EnumNames<Category>::all) {
      now[category] += times * (now[category] - then.now[category]);
    }
    sum += times * (sum - then.sum);
    activation_sum += times * (activation_sum - then.activation_sum);
    in_flight += times * (in_flight - then.in_flight);
    entry += times * (entry - then.entry);
  }
  bool holds_as_much_as(Progress const& other) const {
    return now == other.now && in_flight == other.in_flight;
  }
};

/// The same without categories.
struct SumProgress {
  std::int64_t sum;
  std::int64_t peak;

  explicit SumProgress(std::int64_t resident) : sum{resident}, peak{resident} {}

  void take(MemoryMove const& move) {
    peak = std::max(peak, sum + move.profile.peak);
    sum += move.net_sum;
  }
  void repeat_since(SumProgress const& then, std::int32_t times) {
    sum += times * (sum - then.sum);
  }
  bool holds_as_much_as(SumProgress const& other) const { return sum == other.sum; }
};

/// Follows the moves of a stage along its issue order. Between two entries, `progress_` is what the
/// stage holds and its peak so far. A body that leaves as much as it found is played only once.
template <class Progress>
class Follower {
 public:
  Follower(StageProgram const& program,
           std::span<MemoryMove const* const> moves,
           Progress const& start)
      : program_{program}, moves_{moves}, progress_{start} {}

  Progress const& run() {
    auto const end = static_cast<std::int32_t>(program_.entries.size());
    std::int32_t const loop = program_.steady_loop;
    if (loop == StageProgram::none) {
      take(0, end);
      return progress_;
    }
    take(0, program_.loop_begin());
    Progress const before = progress_;
    take(program_.loop_begin(), loop);
    repeat(loop, before, program_.entries[at(loop)].times - 1);
    take(loop + 1, end);
    return progress_;
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

  void take(std::int32_t begin, std::int32_t end) {
    for (std::int32_t i = begin; i < end; ++i) {
      IssueEntry const& entry = program_.entries[at(i)];
      if (entry.kind != IssueEntry::Kind::repeat) {
        progress_.take(*moves_[at(i)]);
        continue;
      }
      Progress const before = progress_;
      take(i - entry.count, i);
      repeat(i, before, entry.times - 2);
    }
  }

  /// Repeats a body that has been taken once, from `before` on, `times` more times.
  void repeat(std::int32_t index, Progress const& before, std::int32_t times) {
    if (times <= 0) return;
    if (progress_.holds_as_much_as(before)) return progress_.repeat_since(before, times);
    progress_.repeat_since(before, times - 1);
    take(index - program_.entries[at(index)].count, index);
  }

  StageProgram const& program_;
  std::span<MemoryMove const* const> moves_;
  Progress progress_;
};

}  // namespace

CategoryBytes resident_memory(StagePlan const& stage) {
  CategoryBytes bytes;
  for (StateBuffer const& buffer : stage.state) {
    if (buffer.is_resident()) bytes[buffer.category] += buffer.bytes().count();
  }
  return bytes;
}

StageMemory follow(StageProgram const& program,
                   std::span<MemoryMove const* const> moves,
                   CategoryBytes const& resident) {
  return Follower{program, moves, Progress{resident}}.run().memory;
}

std::int64_t follow_sum(StageProgram const& program,
                        std::span<MemoryMove const* const> moves,
                        std::int64_t resident) {
  return Follower{program, moves, SumProgress{resident}}.run().peak;
}

StageMemory peak_memory(StagePlan const& stage, MemoryMoves& moves) {
  StageProgram const& program = stage.program;
  return follow(program, moves.of(program.entries, stage.tasks, program.transfers),
                resident_memory(stage));
}

StageMemory peak_memory(StageRank const& rank) {
  MemoryMoves moves{rank.plan, rank.programs};
  return peak_memory(rank.stage, moves);
}

std::vector<StageMemory> peak_memory(TrainingPlan const& plan, int rank) {
  RankPrograms const programs{plan, rank};
  MemoryMoves moves{plan, *programs};
  std::vector<StageMemory> memory;
  memory.reserve(plan.stages.size());
  for (StagePlan const& stage : plan.stages) memory.push_back(peak_memory(stage, moves));
  return memory;
}

}  // namespace stagecraft
