#include "libsim/program/recompute.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "libsim/modules/blocks.hpp"
#include "libsim/program/tensor_copies.hpp"
#include "tests/libsim/model/layer_kinds.hpp"

namespace stagecraft::recompute_test {
namespace {

constexpr std::int64_t s = 64, b = 2, h = 256;

BlockProgram layer_with(RecomputePolicy const& policy, int t, bool sequence) {
  return build_layers(
      {.model = gpt(1, h, 8, s, 1000), .tensor = t, .sequence_parallel = sequence, .micro = b}, 1,
      policy);
}

std::map<OpKind, int> collectives(std::vector<Op> const& ops) {
  std::map<OpKind, int> counts;
  for (Op const& op : ops) {
    if (op.stream != Stream::tensor_parallel) continue;
    ++counts[op.kind];
    REQUIRE(op.payload == Bytes{2 * s * b * h});  // every one moves a whole hidden state, 2sbh
  }
  return counts;
}

using Counts = std::map<OpKind, int>;
constexpr OpKind AR = OpKind::all_reduce, AG = OpKind::all_gather, RS = OpKind::reduce_scatter;

TEST_CASE("tensor parallelism costs two all-reduces forward and two backward", "[model]") {
  // Korthikanti et al. 2022, section 4.2.1.
  BlockProgram const layer = layer_with({}, 4, false);
  REQUIRE(collectives(layer.forward) == Counts{{AR, 2}});
  REQUIRE(collectives(layer.backward) == Counts{{AR, 2}});
}

TEST_CASE("sequence parallelism costs 6 all-gathers and 4 reduce-scatters", "[model]") {
  // Section 4.2.2: two of each forward; backward two of each and the stored shards gathered again.
  BlockProgram const layer = layer_with({}, 4, true);
  REQUIRE(collectives(layer.forward) == Counts{{AG, 2}, {RS, 2}});
  REQUIRE(collectives(layer.backward) == Counts{{AG, 4}, {RS, 2}});
}

TEST_CASE("one rank alone communicates nothing", "[model]") {
  for (NamedBlock const& named : blocks_of_many_kinds()) {
    if (named.name.find("t 1") == std::string::npos) continue;
    for (auto const* ops : {&named.block.forward, &named.block.backward}) {
      for (Op const& op : *ops) REQUIRE(op.stream == Stream::compute);
    }
  }
}

TEST_CASE("full recompute repeats all collectives of forward, selective none", "[model]") {
  RecomputePolicy const full{.granularity = RecomputeGranularity::full};
  RecomputePolicy const core{.granularity = RecomputeGranularity::selective};
  REQUIRE(collectives(layer_with(full, 4, false).backward) == Counts{{AR, 4}});
  REQUIRE(collectives(layer_with(full, 4, true).backward) == Counts{{AG, 6}, {RS, 4}});
  REQUIRE(collectives(layer_with(core, 4, false).backward) == Counts{{AR, 2}});
  REQUIRE(collectives(layer_with(core, 4, true).backward) == Counts{{AG, 4}, {RS, 2}});
}

TEST_CASE("a checkpoint that stops early runs up to the input of the layer's last product",
          "[model]") {
  // PyTorch's checkpoints raise _StopRecomputationError when the last saved tensor is there. The
  // layer's last product, of b s rows, 4 h columns and h outputs, saves its input, and the dropout
  // behind it its mask, which a layer without dropout does not have.
  auto const recomputed = [](bool early_stop) {
    ModelConfig model = gpt(1, h, 8, s, 1000);
    model.dropout = 0;
    RecomputePolicy const full{.granularity = RecomputeGranularity::full, .early_stop = early_stop};
    BlockProgram const layer = build_layers({.model = model, .micro = b}, 1, full);
    std::int64_t flops = 0;
    for (Op const& op : layer.backward) {
      if (op.phase == Phase::recompute) flops += op.flops;
    }
    return flops;
  };
  REQUIRE(recomputed(false) - recomputed(true) == 2 * b * s * (4 * h) * h);
}

TEST_CASE("a sharded checkpoint costs one all-gather a layer", "[model]") {
  // Section 5: "an extra all-gather per layer".
  RecomputePolicy const sharded{.granularity = RecomputeGranularity::full,
                                .sharded_checkpoints = true};
  REQUIRE(collectives(layer_with(sharded, 4, false).backward) == Counts{{AG, 1}, {AR, 4}});
  REQUIRE(collectives(layer_with(sharded, 4, false).forward) == Counts{{AR, 2}});
}

TEST_CASE("recomputing the MLP repeats its own two collectives", "[model]") {
  RecomputePolicy const mlp{.granularity = RecomputeGranularity::selective, .modules = {"mlp"}};
  REQUIRE(collectives(layer_with(mlp, 4, false).backward) == Counts{{AR, 3}});
  REQUIRE(collectives(layer_with(mlp, 4, true).backward) == Counts{{AG, 5}, {RS, 3}});
}

TEST_CASE("full recompute re-runs every forward op, in order, before any gradient", "[model]") {
  // Megatron re-runs its region whole, the last row-parallel product and its all-reduce included.
  bool const sequence = GENERATE(false, true);
  BlockProgram const stored = layer_with({}, 4, sequence);
  BlockProgram const full = layer_with({.granularity = RecomputeGranularity::full}, 4, sequence);
  REQUIRE(full.forward.size() == stored.forward.size());
  for (std::size_t i = 0; i < stored.forward.size(); ++i) {
    REQUIRE(full.backward[i].name == stored.forward[i].name);
    REQUIRE(full.backward[i].phase == Phase::recompute);
    REQUIRE(full.backward[i].flops == stored.forward[i].flops);
    REQUIRE(full.backward[i].traffic == stored.forward[i].traffic);
  }
}

TEST_CASE("recompute never changes which gradients are computed, nor their order", "[model]") {
  std::map<std::string, std::vector<std::string>> of_model;
  for (NamedBlock const& named : blocks_of_many_kinds()) {
    std::size_t const cut = named.name.find(" policy ");
    if (cut == std::string::npos) continue;
    std::string const key =
        named.name.substr(0, cut) + named.name.substr(named.name.find(" layers"));
    std::vector<std::string> gradients;
    for (Op const& op : named.block.backward) {
      if (op.phase == Phase::recompute || op.kind == OpKind::wait) continue;
      gradients.push_back(to_string(op.name) + std::to_string(op.layer));
    }
    auto const [first, is_new] = of_model.try_emplace(key, gradients);
    CAPTURE(named.name);
    REQUIRE(first->second == gradients);
  }
}

TEST_CASE("what reads a recomputed buffer through a view reads its copy", "[model]") {
  // Queries, keys and values are views of one product, which only core attention reads.
  BlockProgram block = layer_with({}, 1, false);
  auto const product = std::find_if(block.forward.begin(), block.forward.end(), [](Op const& op) {
    return to_string(op.name) == "attention.qkv.forward";
  });
  REQUIRE(product != block.forward.end());
  TensorId const qkv = product->writes[0];
  TensorCopies copies{block.tensors.size()};
  std::vector<Op> again;
  copies.append_copy(block, *product, again);
  int views = 0;
  for (Op const& op : block.backward) {
    copies.copy_views(block, op.reads);
    for (TensorId const id : op.reads) {
      Tensor const& read = block.tensor(id);
      REQUIRE(copies.has(id) == (read.buffer == qkv));
      if (read.buffer != qkv) continue;
      Tensor const& copy = block.tensor(copies.of(id));
      REQUIRE(copy.buffer == again.front().writes[0]);
      REQUIRE((copy.shape == read.shape && copy.strides == read.strides));
      REQUIRE(copy.offset == read.offset);
      ++views;
    }
  }
  REQUIRE(views >= 3);
}

TEST_CASE("rebuilt tensors count as recomputed, and only they", "[model]") {
  for (NamedBlock const& named : blocks_of_many_kinds()) {
    for (Tensor const& tensor : named.block.tensors) {
      CAPTURE(named.name, to_string(tensor.name));
      if (tensor.category == Category::recomputed) {
        bool const is_redrawn = tensor.name.part == "dropout_output_again";
        REQUIRE((tensor.rebuilt || is_redrawn));
      } else if (tensor.rebuilt) {
        REQUIRE(tensor.category == Category::communication);
      }
    }
  }
}

/// Name of the backward op behind which a buffer goes.
std::string released_by(BlockProgram const& block, Name name, bool rebuilt) {
  for (BufferLife const& life : block.lives) {
    Tensor const& tensor = block.tensor(life.buffer);
    if (tensor.name != name || tensor.rebuilt != rebuilt || life.release < 0) continue;
    return to_string(block.ops(life.release_pass)[static_cast<std::size_t>(life.release)].name);
  }
  return "nothing";
}

TEST_CASE("a checkpoint keeps the gradient it received and the output it rebuilt to its end",
          "[model]") {
  // The frame of torch.utils.checkpoint holds both until the backward of its region returns: the
  // 4sbh beside a rebuilt layer in the reading of figure 9.
  BlockProgram const full = layer_with({.granularity = RecomputeGranularity::full}, 4, false);
  REQUIRE(to_string(full.backward.back().name) == "checkpoint.release");
  REQUIRE(released_by(full, {"block", "output_gradient"}, false) == "checkpoint.release");
  REQUIRE(released_by(full, {"block", "output"}, true) == "checkpoint.release");

  BlockProgram const core = layer_with({.granularity = RecomputeGranularity::selective}, 4, false);
  REQUIRE(released_by(core, {"core_attention", "context_gradient"}, false) == "checkpoint.release");
  REQUIRE(released_by(core, {"attention.projection", "input"}, true) == "checkpoint.release");
}

TEST_CASE("random numbers are drawn where a mask is made, and again where none was stored",
          "[model]") {
  auto const draws = [](DropoutMask mask, Pass pass) {
    ModelConfig model = gpt(1, h, 8, s, 1000);
    model.dropout_mask = mask;
    BlockProgram const layer = build_layers({.model = model, .micro = b}, 1, {});
    std::vector<std::string> names;
    for (Op const& op : layer.ops(pass)) {
      if (op.draws_random) names.push_back(to_string(op.name));
    }
    return names;
  };
  std::vector<std::string> const forward{"core_attention.dropout", "attention.output.dropout_add",
                                         "mlp.output.dropout_add"};
  REQUIRE(draws(DropoutMask::stored, Pass::forward) == forward);
  REQUIRE(draws(DropoutMask::regenerated, Pass::forward) == forward);
  REQUIRE(draws(DropoutMask::stored, Pass::backward).empty());
  REQUIRE(
      draws(DropoutMask::regenerated, Pass::backward) ==
      std::vector<std::string>{"mlp.output.dropout_backward", "attention.output.dropout_backward",
                               "core_attention.dropout_again", "core_attention.dropout_backward"});
}

}  // namespace
}  // namespace stagecraft::recompute_test
