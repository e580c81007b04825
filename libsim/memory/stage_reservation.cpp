#include "libsim/memory/stage_reservation.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "libsim/memory/buffer_events.hpp"
#include "libsim/memory/configured_allocator.hpp"
#include "libsim/memory/framework_buffers.hpp"
#include "libsim/memory/repeat_search.hpp"
#include "libsim/memory/steady_tasks.hpp"
#include "libsim/plan/parameter_layout.hpp"
#include "libsim/plan/sharded_runs.hpp"

namespace stagecraft {
namespace {

/// What is left of tensors once the first elements of all of them together are not there:
/// `elements`.
std::vector<std::int64_t> last_elements(std::vector<std::int64_t> tensors, std::int64_t elements) {
  std::int64_t gone = std::accumulate(tensors.begin(), tensors.end(), -elements);
  for (std::int64_t& tensor : tensors) {
    std::int64_t const part = std::min(tensor, gone);
    tensor -= part;
    gone -= part;
  }
  std::erase(tensors, 0);
  return tensors;
}

constexpr int most_iterations = 3;  // the second has moments, the third what they displaced

/// Replays the requests that a stage makes of its allocator, iteration by iteration. Used once.
///
/// The allocator, the plan and the framework's memory are the caller's; the events and what they
/// point at are its own. Between two entries of the issue order, `blocks_` has the block of each
/// live activation by the number of its buffer, and no_block for those that were freed. Between two
/// iterations all of them are free.
class StageReplay {
 public:
  /// All must outlive the object. `peak` may be null.
  StageReplay(StageRank const& rank,
              Allocator& allocator,
              FrameworkMemory const& framework,
              ReplayExtent extent,
              ReservedPeak* peak)
      : plan_{rank.plan},
        stage_{rank.stage},
        allocator_{allocator},
        framework_{framework},
        has_framework_{framework != FrameworkMemory{}},
        buffers_{framework, rank.plan, rank.stage, allocator_},
        events_{rank, has_framework_ ? EventDetail::ops : EventDetail::buffers},
        skips_repeats_{extent == ReplayExtent::until_steady && !has_framework_},
        // A round ends with the blocks that it began with, if nothing keeps or takes any.
        has_rounds_{skips_repeats_ && plan_.config.memory.empty_cache == EmptyCache::never} {
    bool const has_loop = stage_.program.steady_loop != StageProgram::none;
    if (extent == ReplayExtent::until_steady && has_loop) steady_.emplace(stage_);
    if (peak == nullptr) {
      if (!has_framework_) describe_tasks();
      return;
    }
    allocator_.observe_growth([this, peak](std::int64_t request) {
      *peak = {.blocks = allocator_.whole().blocks(),
               .request = request,
               .tensor = change_ == nullptr ? "" : change_->name(),
               .is_in_step = is_in_step_};
    });
  }

  /// False if the device has no memory left.
  bool run() {
    if (!allocate_resident()) return false;
    for (int i = 0; i < most_iterations; ++i) {
      std::int64_t const before = counters().device_alloc;
      bool const is_last = i + 1 == most_iterations;
      if (i > 0 && !is_last && has_rounds_) allocator_.watch_round();
      if (!iterate()) return false;
      is_in_step_ = true;
      EmptyCache const empties = plan_.config.memory.empty_cache;
      if (empties != EmptyCache::never) allocator_.whole().empty_cache();
      if (!buffers_.begin_step(updated_sizes_)) return false;
      if (i == 0 && !allocate_moments()) return false;
      if (!buffers_.step(state_sizes_)) return false;
      if (empties == EmptyCache::around_step) allocator_.whole().empty_cache();
      is_in_step_ = false;
      if (framework_.frees_gradients) free_left_over();
      resident_ = counters().allocated;
      if (i == 0) {
        first_allocated_ = counters().peak_allocated;
        continue;
      }
      if (counters().device_alloc == before) break;
      if (has_rounds_ && allocator_.would_repeat_round()) break;
    }
    return true;
  }

  StageReservation result() const {
    return {.reserved = counters().peak_reserved,
            .allocated = counters().peak_allocated,
            .first_allocated = first_allocated_,
            .resident = resident_,
            .inactive_split = allocator_.inactive_split_at_peak(),
            .retries = counters().retries,
            .runs_out = false};
  }

 private:
  AllocatorCounters const& counters() const { return allocator_.counters(); }

