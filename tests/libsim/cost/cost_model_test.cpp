#include "libsim/cost/cost_model.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "libsim/cost/gemm_time.hpp"
#include "libsim/modules/blocks.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/plan_outline.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft::cost_model_test {
namespace {

Op sweep(std::int64_t bytes) {
  Op op;
  op.kind = OpKind::add;
  op.traffic = Bytes{bytes};
  return op;
}

Op collective(OpKind kind, GroupId group, std::int64_t bytes) {
  Op op;
  op.kind = kind;
  op.group = group;
  op.payload = Bytes{bytes};
  return op;
}

TEST_CASE("an element-wise kernel takes its launch and its bytes", "[cost]") {
  TrainingPlan const plan = make_outline(modest_run(1, 1));
  System const system = lossy_system();
  Op op = sweep(85'000'000);
  REQUIRE(CostModel(system, plan).duration(op) == to_sim_time(3e-6 + 100e-6));
  op.draws_random = true;  // at 0.7 of the bandwidth instead of 0.85
  REQUIRE(CostModel(system, plan).duration(op) == to_sim_time(3e-6 + 85e6 / 0.7e12));
}

TEST_CASE("what has no cost of its own is refused, not costed as something else", "[cost]") {
  TrainingPlan const plan = make_outline(modest_run(2, 1));
  System system = lossy_system();
  system.accelerator.peak.value.erase(Precision::bf16);
  CostModel const cost{system, plan};
  Op product = sweep(1000);
  product.kind = OpKind::gemm;  // and no shape
  REQUIRE_THROWS_AS(cost.duration(product), std::logic_error);
  Op unknown = sweep(1000);
  unknown.kind = static_cast<OpKind>(op_kind_count);
  REQUIRE_THROWS_AS(cost.duration(unknown), std::out_of_range);
  Op flash = sweep(1000);
  flash.kind = OpKind::flash_attention;
  flash.attributes = FlashAttributes{};
  flash.type = ElementType::bf16;  // no peak for it
  REQUIRE_THROWS_AS(cost.duration(flash), CostError);
}

TEST_CASE("a product is costed by its element types, whatever stands beside it in the plan",
          "[cost]") {
  // Half the peak: twice the arithmetic's time.
  TrainingConfig const config = modest_run(1, 1);
  System system = invented_system();
  FlopsPerSecond const peak = system.accelerator.peak.value.at(Precision::fp16);
  system.accelerator.peak.value[Precision::fp32] = {peak.value / 2};
  BlockShape shape = make_outline(config).shape;
  TrainingPlan plan = make_plan(as_settled(config));
  plan.programs.blocks = {build_layers(shape, 1, {})};
  shape.model.precision = Precision::fp32;
  shape.model.norm_epsilon = 1e-6;
  shape.model.dropout = 0.3;
  plan.programs.blocks.push_back(build_layers(shape, 1, {}));
  CostModel const cost{system, plan};
  std::size_t products = 0;
  for (std::size_t i = 0; i < plan.programs.blocks[0].forward.size(); ++i) {
    Op const& half = plan.programs.blocks[0].forward[i];
    Op const& single = plan.programs.blocks[1].forward[i];
    REQUIRE(half.kind == single.kind);
    if (half.kind == OpKind::norm) {
      REQUIRE(std::get<NormAttributes>(half.attributes).epsilon == 1e-5);
      REQUIRE(std::get<NormAttributes>(single.attributes).epsilon == 1e-6);
    }
    if (DropoutAttributes const* const dropout = dropout_of(single.attributes);
        dropout != nullptr && dropout->rate > 0) {
      REQUIRE(dropout->rate == 0.3);
    }
    if (half.kind != OpKind::gemm) continue;
    ++products;
    GemmAttributes const& gemm = std::get<GemmAttributes>(single.attributes);
    REQUIRE(gemm.output == ElementType::f32);
    double const slow = gemm_time(gemm, Bytes{0}, Bytes{0}, {peak.value / 2}, system).value;
    REQUIRE(to_seconds(cost.duration(single)) >= slow * (1 - 1e-9));
    REQUIRE(cost.duration(half) < cost.duration(single));
  }
  REQUIRE(products == 6);
}

TEST_CASE("waits and holds take no time", "[cost]") {
  TrainingPlan const plan = make_outline(modest_run(2, 1));
  System const system = lossy_system();
  for (OpKind const kind : {OpKind::wait, OpKind::hold}) {
    Op op = sweep(1000);
    op.kind = kind;
    REQUIRE(CostModel(system, plan).duration(op) == SimTime{0});
  }
}

TEST_CASE("no kernel is faster than its bytes at full bandwidth or its FLOPs at peak", "[cost]") {
  for (System const& system : {invented_system(), lossy_system()}) {
    for (OddRun const& run : odd_runs()) {
      TrainingPlan const plan = make_plan(as_settled(run.config));
      CostModel const cost{system, plan};
      for (BlockProgram const& block : plan.programs.blocks) {
        for (Pass const pass : {Pass::forward, Pass::backward}) {
          for (Op const& op : block.ops(pass)) {
            if (is_collective(op.kind)) continue;
            CAPTURE(run.name, to_string(op.name));
            double const seconds = to_seconds(cost.duration(op)) + 1e-12;
            REQUIRE(seconds >= static_cast<double>(op.traffic.count()) / 1e12);
            REQUIRE(seconds >= static_cast<double>(op.flops) / 100e12);
          }
        }
      }
    }
  }
}

TEST_CASE("no collective is faster than a ring's bytes over the link", "[cost]") {
  for (OddRun const& run : odd_runs()) {
    TrainingPlan const plan = make_plan(as_settled(run.config));
    System const system = lossy_system();
    CostModel const cost{system, plan};
    double const t = run.config.parallel.tensor;
    for (BlockProgram const& block : plan.programs.blocks) {
      for (Op const& op : block.forward) {
        if (!is_collective(op.kind)) continue;
        double const rings = op.kind == OpKind::all_reduce ? 2 : 1;
        double const bytes = rings * (t - 1) / t * static_cast<double>(op.payload.count());
        REQUIRE(to_seconds(cost.duration(op)) >= bytes / 100e9);
      }
    }
  }
}

TEST_CASE("a weight gradient reads and writes 4 bytes per parameter beside its operands",
          "[cost]") {
  // Accumulation into fp32 main gradients: 8 bytes per parameter and microbatch (cost of
  // Megatron-LM's gradient accumulation fusion); operands in 16 bits, each read once.
  BlockProgram const layer = build_layers(make_outline(modest_run(1, 1)).shape, 1, {});
  std::int64_t products = 0;
  for (Op const& op : layer.backward) {
    if (op.kind != OpKind::gemm || op.phase != Phase::weight_gradient) continue;
    ++products;
    GemmShape const& shape = std::get<GemmAttributes>(op.attributes).shape;
    std::int64_t const parameters = shape.m * shape.n;
    REQUIRE(shape.accumulate);
    REQUIRE(op.traffic.count() == 8 * parameters + 2 * shape.k * (shape.m + shape.n));
  }
  REQUIRE(products == 4);
}

TEST_CASE("element-wise kernels of a layer move the bytes that Megatron's kernels move", "[cost]") {
  // Bytes an element of the tensor named: norm forward 4, backward 4 + 6 (apex reads dy and x
  // twice: parameters' gradients are a kernel of their own); bias + dropout + add 7, backward 5 + 2
  // for the bias; bias + GeLU 4, backward 6 + 2; residual gradient 6; softmax 3 and 4; attention
  // dropout 5 and 5; bias of QKV 4; merging heads 4. Biases, weights and statistics are under 1 %.
  std::int64_t const s = 256, b = 4, h = 1024, a = 8, sbh = s * b * h, as2b = a * s * s * b;
  BlockProgram const layer = build_layers({.model = gpt(1, h, a, s, 1024), .micro = b}, 1, {});
  std::map<std::string, std::int64_t> traffic;
  for (Pass const pass : {Pass::forward, Pass::backward}) {
    for (Op const& op : layer.ops(pass)) traffic[to_string(op.name)] += op.traffic.count();
  }
  auto const moves = [&](std::string const& op, std::int64_t bytes) {
    CAPTURE(op);
    REQUIRE(traffic.contains(op));
    REQUIRE(static_cast<double>(traffic.at(op)) ==
            Approx(static_cast<double>(bytes)).epsilon(0.01));
  };
  moves("mlp_norm.forward", 4 * sbh);
  moves("mlp_norm.input_gradient", 6 * sbh);
  moves("mlp_norm.weight_gradient", 4 * sbh);
  moves("mlp_norm.residual_gradient", 6 * sbh);
  moves("mlp.output.dropout_add", 7 * sbh);
  moves("mlp.output.dropout_backward", 5 * sbh);
  moves("mlp.output.bias_gradient", 2 * sbh);
  moves("mlp.activation.forward", 4 * 4 * sbh);
  moves("mlp.activation.backward", 6 * 4 * sbh);
  moves("mlp.up.bias_gradient", 2 * 4 * sbh);
  moves("attention.qkv.bias_add", 4 * 3 * sbh);
  moves("attention.qkv.concatenate_gradients", 4 * 3 * sbh);
  moves("core_attention.softmax", 3 * as2b);
  moves("core_attention.softmax_backward", 4 * as2b);
  moves("core_attention.dropout", 5 * as2b);
  moves("core_attention.dropout_backward", 5 * as2b);
  moves("core_attention.merge_heads", 4 * sbh);
}

TEST_CASE("cross entropy moves 38 bytes a logit forward and 14 backward", "[cost]") {
  // Megatron-LM's unfused vocabulary-parallel cross entropy.
  std::int64_t const s = 64, b = 2, v = 8192;
  BlockProgram const head = build_head({.model = gpt(1, 64, 4, s, v), .micro = b}, HeadWeight::own);
  auto const bytes = [&](Pass pass) {
    std::int64_t sum = 0;
    for (Op const& op : head.ops(pass)) {
      bool const is_loss = op.name.owner == "loss" && op.kind != OpKind::load_tokens;
      if (is_loss) sum += op.traffic.count();
    }
    return static_cast<double>(sum);
  };
  REQUIRE(bytes(Pass::forward) == Approx(38.0 * s * b * v).epsilon(0.01));
  REQUIRE(bytes(Pass::backward) == Approx(14.0 * s * b * v).epsilon(0.01));
}

TEST_CASE("tensor groups stay in a node, replicas leave it when tensor x data does", "[cost]") {
  // Nodes of 8, ranks numbered tensor fastest, then data: 100 GB/s inside, 10 GB/s between.
  System const system = invented_system();
  OpKind const kind = GENERATE(OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter);
  double const rounds = kind == OpKind::all_reduce ? 2 : 1;  // of the ring
  auto const seconds = [&](TrainingPlan const& plan, GroupId group) {
    return to_seconds(CostModel(system, plan).duration(collective(kind, group, 1'000'000)));
  };
  TrainingPlan const near = make_outline(modest_run(4, 1, 2));
  TrainingPlan const far = make_outline(modest_run(8, 1, 2));
  REQUIRE(seconds(near, near.roles.tensor) == Approx(rounds * 0.75 * 1e6 / 100e9));
  REQUIRE(seconds(near, near.roles.gradients) == Approx(rounds * 0.5 * 1e6 / 100e9));
  REQUIRE(seconds(far, far.roles.gradients) == Approx(rounds * 0.5 * 1e6 / 10e9));
}

TEST_CASE(
    "collectives of a pass share links with reductions that leave the node as they do, or stay",
    "[cost]") {
  // Nodes of 8. Tensor groups of 16 need the adapters, as their replicas do; those of 8 have links
  // of their own; of two groups of 4 on one node the replicas are beside them.
  System const system = invented_system();
  auto const shares = [&](int tensor, OpKind kind) {
    TrainingConfig config = modest_run(tensor, 1, 2);
    config.model.heads = config.model.kv_heads = 16;
    config.model.head_dim = 8;
    TrainingPlan const plan = make_outline(config);
    return CostModel(system, plan)
        .shares_links_with_reductions(collective(kind, plan.roles.tensor, 1000));
  };
  REQUIRE(shares(16, OpKind::all_gather));
  REQUIRE_FALSE(shares(8, OpKind::all_gather));
  REQUIRE(shares(4, OpKind::reduce_scatter));
  REQUIRE_FALSE(shares(16, OpKind::add));  // no collective
}

TEST_CASE("a product writes its output behind the main loop", "[cost]") {
  // 512 x 512 in 16 bits: two waves of four tiles of 256 x 128, then 0.5 MB at 1 TB/s.
  TrainingPlan const plan = make_outline(modest_run(1, 1));
  System const system = invented_system();
  Op product;
  product.kind = OpKind::gemm;
  product.type = ElementType::f16;
  product.attributes = GemmAttributes{.shape = {.batch = 1, .m = 512, .n = 512, .k = 1000},
                                      .output = ElementType::f16};
  double const tile = 2.0 * 256 * 128 * 1000 / 25e12;
  REQUIRE(to_seconds(CostModel(system, plan).duration(product)) ==
          Approx(2 * tile + 2.0 * 512 * 512 / 1e12));
}

TEST_CASE("a rank of a prefix sum agrees with its peers and sends on", "[cost]") {
  // Four tensor ranks of a node all-reduce 1 MB (1.5 of it at 100 GB/s); the next stage is on the
  // same node or, for the slowest, an adapter of 10 GB/s away. For all ranks, two replicas on two
  // nodes come first.
  System const system = invented_system();
  TrainingPlan const plan = make_outline(modest_run(4, 4));
  auto const seconds = [&](TrainingPlan const& of, GroupId group) {
    return to_seconds(
        CostModel(system, of).duration(collective(OpKind::prefix_reduce, group, 1'000'000)));
  };
  REQUIRE(seconds(plan, plan.roles.embedding.value()) == Approx(1.5e6 / 100e9 + 1e6 / 10e9));
  TrainingPlan const replicas = make_outline(modest_run(8, 1, 2));
  // 1.75 MB within a node, 1 MB over an adapter in a ring of two, and the shift of each level.
  double const shift = 1e6 / 100e9 + 1e6 / 10e9;
  REQUIRE(seconds(replicas, replicas.roles.job) == Approx(1.75e6 / 100e9 + 1e6 / 10e9 + shift));
}

TEST_CASE("a dispatcher that sends a token once to each node is asked for its own time", "[cost]") {
  // Eight ranks of a node with an expert each, which every token chooses: 7/8 of 800 MB leave.
  System const system = invented_system();
  TrainingPlan const plan = make_outline(modest_run(1, 1, 8));
  Op op = collective(OpKind::all_to_all, plan.roles.gradients, 100'000'000);
  op.attributes = ExchangeAttributes{.sends_once = true, .tokens = {.experts = 8, .per_token = 8}};
  auto const seconds = [&] { return to_seconds(CostModel(system, plan).duration(op)); };
  REQUIRE(seconds() == Approx(700e6 / (100e9 * 0.886)));
  // Links wait for the rank that half as many again reach.
  std::get<ExchangeAttributes>(op.attributes).hottest = 1.5;
  REQUIRE(seconds() == Approx(1.5 * 700e6 / (100e9 * 0.886)));
}

TEST_CASE("how many ranks of a group are on a node follows from its stride", "[cost]") {
  // Nodes of five: two of every second rank, so that twelve are on six nodes with two adapters
  // each.
  System system = invented_system();
  system.node.accelerators.value = 5;
  TrainingPlan const plan = make_outline(modest_run(2, 1, 12));
  SimTime const time =
      CostModel(system, plan)
          .duration(collective(OpKind::all_gather, plan.roles.gradients, 1'200'000));
  REQUIRE(to_seconds(time) == Approx(1.1e6 / 20e9));
}

TEST_CASE("the two holders of a tied embedding are as far apart as first and last stage",
          "[cost]") {
  System const system = invented_system();
  auto const seconds = [&](int tensor, int pipeline) {
    TrainingPlan const plan = make_outline(modest_run(tensor, pipeline));
    return to_seconds(
        CostModel(system, plan)
            .duration(collective(OpKind::all_reduce, plan.roles.embedding.value(), 1'000'000)));
  };
  REQUIRE(seconds(2, 4) == Approx(1e6 / 100e9));  // ranks 0 and 6 of one node
  REQUIRE(seconds(4, 4) == Approx(1e6 / 10e9));   // ranks 0 and 12
}

TEST_CASE("a group of several levels takes the time of each, by where its ranks are", "[cost]") {
  // Four tensor ranks of a node, and four stages in two nodes of 8: two ranks on each, with an
  // adapter each.
  System const system = invented_system();
  TrainingPlan const plan = make_outline(modest_run(4, 4));
  SimTime const time =
      CostModel(system, plan).duration(collective(OpKind::all_reduce, plan.roles.model, 1'000'000));
  REQUIRE(to_seconds(time) == Approx(1.5 * 1e6 / 100e9 + 1.5 * 1e6 / 20e9));
}

TEST_CASE("a collective without a group has no cost", "[cost]") {
  System const system = invented_system();
  TrainingPlan const plan = make_outline(modest_run(4, 1));
  Op op = collective(OpKind::all_reduce, plan.roles.tensor, 1000);
  op.group.reset();
  REQUIRE_THROWS_AS(CostModel(system, plan).duration(op), std::bad_optional_access);
}

TEST_CASE("a message between nodes pays the network, one inside a node its link", "[cost]") {
  System const system = lossy_system();
  TrainingConfig config = modest_run(4, 4);
  config.parallel.sequence = true;  // whole messages of 2sbh/t
  TrainingPlan const plan = make_plan(as_settled(config));
  double const bytes = 2.0 * 64 * 2 * 128 / 4;
  CostModel const cost{system, plan};
  MessageCost const near = cost.message_cost(StageId{0}, StageId{1});
  REQUIRE(near.latency == to_sim_time(3e-6 + 40e-6));
  REQUIRE(near.occupancy == to_sim_time(bytes / 100e9));
  MessageCost const far = cost.message_cost(StageId{1}, StageId{2});
  REQUIRE(far.latency == to_sim_time(7e-6 + 40e-6));
  REQUIRE(far.occupancy == to_sim_time(bytes / 9e9));
}

TEST_CASE("a scattered message sends 1/t and adds the gather at its receiver", "[cost]") {
  System const system = lossy_system();
  TrainingConfig config = modest_run(8, 2);
  TrainingPlan const scattered = make_plan(as_settled(config));
  double const whole = 2.0 * 64 * 2 * 128;
  MessageCost const message = CostModel(system, scattered).message_cost(StageId{0}, StageId{1});
  REQUIRE(message.occupancy == to_sim_time(whole / 8 / 9e9));
  REQUIRE(message.latency == to_sim_time(7e-6 + 40e-6 + 10e-6 + 7.0 / 8 * whole / 100e9));
  config.schedule.scatter_gather = false;
  TrainingPlan const plain = make_plan(as_settled(config));
  MessageCost const at_once = CostModel(system, plain).message_cost(StageId{0}, StageId{1});
  REQUIRE(at_once.occupancy == to_sim_time(whole / 9e9));
  REQUIRE(at_once.latency == to_sim_time(7e-6 + 40e-6));
}

TEST_CASE("flash attention is costed by its FLOPs, or its bytes where they take longer", "[cost]") {
  TrainingConfig config = modest_run(1, 1);
  config.model.attention = Attention::flash;
  TrainingPlan const plan = make_outline(config);
  System system = invented_system();
  system.calibration.flash_forward_efficiency.value = 0.5;
  system.calibration.kernel_launch.value = {3e-6};
  Op op;
  op.kind = OpKind::flash_attention;
  op.attributes = FlashAttributes{};
  op.flops = 50'000'000'000;
  op.traffic = Bytes{1'000'000};
  REQUIRE(CostModel(system, plan).duration(op) == to_sim_time(3e-6 + 1e-3));
  op.traffic = Bytes{2'000'000'000};
  REQUIRE(CostModel(system, plan).duration(op) == to_sim_time(3e-6 + 2e-3));
}

TEST_CASE("a system without a peak for the precision is refused by name", "[cost]") {
  TrainingConfig config = modest_run(1, 1);
  config.model.precision = Precision::fp64;
  System system = invented_system();
  system.accelerator.peak.value.erase(Precision::fp64);
  TrainingPlan const plan = make_outline(config);
  Op product = sweep(1000);
  product.kind = OpKind::gemm;
  product.type = ElementType::f64;
  product.attributes = GemmAttributes{
      {.batch = 1, .m = 1, .n = 1, .k = 1}, ElementType::f64, ElementType::f64, ElementType::f64};
  REQUIRE_THROWS_WITH(CostModel(system, plan).duration(product), Catch::Contains("invented"));
}

}  // namespace
}  // namespace stagecraft::cost_model_test
