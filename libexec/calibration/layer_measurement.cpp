#include "libexec/calibration/layer_measurement.hpp"

#include <stdexcept>
#include <utility>

#include "libexec/backends/numbers.hpp"
#include "libexec/comm/solo_communicator.hpp"
#include "libexec/executor/block_runner.hpp"
#include "libexec/executor/parameter_store.hpp"
#include "libexec/executor/rank_context.hpp"
#include "libsim/plan/make_plan.hpp"

namespace stagecraft {
namespace {

constexpr StageId middle_stage{1};

CommunicationCosts const& required(CommunicationCosts const* costs) {
  if (costs == nullptr)
    throw std::invalid_argument{"a layer that runs alone needs durations of communication"};
  return *costs;
}

}  // namespace

TrainingConfig one_layer_per_stage(TrainingConfig config) {
  constexpr int stages = 3;
  config.model.layers = stages;
  config.parallel.pipeline = stages;
  config.parallel.interleave = 1;
  config.parallel.data = 1;
  config.parallel.overlap_gradients = false;
  config.batch.global = config.batch.micro;
  config.schedule = {};
  config.sharding = {};
  config.layout = {};
  RecomputePolicy policy = config.recompute.front();
  policy.store_microbatches = {};
  config.recompute = {policy};
  return config;
}

/// Everything that the rank owns, in the order of construction: each member uses those above it. It
/// is one rank of a stage in the middle, whose collectives are done alone.
class MeasuredLayer::Rank {
 public:
  Rank(TrainingConfig const& config, ExecutionParts const& parts, int kernel_threads)
      : plan_{make_plan(as_settled(one_layer_per_stage(config)))},
        place_{.stage = middle_stage},
        rank_{plan_.groups.at_stage(RankId{0}, middle_stage)},
        backend_{parts.make_backend(kernel_needs(plan_, rank_))},
        allocator_{*backend_, backend_->workspace()},
        clock_{kernel_threads == 1},
        rank_clock_{clock_},
        communicator_{plan_, rank_, *backend_, clock_},
        tokens_{synthetic_tokens(plan_.config.model.vocabulary, 1)},
        context_{.plan = plan_,
                 .programs = plan_.programs,
                 .program = plan_.stages[middle_stage],
                 .rank = rank_,
                 .place = place_,
                 .backend = *backend_,
                 .allocator = allocator_,
                 .communicator = communicator_,
                 .clock = rank_clock_,
                 .tokens = *tokens_,
                 .state = state_,
                 .costs = &required(parts.costs)},
        parameters_{context_},
        blocks_{context_, parameters_},
        numbers_{activation_type(plan_.config.model.precision), 1} {
    if (DeviceTimeline* const timeline = backend_->timeline()) rank_clock_.follow(*timeline);
    fill_parameters(context_, parameters_);
  }

  Times run() {
    Passage const one_by_one = take_through([this] { return rank_clock_.instant(); });
    Times times = one_by_one.times();
    if (backend_->timeline() == nullptr) return times;
    // A device runs its kernels from a queue, so of the passage op by op only the time that
    // communication adds counts. Its copies, which replace those of the absent ranks, are included.
    Passage const queued = take_through_queue();
    times.forward = times.forward_communication + queued.forward.end - queued.forward.start;
    times.backward = times.backward_communication + queued.backward.end - queued.backward.start;
    return times;
  }

  SimTime run_queued() {
    Passage const queued = take_through_queue();
    return queued.backward.end - queued.forward.start;
  }

  Bytes saved() const { return saved_; }

 private:
  /// One microbatch through the layer and back.
  struct Passage {
    TimeSpan forward;
    TimeSpan backward;
    SimTime computed_forward{0};  ///< the part of `forward` that kernels took
    SimTime computed_backward{0};

    Times times() const {
      SimTime const there = forward.end - forward.start;
      SimTime const back = backward.end - backward.start;
      return {.forward = there,
              .backward = back,
              .forward_communication = there - computed_forward,
              .backward_communication = back - computed_backward};
    }
  };

  template <typename Now>
  Passage take_through(Now const& now) {
    clock_.restart();
    rank_clock_.restart(true);
    // The causal mask, which all layers share and none reads, may precede the layer in the chunk.
    std::size_t const last = plan_.programs.chunks[middle_stage.index()].blocks.size() - 1;
    BlockInstance layer = blocks_.make_instance(middle_stage.value(), last, MicrobatchId{0});
    BlockProgram const& program = blocks_.block_of(layer);
    std::int64_t const before = allocator_.now().sum();
    Passage passage;
    fill(layer, program.input);
    passage.forward = now();
    blocks_.run(layer, Pass::forward);
    passage.forward = joined(passage.forward, now());
    passage.computed_forward = rank_clock_.computed();
    take_output(layer, program, before);
    fill(layer, program.grad_output);
    passage.backward = now();
    blocks_.run(layer, Pass::backward);
    passage.backward = joined(passage.backward, now());
    passage.computed_backward = rank_clock_.computed() - passage.computed_forward;
    return passage;
  }

  Passage take_through_queue() {
    DeviceTimeline& device = *backend_->timeline();
    rank_clock_.times_computations(false);
    communicator_.moves_tensors(false);
    Passage queued = take_through([&] {
      DeviceTimeline::Mark const mark = device.mark();
      return TimeSpan{.marks = MarkSpan{mark, mark}};
    });
    rank_clock_.times_computations(true);
    communicator_.moves_tensors(true);
    device.synchronize();
    for (TimeSpan* const time : {&queued.forward, &queued.backward}) {
      *time = {device.time_of(time->marks->start), device.time_of(time->marks->end)};
    }
    return queued;
  }

  static Buffer& buffer_of(BlockInstance& layer, TensorId buffer) {
    return layer.buffers[static_cast<std::size_t>(buffer)];
  }

  /// Fills the tensor that a neighbour would pass to the layer.
  void fill(BlockInstance& layer, TensorId id) {
    Tensor const& tensor = blocks_.block_of(layer).tensor(id);
    Buffer& buffer = buffer_of(layer, id);
    buffer = allocator_.allocate({.name = tensor.name}, tensor.category, tensor.type, tensor.shape);
    numbers_.write(*backend_, buffer.data(), buffer.bytes());
  }

  void take_output(BlockInstance& layer, BlockProgram const& program, std::int64_t before) {
    Buffer const output = std::move(buffer_of(layer, program.tensor(program.output).buffer));
    auto const bytes = static_cast<std::int64_t>(output.bytes());
    saved_ = Bytes{allocator_.now().sum() - before - bytes};
  }

  TrainingPlan plan_;
  RankPlace place_;
  RankId rank_;
  std::unique_ptr<Backend> backend_;
  CountingAllocator allocator_;
  VirtualClock clock_;
  RankClock rank_clock_;
  SoloCommunicator communicator_;
  std::unique_ptr<TokenSource> tokens_;
  TrainingState state_;
  RankContext context_;
  ParameterStore parameters_;
  BlockRunner blocks_;
  RandomNumbers numbers_;
  Bytes saved_;
};

MeasuredLayer::MeasuredLayer(TrainingConfig const& config,
                             ExecutionParts const& parts,
                             int kernel_threads)
    : rank_{std::make_unique<Rank>(config, parts, kernel_threads)} {}

MeasuredLayer::~MeasuredLayer() = default;

MeasuredLayer::Times MeasuredLayer::run() { return rank_->run(); }

SimTime MeasuredLayer::run_queued() { return rank_->run_queued(); }

Bytes MeasuredLayer::saved() const { return rank_->saved(); }

}  // namespace stagecraft
