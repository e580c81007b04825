#include "libsim/plan/stage_tasks.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "libsim/plan/gradient_buckets.hpp"
#include "libsim/plan/step_program.hpp"
#include "libsim/schedule/repeated_windows.hpp"
#include "libsim/schedule/store_window.hpp"

namespace stagecraft {
namespace {

/// Gives the runs of a stage their tasks, in issue order. Runs that compute the same share a task:
/// of microbatches that differ there is one for each class. Entries are only appended to the
/// stage's program, so that numbers of entries that were handed out stay right.
class StageTasks {
 public:
  StageTasks(StagePlan& stage, TrainingPlan const& plan, PipelineSchedule const& schedule)
      : stage_{stage},
        plan_{plan},
        schedule_{schedule},
        first_entry_{static_cast<std::int32_t>(stage.program.entries.size())},
        stored_in_window_{policy_of(plan.config, stage.stage).store_microbatches.count},
        classes_{plan.microbatch_stride == 0 ? 1 : schedule.shape.microbatches},
        whole_(3 * static_cast<std::size_t>(schedule.tasks() * classes_), none) {
    if (stored_in_window_ > 0) places_.emplace(schedule.shape, stage.stage);
    note_early();
  }

  void append(StageProgram const& program) {
    append_entries(program.entries);
    stage_.program.transfers = program.transfers;
    // Reductions come after the loop, so that no entry is inserted before it.
    if (program.steady_loop != StageProgram::none) {
      stage_.program.steady_loop = first_entry_ + program.steady_loop;
    }
  }
  void append(RepeatedWindows windows) {
    append_entries(windows.order.entries);
    stage_.program.transfers = std::move(windows.order.transfers);
    insert_repeat(stage_.program, windows, first_entry_);
  }

 private:
  static constexpr std::int32_t none = -1;
  static constexpr ChunkId first_chunk{0};

  void append_entries(std::vector<IssueEntry> const& entries) {
    last_ = last_runs(entries);
    std::int32_t before = none;  // the task of the entry before, if it is paired with this one
    stage_.program.entries.reserve(entries.size() + 32);  // plus reductions and the step
    for (std::size_t i = 0; i < entries.size(); ++i) {
      IssueEntry entry = entries[i];
      if (entry.kind == IssueEntry::Kind::run) {
        ChunkRun const run = schedule_.run_of(entry);
        bool const is_last = last_[run.chunk] == i;
        std::int32_t const partner = std::exchange(before, none);
        if (is_last && ends_in_flight(run.pass) && overlaps_gradients(plan_.config)) {
          append_last_backward(run);
          continue;
        }
        entry.task = partner == none ? task_of(run) : task_beside(partner, run);
        if (entry.is_paired && hides_exchanges()) before = entry.task;
      }
      stage_.program.entries.push_back(entry);
    }
  }

  /// For each chunk, the entry that completes its gradients: a whole backward or a weight gradient.
  /// That entry is never repeated (StageWriter::repeat).
  IdVector<ChunkId, std::size_t> last_runs(std::vector<IssueEntry> const& entries) const {
    IdVector<ChunkId, std::size_t> last(static_cast<std::size_t>(schedule_.shape.chunks));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      IssueEntry const& entry = entries[i];
      if (entry.kind != IssueEntry::Kind::run) continue;
      ChunkRun const run = schedule_.run_of(entry);
      if (ends_in_flight(run.pass)) last[run.chunk] = i;
    }
    return last;
  }

  /// Notes which microbatches the order recomputes ahead of their backward.
  void note_early() {
    if (!schedule_.shape.order) return;
    auto const& tasks = schedule_.shape.order->stages[stage_.stage.index()];
    for (OrderTask const& task : tasks) {
      if (task.run.pass != Pass::recompute) continue;
      early_.resize(static_cast<std::size_t>(schedule_.shape.chunks) *
                    static_cast<std::size_t>(schedule_.shape.microbatches));
      early_[number_of(task.run)] = true;
    }
  }
  std::size_t number_of(ChunkRun const& run) const {
    return run.chunk.index() * static_cast<std::size_t>(schedule_.shape.microbatches) +
           run.microbatch.index();
  }

  ChunkProgram const& program_of(ChunkId chunk) const {
    return plan_.programs.chunks[static_cast<std::size_t>(stage_.chunks[chunk].program)];
  }

  /// The chunk whose head adds to the gradient of the first chunk's embedding; nullopt if there is
  /// no such chunk.
  std::optional<ChunkId> sharing_chunk() const {
    if (!embeds_at_end(plan_.config.model)) return std::nullopt;
    for (ChunkId const chunk : stage_.chunks.ids()) {
      bool const is_other = chunk != first_chunk;
      if (is_other && program_of(chunk).has_head && program_of(first_chunk).has_embedding) {
        return chunk;
      }
    }
    return std::nullopt;
  }

  /// The last run of a chunk, and the reductions that can follow it.
  void append_last_backward(ChunkRun const& run) {
    std::optional<ChunkId> const sharing = sharing_chunk();
    bool const waits = run.chunk == first_chunk && sharing && last_[*sharing] > last_.front();
    if (waits) {
      stage_.program.entries.push_back({.task = task_of(run), .microbatch = run.microbatch});
      return;
    }
    append_reduced_backward(run);
    if (run.chunk != sharing || last_.front() > last_[*sharing]) return;
    append_gradient_reduction(stage_, plan_, {.first = 0, .count = chunk_parameters(first_chunk)});
  }

