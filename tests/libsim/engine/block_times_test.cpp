#include "libsim/engine/player/block_times.hpp"

#include <catch2/catch.hpp>

#include "libsim/modules/blocks.hpp"
#include "libsim/plan/plan_outline.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::block_times_test {
namespace {

constexpr SimTime microsecond{1'000'000};

/// A backward pass written down op by op, on two tensor ranks: kernels by their traffic at 1 TB/s
/// (1 MB a microsecond), all-reduces by their payload (a ring of two moves it once, at 100 GB/s).
class HandMadePass {
 public:
  HandMadePass& compute(int microseconds, Phase phase) {
    Op op;
    op.kind = OpKind::add;
    op.phase = phase;
    op.traffic = Bytes{microseconds * 1'000'000};
    block_.backward.push_back(op);
    return *this;
  }
  HandMadePass& all_reduce(int microseconds, Phase phase, Stream stream = Stream::tensor_parallel) {
    Op op;
    op.kind = OpKind::all_reduce;
    op.stream = stream;
    op.phase = phase;
    op.group = outline_.roles.tensor;
    op.payload = Bytes{microseconds * 100'000};
    block_.backward.push_back(op);
    return *this;
  }
  /// Tensor 1 is gathered from tensor 0, and tensor 3 is its product with tensor 2.
  HandMadePass& gathered_product(int gather_microseconds) {
    Op gather;
    gather.kind = OpKind::all_gather;
    gather.stream = Stream::tensor_parallel;
    gather.group = outline_.roles.tensor;
    gather.reads = {0};
    gather.writes = {1};
    gather.payload = Bytes{gather_microseconds * 200'000};  // a ring of two moves half of it
    block_.backward.push_back(gather);
    wait_for(static_cast<std::int32_t>(block_.backward.size()) - 1, Phase::forward);
    Op product;
    product.kind = OpKind::gemm;
    product.reads = {1, 2};
    product.writes = {3};
    product.attributes = GemmAttributes{.shape = {.batch = 1, .m = 512, .n = 512, .k = 25000}};
    block_.backward.push_back(product);
    return *this;
  }
  HandMadePass& wait_for(std::int32_t position, Phase phase) {
    Op op;
    op.kind = OpKind::wait;
    op.phase = phase;
    op.waits_for = position;
    block_.backward.push_back(op);
    return *this;
  }
  PassTimes times(double slowdown = 0) {
    System system = invented_system();
    system.calibration.overlap_slowdown.value = slowdown;
    return times_on(system);
  }
  PassTimes times_on(System const& system) {
    return time_pass(block_, Pass::backward, CostModel{system, outline_});
  }

 private:
  static TrainingConfig two_ranks() {
    TrainingConfig config;
    config.model.layers = 1;
    config.model.hidden = config.model.ffn_hidden = 2;
    config.model.heads = config.model.kv_heads = 2;
    config.model.head_dim = 1;
    config.model.sequence = config.model.vocabulary = 2;
    config.parallel.tensor = 2;
    return config;
  }

  TrainingPlan outline_ = make_outline(two_ranks());
  BlockProgram block_;
};

constexpr Phase input = Phase::input_gradient, weight = Phase::weight_gradient,
                recompute = Phase::recompute;

TEST_CASE("collectives of one stream follow each other, those of two run at once", "[engine]") {
  auto const duration_on = [](Stream stream) {
    return HandMadePass{}
        .all_reduce(10, input)
        .all_reduce(30, input, stream)
        .wait_for(0, input)
        .compute(5, input)
        .wait_for(1, input)
        .times()
        .duration;
  };
  REQUIRE(duration_on(Stream::tensor_parallel) == 40 * microsecond);
  REQUIRE(duration_on(Stream::gather) == 30 * microsecond);
}

TEST_CASE("an all-reduce longer than the weight gradient behind it is exposed by the difference",
          "[engine]") {
  // 10 of dgrad; 30 of all-reduce beside 20 of wgrad: 10 + 30.
  auto pass = HandMadePass{}.compute(10, input).all_reduce(30, input).compute(20, weight);
  PassTimes const times = pass.wait_for(1, input).times();
  REQUIRE(times.duration == 40 * microsecond);
  REQUIRE(times.start[1] == 10 * microsecond);
  REQUIRE(times.end[1] == 40 * microsecond);
  REQUIRE(times.end[2] == 30 * microsecond);
}

TEST_CASE("a pass says for how long its collectives use the links of reductions", "[engine]") {
  // Two tensor ranks and no replicas: all of them on one node. A wait and a kernel use no link.
  auto pass = HandMadePass{}.compute(10, input).all_reduce(15, input).compute(20, weight);
  REQUIRE(pass.wait_for(1, input).times().on_links == 15 * microsecond);
}

TEST_CASE("an all-reduce shorter than the weight gradient costs nothing", "[engine]") {
  auto pass = HandMadePass{}.compute(10, input).all_reduce(15, input).compute(20, weight);
  REQUIRE(pass.wait_for(1, input).times().duration == 30 * microsecond);
}

TEST_CASE("a GEMM under an all-reduce loses the slowdown's part of its speed for that long",
          "[engine]") {
  // At half speed for 15 it does 7.5 of 20; 12.5 remain: 10 + 15 + 12.5.
  auto pass = HandMadePass{}.compute(10, input).all_reduce(15, input).compute(20, weight);
  PassTimes const times = pass.wait_for(1, input).times(0.5);
  REQUIRE(times.duration == SimTime{37'500'000});
  REQUIRE(times.end[1] == 25 * microsecond);  // the collective is not slowed down
}

TEST_CASE("compute issued before a collective is not slowed down by it", "[engine]") {
  auto pass = HandMadePass{}.compute(10, input).all_reduce(15, input).wait_for(1, input);
  REQUIRE(pass.compute(20, weight).times(0.5).duration == 45 * microsecond);
}

TEST_CASE("collectives follow each other on their stream", "[engine]") {
  auto pass = HandMadePass{}.all_reduce(10, input).all_reduce(10, input).compute(5, weight);
  PassTimes const times = pass.wait_for(1, input).times();
  REQUIRE(times.start[1] == 10 * microsecond);
  REQUIRE(times.duration == 20 * microsecond);
}

TEST_CASE("exposed communication counts in the phase that waits for it", "[engine]") {
  // Recompute 4, its all-reduce 6 exposed; backward 10, 30 beside 20, exposed 10.
  auto pass = HandMadePass{}.compute(4, recompute).all_reduce(6, recompute).wait_for(1, recompute);
  pass.compute(10, input).all_reduce(30, input).compute(20, weight).wait_for(4, input);
  PassTimes const times = pass.times();
  REQUIRE(times.recompute == 10 * microsecond);
  REQUIRE(times.backward == 40 * microsecond);
  REQUIRE(times.forward == SimTime{0});
  REQUIRE(times.duration == 50 * microsecond);
}

TEST_CASE("the all-reduces of forward are exposed again when it is recomputed", "[engine]") {
  // Korthikanti et al. 2022, section 6.1: why full recompute costs more than a third.
  TrainingConfig config = run_of(table3_rows[0], RecomputeGranularity::full, false);
  System const system = lossy_system();
  TrainingPlan const outline = make_outline(config);
  CostModel const cost{system, outline};
  BlockShape const& shape = outline.shape;
  BlockProgram const full = build_layers(shape, 1, config.recompute.front());
  BlockProgram const stored = build_layers(shape, 1, {});
  PassTimes const forward = time_pass(stored, Pass::forward, cost);
  REQUIRE(time_pass(full, Pass::backward, cost).recompute == forward.duration);
  REQUIRE(time_pass(full, Pass::backward, cost).backward ==
          time_pass(stored, Pass::backward, cost).duration);
  REQUIRE(time_pass(full, Pass::forward, cost).duration == forward.duration);
}

TEST_CASE("layers in a row take as long as each alone: every layer drains its streams",
          "[engine]") {
  bool const sequence = GENERATE(false, true);
  TrainingConfig config = run_of(table3_rows[1], RecomputeGranularity::none, sequence);
  System const system = lossy_system();
  TrainingPlan const outline = make_outline(config);
  CostModel const cost{system, outline};
  BlockShape const& shape = outline.shape;
  for (Pass const pass : {Pass::forward, Pass::backward}) {
    REQUIRE(time_pass(build_layers(shape, 3, {}), pass, cost).duration ==
            3 * time_pass(build_layers(shape, 1, {}), pass, cost).duration);
  }
}

TEST_CASE("the shares of a pass sum to its duration, and no stream does two things at once",
          "[engine]") {
  bool const sequence = GENERATE(false, true);
  auto const granularity = GENERATE(RecomputeGranularity::none, RecomputeGranularity::selective,
                                    RecomputeGranularity::full);
  TrainingConfig config = run_of(table3_rows[1], granularity, sequence);
  System const system = lossy_system();
  TrainingPlan const outline = make_outline(config);
  CostModel const cost{system, outline};
  BlockProgram const layer = build_layers(outline.shape, 1, config.recompute.front());
  for (Pass const pass : {Pass::forward, Pass::backward}) {
    PassTimes const times = time_pass(layer, pass, cost);
    REQUIRE(times.forward + times.recompute + times.backward == times.duration);
    SimTime idle[2] = {};
    for (std::size_t i = 0; i < times.start.size(); ++i) {
      Op const& op = layer.ops(pass)[i];
      SimTime& of_stream = idle[op.stream == Stream::compute ? 0 : 1];
      REQUIRE(times.start[i] >= of_stream);
      REQUIRE(times.end[i] - times.start[i] >= cost.duration(op));
      of_stream = times.end[i];
    }
    REQUIRE(times.duration >= idle[1]);  // the tensor-parallel stream is drained
  }
}

TEST_CASE("a pass takes as long as the host takes to issue it, its idle time before the ops",
          "[engine]") {
  // 10 + 20 of compute; the host takes 50 for each kernel: 100, 70 of them idle, half before each.
  auto pass = HandMadePass{}.compute(10, input).compute(20, weight);
  System system = invented_system();
  system.software.host.kernel.value = {50e-6};
  PassTimes const times = pass.times_on(system);
  REQUIRE(times.duration == 100 * microsecond);
  REQUIRE(times.host_waits.size() == 2);
  REQUIRE(times.host_waits[0].start == SimTime{0});
  REQUIRE(times.host_waits[0].end == times.start[0]);
  REQUIRE(times.host_waits[1].start == times.end[0]);
  REQUIRE(times.host_waits[1].end == times.start[1]);
  REQUIRE(times.host_waits[1].op == 1);
  REQUIRE(times.start[0] == 35 * microsecond);
  REQUIRE(times.end[0] == 45 * microsecond);
  REQUIRE(times.start[1] == 80 * microsecond);
  REQUIRE(times.end[1] == 100 * microsecond);
  REQUIRE(times.backward == times.duration);
}

TEST_CASE("a host that is faster than the accelerator costs nothing", "[engine]") {
  auto pass = HandMadePass{}.compute(10, input).compute(20, weight);
  System system = invented_system();
  system.software.host.kernel.value = {15e-6};
  REQUIRE(pass.times_on(system).start == pass.times().start);
  REQUIRE(pass.times_on(system).duration == 30 * microsecond);
  REQUIRE(pass.times_on(system).host_waits.empty());
}

TEST_CASE("a stack without overlap stands still for each collective", "[engine]") {
  // 10 of dgrad, 30 of all-reduce, then 20 of wgrad.
  auto pass = HandMadePass{}.compute(10, input).all_reduce(30, input).compute(20, weight);
  System system = invented_system();
  system.software.tensor.overlaps_backward.value = false;
  PassTimes const times = pass.wait_for(1, input).times_on(system);
  REQUIRE(times.duration == 60 * microsecond);
  REQUIRE(times.start[2] == 40 * microsecond);
  REQUIRE(times.backward == times.duration);
}

TEST_CASE("the product of the own shard hides behind the gather of the others", "[engine]") {
  // 2 x 4 tiles of 2 x 256 x 128 x 25000 FLOPs, 65.536 us each on one of four processors: two
  // waves; the shard of one rank in two is one of them. C is written at 1 TB/s, 0.52 us in all.
  constexpr double wave = 65.536e-6;
  constexpr double written = 512 * 512 * 2 / 1e12;
  System system = invented_system();
  auto const seconds = [&](int gather) {
    return to_seconds(HandMadePass{}.gathered_product(gather).times_on(system).duration);
  };
  REQUIRE(seconds(100) == Approx(100e-6 + 2 * wave + written));
  system.software.tensor.own_shard_first.value = true;
  REQUIRE(seconds(100) == Approx(100e-6 + wave + written / 2));  // hidden whole
  REQUIRE(seconds(30) == Approx(2 * wave + written));            // the gather is
}

}  // namespace
}  // namespace stagecraft::block_times_test
