#include <catch2/catch.hpp>

#include "libsim/cost/cost_model.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/plan_outline.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft::software_cost_test {
namespace {

/// Expected values are hand counts on the invented system: 1 TB/s of memory, 10 GB/s of network.
Op op_of(OpKind kind, Phase phase = Phase::forward) {
  Op op;
  op.kind = kind;
  op.phase = phase;
  op.traffic = Bytes{1'000'000};
  return op;
}

Op replica_op(TrainingPlan const& plan, OpKind kind, std::int64_t bytes) {
  Op op = op_of(kind, Phase::data_parallel);
  op.group = plan.roles.gradients;
  op.payload = Bytes{bytes};
  return op;
}

/// Eight tensor ranks fill a node: each of two replicas has one of its own.
TrainingConfig two_nodes() { return modest_run(8, 1, 2); }

TEST_CASE("the host pays by kind of op, more in backward, nothing for waits", "[cost]") {
  TrainingPlan const plan = make_outline(two_nodes());
  System system = invented_system();
  HostCosts& host = system.software.host;
  host.kernel.value = {10e-6};
  host.gemm.value = {20e-6};
  host.backward.value = 1.5;
  CostModel const cost{system, plan};
  REQUIRE(cost.host_time(op_of(OpKind::add)) == to_sim_time(10e-6));
  REQUIRE(cost.host_time(op_of(OpKind::add, Phase::recompute)) == to_sim_time(10e-6));
  REQUIRE(cost.host_time(op_of(OpKind::gemm)) == to_sim_time(20e-6));
  REQUIRE(cost.host_time(op_of(OpKind::gemm, Phase::weight_gradient)) == to_sim_time(30e-6));
  REQUIRE(cost.host_time(op_of(OpKind::wait)) == SimTime{0});
  REQUIRE(cost.host_time(op_of(OpKind::adam, Phase::optimizer)) == SimTime{0});
}

TEST_CASE("an op costs the host its launches and its calls, by the speed of the machine",
          "[cost]") {
  TrainingPlan const plan = make_outline(two_nodes());
  System system = invented_system();
  system.node.host_speed.value = 2;
  HostCosts& host = system.software.host;
  host.kernel.value = {10e-6};
  host.gemm.value = {20e-6};
  host.call.value = {100e-6};
  host.launches.value = {{OpKind::rotary, 6}, {OpKind::grouped_gemm, 2}};
  host.calls.value = {{OpKind::rotary, 3}, {OpKind::gemm, 1}};
  CostModel const cost{system, plan};
  REQUIRE(cost.host_time(op_of(OpKind::add)) == to_sim_time(10e-6 / 2));
  REQUIRE(cost.host_time(op_of(OpKind::rotary)) == to_sim_time((6 * 10e-6 + 3 * 100e-6) / 2));
  Op product = op_of(OpKind::gemm);
  product.attributes = GemmAttributes{.shape = {.batch = 1, .m = 1, .n = 1, .k = 1}};
  REQUIRE(cost.host_time(product) == to_sim_time((20e-6 + 100e-6) / 2));
  // A product of a batch has no parameter, and so no module.
  product.attributes = GemmAttributes{.shape = {.batch = 4, .m = 1, .n = 1, .k = 1}};
  REQUIRE(cost.host_time(product) == to_sim_time(20e-6 / 2));
  product.kind = OpKind::grouped_gemm;  // launched for each of four groups
  REQUIRE(cost.host_time(product) == to_sim_time(4 * 2 * 20e-6 / 2));
}

TEST_CASE("biases of experts times probabilities are launched for each expert of the rank",
          "[cost]") {
  TrainingPlan const plan = make_outline(two_nodes());
  System system = invented_system();
  system.software.host.kernel.value = {10e-6};
  Op op = op_of(OpKind::weighted_bias_add);
  op.attributes = GroupsAttributes{4};
  REQUIRE(CostModel{system, plan}.host_time(op) == to_sim_time(10e-6));
  system.software.host.launches.value = {{OpKind::weighted_bias_add, 2}};
  REQUIRE(CostModel{system, plan}.host_time(op) == to_sim_time(4 * 2 * 10e-6));
}

TEST_CASE("a gradient that is added apart, and an output that is filled, are launches", "[cost]") {
  TrainingConfig config = two_nodes();
  config.deterministic = true;
  TrainingPlan const plan = make_outline(config);
  System system = invented_system();
  system.software.host.kernel.value = {10e-6};
  system.software.host.gemm.value = {20e-6};
  system.software.host.launches.value = {{OpKind::rotary, 6}};  // they are counted
  system.software.kernels.accumulation_bytes.value = 12;
  Op product = op_of(OpKind::gemm);
  product.attributes =
      GemmAttributes{.shape = {.batch = 1, .m = 1000, .n = 1000, .k = 1, .accumulate = true}};
  REQUIRE(CostModel(system, plan).host_time(product) == to_sim_time(30e-6));
  SimTime const unfilled = CostModel(system, plan).duration(product);
  system.software.kernels.fills_outputs.value = true;
  REQUIRE(CostModel(system, plan).host_time(product) == to_sim_time(40e-6));
  // 2 MB of output at 1 TB/s; a launch on the device costs nothing on the invented system.
  REQUIRE(CostModel(system, plan).duration(product) - unfilled == to_sim_time(2e-6));
}

TEST_CASE("a checked collective costs the host by the ranks of its group", "[cost]") {
  TrainingPlan const plan = make_outline(two_nodes());
  System system = invented_system();
  HostCosts& host = system.software.host;
  host.collective.value = {10e-6};
  host.collective_per_rank.value = {3e-6};
  host.collective_per_remote_rank.value = {5e-6};
  CostModel const cost{system, plan};
  Op op = op_of(OpKind::all_gather);
  op.group = plan.roles.tensor;  // 8 ranks of one node
  REQUIRE(cost.host_time(op) == to_sim_time(34e-6));
  op.group = plan.roles.gradients;  // 2 ranks on two nodes
  REQUIRE(cost.host_time(op) == to_sim_time(20e-6));
}

TEST_CASE("kernels of the stack move a multiple of a fused kernel's bytes", "[cost]") {
  TrainingPlan const plan = make_outline(two_nodes());
  System system = invented_system();
  system.software.kernels.traffic.value = {{OpKind::swiglu, 2.5}};
  CostModel const cost{system, plan};
  REQUIRE(cost.duration(op_of(OpKind::swiglu)) == to_sim_time(2.5e-6));
  REQUIRE(cost.duration(op_of(OpKind::add)) == to_sim_time(1e-6));
}

TEST_CASE("kernels of the stack take a multiple of the system's time, by the device", "[cost]") {
  TrainingPlan const plan = make_outline(two_nodes());
  System system = invented_system();
  system.software.kernels.time.value = {{OpKind::swiglu, {{8, 1.5}, {9, 2}}}};
  auto const duration = [&](int capability, OpKind kind) {
    system.accelerator.compute_capability.value = capability;
    return CostModel{system, plan}.duration(op_of(kind));
  };
  REQUIRE(duration(7, OpKind::swiglu) == to_sim_time(1e-6));
  REQUIRE(duration(8, OpKind::swiglu) == to_sim_time(1.5e-6));
  REQUIRE(duration(10, OpKind::swiglu) == to_sim_time(2e-6));
  REQUIRE(duration(10, OpKind::add) == to_sim_time(1e-6));
}

TEST_CASE("where there is no fused softmax, it moves more and costs the host more", "[cost]") {
  TrainingPlan const plan = make_outline(two_nodes());
  System system = invented_system();
  system.software.kernels.fused_softmax_multiple.value = 4;
  system.software.kernels.unfused_softmax_traffic.value = 3;
  system.software.host.unfused_softmax.value = {50e-6};
  CostModel const cost{system, plan};
  Op softmax = op_of(OpKind::causal_softmax);
  softmax.attributes = SoftmaxAttributes{.scale = 1, .dropout = {}, .matrices = 8};
  REQUIRE(cost.duration(softmax) == to_sim_time(1e-6));
  REQUIRE(cost.host_time(softmax) == SimTime{0});
  softmax.attributes = SoftmaxAttributes{.scale = 1, .dropout = {}, .matrices = 6};
  REQUIRE(cost.duration(softmax) == to_sim_time(3e-6));
  REQUIRE(cost.host_time(softmax) == to_sim_time(50e-6));
}

TEST_CASE("gradients added by kernels of their own move 12 bytes per element", "[cost]") {
  // C of 1000 x 1000 in fp16: the product alone writes 2 bytes of the 12, the other 10 are added.
  TrainingPlan const plan = make_outline(two_nodes());
  System system = invented_system();
  Op product = op_of(OpKind::gemm, Phase::weight_gradient);
  product.attributes =
      GemmAttributes{.shape = {.batch = 1, .m = 1000, .n = 1000, .k = 16, .accumulate = true},
                     .output = ElementType::f32};
  product.traffic = Bytes{8'000'000};  // all of it the accumulator
  SimTime const fused = CostModel{system, plan}.duration(product);
  system.software.kernels.accumulation_bytes.value = 12;
  SimTime const apart = CostModel{system, plan}.duration(product);
  REQUIRE(apart - fused == to_sim_time((2 + 10 - 8) * 1e-6));
}

TEST_CASE("gradients travel as the stack sends them, in as many calls", "[cost]") {
  TrainingConfig config = two_nodes();
  TrainingPlan const plan = make_outline(config);
  System system = invented_system();
  // 40 MB in fp32 over two nodes, one rank on each: a ring of two moves it once, at 10 GB/s.
  Op const reduction = replica_op(plan, OpKind::all_reduce, 40'000'000);
  REQUIRE(CostModel{system, plan}.duration(reduction) == to_sim_time(4e-3));
  ReplicaTraffic& replicas = system.software.replicas;
  replicas.gradient_bytes.value = 2;
  REQUIRE(CostModel{system, plan}.duration(reduction) == to_sim_time(2e-3));
  replicas.bucket.value = Bytes{8'000'000};
  replicas.call.value = {1e-4};
  replicas.call_per_rank.value = {1e-5};
  REQUIRE(CostModel{system, plan}.duration(reduction) == to_sim_time(2e-3));  // one call at the end
  config.parallel.overlap_gradients = true;
  TrainingPlan const overlapped = make_outline(config);
  // 20 MB in buckets of 8: three calls for two ranks.
  REQUIRE(CostModel{system, overlapped}.duration(reduction) == to_sim_time(2e-3 + 3 * 1.2e-4));
  replicas.bucket.value = Bytes{9'500'000};  // of 10 MB there would be two
  REQUIRE(CostModel{system, overlapped}.duration(reduction) == to_sim_time(2e-3 + 3 * 1.2e-4));
}

TEST_CASE("a whole reduction and a gather of parameters in pieces", "[cost]") {
  TrainingPlan const plan = make_outline(two_nodes());
  System system = invented_system();
  Op const scatter = replica_op(plan, OpKind::reduce_scatter, 40'000'000);
  Op gather = replica_op(plan, OpKind::all_gather, 40'000'000);
  REQUIRE(CostModel{system, plan}.duration(scatter) == to_sim_time(2e-3));
  REQUIRE(CostModel{system, plan}.duration(gather) == to_sim_time(2e-3));
  system.software.replicas.reduces_whole.value = true;
  REQUIRE(CostModel{system, plan}.duration(scatter) == to_sim_time(4e-3));
  // Three tensors for two ranks; copies of 240 MB.
  gather.tensors = 3;
  ReplicaTraffic& replicas = system.software.replicas;
  replicas.gather_piece.value = {1e-5};
  REQUIRE(CostModel{system, plan}.duration(gather) == to_sim_time(2e-3 + 6e-5));
  replicas.gather_traffic.value = 6;
  double const rate =
      system.accelerator.bandwidth.value.value * system.calibration.stream_efficiency.value;
  REQUIRE(to_seconds(CostModel{system, plan}.duration(gather)) ==
          Approx(2e-3 + 6e-5 + 240e6 / rate));
}

TEST_CASE("the stack's part of a message and of an iteration comes on top", "[cost]") {
  TrainingPlan const plan = make_plan(as_settled(modest_run(4, 4)));
  System system = invented_system();
  system.calibration.iteration_overhead.value = {5e-3};
  MessageCost const before = CostModel{system, plan}.message_cost(StageId{1}, StageId{2});
  system.software.host.message.value = {190e-6};
  system.software.host.iteration.value = {12e-3};
  CostModel const cost{system, plan};
  REQUIRE(cost.message_cost(StageId{1}, StageId{2}).latency - before.latency ==
          to_sim_time(190e-6));
  REQUIRE(cost.message_cost(StageId{1}, StageId{2}).occupancy == before.occupancy);
  REQUIRE(cost.iteration_overhead() == to_sim_time(17e-3));
}

TEST_CASE("a product of a gathered input is cut into the own shard and the rest", "[cost]") {
  // 16 x 8 tiles of 256 x 128 on 4 processors; the own shard of one rank in four is 4 x 8 of them.
  TrainingPlan const plan = make_outline(modest_run(4, 1));
  System const system = invented_system();
  CostModel const cost{system, plan};
  Op gather = op_of(OpKind::all_gather);
  gather.group = plan.roles.tensor;
  Op product = op_of(OpKind::gemm);
  product.attributes = GemmAttributes{.shape = {.batch = 1, .m = 4096, .n = 1024, .k = 1024}};
  CostModel::SplitProduct const split = cost.split_product(gather, product);
  double const whole = to_seconds(cost.duration(product));
  REQUIRE(to_seconds(split.own) == Approx(whole / 4));
  REQUIRE(to_seconds(split.rest) == Approx(3 * whole / 4));
}

TEST_CASE("flash attention has an efficiency forward and one backward", "[cost]") {
  TrainingPlan const plan = make_outline(two_nodes());
  System system = invented_system();
  system.calibration.flash_forward_efficiency.value = 0.5;
  system.calibration.flash_backward_efficiency.value = 0.25;
  CostModel const cost{system, plan};
  Op flash = op_of(OpKind::flash_attention);
  flash.attributes = FlashAttributes{};
  flash.flops = 1'000'000'000;  // 10 us at the peak of 100 TFLOP/s
  REQUIRE(cost.duration(flash) == to_sim_time(20e-6));
  flash.kind = OpKind::flash_attention_backward;
  REQUIRE(cost.duration(flash) == to_sim_time(40e-6));
}

TEST_CASE("computation is slowed down by where the gradients are reduced", "[cost]") {
  System system = invented_system();
  system.calibration.overlap_slowdown.value = 0.5;
  system.calibration.network_slowdown.value = 0.14;
  auto const slowdown = [&](TrainingConfig const& config) {
    TrainingPlan const plan = make_outline(config);
    return CostModel{system, plan}.data_parallel_slowdown_millionths();
  };
  REQUIRE(slowdown(two_nodes()) == 140'000);
  REQUIRE(slowdown(modest_run(4, 1, 2)) == 500'000);  // both replicas on one node
}

TEST_CASE("beside units that leave their nodes, the stack says how much slower it is", "[cost]") {
  TrainingConfig config = two_nodes();
  System system = invented_system();
  system.calibration.overlap_slowdown.value = 0.5;
  system.calibration.network_slowdown.value = 0.1;
  system.software.replicas.unit_slowdown.value = 0.2;
  REQUIRE(CostModel{system, make_outline(config)}.data_parallel_slowdown_millionths() == 100'000);
  config.sharding.kind = ShardingKind::fsdp2;
  REQUIRE(CostModel{system, make_outline(config)}.data_parallel_slowdown_millionths() == 200'000);
  config.parallel.tensor = 1;  // two ranks of one node
  REQUIRE(CostModel{system, make_outline(config)}.data_parallel_slowdown_millionths() == 500'000);
}

TEST_CASE("beside DeepEP's kernels a pass has the multiprocessors that they leave", "[cost]") {
  TrainingConfig config = modest_run(1, 1, 2);
  System system = invented_system();
  system.calibration.overlap_slowdown.value = 0.5;
  system.accelerator.multiprocessors.value = 132;
  auto const slowdown = [&] {
    return CostModel{system, make_outline(config)}.dispatch_slowdown_millionths();
  };
  REQUIRE(slowdown() == 500'000);
  config.dispatch = Dispatch::deepep;
  REQUIRE(slowdown() == 151'515);  // 20 / 132
  config.parallel.dispatch_multiprocessors = 24;
  REQUIRE(slowdown() == 181'818);
}

}  // namespace
}  // namespace stagecraft::software_cost_test
