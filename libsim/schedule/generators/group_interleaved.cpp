#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>

#include "libsim/schedule/generators/generators.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

/// A task of the block in its slot, a third of a microbatch's time in a chunk.
struct GroupTask {
  int slot;
  ChunkRun run;
};

/// The microbatches that pass before a chunk of a group can follow the chunk before it: those
/// during which a microbatch comes through all stages.
int least_group(int stages, ChunkCosts const& costs) {
  double const per_stage = costs.forward + costs.input_gradient + costs.weight_gradient;
  double const through_all = stages * std::max(costs.forward, costs.input_gradient);
  int group = (stages + 1) / 2;
  while (per_stage * group < through_all) ++group;
  return group;
}

/// The block of tasks that each stage repeats for every group of microbatches: all chunks of one
/// group, in slots. It does not change; whether its repeats collide is asked by fits().
class GroupBlock {
 public:
  GroupBlock(int stages, int chunks, int group, ChunkCosts const& costs)
      : stages_{stages}, chunks_{chunks}, group_{group} {
    groups_per_chunk_ = (least_group(stages, costs) + group - 1) / group;
    chunks_per_shift_ = chunks / std::gcd(chunks, groups_per_chunk_);
  }

  int slots() const { return 3 * group_ * chunks_; }

  /// The tasks of a stage by slot. Slots count from the start of the block's first task of stage 0.
  std::vector<GroupTask> tasks_of(int stage) const {
    std::vector<GroupTask> tasks;
    int const behind = stages_ - 1 - stage;
    int const first_gradient = shift_of(ChunkId{chunks_ - 1}) + stage + 3 * behind + 1;
    for (ChunkId const chunk : IdRange<ChunkId>{chunks_}) {
      for (int k = 0; k < group_; ++k) {
        tasks.push_back({shift_of(chunk) + 3 * k + stage, {Pass::forward, MicrobatchId{k}, chunk}});
        int const gradient = first_gradient + shift_of(chunk) + 3 * k;
        ChunkId const mirrored{chunks_ - 1 - chunk.value()};
        tasks.push_back({gradient, {Pass::input_gradient, MicrobatchId{k}, mirrored}});
        tasks.push_back({gradient + 1, {Pass::weight_gradient, MicrobatchId{k}, mirrored}});
      }
    }
    return tasks;
  }

  /// Whether the repeated block of a stage has no two tasks in one slot.
  bool fits(int stage) const {
    std::vector<bool> is_taken(static_cast<std::size_t>(slots()));
    for (GroupTask const& task : tasks_of(stage)) {
      auto const slot = static_cast<std::size_t>(task.slot % slots());
      if (is_taken[slot]) return false;
      is_taken[slot] = true;
    }
    return true;
  }

 private:
  /// Slots between the first chunk and `chunk`, in either direction. A chunk whose slots would meet
  /// those of chunk 0 in the repeated block starts a group later.
  int shift_of(ChunkId chunk) const {
    return 3 * groups_per_chunk_ * group_ * chunk.value() +
           3 * group_ * (chunk.value() / chunks_per_shift_);
  }

  int stages_;
  int chunks_;
  int group_;
  int groups_per_chunk_;
  int chunks_per_shift_;
};

bool all_fit(GroupBlock const& block, int stages) {
  for (int stage = 0; stage < stages; ++stage) {
    if (!block.fits(stage)) return false;
  }
  return true;
}

void check_groups(
    int stages, int chunks, int group, int recompute_chunks, ChunkCosts const& costs) {
  auto const refuse = [](std::string const& what, int found, std::string const& accepted) {
    throw ScheduleError{what + " of group_interleaved", "'" + std::to_string(found) + "'",
                        accepted};
  };
  if (recompute_chunks > chunks) {
    refuse("recomputed chunks", recompute_chunks, "0 to " + std::to_string(chunks));
  }
  if (recompute_chunks > 0 && group != 1) {
    refuse("microbatches per group", group, "1 with recomputed chunks");
  }
  if (group > stages)
    refuse("microbatches per group", group, "1 to p (" + std::to_string(stages) + ")");
  if (all_fit(GroupBlock{stages, chunks, group, costs}, stages)) return;
  std::string groups;
  for (int other = 1; other <= stages && recompute_chunks == 0; ++other) {
    if (!all_fit(GroupBlock{stages, chunks, other, costs}, stages)) continue;
    groups += (groups.empty() ? "" : ", ") + std::to_string(other);
  }
  refuse(
      "microbatches per group", group,
      groups.empty() ? "none with these stages and chunks, tasks of a stage would meet" : groups);
}

}  // namespace

PipelineOrder group_interleaved_order(int stages,
                                      int microbatches,
                                      int chunks,
                                      int group,
                                      int recompute_chunks,
                                      ChunkCosts const& costs) {
  check_groups(stages, chunks, group, recompute_chunks, costs);
  GroupBlock const block{stages, chunks, group, costs};
  PipelineOrder order{round_placement(stages, chunks), microbatches, {}};
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<GroupTask> tasks;
    for (int first = 0; first < microbatches; first += group) {
      for (GroupTask task : block.tasks_of(stage)) {
        task.run.microbatch = task.run.microbatch + first;
        task.slot += first / group * block.slots();
        if (task.run.microbatch.value() < microbatches) tasks.push_back(task);
      }
    }
    std::sort(tasks.begin(), tasks.end(),
              [](GroupTask const& a, GroupTask const& b) { return a.slot < b.slot; });
    auto& ordered = order.stages.emplace_back();
    for (auto const& [slot, run] : tasks) {
      if (run.pass == Pass::input_gradient && run.chunk < ChunkId{recompute_chunks}) {
        ordered.push_back({.run = {Pass::recompute, run.microbatch, run.chunk}});
      }
      ordered.push_back({.run = run});
    }
  }
  return order;
}

}  // namespace stagecraft
