#include "libsim/model/recompute.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace stagecraft {
namespace {

/// Old tensor -> its rebuilt twin.
class TwinMap {
 public:
  explicit TwinMap(std::size_t tensors) : twin_(tensors, no_tensor) {}
  bool has(TensorId id) const {
    auto const i = static_cast<std::size_t>(id);
    return i < twin_.size() && twin_[i] != no_tensor;
  }
  TensorId of(TensorId id) const { return has(id) ? twin_[static_cast<std::size_t>(id)] : id; }
  void set(TensorId id, TensorId twin) { twin_[static_cast<std::size_t>(id)] = twin; }
  void apply(TensorList& ids) const {
    for (TensorId& id : ids) id = of(id);
  }

 private:
  std::vector<TensorId> twin_;
};

TensorId make_twin(BlockProgram& block, TwinMap const& twins, TensorId id) {
  Tensor twin = block.tensor(id);
  twin.rebuilt = true;
  if (twin.category == Category::activations) twin.category = Category::recomputed;
  auto const made = static_cast<TensorId>(block.tensors.size());
  twin.buffer = twin.buffer == id ? made : twins.of(twin.buffer);
  block.tensors.push_back(twin);
  return made;
}

/// Clones forward ops for which `in_region` holds, with twins for every buffer they write.
template <typename InRegion>
std::vector<Op> clone_region(BlockProgram& block, TwinMap& twins, InRegion in_region) {
  std::vector<Op> clones;
  for (Op const& op : block.forward) {
    if (!in_region(op)) continue;
    Op clone = op;
    clone.phase = Phase::recompute;
    for (TensorId const id : op.writes) {
      TensorId const buffer = block.tensor(id).buffer;
      if (!twins.has(buffer)) twins.set(buffer, make_twin(block, twins, buffer));
    }
    auto const twin_views = [&](TensorList const& ids) {
      for (TensorId const id : ids) {
        bool const is_view = block.tensor(id).buffer != id;
        if (is_view && !twins.has(id) && twins.has(block.tensor(id).buffer)) {
          twins.set(id, make_twin(block, twins, id));
        }
      }
    };
    twin_views(op.reads);
    twin_views(op.writes);
    twins.apply(clone.reads);
    twins.apply(clone.writes);
    clones.push_back(clone);
  }
  return clones;
}

bool contains(std::vector<TensorId> const& ids, TensorId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// Tensors that the region hands on: the block's output, or what forward ops outside the region
/// read.
template <typename InRegion>
std::vector<TensorId> region_outputs(BlockProgram const& block, InRegion in_region) {
  std::vector<bool> is_read_outside(block.tensors.size());
  for (Op const& op : block.forward) {
    if (in_region(op)) continue;
    for (TensorId const id : op.reads) is_read_outside[static_cast<std::size_t>(id)] = true;
  }
  std::vector<TensorId> outputs;
  for (Op const& op : block.forward) {
    if (!in_region(op)) continue;
    for (TensorId const id : op.writes) {
      bool const is_output = id == block.output || is_read_outside[static_cast<std::size_t>(id)];
      if (is_output && !contains(outputs, id)) outputs.push_back(id);
    }
  }
  return outputs;
}

/// Gradients that the region's backward ops receive from outside: first written by ops that are not
/// in the region, or handed in by the block after.
template <typename InRegion>
std::vector<TensorId> received_gradients(BlockProgram const& block, InRegion in_region) {
  // By tensor: the first backward op that writes it.
  std::vector<Op const*> writers(block.tensors.size());
  for (Op const& op : block.backward) {
    for (TensorId const id : op.writes) {
      Op const*& writer = writers[static_cast<std::size_t>(id)];
      if (writer == nullptr) writer = &op;
    }
  }
  std::vector<TensorId> received;
  for (Op const& op : block.backward) {
    if (!in_region(op)) continue;
    for (TensorId const id : op.reads) {
      TensorId const buffer = block.tensor(id).buffer;
      if (block.tensor(buffer).lifetime == Lifetime::job || contains(received, buffer)) continue;
      Op const* const writer = writers[static_cast<std::size_t>(buffer)];
      bool const from_outside =
          writer != nullptr && !in_region(*writer) && writer->phase != Phase::recompute;
      if (buffer == block.grad_output || from_outside) received.push_back(buffer);
    }
  }
  return received;
}

template <typename InRegion>
void checkpoint(BlockProgram& block, InRegion in_region, std::vector<Op> before, TwinMap twins) {
  std::vector<Op>& backward = block.backward;
  auto const first = std::find_if(backward.begin(), backward.end(), in_region);
  if (first == backward.end()) return;
  std::vector<TensorId> held = received_gradients(block, in_region);
  std::vector<TensorId> const outputs = region_outputs(block, in_region);

  std::vector<Op> const clones = clone_region(block, twins, in_region);
  before.insert(before.end(), clones.begin(), clones.end());
  for (Op& op : backward) {
    if (!in_region(op)) continue;
    twins.apply(op.reads);
    twins.apply(op.writes);
  }
  for (TensorId const id : outputs) held.push_back(twins.of(id));

  Op hold;
  hold.kind = OpKind::hold;
  hold.name = {"checkpoint", "release"};
  hold.phase = Phase::recompute;
  hold.module = first->module;
  hold.layer = first->layer;
  // As many ops as it takes to name them all.
  std::vector<Op> holds;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (i % TensorList::capacity == 0) holds.push_back(hold);
    holds.back().reads.push_back(held[i]);
  }
  auto const last = std::find_if(backward.rbegin(), backward.rend(), in_region);
  auto const position = std::distance(backward.begin(), first);
  backward.insert(last.base(), holds.begin(), holds.end());
  backward.insert(backward.begin() + position, before.begin(), before.end());
}

/// Frees the outputs of the norms after forward has read them; backward computes them again.
template <typename InRegion>
void discard_outputs(BlockProgram& block, InRegion in_region) {
  TwinMap twins{block.tensors.size()};
  std::vector<Op> const clones = clone_region(block, twins, in_region);
  auto const reads_twin = [&](Op const& op) {
    return std::any_of(op.reads.begin(), op.reads.end(),
                       [&](TensorId id) { return twins.of(id) != id; });
  };
  std::vector<Op>& backward = block.backward;
  auto const first = std::find_if(backward.begin(), backward.end(), reads_twin);
  if (first == backward.end()) return;
  auto const position = std::distance(backward.begin(), first);
  for (Op& op : backward) twins.apply(op.reads);
  backward.insert(backward.begin() + position, clones.begin(), clones.end());
}

/// Keeps only this rank's slice of the checkpointed input, and the op that gathers it again.
std::vector<Op> shard_checkpoint(BlockProgram& block, BlockShape const& rank, TwinMap& twins) {
  TensorId const x = block.input;
  Tensor shard = block.tensor(x);
  auto const shard_id = static_cast<TensorId>(block.tensors.size());
  shard.name = {"checkpoint", "input_shard"};
  shard.buffer = shard_id;
  // A flat piece, the last one padded: the elements need not be a multiple of t.
  shard.shape = {(shard.shape.elements() + rank.tensor - 1) / rank.tensor};
  block.tensors.push_back(shard);
  Tensor gathered = block.tensor(x);
  auto const gathered_id = static_cast<TensorId>(block.tensors.size());
  gathered.rebuilt = true;
  gathered.category = Category::recomputed;
  gathered.buffer = gathered_id;
  block.tensors.push_back(gathered);
  twins.set(x, gathered_id);

  Op slice;
  slice.kind = OpKind::slice;
  slice.name = {"checkpoint", "slice"};
  slice.phase = Phase::forward;
  slice.type = shard.type;
  slice.reads = {x};
  slice.writes = {shard_id};
  slice.traffic = 2 * block.tensor(shard_id).bytes();
  block.forward.insert(block.forward.begin(), slice);

  Op gather;
  gather.kind = OpKind::all_gather;
  gather.name = {"checkpoint", "all_gather"};
  gather.phase = Phase::recompute;
  gather.stream = Stream::tensor_parallel;
  gather.group = rank.tensor_group;
  gather.reads = {shard_id};
  gather.writes = {gathered_id};
  gather.payload = block.tensor(gathered_id).bytes();
  return {gather};
}

}  // namespace