  bool allocate_resident() {
    std::vector<std::int64_t> parameters;
    for (PlacedParameter const& parameter : parameter_layout(plan_, stage_)) {
      parameters.push_back(parameter.elements());
      bool const is_low = parameter.is_quantised && plan_.shape.quantisation.replaces_weights;
      if (!is_low) high_parameters_.push_back(parameter.elements());
    }
    state_sizes_ = state_sizes(parameters);
    updated_sizes_ = state_sizes_;
    for (StateBuffer const& buffer : stage_.state) {
      bool const is_part = buffer.tensor == step_tensor::first_moment && buffer.is_on_host();
      if (is_part)
        updated_sizes_ = last_elements(state_sizes_, optimizer_shard(stage_) - buffer.elements);
    }
    for (StateBuffer const& buffer : stage_.state) {
      bool const is_there = buffer.lifetime == Lifetime::job && !buffer.is_on_host();
      if (is_there && !keep(tensors_of(buffer), buffer.type)) return false;
    }
    return buffers_.allocate_resident(parameters);
  }
  /// The elements of the tensors that the framework makes of a buffer.
  std::vector<std::int64_t> tensors_of(StateBuffer const& buffer) const {
    if (!buffer.where.is_shared) {
      return buffer.tensor == step_tensor::parameters ? high_parameters_
                                                      : std::vector{buffer.elements};
    }
    bool const is_joined = buffer.tensor == step_tensor::master && framework_.joins_master_weights;
    bool const is_whole = buffer.elements == optimizer_shard(stage_);
    std::vector<std::int64_t> const& sizes = is_whole ? state_sizes_ : updated_sizes_;
    if (!is_joined) return sizes;
    return {std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})};
  }
  bool keep(std::vector<std::int64_t> const& tensors, ElementType type) {
    return std::ranges::all_of(tensors, [&](std::int64_t elements) {
      return allocator_.keep(elements * element_size(type));
    });
  }
  /// The elements of each tensor of optimizer state, given those of the rank's parameters.
  std::vector<std::int64_t> state_sizes(std::vector<std::int64_t> sizes) const {
    if (stage_.shards == 1) return sizes;
    if (framework_.shards_parameters) {
      for (std::int64_t& elements : sizes) {
        elements = (elements + stage_.shards - 1) / stage_.shards;
      }
      return sizes;
    }
    sizes.clear();
    for (ShardedRun const& run : stage_.sharded_runs) sizes.push_back(run.shard());
    return sizes;
  }
  /// Allocates what appears in the first step: all moments of one parameter, then those of the
  /// next, in the order of Adam's step.
  bool allocate_moments() {
    return std::ranges::all_of(updated_sizes_, [&](std::int64_t elements) {
      return std::ranges::all_of(stage_.state, [&](StateBuffer const& buffer) {
        bool const appears = buffer.lifetime == Lifetime::from_first_step && buffer.is_resident();
        return !appears || keep({elements}, buffer.type);
      });
    });
  }

  bool iterate() {
    buffers_.begin_iteration();
    free_left_over();
    events_.restart();
    events_.next();  // the resident buffers
    blocks_.clear();
    if (steady_) steady_->restart();
    search_ = {};
    std::int64_t taken = counters().device_alloc;
    while (events_.next()) {
      if (!take_entry()) return false;
      if (!steady_) {
        if (skips_repeats_ && events_.repeats_left() > 0) {
          events_.skip_repeats(search_.skippable(allocator_.whole(), events_, blocks_));
        }
      } else if (counters().device_alloc != taken) {
        taken = counters().device_alloc;
        steady_->restart();
      } else if (steady_->is_reached_by(events_.entry(), events_.task())) {
        break;
      }
    }
    // At the end of an iteration no activation lives; in which order they go makes no difference
    // to the blocks that are then free. Gradients may live until the next iteration begins.
    for (std::int64_t const buffer : events_.left_over()) {
      auto const number = static_cast<std::size_t>(buffer);
      left_over_.push_back(std::exchange(blocks_[number], no_block));
    }
    for (BlockId& block : blocks_) allocator_.free(block);
    return buffers_.end_iteration();
  }

  void free_left_over() {
    for (BlockId& block : left_over_) allocator_.free(block);
    left_over_.clear();
  }

  /// Reduces each task to its requests, so that the replay reads less memory.
  void describe_tasks() {
    requests_.resize(stage_.tasks.size());
    for (std::size_t task = 0; task < requests_.size(); ++task) {
      for (auto const& [change, buffer] : events_.events_of(task)) {
        bool const allocates = change.kind == BufferChange::Kind::allocate;
        if (!allocates && change.kind != BufferChange::Kind::release) continue;
        requests_[task].push_back({allocates ? change.bytes : release, buffer});
      }
    }
  }

  bool take_entry() {
    Task const* const task = events_.task();
    if (task != nullptr) {
      auto const index = static_cast<std::size_t>(task - stage_.tasks.data());
      return requests_.empty() ? take_changes(*task, index) : take_requests(index);
    }
    for (BufferEvent const& event : events_.now()) {
      if (!take(event)) return false;
    }
    change_ = nullptr;
    return true;
  }

  bool take_requests(std::size_t task) {
    blocks_.resize(static_cast<std::size_t>(events_.buffers()), no_block);
    return std::ranges::all_of(requests_[task], [this](Request const& request) {
      BlockId& block = blocks_[static_cast<std::size_t>(events_.number_of(request.buffer))];
      if (request.bytes != release) return allocator_.allocate(request.bytes, block);
      allocator_.free(block);
      return true;
    });
  }

