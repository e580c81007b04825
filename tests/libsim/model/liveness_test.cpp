#include "libsim/program/liveness.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "tests/libsim/model/layer_kinds.hpp"

namespace stagecraft::liveness_test {
namespace {

/// Follows one microbatch through both passes op by op, as an allocator would, and checks at each
/// op what must hold of any correct liveness.
class AllocatorWalk {
 public:
  explicit AllocatorWalk(BlockProgram const& block) : block_{block} {}

  void run() {
    if (block_.input != no_tensor) receive(block_.input);
    walk(Pass::forward);
    if (block_.output != no_tensor) hand_over(block_.output);
    if (block_.grad_output != no_tensor) receive(block_.grad_output);
    walk(Pass::backward);
    if (block_.grad_input != no_tensor) hand_over(block_.grad_input);
    REQUIRE(live_.empty());
  }

 private:
  TensorId buffer(TensorId id) const { return block_.tensor(id).buffer; }
  bool is_job(TensorId id) const { return block_.tensor(id).lifetime == Lifetime::job; }

  void receive(TensorId id) { REQUIRE(live_.insert(buffer(id)).second); }
  void hand_over(TensorId id) { REQUIRE(live_.erase(buffer(id)) == 1); }

  void walk(Pass pass) {
    std::vector<Op> const& ops = block_.ops(pass);
    std::map<std::int32_t, std::set<TensorId>> pending;  // collectives that were not waited for
    for (std::size_t i = 0; i < ops.size(); ++i) {
      auto const position = static_cast<std::int32_t>(i);
      Op const& op = ops[i];
      CAPTURE(position, to_string(op.name));
      for (BufferLife const& life : block_.lives) {
        if (life.allocate_pass != pass || life.allocate != position) continue;
        REQUIRE(live_.insert(life.buffer).second);
        REQUIRE(std::count_if(op.writes.begin(), op.writes.end(),
                              [&](TensorId id) { return buffer(id) == life.buffer; }) == 1);
      }
      for (TensorList const& ids : {op.reads, op.writes}) {
        for (TensorId const id : ids) {
          if (!is_job(id)) REQUIRE(live_.contains(buffer(id)));
        }
      }
      if (op.kind == OpKind::wait) {
        REQUIRE(pending.contains(op.waits_for));
        std::erase_if(pending, [&](auto const& entry) { return entry.first <= op.waits_for; });
      } else if (op.stream == Stream::compute) {
        // A collective in flight owns what it writes, and what it reads may not be overwritten.
        for (auto const& [index, owned] : pending) {
          Op const& collective = ops[static_cast<std::size_t>(index)];
          for (TensorId const mine : op.writes) REQUIRE_FALSE(owned.contains(buffer(mine)));
          for (TensorId const mine : op.reads) {
            for (TensorId const theirs : collective.writes) REQUIRE(buffer(mine) != buffer(theirs));
          }
        }
      } else {
        REQUIRE(op.stream == Stream::tensor_parallel);
        for (TensorId const id : op.reads) pending[position].insert(buffer(id));
        for (TensorId const id : op.writes) pending[position].insert(buffer(id));
      }
      for (BufferLife const& life : block_.lives) {
        if (life.release_pass != pass || life.release != position) continue;
        REQUIRE(live_.erase(life.buffer) == 1);
        for (auto const& [index, owned] : pending) REQUIRE_FALSE(owned.contains(life.buffer));
      }
    }
    REQUIRE(pending.empty());
  }