void apply_recompute(BlockProgram& block, RecomputePolicy const& policy, BlockShape const& shape) {
  if (block.kind != BlockProgram::Kind::layers) return;
  if (policy.granularity == RecomputeGranularity::full) {
    TwinMap twins{block.tensors.size() + 2};
    std::vector<Op> before;
    if (policy.sharded_checkpoints) before = shard_checkpoint(block, shape, twins);
    // All but the slice that makes the shard.
    auto const in_region = [](Op const& op) { return op.kind != OpKind::slice; };
    checkpoint(block, in_region, std::move(before), std::move(twins));
  }
  if (policy.granularity != RecomputeGranularity::selective) return;
  auto const chosen = [&](RecomputeModule module) {
    return std::find(policy.modules.begin(), policy.modules.end(), module) != policy.modules.end();
  };
  for (int layer = block.layers - 1; layer >= 0; --layer) {
    auto const region = [layer](Module module) {
      return [layer, module](Op const& op) {
        return op.module == module && op.layer == layer && op.phase != Phase::recompute;
      };
    };
    if (chosen(RecomputeModule::mlp)) {
      checkpoint(block, region(Module::mlp), {}, TwinMap{block.tensors.size()});
    }
    if (chosen(RecomputeModule::core_attention)) {
      checkpoint(block, region(Module::core_attention), {}, TwinMap{block.tensors.size()});
    }
    if (chosen(RecomputeModule::layernorm)) {
      discard_outputs(block, region(Module::mlp_norm));
      discard_outputs(block, region(Module::attention_norm));
    }
  }
}

}  // namespace stagecraft