  bool take_changes(Task const& task, std::size_t index) {
    if (has_framework_ && !buffers_.begin(task)) return false;
    MicrobatchId const microbatch = events_.microbatch();
    for (auto const& [change, buffer] : events_.events_of(index)) {
      if (!take({&change, events_.number_of(buffer), microbatch})) return false;
    }
    change_ = nullptr;
    if (has_framework_) buffers_.end(task, microbatch);
    return true;
  }

  bool take(BufferEvent const& event) {
    auto const buffer = static_cast<std::size_t>(event.buffer);
    change_ = event.change;
    switch (event.change->kind) {
      case BufferChange::Kind::allocate:
        if (blocks_.size() <= buffer) blocks_.resize(buffer + 1, no_block);
        if (buffers_.replaces(*event.change)) return buffers_.allocate_instead(*event.change);
        return allocator_.allocate(event.change->bytes, blocks_[buffer]);
      case BufferChange::Kind::release:
        allocator_.free(blocks_[buffer]);
        break;
      case BufferChange::Kind::hand_over:
        break;
      case BufferChange::Kind::run:
        return buffers_.run(event);
      case BufferChange::Kind::lend:
        if (framework_.host_lead > 0) allocator_.lend(blocks_[buffer]);
        break;
    }
    return true;
  }

  /// A request of a task to the allocator.
  struct Request {
    std::int64_t bytes = 0;  ///< to be allocated; or `release`
    BufferEvents::Reference buffer;
  };
  static constexpr std::int64_t release = -1;

  TrainingPlan const& plan_;
  StagePlan const& stage_;
  TrackedAllocator allocator_;
  FrameworkMemory const& framework_;
  bool has_framework_;
  FrameworkBuffers buffers_;
  BufferEvents events_;
  /// Whether repeats that change the allocator as earlier ones did are skipped.
  bool skips_repeats_;
  bool has_rounds_;  ///< whether iterations with moments make the same requests
  /// If an iteration is replayed only until the rest of it repeats what has run.
  std::optional<SteadyTasks> steady_;
  RepeatSearch search_;
  std::vector<std::vector<Request>> requests_;  ///< by task; none if each change is looked at
  std::vector<std::int64_t> high_parameters_;   ///< elements of those that are not only in 8 bits
  std::vector<std::int64_t> state_sizes_;       ///< elements of each buffer of optimizer state
  std::vector<std::int64_t> updated_sizes_;     ///< of those that the device updates
  std::vector<BlockId> blocks_;                 ///< blocks of live activations, by buffer
  std::vector<BlockId> left_over_;              ///< of the iteration before
  std::int64_t first_allocated_ = 0;            ///< StageReservation::first_allocated
  std::int64_t resident_ = 0;                   ///< StageReservation::resident, so far
  BufferChange const* change_ = nullptr;        ///< the change that is being replayed
  bool is_in_step_ = false;
};

/// The device as the replay sees it, whose buffers have the sizes of the op program.
std::int64_t replayed_room(std::int64_t capacity, FrameworkMemory const& framework) {
  return room_without_factor(Bytes{std::max<std::int64_t>(capacity, 0)}, framework.factor).count();
}

void multiply(StageReservation& reservation, ReservedPeak* peak, double factor) {
  if (factor == 1) return;
  for (std::int64_t* const bytes :
       {&reservation.reserved, &reservation.allocated, &reservation.first_allocated,
        &reservation.resident, &reservation.inactive_split}) {
    *bytes = std::llround(factor * static_cast<double>(*bytes));
  }
  if (peak == nullptr) return;
  peak->request = std::llround(factor * static_cast<double>(peak->request));
  for (MemoryBlock& block : peak->blocks) {
    block.size = std::llround(factor * static_cast<double>(block.size));
    block.requested = std::llround(factor * static_cast<double>(block.requested));
  }
}

}  // namespace

StageReservation reserve_stage(StageRank const& rank,
                               std::int64_t capacity,
                               FrameworkMemory const& framework,
                               ReplayExtent extent,
                               ReservedPeak* peak) {
  for (bool const is_limited : {true, false}) {
    auto const allocator =
        configured_allocator(rank.plan.config.memory,
                             is_limited ? replayed_room(capacity, framework) : unlimited_capacity);
    StageReplay replay{rank, *allocator, framework, extent, peak};
    if (!replay.run()) continue;
    StageReservation result = replay.result();
    result.runs_out = !is_limited;
    multiply(result, peak, framework.factor);
    return result;
  }
  return {.reserved = unlimited_capacity, .runs_out = true};
}

bool fits_in(StageRank const& rank, std::int64_t capacity, FrameworkMemory const& framework) {
  auto const allocator =
      configured_allocator(rank.plan.config.memory, replayed_room(capacity, framework));
  return StageReplay{rank, *allocator, framework, ReplayExtent::until_steady, nullptr}.run();
}

}  // namespace stagecraft