  BlockProgram const& block_;
  std::set<TensorId> live_;
};

TEST_CASE("every buffer is made by its first writer, there for all its users, and released once",
          "[model][liveness]") {
  for (NamedBlock const& named : blocks_of_many_kinds()) {
    CAPTURE(named.name);
    AllocatorWalk{named.block}.run();
  }
}

TEST_CASE("no buffer outlives its last use", "[model][liveness]") {
  // The op at which a buffer is released touches it, or is the wait for a collective that does.
  for (NamedBlock const& named : blocks_of_many_kinds()) {
    BlockProgram const& block = named.block;
    for (BufferLife const& life : block.lives) {
      if (life.release < 0) continue;
      std::vector<Op> const& ops = block.ops(life.release_pass);
      auto const touches = [&](Op const& op) {
        auto const is_it = [&](TensorId id) { return block.tensor(id).buffer == life.buffer; };
        return std::any_of(op.reads.begin(), op.reads.end(), is_it) ||
               std::any_of(op.writes.begin(), op.writes.end(), is_it);
      };
      auto const release = static_cast<std::size_t>(life.release);
      bool used = touches(ops[release]);
      if (ops[release].kind == OpKind::wait) {
        for (std::size_t i = 0; i <= static_cast<std::size_t>(ops[release].waits_for); ++i) {
          used = used || (ops[i].stream != Stream::compute && touches(ops[i]));
        }
      }
      CAPTURE(named.name, to_string(block.tensor(life.buffer).name));
      REQUIRE(used);
    }
  }
}

TEST_CASE("every tensor has a name of its own in its block", "[model]") {
  for (NamedBlock const& named : blocks_of_many_kinds()) {
    std::set<std::string> names;
    for (Tensor const& tensor : named.block.tensors) {
      std::string const name = to_string(tensor.name) + " layer " + std::to_string(tensor.layer) +
                               " " + std::string{name_of(tensor.category)} +
                               (tensor.rebuilt ? " rebuilt" : "");
      CAPTURE(named.name, name);
      REQUIRE(names.insert(name).second);
    }
  }
}

TEST_CASE("a view keeps the buffer it looks into alive", "[model][liveness]") {
  // v is a window of the fused QKV buffer; backward of the context product reads v.
  BlockProgram const layer = build_layers({.model = gpt(1, 256, 8, 64, 1000)}, 1, {});
  auto const id = [&](char const* owner, char const* part) {
    for (std::size_t i = 0; i < layer.tensors.size(); ++i) {
      if (layer.tensors[i].name == Name{owner, part}) return static_cast<TensorId>(i);
    }
    return no_tensor;
  };
  TensorId const qkv = id("core_attention", "qkv");
  for (char const* part : {"q", "k", "v"}) {
    REQUIRE(layer.tensor(id("core_attention", part)).buffer == qkv);
  }
  auto const life = std::find_if(layer.lives.begin(), layer.lives.end(),
                                 [&](auto const& entry) { return entry.buffer == qkv; });
  REQUIRE(life->is_saved());
  Op const& last = layer.backward[static_cast<std::size_t>(life->release)];
  REQUIRE(to_string(last.name) == "core_attention.k_gradient");  // the last reader of q
}

TEST_CASE("the windows of q, k and v tile the fused buffer without a gap or an overlap",
          "[model]") {
  ModelConfig model = gpt(1, 256, 8, 5, 1000);
  model.kv_heads = 2;
  BlockProgram const layer = build_layers({.model = model, .tensor = 2, .micro = 3}, 1, {});
  std::map<std::int64_t, int> uses;
  std::int64_t buffer_elements = 0;
  for (Tensor const& tensor : layer.tensors) {
    if (tensor.name.owner != "core_attention") continue;
    if (tensor.name.part == "qkv") buffer_elements = tensor.shape.elements();
    if (tensor.name.part != "q" && tensor.name.part != "k" && tensor.name.part != "v") continue;
    for (std::int64_t i = 0; i < tensor.shape[0]; ++i) {
      for (std::int64_t j = 0; j < tensor.shape[1]; ++j) {
        for (std::int64_t k = 0; k < tensor.shape[2]; ++k) {
          for (std::int64_t l = 0; l < tensor.shape[3]; ++l) {
            ++uses[tensor.offset + i * tensor.strides[0] + j * tensor.strides[1] +
                   k * tensor.strides[2] + l * tensor.strides[3]];
          }
        }
      }
    }
  }
  REQUIRE(static_cast<std::int64_t>(uses.size()) == buffer_elements);
  REQUIRE(uses.begin()->first == 0);
  REQUIRE(uses.rbegin()->first == buffer_elements - 1);
}

TEST_CASE("an asynchronous collective is waited for where its result is used, not before",
          "[model]") {
  // Without sequence parallelism the all-reduce of dx runs behind the weight-gradient GEMM.
  BlockProgram const layer = build_layers({.model = gpt(1, 256, 8, 64, 1000), .tensor = 2}, 1, {});
  std::vector<std::string> sequence;
  for (Op const& op : layer.backward) {
    if (op.name.owner == "mlp.up" || op.name.owner == "mlp_norm") {
      sequence.push_back(to_string(op.name));
    }
  }
  REQUIRE(sequence == std::vector<std::string>{
                          "mlp.up.bias_gradient", "mlp.up.input_gradient", "mlp.up.all_reduce",
                          "mlp.up.weight_gradient", "mlp.up.wait", "mlp_norm.weight_gradient",
                          "mlp_norm.input_gradient", "mlp_norm.residual_gradient"});
}

TEST_CASE(
    "with sequence parallelism the gather hides behind one GEMM and the scatter behind the other",
    "[model]") {
  // Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication: gather, dgrad, wait, scatter,
  // wgrad.
  BlockProgram const layer = build_layers(
      {.model = gpt(1, 256, 8, 64, 1000), .tensor = 2, .sequence_parallel = true}, 1, {});
  std::vector<std::string> sequence;
  for (Op const& op : layer.backward) {
    if (op.name.owner == "attention.qkv") sequence.push_back(to_string(op.name));
  }
  REQUIRE(sequence == std::vector<std::string>{
                          "attention.qkv.concatenate_gradients", "attention.qkv.bias_gradient",
                          "attention.qkv.all_gather_again", "attention.qkv.input_gradient",
                          "attention.qkv.reduce_scatter", "attention.qkv.wait",
                          "attention.qkv.weight_gradient", "attention.qkv.wait"});
}

/// A forward pass on two tensors, written down op by op.
struct HandMadeBlock {
  BlockProgram block;

