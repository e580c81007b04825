#include <algorithm>
#include <catch2/catch.hpp>

#include "libexec/backends/cuda_backend.hpp"
#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/run_checks.hpp"

// Whole iterations on a CUDA device, all ranks as threads that share it, held against the CPU.

namespace stagecraft {
namespace {

TEST_CASE("gradients of whole models on a device are those of the CPU", "[cuda]") {
  auto const precision =
      GENERATE(Precision::fp64, Precision::fp32, Precision::bf16, Precision::fp16);
  for (TrainingConfig const& config : {small_gpt(precision), small_llama(precision)}) {
    require_close(gradients_of(config, on_device()), gradients_of(config),
                  device_tolerance(precision));
  }
}

TEST_CASE("every layout on a device has the gradients of one rank on the CPU", "[cuda]") {
  TrainingConfig const base = GENERATE(small_gpt(Precision::fp64), small_llama(Precision::fp64));
  std::vector<WholeTensor> const wanted = gradients_of(base);
  for (NamedRun const& run : layouts_of(base)) {
    CAPTURE(run.name);
    require_close(gradients_of(run.config, on_device()), wanted, 1e-11);
  }
}

TEST_CASE("overlapped messages on a device carry the bits of blocking ones", "[cuda]") {
  TrainingConfig blocking = small_llama(Precision::fp32);
  blocking.parallel = {.pipeline = 2, .interleave = 2};
  blocking.schedule.kind = ScheduleKind::interleaved;
  TrainingConfig overlapped = blocking;
  overlapped.schedule.p2p = P2p::overlapped;
  require_same_bits(gradients_of(overlapped, on_device()), gradients_of(blocking, on_device()));
}

TEST_CASE("recompute on a device has the bits of what it recomputes", "[cuda]") {
  TrainingConfig stored = small_gpt(GENERATE(Precision::fp32, Precision::bf16));
  bool const splits_sequence = GENERATE(false, true);
  stored.parallel = {.tensor = 2, .pipeline = 2, .sequence = splits_sequence};
  std::vector<WholeTensor> const wanted = gradients_of(stored, on_device());
  for (NamedPolicy const& policy : all_policies()) {
    CAPTURE(policy.name, splits_sequence);
    // Checkpoints are sharded where the sequence is not.
    if (policy.policy.sharded_checkpoints && splits_sequence) continue;
    TrainingConfig recomputed = stored;
    recomputed.recompute = {policy.policy};
    require_same_bits(gradients_of(recomputed, on_device()), wanted);
  }
}

TEST_CASE("products that are measured, and may add their biases, have the CPU's gradients",
          "[cuda]") {
  auto const precision = GENERATE(Precision::fp32, Precision::bf16);
  TrainingConfig config = small_gpt(precision);
  config.parallel.tensor = GENERATE(1, 2);
  SmallRun fastest = on_device();
  fastest.fastest_products = true;
  std::vector<WholeTensor> const got = gradients_of(config, fastest);
  require_close(got, gradients_of(config), device_tolerance(precision));
}

TEST_CASE("training on a device follows training on the CPU", "[cuda]") {
  auto const precision = GENERATE(Precision::fp64, Precision::fp16);
  TrainingConfig config = small_gpt(precision);
  config.parallel = {.tensor = 2, .pipeline = 2, .data = 2};
  config.sharding = sharding_of(true);
  constexpr int steps = 4;
  auto const device = execute(config, on_device(steps)).steps;
  auto const cpu = execute(config, {.options = {.steps = steps}}).steps;
  for (std::size_t i = 0; i < steps; ++i) {
    CAPTURE(i);
    REQUIRE(device[i].loss == Approx(cpu[i].loss).epsilon(device_tolerance(precision)));
    REQUIRE(device[i].gradient_norm ==
            Approx(cpu[i].gradient_norm).epsilon(device_tolerance(precision)));
    REQUIRE(device[i].was_skipped == cpu[i].was_skipped);
  }
}

TEST_CASE("a step that is validated later has the bits of one behind a barrier on a device",
          "[cuda]") {
  TrainingConfig barrier = small_gpt(GENERATE(Precision::fp16, Precision::bf16));
  barrier.parallel = {.tensor = 2, .pipeline = 2};
  barrier.schedule.kind = ScheduleKind::zb_h1;
  barrier.schedule.p2p = P2p::overlapped;
  barrier.training.learning_rate = 1e-2;
  // Never clipped, always.
  barrier.training.clip = GENERATE(0.0, 1e-3);
  TrainingConfig later = barrier;
  later.schedule.step = StepSync::post_validated;
  require_same_bits(parameters_after(later, 3, on_device()),
                    parameters_after(barrier, 3, on_device()));
}

TEST_CASE("a device counts the bytes that the CPU counts", "[cuda][long]") {
  int compared = 0;
  for (NamedRun const& run : plan_grid()) {
    CAPTURE(run.name);
    require_same_memory(run.config);
    ++compared;
  }
  REQUIRE(compared >= 100);
}

TEST_CASE("a device says what its pool took, which is no less than what was counted", "[cuda]") {
  TrainingConfig config = small_gpt(Precision::bf16);
  config.parallel = {.tensor = 1, .pipeline = 2};
  for (RankReport const& rank : execute(config, on_device(2)).ranks) {
    REQUIRE(rank.device);
    std::int64_t const counted = rank.at_peak.sum() - rank.at_peak[Category::workspace];
    REQUIRE(rank.device->pool_peak.count() >= counted);
    REQUIRE(rank.device->after.count() >= rank.at_peak[Category::workspace]);
  }
  REQUIRE_FALSE(execute(config).ranks.front().device);
}

TEST_CASE("what a device has free is what nobody has taken", "[cuda]") {
  Bytes const before = free_cuda_memory(0);
  constexpr std::int64_t taken = std::int64_t{256} << 20;
  auto const backend = make_cuda_backend(KernelNeeds{}, 0);
  void* const memory = backend->allocate(taken);
  std::byte byte{};
  backend->read(&byte, memory, 1);  // the allocation has happened
  REQUIRE(before.count() - free_cuda_memory(0).count() >= taken);
  backend->deallocate(memory, taken);
}

/// Rows of one stream follow one another.
void require_ordered(RankTrace const& trace) {
  std::vector<std::int64_t> busy_until(8, 0);
  OpColumns const& ops = trace.ops;
  for (std::size_t row = 0; row < ops.rows(); ++row) {
    auto const stream = static_cast<std::size_t>(ops.stream[row]);
    CAPTURE(row, stream);
    REQUIRE(ops.duration[row] >= 0);
    REQUIRE(ops.start[row] >= 0);
    if (stream == static_cast<std::size_t>(Stream::compute)) {
      REQUIRE(ops.start[row] >= busy_until[stream]);
      busy_until[stream] = ops.start[row] + ops.duration[row];
    }
  }
  REQUIRE(std::is_sorted(trace.memory.time.begin(), trace.memory.time.end()));
}

TEST_CASE("a trace of a device has the ops of the CPU's, in order", "[cuda]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel = {.tensor = 2, .pipeline = 2, .sequence = true};
  bool const is_virtual = GENERATE(false, true);
  bool const fastest_products = GENERATE(false, true);
  FreeCommunication const costs;
  SmallRun device = on_device(2);
  device.options.traces = true;
  device.options.is_virtual = is_virtual;
  device.costs = &costs;
  device.fastest_products = fastest_products;
  SmallRun cpu = device;
  cpu.device = DeviceKind::cpu;
  Execution const got = execute(config, device);
  Execution const wanted = execute(config, cpu);
  REQUIRE(got.traces.size() == wanted.traces.size());
  for (std::size_t i = 0; i < got.traces.size(); ++i) {
    CAPTURE(i);
    REQUIRE(got.traces[i].ops.op == wanted.traces[i].ops.op);
    REQUIRE(got.traces[i].ops.microbatch == wanted.traces[i].ops.microbatch);
    require_ordered(got.traces[i]);
  }
}

TEST_CASE("a rank that fails on a device ends its peers", "[cuda]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel = {.tensor = 2, .pipeline = 2};
  SmallRun run = on_device();
  run.options.on_op = [](RankContext const& context, Op const& op, KernelCall const&) {
    if (context.rank == RankId{3} && op.phase == Phase::input_gradient) {
      throw std::runtime_error{"the device is on fire"};
    }
  };
  REQUIRE_THROWS_WITH(execute(config, run),
                      Catch::Contains("rank 3") && Catch::Contains("the device is on fire"));
}

}  // namespace
}  // namespace stagecraft
