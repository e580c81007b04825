#include "libsim/schedule/orders/letter_order.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace stagecraft {

namespace {

constexpr std::array<Pass, 3> split_passes{Pass::forward, Pass::input_gradient,
                                           Pass::weight_gradient};

std::uint16_t letter(int pass, ChunkId chunk, int chunks) {
  return static_cast<std::uint16_t>(pass * chunks + chunk.value());
}

}  // namespace

std::optional<LetterOrder> letters_of(PipelineOrder const& order) {
  if (order.placement.copies() > 1) return std::nullopt;
  int const chunks = order.placement.chunks();
  LetterOrder letters{order.placement, order.microbatches, {}};
  for (auto const& tasks : order.stages) {
    auto& stage = letters.stages.emplace_back();
    std::vector<std::int32_t> next(3 * static_cast<std::size_t>(chunks));
    auto const add = [&](int pass, ChunkRun const& run) {
      stage.push_back(letter(pass, run.chunk, chunks));
      return next[stage.back()]++ == run.microbatch.value();
    };
    for (OrderTask const& task : tasks) {
      bool is_next = task.run.pass != Pass::recompute;
      if (task.run.pass == Pass::forward) is_next = add(0, task.run);
      if (gives_gradient(task.run.pass)) is_next = add(1, task.run);
      if (ends_in_flight(task.run.pass)) is_next = is_next && add(2, task.run);
      if (!is_next) return std::nullopt;
    }
  }
  return letters;
}

PipelineOrder order_of(LetterOrder const& letters, bool joins) {
  PipelineOrder order{letters.placement, letters.microbatches, {}};
  auto const chunks = static_cast<std::size_t>(letters.placement.chunks());
  for (auto const& stage : letters.stages) {
    auto& tasks = order.stages.emplace_back();
    std::vector<std::int32_t> next(3 * chunks);
    for (std::uint16_t const each : stage) {
      bool const ends_whole =
          joins && each >= 2 * chunks && !tasks.empty() &&
          tasks.back().run == ChunkRun{Pass::input_gradient, MicrobatchId{next[each]},
                                       ChunkId::of_index(each % chunks)};
      if (ends_whole) {
        ++next[each];
        tasks.back().run.pass = Pass::backward;
        continue;
      }
      tasks.push_back({.run = {split_passes.at(each / chunks), MicrobatchId{next[each]++},
                               ChunkId::of_index(each % chunks)}});
    }
  }
  return order;
}

bool is_stage_legal(std::vector<std::uint16_t> const& stage,
                    int chunks,
                    MemoryChanges const& memory,
                    double memory_limit) {
  std::array<double, 3> const changes{memory.forward, memory.input_gradient,
                                      memory.weight_gradient};
  double const limit = memory_limit * (1 + 1e-9);  // sums of decimal changes are rounded
  auto const per_part = static_cast<std::size_t>(chunks);
  std::vector<std::int32_t> counts(3 * per_part);
  double held = 0;
  for (std::uint16_t const each : stage) {
    std::int32_t const count = ++counts[each];
    if (each >= per_part && count > counts[each - per_part]) return false;
    held += changes.at(each / per_part);
    if (held > limit) return false;
  }
  return true;
}

LetterPlayer::LetterPlayer(Placement const& placement, int microbatches, StageTicks const& costs)
    : joins_{costs.joins()},
      letters_per_stage_{3 * static_cast<std::size_t>(placement.chunks())},
      microbatches_{static_cast<std::size_t>(microbatches)},
      tasks_(letters_per_stage_ * static_cast<std::size_t>(placement.stages())),
      ends_(2 * static_cast<std::size_t>(placement.virtual_stages()) * microbatches_),
      made_(2 * static_cast<std::size_t>(placement.virtual_stages())),
      taken_(tasks_.size()),
      next_(static_cast<std::size_t>(placement.stages())),
      free_(next_.size()) {
  std::int32_t const gradients = placement.virtual_stages();  // streams after those of forwards
  for (VirtualStageId const here : placement.virtual_stage_ids()) {
    int const v = here.value();
    ChunkPlace const place = placement.place(here);
    auto const task = [&](int pass) -> Task& {
      return tasks_[place.stage.index() * letters_per_stage_ +
                    letter(pass, place.chunk, placement.chunks())];
    };
    auto const hop = [&](VirtualStageId other) {
      return placement.place(other).stage == place.stage ? SimTime{0}
                                                         : costs.of(std::min(here, other)).transfer;
    };
    SplitTicks const& ticks = costs.of(here);
    task(0) = {ticks.forward, {}, v, -1, {}};
    if (v > 0) task(0) = {ticks.forward, hop(previous(here)), v, v - 1, {}};
    bool const is_last = placement.is_last(here);
    task(1) = {ticks.input_gradient, is_last ? SimTime{0} : hop(next(here)), gradients + v,
               is_last ? v : gradients + v + 1, ticks.weight_gradient - ticks.joint};
    task(2) = {ticks.weight_gradient, {}, -1, -1, {}};
  }
}

std::optional<LetterTimes> LetterPlayer::play(LetterOrder const& order) {
  std::fill(made_.begin(), made_.end(), 0);
  std::fill(taken_.begin(), taken_.end(), 0);
  std::fill(next_.begin(), next_.end(), 0);
  std::fill(free_.begin(), free_.end(), SimTime{0});
  for (bool is_moving = true; is_moving;) {
    is_moving = false;
    for (std::size_t stage = 0; stage < next_.size(); ++stage) {
      while (next_[stage] < order.stages[stage].size() && advance(stage, order.stages[stage])) {
        is_moving = true;
      }
    }
  }
  LetterTimes times;
  for (std::size_t stage = 0; stage < next_.size(); ++stage) {
    if (next_[stage] < order.stages[stage].size()) return std::nullopt;
    times.makespan = std::max(times.makespan, free_[stage]);
    times.sum_of_ends += free_[stage];
  }
  return times;
}

bool LetterPlayer::is_whole(std::size_t stage, std::vector<std::uint16_t> const& letters) const {
  std::size_t const chunks = letters_per_stage_ / 3;
  std::size_t const next = next_[stage];
  std::size_t const each = letters[next];
  if (each < chunks || each >= 2 * chunks || next + 1 == letters.size()) return false;
  std::size_t const at = stage * letters_per_stage_ + each;
  return letters[next + 1] == each + chunks && taken_[at + chunks] == taken_[at];
}

bool LetterPlayer::advance(std::size_t stage, std::vector<std::uint16_t> const& letters) {
  std::size_t const at = stage * letters_per_stage_ + letters[next_[stage]];
  Task const& task = tasks_[at];
  std::int32_t const microbatch = taken_[at];
  SimTime start = free_[stage];
  if (task.needed >= 0) {
    auto const stream = static_cast<std::size_t>(task.needed);
    if (made_[stream] <= microbatch) return false;
    start = std::max(start, ends_[stream * microbatches_ + static_cast<std::size_t>(microbatch)] +
                                task.transfer);
  }
  free_[stage] = start + task.cost;
  if (joins_ && is_whole(stage, letters)) {
    free_[stage] += task.rest;
    ++taken_[at + letters_per_stage_ / 3];
    ++next_[stage];
  }
  if (task.made >= 0) {
    auto const stream = static_cast<std::size_t>(task.made);
    ends_[stream * microbatches_ + static_cast<std::size_t>(microbatch)] = free_[stage];
    ++made_[stream];
  }
  ++taken_[at];
  ++next_[stage];
  return true;
}

}  // namespace stagecraft
