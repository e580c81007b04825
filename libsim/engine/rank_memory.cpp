#include "libsim/engine/rank_memory.hpp"

#include <algorithm>
#include <array>

namespace stagecraft {
namespace {

void allocate(MemoryProfile& profile, Category category, std::int64_t bytes) {
  MemoryProfile one;
  one.net[category] = bytes;
  if (bytes > 0) {
    one.peak = bytes;
    one.at_peak = one.net;
    one.activation_peak = one.net.activation_sum();
  }
  profile.append(one);
}

void release(MemoryProfile& profile, Category category, std::int64_t bytes) {
  allocate(profile, category, -bytes);
}

void start_transfer(MemoryProfile& profile, TrainingPlan const& plan, Transfer const& transfer) {
  if (transfer.end == Transfer::End::send) return;
  Category const category =
      plan.scatters_messages() ? Category::communication : Category::activations;
  allocate(profile, category, plan.sent_bytes().count());
}

void end_transfer(MemoryProfile& profile, TrainingPlan const& plan, Transfer const& transfer) {
  std::int64_t const whole = plan.message_bytes().count();
  if (transfer.end == Transfer::End::receive) {
    if (!plan.scatters_messages()) return;
    allocate(profile, Category::activations, whole);
    release(profile, Category::communication, plan.sent_bytes().count());
    return;
  }
  bool const is_kept =
      transfer.payload == Transfer::Payload::activation && !plan.config.memory.output_deallocation;
  if (!is_kept) release(profile, Category::activations, whole);
}

bool keeps_output(TrainingPlan const& plan, Work const& work) {
  return work.kind == Work::Kind::backward && work.first_block == 0 &&
         !plan.config.memory.output_deallocation &&
         !plan.chunks[static_cast<std::size_t>(work.program)].has_head;
}

/// The memory of a rank's steps, profiled once a kind of step: messages differ only in payload and
/// end, so that a few profiles serve thousands of posts and waits.
class StepMoves {
 public:
  StepMoves(TrainingPlan const& plan, RankPlan const& rank, std::vector<WorkProfile> const& works)
      : plan_{plan}, rank_{rank}, works_{works}, of_work_(works.size(), none_) {
    of_messages_.fill(none_);
  }

  MemoryMove const& of(Step const& step) {
    if (step.kind == Step::Kind::run)
      return made(of_work_[static_cast<std::size_t>(step.work)], step);
    if (step.kind == Step::Kind::drain || step.count > most_) {
      other_ = none_;
      return made(other_, step);
    }
    std::size_t code = step.kind == Step::Kind::post ? 2 : 3;
    for (std::int32_t i = step.first; i < step.first + step.count; ++i) {
      Transfer const& transfer = rank_.transfers[static_cast<std::size_t>(i)];
      code = 4 * code + 2 * static_cast<std::size_t>(transfer.payload) +
             static_cast<std::size_t>(transfer.end);
    }
    return made(of_messages_[code], step);
  }

 private:
  static constexpr std::int32_t most_ = 4;  ///< transfers of a step, for which moves are kept
  static constexpr std::int32_t none_ = -1;

  MemoryMove const& made(std::int32_t& place, Step const& step) {
    if (place == none_) {
      place = static_cast<std::int32_t>(moves_.size());
      moves_.emplace_back(profile_step_memory(plan_, rank_, step, works_));
    }
    return moves_[static_cast<std::size_t>(place)];
  }

  TrainingPlan const& plan_;
  RankPlan const& rank_;
  std::vector<WorkProfile> const& works_;
  std::vector<MemoryMove> moves_;
  std::vector<std::int32_t> of_work_;
  std::array<std::int32_t, 4 << 2 * most_> of_messages_;
  std::int32_t other_ = none_;
};

}  // namespace

MemoryProfile profile_step_memory(TrainingPlan const& plan,
                                  RankPlan const& rank,
                                  Step const& step,
                                  std::vector<WorkProfile> const& works) {
  MemoryProfile profile;
  auto const each_transfer = [&](auto what) {
    for (std::int32_t i = step.first; i < step.first + step.count; ++i) {
      what(profile, plan, rank.transfers[static_cast<std::size_t>(i)]);
    }
  };
  switch (step.kind) {
    case Step::Kind::post:
      each_transfer(start_transfer);
      break;
    case Step::Kind::wait:
      each_transfer(end_transfer);
      break;
    case Step::Kind::drain:
      break;
    case Step::Kind::run: {
      auto const index = static_cast<std::size_t>(step.work);
      profile = works[index].memory;
      if (keeps_output(plan, rank.works[index])) {
        release(profile, Category::activations, plan.message_bytes().count());
      }
      break;
    }
  }
  return profile;
}

CategoryBytes resident_memory(RankPlan const& rank) {
  CategoryBytes bytes;
  bytes[Category::parameters] = rank.parameter_bytes.count();
  bytes[Category::gradients] = rank.gradient_bytes.count();
  bytes[Category::optimizer] = rank.optimizer_bytes.count();
  return bytes;
}

MemoryWalk::MemoryWalk(CategoryBytes const& resident)
    : now_{resident}, sum_{resident.sum()}, activation_sum_{resident.activation_sum()} {
  memory_.at_peak = resident;
  peak_ = sum_;
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
    } else if (work.kind == Work::Kind::backward && work.first_block == 0) {
      walk.end_chunk();
    }
  }
  return walk.result();
}

}  // namespace stagecraft
