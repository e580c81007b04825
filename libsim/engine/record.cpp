#include "libsim/engine/record.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "libsim/engine/rank_recorder.hpp"
#include "libsim/engine/recorded_times.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/rank_memory.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_writer.hpp"

namespace stagecraft {

namespace {

TraceMeta meta_of(TrainingPlan const& plan, System const& system, RecordOptions const& options) {
  return {.program_version = std::string{program_version()},
          .command_line = options.command_line,
          .config = options.config,
          .plan = fingerprint(plan),
          .device = system.name,
          .clock = TraceClock::simulated};
}

/// Ascending, each once.
std::vector<std::int32_t> chosen_ranks(TrainingPlan const& plan,
                                       std::vector<std::int32_t> const& asked) {
  std::vector<std::int32_t> ranks = asked;
  auto const count = static_cast<std::int32_t>(plan.stages.size());
  if (ranks.empty()) {
    ranks.resize(plan.stages.size());
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  for (std::int32_t const rank : {ranks.front(), ranks.back()}) {
    if (rank < 0 || rank >= count) {
      throw std::invalid_argument{"pipeline rank: found '" + std::to_string(rank) +
                                  "'; accepted: 0 to " + std::to_string(count - 1)};
    }
  }
  return ranks;
}

}  // namespace

Trace record(TrainingPlan const& plan, System const& system, RecordOptions const& options) {
  std::vector<std::int32_t> const ranks = chosen_ranks(plan, options.ranks);
  CostedPlan const costed{plan, system};
  TraceVocabulary const vocabulary{plan};
  RecordedTimes const times = record_times(costed);
  std::vector<FullestMemory> const memory = fullest_memory(plan, 1);
  Trace trace{.meta = meta_of(plan, system, options), .names = vocabulary.names(), .ranks = {}};
  for (std::int32_t const rank : ranks) {
    PlanOfRank const held{plan, memory[static_cast<std::size_t>(rank)].rank()};
    trace.ranks.push_back(record_rank(costed, *held, times, vocabulary, rank, options.detail));
  }
  return trace;
}

void record_to_file(std::filesystem::path const& path,
                    PlayedIteration const& played,
                    RecordOptions const& options) {
  TrainingPlan const& plan = played.costed.plan();
  std::vector<std::int32_t> const ranks = chosen_ranks(plan, options.ranks);
  TraceVocabulary const vocabulary{plan};
  TraceWriter writer{path, meta_of(plan, played.costed.system(), options), vocabulary.names()};
  for (std::int32_t const rank : ranks) {
    PlanOfRank const held{plan, played.simulation.stages[static_cast<std::size_t>(rank)].rank()};
    writer.write(record_rank(played.costed, *held, played.times, vocabulary, rank, options.detail));
  }
  writer.finish();
}

}  // namespace stagecraft
