#include "libsim/engine/rank_memory.hpp"

#include <algorithm>

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
  bool const is_kept = transfer.payload == Transfer::Payload::activation &&
                       !plan.config.memory.output_deallocation;
  if (!is_kept) release(profile, Category::activations, whole);
}

bool keeps_output(TrainingPlan const& plan, Work const& work) {
  return work.kind == Work::Kind::backward && work.first_block == 0 &&
         !plan.config.memory.output_deallocation &&
         !plan.chunks[static_cast<std::size_t>(work.program)].has_head;
}

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

RankMemory walk_memory(TrainingPlan const& plan,
                       RankPlan const& rank,
                       std::vector<WorkProfile> const& works) {
  RankMemory memory;
  CategoryBytes now = resident_memory(rank);
  memory.at_peak = now;
  std::int64_t peak = now.sum();
  std::int32_t in_flight = 0;
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    Step const& step = rank.steps[i];
    MemoryProfile const profile = profile_step_memory(plan, rank, step, works);
    if (now.sum() + profile.peak > peak) {
      peak = now.sum() + profile.peak;
      memory.at_peak = now + profile.at_peak;
      memory.peak_step = static_cast<std::int32_t>(i);
    }
    memory.activation_peak =
        std::max(memory.activation_peak, now.activation_sum() + profile.activation_peak);
    now += profile.net;
    if (step.kind != Step::Kind::run) continue;
    Work const& work = rank.works[static_cast<std::size_t>(step.work)];
    if (work.kind == Work::Kind::forward) {
      memory.in_flight_chunks = std::max(memory.in_flight_chunks, ++in_flight);
    } else if (work.kind == Work::Kind::backward && work.first_block == 0) {
      --in_flight;
    }
  }
  return memory;
}

}  // namespace stagecraft
