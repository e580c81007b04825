#include "libsim/engine/rank_memory.hpp"

#include "libsim/engine/memory_walk.hpp"
#include "libsim/plan/message_buffers.hpp"

namespace stagecraft {
namespace {

/// Allocates `bytes`, or releases them where they are negative.
void change(MemoryProfile& profile, Category category, std::int64_t bytes) {
  MemoryProfile one;
  one.net[category] = bytes;
  if (bytes > 0) {
    one.peak = bytes;
    one.at_peak = one.net;
    one.activation_peak = one.net.activation_sum();
  }
  profile.append(one);
}

std::span<Transfer const> transfers_of(RankPlan const& rank, Step const& step) {
  return std::span{rank.transfers}.subspan(static_cast<std::size_t>(step.first),
                                           static_cast<std::size_t>(step.count));
}

/// The memory of a rank's steps, profiled once a kind of step.
class StepMoves {
 public:
  StepMoves(TrainingPlan const& plan, RankPlan const& rank, std::vector<WorkProfile> const& works)
      : plan_{plan}, rank_{rank}, of_messages_{plan} {
    of_work_.reserve(works.size());
    for (std::size_t i = 0; i < works.size(); ++i) {
      of_work_.emplace_back(work_memory(plan, rank.works[i], works[i]));
    }
  }

  MemoryMove const& of(Step const& step) {
    if (step.kind == Step::Kind::run) return of_work_[static_cast<std::size_t>(step.work)];
    auto const kind =
        step.kind == Step::Kind::post ? MessageMoves::Kind::post : MessageMoves::Kind::wait;
    if (step.count > MessageMoves::most) {
      other_ = MemoryMove{message_memory(plan_, step.kind, transfers_of(rank_, step))};
      return other_;
    }
    MessageMoves::Code code;
    for (Transfer const& transfer : transfers_of(rank_, step)) {
      code.add(transfer.payload, transfer.end);
    }
    return of_messages_.of(kind, code);
  }

 private:
  TrainingPlan const& plan_;
  RankPlan const& rank_;
  std::vector<MemoryMove> of_work_;
  MessageMoves of_messages_;
  MemoryMove other_{MemoryProfile{}};
};

}  // namespace

MemoryProfile work_memory(TrainingPlan const& plan, Work const& work, WorkProfile const& profile) {
  MemoryProfile memory = profile.memory;
  if (releases_output(plan, work)) {
    change(memory, MessageMove{}.category(),
           -message_buffer_bytes(plan, MessageBuffer::whole).count());
  }
  return memory;
}

MemoryProfile message_memory(TrainingPlan const& plan,
                             Step::Kind kind,
                             std::span<Transfer const> transfers) {
  MemoryProfile memory;
  for (Transfer const& transfer : transfers) {
    for (MessageMove const& move : message_moves(plan, kind, transfer)) {
      std::int64_t const bytes = message_buffer_bytes(plan, move.buffer).count();
      change(memory, move.category(), move.allocates ? bytes : -bytes);
    }
  }
  return memory;
}

MemoryProfile profile_step_memory(TrainingPlan const& plan,
                                  RankPlan const& rank,
                                  Step const& step,
                                  std::vector<WorkProfile> const& works) {
  if (step.kind == Step::Kind::drain) return {};
  if (step.kind != Step::Kind::run) {
    return message_memory(plan, step.kind, transfers_of(rank, step));
  }
  auto const work = static_cast<std::size_t>(step.work);
  return work_memory(plan, rank.works[work], works[work]);
}

CategoryBytes resident_memory(RankPlan const& rank) {
  CategoryBytes bytes;
  bytes[Category::parameters] = rank.parameter_bytes.count();
  bytes[Category::gradients] = rank.gradient_bytes.count();
  bytes[Category::optimizer] = rank.optimizer_bytes.count();
  return bytes;
}

RankMemory walk_memory(TrainingPlan const& plan,
                       RankPlan const& rank,
                       std::vector<WorkProfile> const& works) {
  MemoryWalk walk{resident_memory(rank)};
  StepMoves moves{plan, rank, works};
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    Step const& step = rank.steps[i];
    walk.move(moves.of(step), static_cast<std::int32_t>(i));
    if (step.kind != Step::Kind::run) continue;
    Work const& work = rank.works[static_cast<std::size_t>(step.work)];
    if (work.kind == Work::Kind::forward) {
      walk.begin_chunk();
    } else if (ends_backward(work)) {
      walk.end_chunk();
    }
  }
  return walk.result();
}

}  // namespace stagecraft