  HandMadeBlock() {
    for (TensorId id : {0, 1}) {
      block.tensors.emplace_back();
      block.tensors.back().buffer = id;
      block.tensors.back().shape = {1};
    }
  }
  HandMadeBlock& op(Stream stream, TensorList reads, TensorList writes) {
    Op op;
    op.kind = stream == Stream::compute ? OpKind::add : OpKind::all_gather;
    op.stream = stream;
    op.asynchronous = true;
    op.reads = reads;
    op.writes = writes;
    block.forward.push_back(op);
    return *this;
  }
  /// c for computation, g for a gather, w for a wait.
  std::string order() {
    insert_waits(block);
    std::string text;
    for (Op const& op : block.forward) {
      text += op.kind == OpKind::wait ? 'w' : op.stream == Stream::compute ? 'c' : 'g';
    }
    return text;
  }
};

TEST_CASE("computation waits before it reads, overwrites or feeds what a collective uses",
          "[model]") {
  constexpr Stream compute = Stream::compute, tensor = Stream::tensor_parallel;
  // The gather reads tensor 0 and writes tensor 1.
  REQUIRE(HandMadeBlock{}.op(tensor, {0}, {1}).op(compute, {0}, {}).order() == "gcw");
  REQUIRE(HandMadeBlock{}.op(tensor, {0}, {1}).op(compute, {1}, {}).order() == "gwc");
  REQUIRE(HandMadeBlock{}.op(tensor, {0}, {1}).op(compute, {}, {1}).order() == "gwc");
  REQUIRE(HandMadeBlock{}.op(tensor, {0}, {1}).op(compute, {}, {0}).order() == "gwc");
}

TEST_CASE("a wait for one stream is none for another, which the pass waits for at its end",
          "[model]") {
  constexpr Stream compute = Stream::compute, tensor = Stream::tensor_parallel, other{3};
  HandMadeBlock two;
  REQUIRE(two.op(tensor, {}, {1}).op(other, {}, {0}).op(compute, {0}, {}).order() == "ggwcw");
  REQUIRE(two.block.forward[2].waits_for == 1);
  REQUIRE(two.block.forward[4].waits_for == 0);
  HandMadeBlock one;  // in issue order, so that the wait for the second is one for the first
  REQUIRE(one.op(tensor, {}, {1}).op(tensor, {}, {0}).op(compute, {0}, {}).order() == "ggwc");
}

}  // namespace
}  // namespace stagecraft::liveness_test