  std::int64_t chunk_parameters(ChunkId chunk) const {
    ChunkProgram const& program = program_of(chunk);
    return parameters_of(plan_, program, 0, static_cast<std::int32_t>(program.blocks.size()));
  }

  TaskVariant variant_of(ChunkRun const& run) {
    // Runs that are recomputed early have places in the windows, too.
    bool const is_stored = places_ && places_->of(run) < stored_in_window_;
    if (!early_.empty() && early_[number_of(run)]) return TaskVariant::early;
    return is_stored ? TaskVariant::stored : TaskVariant::policy;
  }

  std::int32_t task_of(ChunkRun const& run) { return number_of_whole(run, variant_of(run)); }

  std::int32_t number_of_whole(ChunkRun const& run, TaskVariant variant) {
    int const of_class = classes_ == 1 ? 0 : run.microbatch.value();
    auto const place =
        3 * static_cast<std::size_t>(schedule_.task(run.pass, run.chunk) * classes_ + of_class) +
        static_cast<std::size_t>(variant);
    if (whole_[place] == none) whole_[place] = append(whole_task(plan_, stage_, run, variant));
    return whole_[place];
  }

  /// Whether passes that run beside each other take less time than one after the other.
  bool hides_exchanges() const {
    return has_experts(plan_.config.model) && plan_.config.parallel.expert > 1;
  }

  /// The task of a run beside that of the entry before.
  std::int32_t task_beside(std::int32_t partner, ChunkRun const& run) {
    std::int32_t const alone = task_of(run);
    auto const [known, is_new] = beside_.try_emplace({partner, alone}, none);
    if (is_new) {
      Task task = stage_.tasks[static_cast<std::size_t>(alone)];
      task.beside = partner;
      known->second = append(task);
    }
    return known->second;
  }

  std::int32_t append(Task const& task) {
    stage_.tasks.push_back(task);
    return static_cast<std::int32_t>(stage_.tasks.size()) - 1;
  }

  /// Appends the blocks of each bucket, followed by its reduction.
  void append_reduced_backward(ChunkRun const& run) {
    TaskVariant const variant = variant_of(run);
    Task const whole = whole_task(plan_, stage_, run, variant);
    std::int64_t const first = first_parameter(plan_, stage_, run.chunk);
    for (GradientBucket const& bucket : gradient_buckets(plan_, whole.program)) {
      Task piece = whole;
      piece.first_block = bucket.first_block;
      piece.block_count = bucket.block_count;
      std::int32_t const task =
          bucket.block_count == whole.block_count ? number_of_whole(run, variant) : append(piece);
      stage_.program.entries.push_back({.task = task, .microbatch = run.microbatch});
      append_gradient_reduction(stage_, plan_,
                                {.first = first + bucket.first, .count = bucket.parameters});
    }
  }

  StagePlan& stage_;
  TrainingPlan const& plan_;
  PipelineSchedule const& schedule_;
  std::int32_t first_entry_;            ///< of the microbatches
  int stored_in_window_;                ///< how many in a window are stored
  std::optional<WindowPlaces> places_;  ///< if any is
  std::vector<bool> early_;  ///< by chunk and microbatch: recomputed ahead; empty if none is
  int classes_;              ///< number of microbatches that have programs of their own
  std::vector<std::int32_t> whole_;      ///< by task of the schedule, class and variant
  IdVector<ChunkId, std::size_t> last_;  ///< last_runs() of the entries
  /// By the tasks of a pair: that of the second, beside the first.
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> beside_;
};

constexpr Task::Kind kind_of(Pass pass) {
  switch (pass) {
    case Pass::backward:
      return Task::Kind::backward;
    case Pass::input_gradient:
      return Task::Kind::input_gradient;
    case Pass::weight_gradient:
      return Task::Kind::weight_gradient;
    case Pass::recompute:
      return Task::Kind::recompute;
    case Pass::forward:
      break;
  }
  return Task::Kind::forward;
}

bool has_window(TrainingConfig const& config) {
  return std::any_of(config.recompute.begin(), config.recompute.end(),
                     [](auto const& policy) { return policy.store_microbatches.count > 0; });
}

}  // namespace

Task whole_task(TrainingPlan const& plan,
                StagePlan const& stage,
                ChunkRun const& run,
                TaskVariant variant) {
  StageChunk const& chunk = stage.chunks[run.chunk];
  Task task;
  task.kind = kind_of(run.pass);
  task.is_stored = variant == TaskVariant::stored;
  task.is_early = variant == TaskVariant::early;
  task.chunk = run.chunk;
  task.program = task.is_stored  ? chunk.stored_program
                 : task.is_early ? chunk.early_program
                                 : chunk.program;
  task.program += plan.microbatch_stride * run.microbatch.value();
  task.block_count = static_cast<std::int32_t>(
      plan.programs.chunks[static_cast<std::size_t>(task.program)].blocks.size());
  return task;
}

void append_microbatches(StagePlan& stage,
                         TrainingPlan const& plan,
                         PipelineSchedule const& schedule) {
  StageTasks tasks{stage, plan, schedule};
  StageProgram const& program = schedule.stages[stage.stage];
  if (plan.microbatch_stride != 0) {
    tasks.append(RepeatedWindows{.order = unroll(program)});
  } else if (has_window(plan.config)) {
    tasks.append(repeat_windows(schedule, stage.stage,
                                policy_of(plan.config, stage.stage).store_microbatches.count));
  } else {
    tasks.append(program);
  }
}

}  // namespace stagecraft
